//! Runs checks: in which order, in which state of the driver, and what is run again.

pub mod embed;
mod inventory;
mod plain_call;
pub mod plan;
pub mod refutation;
mod run_check;
pub mod runner;
