//! What the specification leaves unsaid since it goes without saying: rules of our own, for what a driver takes up.

use csi_harness::protocol::version::Versions;
use csi_harness::spec::requirements::{Basis, Level, Maturity, Party, Requirement, Testability};

/// Where they are written down.
const SECTION: &str = "csi-sanity's own rules, docs/growth.md";

const fn rule(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement {
        id,
        rpc: "*",
        level: Level::Must,
        on: Party::Plugin,
        requires: &[],
        when,
        expect,
        code: None,
        section: SECTION,
        lines: (0, 0),
        test: Testability::Blackbox,
        caution: None,
        maturity: Maturity::Stable,
        basis: Basis::Own,
        versions: Versions::ALL,
        relied_on_by: &[],
    }
}

/// Calls that are done and undone.
pub static GROWTH_001: Requirement = rule(
    "GROWTH-001",
    "something is made and undone, or asked for, again and again",
    "what the driver takes up does not grow with each time",
);

/// Calls that are refused.
pub static GROWTH_002: Requirement = rule(
    "GROWTH-002",
    "calls are refused again and again",
    "what the driver takes up does not grow with each of them",
);

/// Calls that are given up, and connections that break.
pub static GROWTH_003: Requirement = rule(
    "GROWTH-003",
    "calls are given up, or connections broken, again and again",
    "what the driver takes up does not grow with each of them",
);

/// All of them.
pub static ALL: &[&Requirement] = &[&GROWTH_001, &GROWTH_002, &GROWTH_003];
