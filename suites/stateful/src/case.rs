//! A failing case as a file: what was asked, what could have been answered, and what came; to be read, kept in a
//! repository, and run again.
//!
//! Calls are stored as the model knows them (`call`), so that they can be made again on any driver, and as they went over
//! the wire (`request`, `response`), for readers. Secrets are in neither.

mod fit;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use csi_harness::checks::check::Check;
use csi_harness::config::AccessType;
use csi_harness::protocol::capability::Capability;
use csi_harness::results::stored::{self, CaseError};
use csi_harness::spec::verdict::ReproductionStep;
use csi_model::answer::Answer;
use csi_model::call::Call;
use csi_model::expectation::Breach;
use csi_model::names::Name;
use csi_nemesis::disruption::Disrupted;
use csi_proto::code_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::how::CallMode;
use crate::sequence;

/// The key that says that a file is such a case.
const KEY: &str = "csi-sanity-case";
/// Form of the file.
pub const FORM: u32 = 1;
/// Largest file that is read, in bytes.
pub const CASE_BYTES_MAX: u64 = 4 << 20;
/// Largest number of files of a folder that are read.
pub const FILES_MAX: usize = 1_000;
/// Largest number of steps of a case.
pub const STEPS_MAX: usize = 10_000;

/// A failing case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// [`FORM`].
    pub csi_sanity_case: u32,
    pub check: String,
    pub seed: u64,
    /// The fault that the case shows.
    pub breach: BreachText,
    pub driver: Driver,
    /// Suffixes of the names that the run made, if they are part of the case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<Name, String>,
    /// The disruptions of the driver during parallel calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disruptions: Vec<Disrupted>,
    /// The calls, by their beginning.
    pub steps: Vec<CaseStep>,
}

/// The fault, in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BreachText {
    /// The rule that was broken.
    pub requirement: String,
    /// The violation, as one sentence.
    pub message: String,
    /// The answer of a right driver.
    pub expected: String,
    /// The answer of this driver.
    pub actual: String,
}

