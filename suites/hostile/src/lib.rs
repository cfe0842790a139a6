//! Sends requests of attackers and accidents, and checks that they do no harm.

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

pub const SUITE: Suite = Suite { name: "hostile", checks: Checks::Declared(checks::ALL), retired: &[] };
