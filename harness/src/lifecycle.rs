//! Volumes, snapshots and their ways to a workload, as an orchestrator handles them: requests filled from the
//! configuration, and every call that makes something entered in the ledger, from which it is undone.

mod cleanup;
mod controller;
pub mod cx;
mod device;
mod driver_directory;
mod group;
pub mod hooks;
pub mod inspect;
pub(crate) mod ledger;
mod list;
pub mod node;
pub mod own_mounts;
pub(crate) mod size;
mod snapshot;
mod undo;
pub mod volume_capability;
