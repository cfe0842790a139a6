//! What attackers and accidents send: requests that nobody would send who means well, and what must not come of them.

mod alter;
pub mod canary;
mod checks;
mod codes;
pub mod fuzz;
pub mod places;
pub mod rules;
pub mod scene;
pub mod send;
pub mod sweep;
pub mod trap;
pub mod vitals;
pub mod words;

use csi_harness::checks::registry::{Checks, Suite};

/// The hostile suite.
pub const SUITE: Suite = Suite { name: "hostile", checks: Checks::Declared(checks::ALL), retired: &[] };
