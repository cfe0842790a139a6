//! A CSI driver with real volumes on one host: directories, file systems in images, raw block devices.
//!
//! A call arrives in [`service`], which logs and counts it and hands it to a thread that may block. There one function
//! for each RPC, under `controller`, `node`, `group` or `metadata`, does the work from top to bottom:
//!
//! 1. check the form of the request,
//! 2. make the object busy ([`locks`]) and read its record ([`store`]),
//! 3. reserve capacity ([`capacity`]), do the work, and let everything go again if it fails,
//! 4. commit the records, which is when the outcome becomes durable, and answer.
//!
//! Whatever a crash leaves between 3 and 4 has no record, or one that says that it was only begun, and is removed
//! when the driver starts again ([`reconcile`]). A call whose caller goes away runs on to its end.

pub mod args;
mod backend;
mod capability;
pub mod capacity;
mod capacity_range;
pub mod config;
mod controller;
mod copy;
mod driver;
mod error;
mod extents;
#[cfg(test)]
mod failed_commits;
mod freeze;
mod fs;
mod group;
mod health;
mod identity;
pub mod ids;
mod kernel;
mod layout;
mod links;
pub mod locks;
mod loopdev;
mod metadata;
pub mod metrics;
pub mod mount;
mod node;
pub mod paths;
mod privilege;
pub mod proxy;
mod quota;
mod reconcile;
mod removal;
pub mod service;
mod storage;
pub mod store;
mod tool;

pub use backend::BackendRef;
pub use capability::{Access, AccessMode, Capability};
pub use config::{Config, ConfigError};
pub use driver::StartError;
pub use error::DriverError;
pub use fs::FsType;
pub use service::HostpathDriver;
