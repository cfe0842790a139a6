//! Rules of our own for the resources that a driver uses. The specification does not state them, because they are
//! obvious.

use csi_harness::spec::requirements::{Level, Requirement};

/// The document in which these rules are written.
const SECTION: &str = "csi-sanity's own rules, docs/growth.md";

const fn rule(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, Level::Must, when, expect)
}

/// Calls that are done and undone.
pub static GROWTH_001: Requirement = rule(
    "GROWTH-001",
    "something is made and undone, or asked for, again and again",
    "the driver's resources do not grow with each time",
);

/// Calls that are refused.
pub static GROWTH_002: Requirement = rule(
    "GROWTH-002",
    "calls are rejected again and again",
    "the driver's resources do not grow with each of them",
);

/// Calls that are given up, and connections that break.
pub static GROWTH_003: Requirement = rule(
    "GROWTH-003",
    "calls are given up, or connections broken, again and again",
    "the driver's resources do not grow with each of them",
);

/// All of them.
pub static ALL: &[&Requirement] = &[&GROWTH_001, &GROWTH_002, &GROWTH_003];
