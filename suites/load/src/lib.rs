//! Load: many life cycles at once, with many volumes, for a long time. A [workload](workload) says which cycles run and when they are due,
//! [cycles](cycle) make their calls as an orchestrator does, the [recorder] measures every call, and the [judge] keeps what was wrong.
//!
//! A slow driver is only reported, unless the user gave a [threshold]. A wrong answer, a lost volume, a death or a leak is a failure.

pub mod compare;
mod cycle;
mod default_run;
mod fleet;
mod independence;
pub mod judge;
pub mod merge;
pub mod recorder;
pub mod report;
mod resources;
mod run;
pub mod scaling;
mod summary;
pub mod threshold;
mod workers;
pub mod workload;

pub use default_run::SUITE;
pub use report::Results;
pub use run::suite;
pub use summary::{live, summary};
