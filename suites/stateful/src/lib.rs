//! Checks that need more than single calls. They make sequences of calls, and csi-model judges the answers. Their findings are stored as a
//! [`case`].

pub mod after_error;
mod budget;
pub mod case;
mod case_runner;
pub mod concurrency;
pub mod contents;
pub mod facts;
pub mod growth;
pub mod how;
pub mod idempotency;
mod lifecycle;
mod minimal;
pub mod orchestrator;
pub mod property;
pub mod proven;
mod random_workload;
mod record;
pub mod replay;
mod reported;
mod resource_usage;
pub mod restart;
mod rules;
pub mod sequence;
mod shrink;
