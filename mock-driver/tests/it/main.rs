//! The integration tests of the crate: most call the services directly, one goes over a socket, and some start the
//! binary.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the failure itself")]

mod controller;
mod defects;
mod faults;
mod group;
mod histories;
mod identity;
mod metadata;
mod node;
mod program;
mod quirks;
mod snapshots;
mod state_file;
mod support;
