//! How far the checks are that run, for those who wait for them.

use std::collections::BTreeMap;
use std::fmt;

use csi_proto::lock::Mutex;

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What it does, such as `sequence`.
    pub what: &'static str,
    /// Which one it does, from 1; 0 where there is no number.
    pub number: u64,
    /// How many there are at the most, if that is known.
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

/// How far each running check is, by label, for checks that have reported a stage.
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
