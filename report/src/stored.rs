//! The parts of an earlier run's JSON report that other commands read.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use csi_harness::config::profile::Profile;
use csi_harness::results::outcome::{Again, OutcomeKind, Verdict};
use csi_harness::spec::verdict::CutShort;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::conclusion::{Conclusion, Facts};
use crate::entry::{SameFaultEntry, Selection, ShardEntry};
use crate::journal::{Run, SCHEMA, SCHEMAS_BEFORE};
use crate::statement::Line;

/// Bytes of a report that is read.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// A JSON report.
#[derive(Debug, Deserialize)]
pub struct Stored {
    /// The program that wrote the report.
    pub tool: Program,
    /// The version of the specification that the driver was held to.
    pub specification: String,
    /// The selected checks.
    pub selection: Selection,
    /// The part of a run that it is, if it is a shard.
    #[serde(default)]
    pub shard: Option<ShardEntry>,
    /// The time at which the run began, in UTC as in RFC 3339.
    #[serde(default)]
    pub started: String,
    /// The driver.
    pub target: Plugin,
    /// The profile by which checks failed.
    #[serde(default)]
    pub profile: Profile,
    /// The verdict on it.
    pub verdict: Verdict,
    /// True if the run was stopped before its end.
    pub interrupted: bool,
    /// The number of checks by outcome.
    pub summary: Counts,
    /// Every check, by id.
    pub checks: Vec<Check>,
    /// The statement about each area.
    #[serde(default)]
    pub statement: Vec<Line>,
    /// Objects and mounts that stayed behind.
    pub leaks: Vec<Leak>,
    /// Deaths of the driver.
    pub crashes: Vec<Crash>,
    /// The calls of all checks, by RPC.
    pub rpcs: Vec<Calls>,
}

/// Name and version of a program.
#[derive(Debug, Deserialize)]
pub struct Program {
    /// The version.
    pub version: String,
}

/// A driver.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Plugin {
    /// The name in GetPluginInfo.
    pub name: String,
    /// The version in GetPluginInfo.
    pub vendor_version: String,
}

/// The number of checks by outcome.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    #[serde(default)]
    pub(crate) flaky: u64,
    #[serde(default)]
    pub(crate) flaky_failures: u64,
    pub(crate) warned: u64,
    pub(crate) known_failures: u64,
    pub(crate) unexpected_passes: u64,
    #[serde(default)]
    pub(crate) same_fault: Again,
}

/// A check.
#[derive(Debug, Deserialize)]
pub struct Check {
    /// Its label.
    pub id: String,
    #[serde(rename = "outcome")]
    pub(crate) word: OutcomeKind,
    /// The fault, or the reason why the check was skipped or could not judge.
    pub message: String,
    /// The reason in the known-failing list.
    #[serde(default)]
    pub known_because: Option<String>,
    /// The outcome that a flaky one counts as, failed or warned.
    #[serde(default)]
    pub(crate) counts_as: Option<OutcomeKind>,
    /// Work that it left undone when it met its time limit.
    #[serde(default)]
    cut_short: Vec<CutShort>,
    /// The number of sequences, rounds or requests that it has tried, where it makes several.
    #[serde(default)]
    pub(crate) tried: u64,
    /// The check that reports the fault in which the driver deviates here as well.
    #[serde(default, alias = "told_in")]
    pub(crate) reported_in: Option<String>,
    /// The check that reports the fault, if this one only shows it again.
    #[serde(default)]
    pub(crate) same_fault: Option<SameFaultEntry>,
}

impl Check {
    /// The outcome of the check.
    pub fn outcome(&self) -> OutcomeKind {
        if self.reported_in().is_some() { OutcomeKind::SameFault } else { self.word }
    }

    /// The check that reports the fault, if this one only shows it again.
    pub(crate) fn reported_in(&self) -> Option<&str> {
        let same = self.same_fault.as_ref().map(|same| same.check.as_str());
        same.or(self.reported_in.as_deref().filter(|_| self.word == OutcomeKind::Skipped))
    }

    /// The outcome that the check counts as: that of the other check if it shows a fault of another one.
    pub(crate) fn counts_as(&self) -> OutcomeKind {
        match (&self.same_fault, self.outcome()) {
            (Some(same), _) => same.outcome,
            (None, OutcomeKind::Flaky) => self.counts_as.unwrap_or(OutcomeKind::Warned),
            // A report of an older version has no more detail.
            (None, OutcomeKind::SameFault) => OutcomeKind::Failed,
            (None, outcome) => outcome,
        }
    }
}

/// Something that stayed behind.
#[derive(Debug, Deserialize)]
pub struct Leak {
    /// True if this run made it.
    pub ours: bool,
}

/// A death of the driver.
#[derive(Debug, Deserialize)]
pub struct Crash {}

/// The calls of one RPC.
#[derive(Debug, Deserialize)]
pub struct Calls {
    /// The RPC, such as `CreateVolume`.
    pub rpc: String,
    /// Calls that the driver did.
    pub done: u64,
    /// The median of their durations, in microseconds.
    pub median_us: u64,
}

