//! The results of checks and of a run, and the description of a failure.

pub mod events;
pub mod failure_report;
pub mod fault;
pub mod outcome;
pub mod stored;
pub mod wording;
