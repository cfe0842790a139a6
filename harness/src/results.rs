//! What came of checks and of a run, and how a failure is told.

pub mod events;
pub mod failure_report;
pub mod fault;
pub mod outcome;
pub mod stored;
pub mod wording;
