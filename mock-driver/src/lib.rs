//! An in-memory CSI driver. It is correct by default, and wrong in one named place if a [`Defect`] is switched on.
//!
//! All 36 RPCs of CSI v1.12 and v1.13 work on state in memory. The driver needs no privileges, because it creates
//! plain directories and files at target paths. [`Config`] chooses capabilities, limits, nodes, legal but unusual
//! behaviour ([`Quirk`]) and injected faults. [`MockDriver`] implements the server traits of the protocol, so tests
//! can call it without a socket.
#![warn(missing_docs)]

mod call;
mod call_log;
mod capability;
mod config;
mod controller;
mod defect;
mod defects;
mod driver;
mod group;
pub mod health;
mod hold;
mod identity;
pub mod inspect;
mod metadata;
mod named;
mod node;
mod option_value;
pub mod options;
mod quirk;
mod serve;
mod state;
mod validate;

pub use capability::{Capability, CapabilityError, CsiVersion};
pub use config::{Config, ConfigError, CrashMode, NodeConfig, Secrets, StaticVolume};
pub use defect::Defect;
pub use driver::MockDriver;
pub use hold::HoldPoint;
pub use named::UnknownId;
pub use option_value::{Delay, Failure, ParseOptionError, RpcName};
pub use quirk::Quirk;
pub use state::StateFileError;
