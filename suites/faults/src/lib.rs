//! Checks of a driver while its environment fails, and after it has recovered: a volume is led through its whole life
//! repeatedly, and each time one thing fails at one place of it.
//!
//! A [`Fault`] is a value: an injector, a step of the volume's life, a place and a way to break. Each
//! [`injector`](csi_nemesis::injector) is a file that knows which faults a driver can meet, breaks and heals; [`trial`]
//! judges a life with faults, whatever the injector; [`search`] decides which faults are tried, and confirms failures.

pub mod case;
mod check;
mod found;
mod left;
mod life;
mod neighbour;
pub mod rules;
mod search;
mod trial;

use csi_harness::checks::registry::{Checks, Suite};

pub use csi_nemesis::fault::Fault;

pub const SUITE: Suite = Suite { name: "faults", checks: Checks::Declared(&[check::CHECKS]), retired: &[] };

/// The verdicts of the checks on each defect of the reference driver and of the plain one, as the refutation tests have
/// seen them.
///
/// The defect, then the checks, a line each, with the rule that they blame it for.
pub const PROVEN: &str = include_str!("proven/matrix.txt");
