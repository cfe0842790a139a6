//! What attackers and accidents send: requests that nobody would send who means well, and what must not come of them.

mod alter;
pub mod canary;
mod checks;
mod codes;
pub mod fuzz;
pub mod injection_points;
pub mod process_stats;
pub mod rules;
pub mod scene;
pub mod send;
pub mod sweep;
pub mod trap;
pub mod words;

use csi_harness::checks::registry::{Checks, Suite};

/// The hostile suite.
pub const SUITE: Suite = Suite { name: "hostile", checks: Checks::Declared(checks::ALL), retired: &[] };
