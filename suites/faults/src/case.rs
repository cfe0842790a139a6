//! A fault that a driver did not stand, as a file: what was broken, what was wrong, and the calls; to be read, kept in a repository, and
//! met again.

use std::path::{Path, PathBuf};

use csi_harness::config::AccessType;
use csi_harness::prelude::*;
use csi_harness::results::stored::{self, CaseError};
use csi_nemesis::fault::Fault;
use serde::{Deserialize, Serialize};

/// The key that says that a file is such a case.
pub const KEY: &str = "csi-sanity-fault-case";
const FORM: u32 = 1;
/// Largest file that is read, in bytes.
const CASE_BYTES_MAX: u64 = 4 << 20;
/// Largest number of files of a folder that are read.
const FILES_MAX: usize = 1_000;

/// A failing fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    csi_sanity_fault_case: u32,
    /// The label of the check that found it.
    check: String,
    pub(crate) fault: Fault,
    /// The fault, in words.
    broken: String,
    /// The rule that was broken.
    requirement: String,
    /// The violation, as one sentence.
    message: String,
    /// The behaviour of a correct driver.
    expected: String,
    /// The behaviour of this driver.
    actual: String,
    /// Name and version of the driver on which it was found.
    driver: String,
    /// The calls and their ends, in words.
    calls: Vec<String>,
}

impl Case {
    pub(crate) fn new(
        cx: &Cx,
        fault: &Fault,
        broken: String,
        violation: &Violation,
        calls: &[String],
    ) -> Case {
        let info = cx.target().info();
        Case {
            csi_sanity_fault_case: FORM,
            check: cx.label().to_owned(),
            fault: fault.clone(),
            broken,
            requirement: violation.requirement.map_or("", |rule| rule.id).to_owned(),
            message: violation.message.clone(),
            expected: violation.expected.clone(),
            actual: violation.actual.clone(),
            driver: format!("{} {}", info.name, info.vendor_version),
            calls: calls.to_vec(),
        }
    }

    /// Reads a case.
    ///
    /// # Errors
    /// The file cannot be read, or is not a case; the text names file, line and column.
    pub fn load(path: &Path) -> Result<Case, CaseError> {
        let case: Case = stored::read(path, CASE_BYTES_MAX)?;
        if case.csi_sanity_fault_case != FORM {
            let problem = format!("{KEY} is {}; this version reads {FORM}", case.csi_sanity_fault_case);
            return Err(CaseError::Invalid { path: path.to_owned(), problem });
        }
        Ok(case)
    }

    /// The id of the check that found it.
    pub fn check_id(&self) -> &str {
        Check::id_of(&self.check)
    }

    /// The access type that it was found with.
    pub fn access(&self) -> AccessType {
        Check::access_of(&self.check)
    }

    /// Writes the case into a folder, and says where it is, or why it is not there. The name of the file says what is in it:
    /// `faults-crash-points-create-volume-call-4-killed-GEN-ERR-001.yaml`.
    pub(crate) fn store_in(&self, folder: &Path) -> String {
        let access = self.check.strip_prefix(self.check_id()).unwrap_or_default();
        let name = format!("faults-{}{access}-{}", self.fault, self.requirement);
        let text = stored::text(self, &self.message, "csi-sanity replay FILE breaks the same of any driver.");
        stored::message(text.and_then(|text| stored::store(folder, &name, &text)))
    }
}

/// The cases that a check tries first: only the replayed case, or those that earlier runs of the check have stored.
/// Skips if a case of another check is replayed, and is broken if a file cannot be read.
pub(crate) fn of_check(cx: &Cx) -> CheckResult<Vec<(PathBuf, Case)>> {
    let effort = &cx.config().effort;
    let unread = |error| Stop::broken(csi_harness::text::message::error_chain(&error));
    if let Some(path) = &effort.replay {
        let case = Case::load(path).map_err(unread)?;
        return match case.check == cx.label() {
            true => Ok(vec![(path.clone(), case)]),
            false => Err(Stop::skip(format!("the case is one of {}", case.check))),
        };
    }
    let Some(folder) = effort.regressions.as_ref().filter(|_| effort.only_faults.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut cases = Vec::new();
    for path in stored::cases(folder, KEY, FILES_MAX).map_err(unread)? {
        let case = Case::load(&path).map_err(unread)?;
        cases.extend((case.check == cx.label()).then_some((path, case)));
    }
    Ok(cases)
}
