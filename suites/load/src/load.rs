//! A load under way.

use std::sync::Arc;
use std::time::Instant;

use csi_harness::prelude::*;
use tokio::sync::watch;

use crate::fleet::Fleet;
use crate::judge::Judge;
use crate::recorder::Recorder;
use crate::workload::Workload;

/// The state of a load, which its callers share.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) cx: Cx,
    pub(crate) workload: Workload,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) judge: Judge,
    pub(crate) fleet: Fleet,
    /// True while the driver is restarted.
    pub(crate) is_down: watch::Sender<bool>,
    /// Marks the writes of this load, so that those of others are not taken for them.
    pub(crate) run: u64,
    /// The moment after which nothing more is begun, if the load is one check among others and not the purpose of the run. Such a load is
    /// too short for trends, and a driver with too little storage for it is not blamed.
    pub(crate) ends: Option<Instant>,
}

impl Load {
    /// Returns true if nothing more is begun.
    pub(crate) fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }
}
