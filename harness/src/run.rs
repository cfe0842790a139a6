//! Runs checks: in which order, in which state of the driver, and what their outcome is.

mod dedup;
pub mod embed;
mod inventory;
mod plain_call;
mod precondition;
pub mod refutation;
mod run_check;
pub mod runner;
mod unmet;
