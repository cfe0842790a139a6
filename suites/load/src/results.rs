//! The measurements and the findings of a load.

use std::sync::Arc;

use csi_proto::lock::Mutex;

use crate::recorder::Recorder;
use crate::report::{GrowthEntry, Report, ShardEntry, ThresholdEntry, VERSION, stage_entry};
use crate::scaling::Cost;

/// The measurements of a load, while it runs and afterwards.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) findings: Arc<Mutex<Findings>>,
}

/// Findings beside the measurements of calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) driver: String,
    pub(crate) shard: Option<ShardEntry>,
    pub(crate) growth: Vec<GrowthEntry>,
    pub(crate) cost: Vec<Cost>,
    pub(crate) thresholds: Vec<ThresholdEntry>,
}

impl Results {
    /// The report, also of a load that was stopped.
    pub fn report(&self, workload: &str) -> Report {
        let findings = self.findings.lock().clone();
        Report {
            version: VERSION,
            workload: workload.to_owned(),
            driver: findings.driver,
            shard: findings.shard,
            stages: self.recorder.stages().iter().map(stage_entry).collect(),
            growth: findings.growth,
            cost: findings.cost,
            thresholds: findings.thresholds,
            exit_code: 0,
        }
    }
}
