//! Runs checks: in which order, in which state of the driver, and what their outcome is.

pub mod embed;
mod folding;
mod inventory;
mod plain_call;
mod premise;
pub mod refutation;
mod run_check;
pub mod runner;
mod unmet;
