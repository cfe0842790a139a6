//! Runs checks against a CSI endpoint.
//!
//! A [`check`](checks::check) is declared once; the [`registry`](checks::registry) lists it, the
//! [`filter`](checks::filter) chooses it, the [`runner`](run::runner) runs it against a [`target`](client::target) and
//! sends [`events`](results::events) to reporters. A check's body works with a [`Cx`](lifecycle::cx::Cx): calls are
//! recorded, what they make is written in a ledger and undone, and each answer is judged with a sentence.
//!
//! Each folder uses only those above it; `cargo xtask tidy` holds that. An item is named by the file that it is in:
//! [`client::reply::Reply`] is in `client/reply.rs`.
#![warn(missing_docs)]

pub mod text;

pub mod protocol;

pub mod config;

pub mod spec;

pub mod driver;

pub mod resources;

pub mod client;

pub mod lifecycle;

pub mod checks;

pub mod results;

mod verdict;

pub mod run;

/// The items that a file of checks needs.
pub mod prelude {
    pub use csi_proto::v1;
    pub use futures_util::future::BoxFuture;
    pub use tonic::Code;

    pub use crate::checks::check::Check;
    pub use crate::client::answer::{Answer, Refused};
    pub use crate::client::patience::Settles;
    pub use crate::client::reply::{Reply, invalid_value, missing_field, refused_with};
    pub use crate::client::retry::PendingCall;
    pub use crate::client::spent::Part;
    pub use crate::client::target::Ownership;
    pub use crate::config::{AccessType, Setting};
    pub use crate::lifecycle::cx::Cx;
    pub use crate::lifecycle::node::{Attached, NodeVolume, Published, Staged};
    pub use crate::lifecycle::volume_capability::Mode;
    pub use crate::protocol::capability::Capability;
    pub use crate::resources::paths::PathKind;
    pub use crate::spec::need::*;
    pub use crate::spec::requirements::req;
    pub use crate::spec::verdict::{CheckResult, Damage, Stop, Violation};
    pub use crate::text::size::sized;
    pub use crate::text::wire::{wire, wires};
    pub use crate::{check, ensure};
}
