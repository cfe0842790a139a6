//! Histories of calls and their answers without a driver: written by hand, simulated, or searched by a plain
//! algorithm.

pub mod plain;
pub mod simulation;
pub mod story;
pub mod toy;
