//! The flags of the Go csi-sanity and of its test runner ginkgo, translated before clap reads the command line.

mod duration;
mod table;

use std::ffi::OsString;

use csi_harness::checks::filter::Filter;
use csi_harness::config::AccessType;
use csi_harness::text::message::did_you_mean;

pub use duration::parse_duration;
use table::RENAMED;
pub use table::{DEFINITION, FLAGS, GoFlag, KUBECONFIG, Means, OTHERS, Takes};

/// A command line in our own words.
#[derive(Debug, Default)]
pub struct Translated {
    /// The arguments for clap, the program's name left out.
    pub arguments: Vec<OsString>,
    /// Remarks for the user on flags that have no effect here.
    pub notes: Vec<String>,
    /// The first `-csi.` flag, as typed.
    driver_flag: Option<String>,
    /// The first flag in the manner of Go, as typed.
    go_flag: Option<String>,
    /// True if a flag asks for the version.
    version: bool,
    /// True if a flag of e2e.test names a definition; and true if one names a cluster.
    e2e: bool,
    cluster: bool,
}

/// Flags that are about the program and need no command.
const ABOUT_ITSELF: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Translates a command line, the program's name left out. `has_endpoint` is whether the environment or a configuration in the
/// working directory names a driver.
///
/// Go flags may have one or two dashes, and their value behind `=` or as the next argument. Everything else is left
/// for clap. Without a command, it is `run`, and of the suite that the Go program is where its flags are typed.
pub fn translate(arguments: Vec<OsString>, has_endpoint: bool) -> Result<Translated, String> {
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
    translated.settle(has_endpoint)?;
    Ok(translated)
}

/// A flag as the user typed it, without its value and with it.
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
    let dashes = argument.len() - argument.trim_start_matches('-').len();
    if let Some(known) = known(name, dashes) {
        return Ok(Some((known, Typed { flag, value })));
    }
    if ["csi.", "ginkgo.", "test.", "storage."].iter().any(|of| name.starts_with(of)) {
        let near = did_you_mean(name, FLAGS.iter().chain(OTHERS).map(|known| known.name));
        return Err(format!("there is no flag {flag}{near}"));
    }
    Ok(None)
}

/// The suites that find everything that the Go program fails. It meets some mistakes only because it makes a right call after one that was
/// rejected, as after-error does.
const OF_GO: &str = "--suite=sanity,after-error";
/// The fewest letters of a name without `ginkgo.`. Shorter names are flags of csi-sanity, such as `-vv`.
const BARE_NAME_MIN: usize = 4;

/// The flag of this name, or of another name that ginkgo has or had for it.
fn known(name: &str, dashes: usize) -> Option<&'static GoFlag> {
    let all = || FLAGS.iter().chain(OTHERS);
    let exact = all().find(|known| known.name == name);
    if exact.is_some_and(|known| known.name == KUBECONFIG) && dashes != 1 {
        return None;
    }
    if exact.is_some() {
        return exact;
    }
    // The flags of csi-sanity have two dashes. The command `ginkgo` takes its flags without the prefix `ginkgo.`.
    let bare = match name.strip_prefix("ginkgo.") {
        Some(bare) => bare,
        None if dashes == 1 && name.len() >= BARE_NAME_MIN => name,
        None => return None,
    };
    let plain = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let wanted = plain(bare);
    let now = RENAMED.iter().find(|(old, _)| *old == wanted).map_or(wanted.clone(), |(_, now)| plain(now));
    all().find(|known| known.name.strip_prefix("ginkgo.").is_some_and(|name| plain(name) == now))
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
        self.go_flag.get_or_insert_with(|| typed.flag.clone());
        self.e2e |= known.name == DEFINITION;
        self.cluster |= known.name == KUBECONFIG;
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
            Means::Flag("--version") => self.version = true,
            Means::Flag(flag) if known.takes == Takes::Switch => self.arguments.push(flag.into()),
            Means::Flag(flag) => self.arguments.push(format!("{flag}={value}").into()),
            Means::Twice(flag) => self.arguments.extend([flag.into(), flag.into()]),
            Means::Report(kind) => self.arguments.push(format!("--report={kind}={value}").into()),
            Means::Nothing(why) => self.notes.push(format!("{typed} has no effect: {why}")),
        }
    }

    /// Adds the flags that the Go programs imply.
    fn settle(&mut self, has_endpoint: bool) -> Result<(), String> {
        if self.version {
            self.arguments = vec!["--version".into()];
            return Ok(());
        }
        self.add_command();
        if self.e2e && self.cluster && !self.has(&["--cluster"]) {
            self.arguments.push("--cluster=kube".into());
        }
        if self.has(&ABOUT_ITSELF) {
            return Ok(());
        }
        self.demand_endpoint(has_endpoint)?;
        if self.go_flag.is_some() && self.is_run() && !self.has(&["--suite"]) {
            self.arguments.insert(1, OF_GO.into());
            self.notes.push(
                "this runs what the Go csi-sanity tests, the suites sanity and after-error; all suites: csi-sanity run --endpoint …"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns true if one of these flags is there.
    fn has(&self, flags: &[&str]) -> bool {
        self.arguments.iter().any(|argument| {
            let text = argument.to_string_lossy();
            flags.iter().any(|flag| text == *flag || text.starts_with(&format!("{flag}=")))
        })
    }

    fn is_run(&self) -> bool {
        self.arguments.first().is_some_and(|command| command == "run")
    }

    /// Refuses flags of the Go programs without a driver: the built-in one would be tested, which such a flag never means.
    fn demand_endpoint(&self, has_endpoint: bool) -> Result<(), String> {
        if has_endpoint || self.has(&["--endpoint", "--config", "--no-config", "--mock-defect"]) {
            return Ok(());
        }
        if self.e2e && !self.has(&["--cluster", "--plan", "--dry-run", "--preflight"]) {
            return Err(format!(
                "-{DEFINITION} needs a driver: name its socket with --endpoint, or use --cluster kube for the cluster that it is \
                 deployed in; --plan prints which tests would run"
            ));
        }
        match (&self.driver_flag, self.go_flag.as_ref().filter(|_| self.is_run())) {
            (Some(flag), _) => Err(format!("{flag} needs a driver: name its socket with -csi.endpoint")),
            (None, Some(flag)) => Err(format!(
                "{flag} is a flag of the Go csi-sanity, which needs a driver: name its socket with -csi.endpoint. Without such \
                 flags, `csi-sanity` tests the built-in mock driver"
            )),
            (None, None) => Ok(()),
        }
    }

    fn add_command(&mut self) {
        let first = self.arguments.first();
        let bare = first.is_none_or(|first| {
            first.to_string_lossy().starts_with('-') && !ABOUT_ITSELF.iter().any(|flag| first == flag)
        });
        if bare {
            self.arguments.insert(0, if self.e2e { "e2e" } else { "run" }.into());
        }
    }
}

/// The value of a flag.
enum Value {
    /// A value that Go treats as if the flag were missing.
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
