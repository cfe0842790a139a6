//! A failing check of a volume in use as a file: its inputs, which `csi-sanity replay` plays once more with the workload, and the violation, to
//! be read.

use std::path::Path;

use csi_harness::client::record::CallRecord;
use csi_harness::client::target::Target;
use csi_harness::prelude::*;
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_harness::results::stored::{self, CaseError};
use serde::{Deserialize, Serialize};

/// The key that identifies such a file.
pub const KEY: &str = "csi-sanity-in-use-case";
/// The form of the file.
const FORM: u32 = 1;
/// The largest file that is read, in bytes.
const CASE_BYTES_MAX: u64 = 4 << 20;

/// A failing check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    csi_sanity_in_use_case: u32,
    /// The label of the check, with the access type.
    check: String,
    seed: u64,
    volume_bytes: i64,
    /// The rule that was broken.
    requirement: String,
    message: String,
    expected: String,
    actual: String,
    /// The name and the version of the driver on which it was found.
    driver: String,
    /// The calls with their answers, in words. The check makes new ones.
    calls: Vec<String>,
}

impl Case {
    /// The case of a check of the suites here that has failed; none of any other report.
    pub fn of(report: &CheckReport, target: &Target, seed: u64) -> Option<Case> {
        let Outcome::Failed(finding) = &report.outcome else { return None };
        let violation = &finding.violation;
        let check = &report.planned.check;
        let suites = [crate::SUITE, crate::nodes::SUITE];
        suites.iter().flat_map(|suite| suite.checks.iter()).find(|own| own.id == check.id)?;
        let rule = violation.requirement.or_else(|| check.requirements.first().copied());
        let info = target.info();
        let call = |call: &CallRecord| format!("{} → {}", call.rpc.method, call.outcome());
        let made = report.calls.iter().filter(|call| !call.cleanup);
        Some(Case {
            csi_sanity_in_use_case: FORM,
            check: report.label(),
            seed,
            volume_bytes: target.volume_size_bytes(report.planned.access),
            requirement: rule.map_or("", |rule| rule.id).to_owned(),
            message: violation.message.clone(),
            expected: violation.expected.clone(),
            actual: violation.actual.clone(),
            driver: format!("{} {}", info.name, info.vendor_version),
            calls: made.map(call).collect(),
        })
    }

    /// Reads a case.
    ///
    /// # Errors
    /// The file cannot be read, or is not a case; the text names file, line and column.
    pub fn load(path: &Path) -> Result<Case, CaseError> {
        let case: Case = stored::read(path, CASE_BYTES_MAX)?;
        if case.csi_sanity_in_use_case != FORM {
            let problem = format!("{KEY} is {}; this version reads {FORM}", case.csi_sanity_in_use_case);
            return Err(CaseError::Invalid { path: path.to_owned(), problem });
        }
        Ok(case)
    }

    /// The id of the check.
    pub fn check_id(&self) -> &str {
        Check::id_of(&self.check)
    }

    /// The access type with which the check failed.
    pub fn access(&self) -> AccessType {
        Check::access_of(&self.check)
    }

    /// The seed of the run in which the check failed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The size of the volumes in that run.
    pub fn volume_bytes(&self) -> i64 {
        self.volume_bytes
    }

    /// Writes the case into a folder, and says where it is, or why it is not there.
    pub fn store_in(&self, folder: &Path) -> String {
        let name = format!("{}-{}", self.check, self.requirement);
        let usage = "csi-sanity replay FILE plays the check with its workload, on any driver.";
        let text = stored::text(self, &self.message, usage);
        stored::message(text.and_then(|text| stored::store(folder, &name, &text)))
    }
}
