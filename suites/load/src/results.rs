//! The measurements and the findings of a load.

use std::sync::Arc;

use csi_proto::lock::Mutex;

use crate::recorder::Recorder;
use crate::report::{Report, VERSION, stage_entry};

/// The measurements of a load, while it runs and afterwards.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub(crate) recorder: Arc<Recorder>,
    /// The parts of the report beside the measurements of calls.
    pub(crate) findings: Arc<Mutex<Report>>,
}

impl Results {
    /// The report, also of a load that was stopped.
    pub fn report(&self, workload: &str) -> Report {
        Report {
            version: VERSION,
            workload: workload.to_owned(),
            stages: self.recorder.stages().iter().map(stage_entry).collect(),
            ..self.findings.lock().clone()
        }
    }
}
