//! What the body of a test works with: one namespace of a cluster, the definition, the pattern, and the steps that many
//! tests share.

mod attributes;
mod data;
mod group_snapshots;
mod growth;
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
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::pattern::Pattern;
use crate::plan::{Definition, Say};

pub(crate) use data::Content;
pub(crate) use growth::Extent;
pub(crate) use load::LOAD;
pub(crate) use pods::{RunningPod, path_of};
pub(crate) use volumes::Volume;
pub(crate) use wait::{Seen, all};

/// One test at work.
#[derive(Debug)]
pub struct Scene {
    cx: Cx,
    cluster: Arc<dyn Cluster>,
    definition: Arc<Definition>,
    pattern: &'static Pattern,
    claim_bytes: i64,
    names: AtomicU32,
    say: Say,
    /// When it was last told what is waited for, by whichever of the waits that go on at the same time.
    told: Mutex<Option<Instant>>,
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
        let told = Mutex::new(None);
        Scene { cx: cx.clone(), cluster, definition, pattern, claim_bytes, names, say, told }
    }

    /// What the calls of the cluster go through.
    pub(crate) fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The namespace.
    pub(crate) fn cluster(&self) -> &dyn Cluster {
        &*self.cluster
    }

    /// What the driver promises.
    pub(crate) fn driver(&self) -> &DriverDefinition {
        &self.definition.driver
    }

    /// How long is waited for what.
    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.definition.driver.timeouts
    }

    /// The way of getting a volume.
    pub(crate) fn pattern(&self) -> &'static Pattern {
        self.pattern
    }

    /// Bytes that claims ask for.
    pub(crate) fn claim_bytes(&self) -> i64 {
        self.claim_bytes
    }

    /// A name that nothing else in the namespace has.
    pub(crate) fn name(&self, of: &str) -> String {
        format!("{of}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// A source of random choices that depends on the seed of the run.
    pub(crate) fn rng_seed(&self) -> u64 {
        self.cx.rng().u64(..)
    }

    /// Tells whoever watches the run something that is no verdict.
    pub(crate) fn note(&self, note: impl Into<String>) {
        self.cx.note(note);
    }
}

/// A number of the definition that must not be 0.
///
/// # Errors
/// It is 0, which upstream takes for a failure as well.
pub(crate) fn positive(field: &str, number: u32) -> Result<u32, Stop> {
    match number {
        0 => Err(Stop::broken(format!("{field} is 0; give a positive number, or leave the options out"))),
        _ => Ok(number),
    }
}

/// No two ids are the same.
pub(crate) fn distinct<'a>(kind: &str, ids: impl IntoIterator<Item = &'a str>) -> Result<(), Stop> {
    let mut seen = BTreeSet::new();
    match ids.into_iter().find(|id| !seen.insert(*id)) {
        None => Ok(()),
        Some(id) => Err(failed(format!("two objects have the same {kind}"), "one for each", id)),
    }
}

/// The test fails: what is wrong, what was expected, and what is there.
pub(crate) fn failed(what: impl Into<String>, expected: impl Display, actual: impl Display) -> Stop {
    Violation::new(what).expected(expected).actual(actual).into()
}
