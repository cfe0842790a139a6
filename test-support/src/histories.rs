//! Histories of calls and their answers, without a driver: told by hand, simulated, and searched in the plainest way.

pub mod plain;
pub mod simulation;
pub mod story;
pub mod toy;