/// The driver on which the case was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Driver {
    /// The name from GetPluginInfo.
    pub name: String,
    /// vendor_version of GetPluginInfo.
    pub version: String,
    /// The capabilities that it advertised, by the names of the protocol.
    #[serde(with = "capabilities")]
    pub capabilities: Vec<Capability>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CaseStep {
    pub call: Call,
    /// The mode of the call, unless it was simply made and its answer awaited.
    #[serde(default, skip_serializing_if = "CallMode::is_once")]
    pub how: CallMode,
    /// The caller, if there were several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub worker: u16,
    /// The time of its beginning, in microseconds from the beginning of the case.
    #[serde(default)]
    pub from_us: u64,
    /// The time of its end, in microseconds from the beginning of the case.
    #[serde(default)]
    pub to_us: u64,
    /// The request as it was sent, without secrets.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub request: Value,
    /// The answers that would have been right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<String>,
    #[serde(rename = "came")]
    pub recorded: RecordedAnswer,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecordedAnswer {
    /// The code, or [`ReproductionStep::NO_ANSWER`].
    pub code: String,
    /// The message of the status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The response, without secrets.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub response: Value,
}

fn is_zero(worker: &u16) -> bool {
    *worker == 0
}

/// Capabilities by the names of the protocol.
mod capabilities {
    use serde::de::Error;

    use super::{Capability, Deserialize};

    pub(super) fn serialize<S>(capabilities: &[Capability], serializer: S) -> Result<S::Ok, S::Error>
    where
        S: serde::Serializer,
    {
        serializer.collect_seq(capabilities.iter().map(|capability| capability.name()))
    }

    pub(super) fn deserialize<'de, D>(deserializer: D) -> Result<Vec<Capability>, D::Error>
    where
        D: serde::Deserializer<'de>,
    {
        let named = |name: String| {
            let found = Capability::ALL.iter().copied().find(|capability| capability.name() == name);
            found.ok_or_else(|| D::Error::custom(format!("{name:?} is not a capability")))
        };
        Vec::deserialize(deserializer)?.into_iter().map(named).collect()
    }
}

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// The file cannot be read, or is not a case; the text names file, line and column.
    pub fn load(path: &Path) -> Result<Case, CaseError> {
        let case: Case = stored::read(path, CASE_BYTES_MAX)?;
        case.validate().map_err(|problem| CaseError::Invalid { path: path.to_owned(), problem })?;
        Ok(case)
    }

    /// Reads all cases of a folder, by the names of their files, but for those of other suites. A folder that is not there has none.
    ///
    /// # Errors
    /// The folder or one of its files cannot be read, or there are more than [`FILES_MAX`].
    pub fn load_all(folder: &Path) -> Result<Vec<(PathBuf, Case)>, CaseError> {
        let mut paths = stored::files(folder, "yaml", FILES_MAX)?;
        paths.retain(|path| stored::key(path).is_none_or(|key| key == KEY));
        paths.sort();
        paths.into_iter().map(|path| Case::load(&path).map(|case| (path, case))).collect()
    }

    fn validate(&self) -> Result<(), String> {
        if self.csi_sanity_case != FORM {
            return Err(format!("csi-sanity-case is {}; this version reads {FORM}", self.csi_sanity_case));
        }
        if self.steps.is_empty() {
            return Err("there are no steps".to_owned());
        }
        if self.steps.len() > STEPS_MAX {
            return Err(format!("there are {} steps; {STEPS_MAX} can be run", self.steps.len()));
        }
        Ok(())
    }

    /// Writes the case into a folder, which is made if it is missing, and returns its path. The name says what is in the file:
    /// `property-volumes-CTRL-CREATEVOL-002-0000000000000007.yaml`. A case that is found again replaces the earlier file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, folder: &Path) -> Result<PathBuf, CaseError> {
        let name = format!("{}-{}-{:016x}", self.check, self.breach.requirement, self.seed);
        stored::store(folder, &name, &self.to_yaml()?)
    }

    /// Returns true if several workers made the calls.
    pub fn is_concurrent(&self) -> bool {
        self.steps.iter().any(|step| step.worker != self.steps[0].worker)
    }

    /// The access type that it was found with.
    pub fn access(&self) -> AccessType {
        Check::access_of(&self.check)
    }

    /// Writes the case into a folder, and says where it is, or why it is not there.
    pub fn store_in(&self, folder: &Path) -> String {
        stored::message(self.store(folder))
    }

    /// The text of the file.
    ///
    /// # Errors
    /// The case cannot be put into words.
    pub fn to_yaml(&self) -> Result<String, CaseError> {
        stored::text(self, &self.breach.message, "csi-sanity replay FILE runs it on any driver.")
    }

    /// The calls with the answers of the driver on which the case was found.
    pub fn reproduction(&self) -> Vec<ReproductionStep> {
        sequence::reproduction(&self.steps)
    }
}

impl From<&Breach> for BreachText {
    fn from(breach: &Breach) -> BreachText {
        BreachText {
            requirement: breach.rule.id.to_owned(),
            message: breach.message.clone(),
            expected: breach.expected.clone(),
            actual: breach.actual.clone(),
        }
    }
}

impl RecordedAnswer {
    /// An answer with the message and the response that it came with.
    pub fn new<S>(answer: &Answer<S>, message: &str, response: Value) -> RecordedAnswer {
        let code = match answer {
            Answer::Done(_) => "OK",
            Answer::Refused(code) | Answer::PutOff(code) => code_name(*code),
            Answer::Unknown => ReproductionStep::NO_ANSWER,
        };
        RecordedAnswer { code: code.to_owned(), message: message.to_owned(), response }
    }
}

impl fmt::Display for RecordedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message[..] {
            "" => f.write_str(&self.code),
            message => write!(f, "{} {message:?}", self.code),
        }
    }
}
