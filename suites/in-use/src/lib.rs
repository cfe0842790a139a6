//! Calls about volumes that a workload is writing to, as an orchestrator makes them all the time. The workload may not be hurt by them,
//! and what they copy has to be right. The checks run as root where the driver's mounts can be seen, and are skipped elsewhere.

pub mod beside;
mod callers;
pub mod case;
mod copies;
pub mod expansion;
mod frozen;
mod health;
mod insist;
pub mod make;
mod node;
pub mod nodes;
mod other_node;
pub mod restarts;
mod snapshots;

use csi_harness::checks::registry::{Checks, Suite};

/// Every check of volumes in use.
pub const SUITE: Suite = Suite {
    name: "in-use",
    checks: Checks::Declared(&[
        snapshots::CHECKS,
        copies::CHECKS,
        expansion::CHECKS,
        node::CHECKS,
        health::CHECKS,
        callers::CHECKS,
        restarts::CHECKS,
        frozen::CHECKS,
        other_node::CHECKS,
    ]),
    retired: &[],
};
