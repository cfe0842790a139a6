//! Rules of our own for what a driver reports, and what volumes hold, after it has ended and was started again.

use csi_harness::spec::requirements::{Level, Requirement};

/// The document in which these rules are written.
const SECTION: &str = "csi-sanity's own rules, docs/stateful.md";

const fn rule(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, Level::Must, when, expect)
}

/// Facts that were reported before.
pub static RESTART_001: Requirement = rule(
    "RESTART-001",
    "the driver was killed and started again",
    "it reports the same as before about itself, its nodes, volumes and snapshots",
);

/// Operations that were undone.
pub static RESTART_002: Requirement = rule(
    "RESTART-002",
    "something was undone before the driver was killed and started again",
    "it stays undone",
);

/// A volume that was in use when the node rebooted.
pub static RESTART_003: Requirement = rule(
    "RESTART-003",
    "the node lost its mounts, as by a reboot, and a volume is staged and published again with OK",
    "the workload finds the volume at the target path",
);

/// All of them.
pub static ALL: &[&Requirement] = &[&RESTART_001, &RESTART_002, &RESTART_003];
