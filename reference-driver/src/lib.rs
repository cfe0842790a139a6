//! A CSI driver with real volumes on one host: directories, file systems in images, and raw block devices.
//!
//! A call arrives in [`service`], which logs and counts it and passes it to a thread that may block. There, one
//! function for each RPC, in `controller`, `node`, `group` or `metadata`, does the work from top to bottom:
//!
//! 1. checks the form of the request,
//! 2. locks the object ([`locks`]) and reads its record ([`store`]),
//! 3. reserves capacity ([`capacity`]) and does the work; a failure undoes both,
//! 4. commits the records, which makes the outcome durable, and answers.
//!
//! If the driver crashes between 3 and 4, the work has no record, or one that says that it was only begun, and the
//! next start removes it ([`reconcile`]). A call continues to its end even if its caller goes away.

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
mod metrics;
pub mod mount;
mod node;
pub mod paths;
pub mod proxy;
mod quota;
mod reconcile;
mod removal;
pub mod service;
mod storage;
pub mod store;
mod tool;

pub use capability::{Access, AccessMode, Capability};
pub use config::{Config, ConfigError};
pub use driver::StartError;
pub use error::DriverError;
pub use fs::FsType;
pub use service::HostpathDriver;
