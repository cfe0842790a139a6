//! Topology. A volume can only be reached from the node that stores it.

use csi_proto::v1::{Topology, TopologyRequirement};

use crate::driver::Driver;
use crate::error::{DriverError, Result};

const NODE_KEY: &str = "topology.hostpath.csi/node";

/// The topology of this node, if topology is offered.
pub(crate) fn node_topology(driver: &Driver) -> Option<Topology> {
    let segment = (NODE_KEY.to_owned(), driver.config.node_id.clone());
    driver.config.topology.then(|| Topology { segments: [segment].into() })
}

/// Returns whether this node has all segments of a topology.
pub(super) fn covers(driver: &Driver, topology: &Topology) -> bool {
    let ours = |(key, value): (&String, &String)| {
        key.eq_ignore_ascii_case(NODE_KEY) && *value == driver.config.node_id
    };
    !driver.config.topology || topology.segments.iter().all(ours)
}

/// Returns whether a volume on this node satisfies a requirement (MSG-TOPOREQ-003, -013).
pub(super) fn is_reachable(driver: &Driver, requirement: Option<&TopologyRequirement>) -> Result<bool> {
    let Some(requirement) = requirement.filter(|_| driver.config.topology) else { return Ok(true) };
    if requirement.requisite.is_empty() && requirement.preferred.is_empty() {
        return Err(DriverError::invalid(
            "accessibility_requirements",
            "neither requisite nor preferred is set",
        ));
    }
    let requisite = &requirement.requisite;
    Ok(requisite.is_empty() || requisite.iter().any(|topology| covers(driver, topology)))
}
