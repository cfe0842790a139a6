//! Collects how far the running checks are, for those who watch the run.

use std::collections::BTreeMap;
use std::fmt;

use csi_proto::lock::Mutex;

/// The stage that a check has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The name of the stage, such as `sequence`.
    pub what: &'static str,
    /// The number of the current one, from 1; 0 where there is no number.
    pub number: u64,
    /// The largest number, if it is known.
    pub of: Option<u64>,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.number, self.of) {
            (0, _) => f.write_str(self.what),
            (number, None) => write!(f, "{} {number}", self.what),
            (number, Some(of)) => write!(f, "{} {number}/{of}", self.what),
        }
    }
}

/// The progress of each running check that has reported a stage, by label.
#[derive(Debug, Default)]
pub(crate) struct Stages(Mutex<BTreeMap<String, Stage>>);

impl Stages {
    pub(crate) fn set(&self, label: &str, stage: Stage) {
        self.0.lock().insert(label.to_owned(), stage);
    }

    pub(crate) fn end(&self, label: &str) {
        self.0.lock().remove(label);
    }

    pub(crate) fn all(&self) -> Vec<(String, Stage)> {
        let stages = self.0.lock();
        stages.iter().map(|(label, stage)| (label.clone(), *stage)).collect()
    }
}
