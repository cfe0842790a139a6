//! Rules of our own: about what a driver reports, and what volumes hold, after it has ended and was started again; and about the resources
//! that a driver uses, which the specification does not mention because they are obvious.

use csi_harness::spec::requirements::{Level, Requirement};

const fn restart(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own("csi-sanity's own rules, docs/stateful.md", id, Level::Must, when, expect)
}

const fn growth(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own("csi-sanity's own rules, docs/growth.md", id, Level::Must, when, expect)
}

/// Facts that were reported before.
pub(crate) static RESTART_001: Requirement = restart(
    "RESTART-001",
    "the driver was killed and started again",
    "the driver reports unchanged facts about itself, its nodes, volumes and snapshots",
);

/// Operations that were undone.
pub(crate) static RESTART_002: Requirement = restart(
    "RESTART-002",
    "an operation was undone before the driver was killed and started again",
    "the operation stays undone",
);

/// A volume that was in use when the node rebooted.
pub(crate) static RESTART_003: Requirement = restart(
    "RESTART-003",
    "the node lost its mounts, for example in a reboot, and a volume is staged and published again with OK",
    "the workload finds the volume at the target path",
);

pub(crate) static RESTART: &[&Requirement] = &[&RESTART_001, &RESTART_002, &RESTART_003];

/// Calls that are done and undone.
pub(crate) static GROWTH_001: Requirement = growth(
    "GROWTH-001",
    "calls are made and undone, or objects are read, again and again",
    "the driver's resources do not grow with each repetition",
);

/// Calls that are refused.
pub(crate) static GROWTH_002: Requirement = growth(
    "GROWTH-002",
    "calls are rejected again and again",
    "the driver's resources do not grow with each call",
);

/// Calls that are given up, and connections that break.
pub(crate) static GROWTH_003: Requirement = growth(
    "GROWTH-003",
    "calls are given up, or connections broken, again and again",
    "the driver's resources do not grow with each repetition",
);

pub(crate) static GROWTH: &[&Requirement] = &[&GROWTH_001, &GROWTH_002, &GROWTH_003];
