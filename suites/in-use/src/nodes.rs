//! Nodes that die, come back and hand volumes over: an orchestrator that has lost a node takes its volumes to another one. What was durable
//! has to be there, and the node that comes back may not touch it. The checks need two nodes whose mounts the tests see.

mod controller_killed;
mod migration;
mod reboot;
mod rules;
mod silent;
mod takeover;

use csi_harness::checks::registry::{Checks, Suite};

pub use takeover::other_node;

/// Every check of nodes that die.
pub const SUITE: Suite = Suite {
    name: "nodes",
    checks: Checks::Declared(&[silent::CHECKS, controller_killed::CHECKS, reboot::CHECKS, migration::CHECKS]),
    retired: &[],
};
