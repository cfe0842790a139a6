//! Runs checks against a CSI endpoint.
//!
//! A [`check`](mod@check) is declared once; the [`registry`] lists it, the [`filter`] chooses it, the [`runner`] runs it
//! against a [`target`] and tells reporters, who listen to [`events`]. A check's body works with a [`cx::Cx`]: calls are
//! recorded, what they make is written in a ledger and undone, and each answer is judged with a sentence.
#![warn(missing_docs)]

mod call;
mod calling;
pub mod capability;
pub mod check;
mod command;
pub mod config;
pub mod cx;
mod driver;
pub mod effect;
pub mod embed;
pub mod events;
pub mod expected;
pub mod fault;
pub mod faults;
pub mod filter;
mod folding;
mod inventory;
pub mod known;
mod learnt;
mod ledger;
pub mod lifecycle;
pub mod logbook;
pub mod mounts;
mod names;
pub mod need;
pub mod outcome;
mod paths;
pub mod patience;
pub mod pattern;
mod plain_call;
mod premise;
pub mod profile;
pub mod record;
pub mod refutation;
pub mod registry;
pub mod removal;
mod replies;
pub mod reply;
pub mod requirements;
pub mod retired;
pub mod rpc;
mod run_check;
pub mod runner;
pub mod shard;
pub mod spent;
pub mod stages;
pub mod stored;
pub mod story;
mod stripping;
pub mod tally;
pub mod target;
pub mod verdict;
mod volumes;
pub mod wording;
pub mod workload;

pub use driver::{
    Away, CommandCall, CommandWatch, Driver, DriverError, DriverLog, End, Left, LentCommand, ServeError,
};
pub use paths::PathKind;
pub use replies::Breach;

/// What a file of checks needs.
pub mod prelude {
    pub use csi_proto::v1;
    pub use tonic::Code;

    pub use crate::calling::Calling;
    pub use crate::capability::Capability;
    pub use crate::check::Check;
    pub use crate::config::{AccessType, Setting};
    pub use crate::cx::Cx;
    pub use crate::lifecycle::{Attached, Mode, NodeVolume, Published, Staged};
    pub use crate::need::*;
    pub use crate::paths::PathKind;
    pub use crate::patience::Settles;
    pub use crate::reply::{Answer, Refused, Reply, invalid_value, missing_field, refused_with};
    pub use crate::requirements::req;
    pub use crate::spent::Part;
    pub use crate::story::{wire, wires};
    pub use crate::verdict::{CheckResult, Stop, Violation};
    pub use crate::{check, ensure};
}

/// An error with its causes on one line, each said once.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