/// The reasons why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// It cannot be read.
    #[error("failed to read the report {file}")]
    Read { file: String, source: std::io::Error },
    /// It is longer than any report.
    #[error("{file}: more than {REPORT_BYTES_MAX} bytes, which no report has")]
    TooLong { file: String },
    /// It is no JSON report.
    #[error("{file}: no JSON report of csi-sanity, which --report json=FILE writes: {problem}")]
    NotOne { file: String, problem: String },
    /// It has a form that this version does not know.
    #[error(
        "{file}: the schema {schema:?} is not known to this version, which reads {SCHEMA:?}; read it with the version of \
         csi-sanity that wrote it"
    )]
    Unknown {
        file: String,
        /// The form that it has.
        schema: String,
    },
}

/// The fields that all versions of the report have.
#[derive(Deserialize)]
struct Versioned {
    schema: Option<String>,
}

impl Stored {
    /// Reads a report.
    ///
    /// # Errors
    /// The file cannot be read, is no report, or one of another version of the schema.
    pub fn load(path: &Path) -> Result<Stored, StoredError> {
        load(path)
    }

    /// Reads the contents of a report. `file` is its name in errors.
    ///
    /// # Errors
    /// It is no report, or one of another version of the schema.
    pub fn parse(file: &str, contents: &[u8]) -> Result<Stored, StoredError> {
        parse(file, contents)
    }

    /// The conclusion about the driver.
    pub fn conclude(&self) -> Conclusion {
        Facts {
            verdict: self.verdict,
            halted: self.interrupted,
            says_nothing: false,
            known_failures: self.summary.known_failures,
            did_less: self.checks.iter().any(|check| !check.cut_short.is_empty()),
            selection: &self.selection,
            shard: self.shard.as_ref(),
            profile: self.profile,
        }
        .conclude()
    }

    /// The driver, as people name it.
    pub fn driver(&self) -> String {
        let Plugin { name, vendor_version } = &self.target;
        let name = if name.is_empty() { "a driver without a name" } else { name };
        format!("{name} {vendor_version}").trim_end().to_owned()
    }
}

impl Run {
    /// Reads a report with everything that is in it.
    ///
    /// # Errors
    /// The file cannot be read, is no report, or one of another version of the schema.
    pub fn load(path: &Path) -> Result<Run, StoredError> {
        load(path)
    }
}

/// Reads of a report what is asked for.
fn load<T: DeserializeOwned>(path: &Path) -> Result<T, StoredError> {
    let file = path.display().to_string();
    let mut text = Vec::new();
    let read = File::open(path).and_then(|open| open.take(REPORT_BYTES_MAX + 1).read_to_end(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > REPORT_BYTES_MAX => Err(StoredError::TooLong { file }),
        Ok(_) => parse(&file, &text),
        Err(source) => Err(StoredError::Read { file, source }),
    }
}

fn parse<T: DeserializeOwned>(file: &str, text: &[u8]) -> Result<T, StoredError> {
    let not_one = |problem: String| StoredError::NotOne { file: file.to_owned(), problem };
    let Versioned { schema } = serde_json::from_slice(text).map_err(|error| not_one(error.to_string()))?;
    match schema {
        Some(schema) if schema == SCHEMA || SCHEMAS_BEFORE.contains(&schema.as_str()) => {
            serde_json::from_slice(text).map_err(|error| not_one(error.to_string()))
        }
        Some(schema) => Err(StoredError::Unknown { file: file.to_owned(), schema }),
        None => Err(not_one("it has no field `schema`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_another_version_is_refused_by_name() {
        let error_of = |text: &str| parse::<Stored>("r.json", text.as_bytes()).unwrap_err().to_string();
        assert!(
            error_of("{}").contains("r.json") && error_of("{}").contains("`schema`"),
            "{}",
            error_of("{}")
        );
        assert!(error_of("<html>").contains("--report json=FILE"), "{}", error_of("<html>"));
        let newer = error_of(r#"{"schema": "csi-sanity/report/v9"}"#);
        assert!(newer.contains("csi-sanity/report/v9") && newer.contains(SCHEMA), "{newer}");
        let poor = error_of(&format!(r#"{{"schema": "{SCHEMA}"}}"#));
        assert!(poor.contains("missing field"), "{poor}");
    }

    #[test]
    fn reports_of_versions_before_are_read_by_their_names() {
        for schema in SCHEMAS_BEFORE {
            let before = parse::<Stored>("r.json", format!(r#"{{"schema": "{schema}"}}"#).as_bytes());
            assert!(before.unwrap_err().to_string().contains("missing field"), "{schema} is known");
        }
        let check = r#"{"id": "x", "outcome": "skipped", "message": "", "told_in": "y"}"#;
        assert_eq!(serde_json::from_str::<Check>(check).unwrap().outcome(), OutcomeKind::SameFault);
    }
}
