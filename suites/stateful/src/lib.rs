//! Checks that need more than single calls: a [`model`] of the state that a driver keeps, and [`history`], the
//! judgement of parallel calls. Their findings are stored as a [`case`].

pub mod after_error;
mod budget;
pub mod case;
mod case_runner;
pub mod concurrency;
pub mod contents;
pub mod facts;
pub mod growth;
pub mod history;
pub mod how;
pub mod idempotency;
mod lifecycle;
mod minimal;
pub mod model;
pub mod orchestrator;
pub mod property;
pub mod proven;
mod random_workload;
mod record;
pub mod replay;
mod reported;
mod resource_usage;
pub mod restart;
pub mod rules;
pub mod sequence;
mod shrink;
