//! Rules of our own, for what a driver tells again after it has ended.

use csi_harness::spec::requirements::Requirement;

use crate::own_rule::own_rule;

/// Everything that was told before.
pub static RESTART_001: Requirement = own_rule(
    "csi-sanity's own rules, docs/stateful.md",
    "RESTART-001",
    "the driver was killed and started again",
    "it tells the same as before of itself, its nodes, volumes and snapshots",
);

/// All of them.
pub static ALL: &[&Requirement] = &[&RESTART_001];
