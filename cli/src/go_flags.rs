//! The flags of the Go csi-sanity and of its test runner ginkgo, translated before clap reads the command line.

pub(crate) mod table;

use std::ffi::OsString;

use csi_harness::config::AccessType;
use csi_harness::filter::Filter;
use csi_harness::registry::did_you_mean;

use crate::duration::parse_duration;
use table::{FLAGS, GoFlag, Means, Takes};

/// A command line in our own words.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    pub(crate) arguments: Vec<OsString>,
    /// What the user should know about flags that mean nothing here.
    pub(crate) notes: Vec<String>,
    /// The first `-csi.` flag, as typed.
    driver_flag: Option<String>,
}

/// Flags that are about the program and need no command.
const ABOUT_ITSELF: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Translates a command line, the program's name left out. `has_endpoint` tells whether the environment names one.
///
/// Go flags may have one or two dashes, and their value behind `=` or as the next argument. Everything else is left
/// for clap. Without a command, it is `run`.
pub(crate) fn translate(arguments: Vec<OsString>, has_endpoint: bool) -> Result<Translated, String> {
    let mut translated = Translated::default();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        let Some((flag, typed)) = argument.to_str().map(find).transpose()?.flatten() else {
            let over = argument == "--";
            translated.arguments.push(argument);
            if over {
                translated.arguments.extend(rest.by_ref());
            }
            continue;
        };
        translated.take(flag, &typed, || rest.next())?;
    }
    translated.demand_endpoint(has_endpoint)?;
    translated.add_command();
    Ok(translated)
}

/// A flag as the user wrote it, without and with its value.
struct Typed {
    flag: String,
    value: Option<String>,
}

/// The Go flag that an argument is, if it looks like one.
fn find(argument: &str) -> Result<Option<(&'static GoFlag, Typed)>, String> {
    let Some(name) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
        return Ok(None);
    };
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (name, None),
    };
    let flag = argument.split_once('=').map_or(argument, |(flag, _)| flag).to_owned();
    if let Some(known) = FLAGS.iter().find(|known| known.name == name) {
        return Ok(Some((known, Typed { flag, value })));
    }
    if name.starts_with("csi.") || name.starts_with("ginkgo.") {
        let near = did_you_mean(name, FLAGS.iter().map(|known| known.name));
        return Err(format!("there is no flag {flag}{near}"));
    }
    Ok(None)
}

impl Translated {
    fn take(
        &mut self,
        known: &GoFlag,
        typed: &Typed,
        next: impl FnOnce() -> Option<OsString>,
    ) -> Result<(), String> {
        if known.name.starts_with("csi.") {
            self.driver_flag.get_or_insert_with(|| typed.flag.clone());
        }
        let value = match (known.takes, &typed.value) {
            // As in Go, the value of a switch stands behind `=` or not at all.
            (Takes::Switch, value) => value.clone().unwrap_or_else(|| "true".to_owned()),
            (_, Some(value)) => value.clone(),
            (_, None) => next()
                .and_then(|value| value.into_string().ok())
                .ok_or_else(|| format!("{} needs a value: {}", typed.flag, known.takes.allowed()))?,
        };
        let wrong = |problem: String| {
            format!(
                "{}: {value:?} cannot be its value ({problem}); allowed: {}",
                typed.flag,
                known.takes.allowed()
            )
        };
        match read(known.takes, &value).map_err(wrong)? {
            Value::Default => {}
            Value::Is(value) => self.put(known, &typed.flag, &value),
        }
        Ok(())
    }

    fn put(&mut self, known: &GoFlag, typed: &str, value: &str) {
        match known.means {
            Means::Flag(flag) if known.takes == Takes::Switch => self.arguments.push(flag.into()),
            Means::Flag(flag) => self.arguments.push(format!("{flag}={value}").into()),
            Means::Twice(flag) => self.arguments.extend([flag.into(), flag.into()]),
            Means::Report(kind) => self.arguments.push(format!("--report={kind}={value}").into()),
            Means::Nothing(why) => self.notes.push(format!("{typed} has no effect: {why}")),
        }
    }

    /// Without an endpoint the embedded driver would be tested, which nobody means who writes such a flag.
    fn demand_endpoint(&self, has_endpoint: bool) -> Result<(), String> {
        let names_driver = |argument: &OsString| {
            let text = argument.to_string_lossy();
            ["--endpoint", "--config"]
                .iter()
                .any(|flag| text == *flag || text.starts_with(&format!("{flag}=")))
        };
        match &self.driver_flag {
            Some(flag) if !has_endpoint && !self.arguments.iter().any(names_driver) => {
                Err(format!("{flag} speaks of a driver, but -csi.endpoint does not say where it is"))
            }
            _ => Ok(()),
        }
    }

    fn add_command(&mut self) {
        let first = self.arguments.first();
        let bare = first.is_none_or(|first| {
            first.to_string_lossy().starts_with('-') && !ABOUT_ITSELF.iter().any(|flag| first == flag)
        });
        if bare {
            self.arguments.insert(0, "run".into());
        }
    }
}

/// The value of a flag.
enum Value {
    /// What Go takes as if the flag were not there.
    Default,
    Is(String),
}

fn read(takes: Takes, value: &str) -> Result<Value, String> {
    let is = |value: &str| Ok(Value::Is(value.to_owned()));
    match takes {
        Takes::Switch => match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => is("true"),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Default),
            _ => Err("it is neither true nor false".to_owned()),
        },
        Takes::Endpoint if value.is_empty() => Err("it is empty".to_owned()),
        Takes::Endpoint => {
            value.parse::<csi_proto::Endpoint>().map_err(|error| error.to_string()).and_then(|_| is(value))
        }
        Takes::Text | Takes::File | Takes::Regex if value.is_empty() => Ok(Value::Default),
        Takes::Text | Takes::File => is(value),
        Takes::Regex => Filter::default().focus(value).and_then(|()| is(value)),
        Takes::Access => value.parse::<AccessType>().and_then(|access| is(&access.to_string())),
        Takes::Duration => parse_duration(value).and_then(|_| is(value)),
        Takes::Bytes => match integer(value)? {
            0 => Ok(Value::Default),
            bytes if bytes < 0 => Err("it is negative".to_owned()),
            bytes => is(&bytes.to_string()),
        },
        Takes::Number => match integer(value)? {
            number if number < 0 => Err("it is negative".to_owned()),
            number => is(&number.to_string()),
        },
    }
}

/// A number as Go reads it: decimal, or with `0x` in front.
fn integer(text: &str) -> Result<i64, String> {
    let read = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
