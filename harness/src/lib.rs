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

pub mod text {
    //! Texts: patterns, sizes and messages as people read them.

    pub mod encoding;
    pub mod grpcurl;
    pub mod message;
    pub mod pattern;
    pub mod shorten;
    pub mod size;
}

pub mod protocol {
    //! Facts of the protocol about each capability, each RPC, and each code that an RPC is refused with.

    pub mod capability;
    pub mod effect;
    pub mod rpc;
    pub mod version;
}

pub mod config;

pub mod spec {
    //! The requirements of the specification, the conditions of a check, and the form of a violation.

    pub mod faults;
    pub mod list;
    pub mod need;
    pub mod requirements;
    pub mod verdict;
}

pub mod driver;

pub mod resources {
    //! Resources that a run makes and uses: names, paths, mounts and volumes, and the file that lists those not yet undone.
    //! Nothing here calls the driver.

    pub(crate) mod attachments;
    pub mod cleanup;
    pub mod contents;
    pub mod driver_directory;
    pub mod frozen;
    pub mod logbook;
    pub mod machine;
    pub mod mounts;
    pub(crate) mod names;
    pub mod paths;
    pub mod read_back;
    pub(crate) mod resource;
    pub mod state_dir;
    pub mod trend;
    pub mod usage;
    pub(crate) mod volumes;
    pub mod workload;
}

pub mod client {
    //! The client of the driver: who it is, how a call is sent, repeated, timed and recorded, and what its answer means.

    pub mod answer;
    pub(crate) mod call;
    pub(crate) mod learnt;
    pub mod patience;
    pub mod record;
    pub mod reply;
    pub mod response_rules;
    pub mod retry;
    pub mod session;
    pub mod spent;
    pub mod stages;
    pub mod tally;
    pub mod target;
    pub mod unmet;
}

pub mod lifecycle {
    //! Volumes, snapshots and their ways to a workload, as an orchestrator handles them: requests filled from the
    //! configuration, and every call that makes something entered in the ledger, from which it is undone.

    mod cleanup;
    pub(crate) mod controller;
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
}

pub mod checks {
    //! Checks: how one is declared, how they are collected, and how a run chooses among them.

    pub mod check;
    pub mod expected;
    pub mod filter;
    pub mod known;
    pub mod registry;
    pub mod retired;
    pub mod shard;
}

pub mod results {
    //! The results of checks and of a run, and the description of a failure.

    pub mod events;
    pub mod failure_report;
    pub mod fault;
    pub mod outcome;
    pub mod stored;
}

mod verdict;

pub mod run {
    //! Runs checks: in which order, in which state of the driver, and what is run again.

    pub mod embed;
    mod inventory;
    mod plain_call;
    pub mod plan;
    pub mod refutation;
    mod run_check;
    pub mod runner;
}

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
    pub use crate::lifecycle::controller::Mode;
    pub use crate::lifecycle::cx::Cx;
    pub use crate::lifecycle::node::{Attached, NodeVolume, Published, Staged};
    pub use crate::protocol::capability::Capability;
    pub use crate::resources::paths::PathKind;
    pub use crate::spec::need::*;
    pub use crate::spec::requirements::req;
    pub use crate::spec::verdict::{CheckResult, Damage, Stop, Violation};
    pub use crate::text::encoding::{wire, wires};
    pub use crate::text::size::sized;
    pub use crate::{check, ensure};
}
