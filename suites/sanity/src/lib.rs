//! Checks the specification, with a folder for each service and a file for each RPC.
//!
//! A check is a private static in the file of its RPC, and is listed in the `CHECKS` of that file, which is listed in
//! that of its service. The compiler warns of a check that is not listed.

mod controller;
mod every_reply;
mod group;
mod identity;
mod inspect;
mod lifecycle;
mod metadata;
mod moment;
mod node;
mod topology;
pub mod untested;
mod volume_health;

use csi_harness::checks::check::Check;
use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::checks::retired::{Fate, Retired};
use csi_harness::spec::list::{joined, length};

const FILES: &[&[&[&Check]]] = &[
    identity::CHECKS,
    controller::CHECKS,
    every_reply::CHECKS,
    group::CHECKS,
    metadata::CHECKS,
    node::CHECKS,
    volume_health::CHECKS,
    &[inspect::CHECKS],
    lifecycle::CHECKS,
];

pub const SUITE: Suite = Suite {
    name: "sanity",
    checks: Checks::Declared(&joined::<_, { length(FILES) }>(FILES)),
    retired: &[
        Retired {
            id: "controller/create-volume/mutable-parameters-win",
            since: "0.1.0",
            fate: Fate::Gone("volume_context is opaque, so that it does not show which value a volume got"),
        },
        Retired {
            id: "controller/create-volume/infeasible-topology",
            since: "0.1.0",
            fate: Fate::Gone("a caller may ask only for topology that the plugin supports"),
        },
    ],
};

/// The results of the checks for each defect of the mock driver, as the refutation tests saw them.
///
/// For each defect, the checks that find it, one per line, each with the violated rule.
pub const PROVEN: &str = include_str!("proven/matrix.txt");
