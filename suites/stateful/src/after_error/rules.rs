//! Rules of our own, for what a refusal leaves behind: the specification has each call stand by itself, and does not say so.

use csi_harness::spec::requirements::{Level, Requirement};

/// The document in which these rules are written.
const SECTION: &str = "csi-sanity's own rules, docs/after-error.md";

const fn rule(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, Level::Must, when, expect)
}

/// The next call is not affected.
pub static AFTER_ERROR_001: Requirement =
    rule("AFTER-ERROR-001", "a call was rejected", "the right call for the same object works");

/// Other objects are not affected.
pub static AFTER_ERROR_002: Requirement =
    rule("AFTER-ERROR-002", "a call was rejected or given up", "other objects are as they were");

/// Effects of a rejected call.
pub static AFTER_ERROR_003: Requirement = rule(
    "AFTER-ERROR-003",
    "a call was rejected with a code that says that nothing was done",
    "nothing was made or changed by it",
);

/// Calls in another order.
pub static AFTER_ERROR_004: Requirement = rule(
    "AFTER-ERROR-004",
    "something was undone too early, or deleted while it was in use",
    "the right order of calls then undoes everything",
);

/// Calls without an answer.
pub static AFTER_ERROR_005: Requirement = rule(
    "AFTER-ERROR-005",
    "a call was given up, or its connection broken, and nothing else is under way since",
    "the same call succeeds in the end",
);

/// All of them.
pub static ALL: &[&Requirement] =
    &[&AFTER_ERROR_001, &AFTER_ERROR_002, &AFTER_ERROR_003, &AFTER_ERROR_004, &AFTER_ERROR_005];
