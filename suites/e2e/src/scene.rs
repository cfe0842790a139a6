//! Provides a test with a namespace of a cluster, the definition, the pattern, and common steps.

mod attributes;
mod data;
mod group_snapshots;
mod growth;
mod in_use;
mod load;
mod pods;
mod snapshots;
mod volumes;
mod wait;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use csi_driver_definitions::{DriverDefinition, Timeouts};
use csi_harness::prelude::{Cx, Stop, Violation};
use csi_proto::lock::Mutex;
use csi_workload::beside::ObservedWorkload;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::Say;
use crate::definition::Definition;
use crate::pattern::Pattern;

pub(crate) use data::Content;
pub(crate) use group_snapshots::CREATE_GROUP;
pub(crate) use growth::Extent;
pub(crate) use in_use::{InUse, end_all};
pub(crate) use load::LOAD;
pub(crate) use pods::{Place, RunningPod, path_of};
pub(crate) use volumes::Volume;
pub(crate) use wait::{Seen, all};

/// A running test.
#[derive(Debug)]
pub struct Scene {
    pub(crate) cx: Cx,
    cluster: Arc<dyn Cluster>,
    definition: Arc<Definition>,
    pub(crate) pattern: &'static Pattern,
    /// The requested bytes of claims.
    claim_bytes: i64,
    names: AtomicU32,
    say: Say,
    /// The time of the last message about a wait, by any of the concurrent waits.
    last_said: Mutex<Option<Instant>>,
    workloads: Mutex<Vec<ObservedWorkload>>,
    /// The rules for volumes in use that the driver was seen to break.
    broken_rules: Mutex<BTreeSet<&'static str>>,
}

impl Scene {
    pub(crate) fn new(
        cx: &Cx,
        cluster: Arc<dyn Cluster>,
        definition: Arc<Definition>,
        pattern: &'static Pattern,
        claim_bytes: i64,
        say: Say,
    ) -> Scene {
        let names = AtomicU32::new(0);
        let (last_said, workloads, broken_rules) = Default::default();
        Scene {
            cx: cx.clone(),
            cluster,
            definition,
            pattern,
            claim_bytes,
            names,
            say,
            last_said,
            workloads,
            broken_rules,
        }
    }

    pub(crate) fn cluster(&self) -> &dyn Cluster {
        &*self.cluster
    }

    /// Returns the definition of the driver.
    pub(crate) fn driver(&self) -> &DriverDefinition {
        &self.definition.driver
    }

    /// Returns the timeouts of the definition.
    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.definition.driver.timeouts
    }

    /// Returns a unique name in the namespace.
    pub(crate) fn name(&self, of: &str) -> String {
        format!("{of}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a seed for random choices, which depends on the seed of the run.
    pub(crate) fn rng_seed(&self) -> u64 {
        self.cx.rng().u64(..)
    }

    /// Shows a note to the user that is no verdict.
    pub(crate) fn note(&self, note: impl Into<String>) {
        self.cx.note(note);
    }
}

/// Returns a number of the definition that must not be 0.
///
/// # Errors
/// Fails if it is 0, as upstream does.
pub(crate) fn positive(field: &str, number: u32) -> Result<u32, Stop> {
    match number {
        0 => Err(Stop::broken(format!("{field} is 0; give a positive number, or leave the options out"))),
        _ => Ok(number),
    }
}

/// Checks that all ids differ.
pub(crate) fn distinct<'a>(kind: &str, ids: impl IntoIterator<Item = &'a str>) -> Result<(), Stop> {
    let mut seen = BTreeSet::new();
    match ids.into_iter().find(|id| !seen.insert(*id)) {
        None => Ok(()),
        Some(id) => Err(failed(format!("two objects have the same {kind}"), "one for each", id)),
    }
}

/// Returns a failure with its message, and the expected and actual state.
pub(crate) fn failed(what: impl Into<String>, expected: impl Display, actual: impl Display) -> Stop {
    Violation::new(what).expected(expected).actual(actual).into()
}
