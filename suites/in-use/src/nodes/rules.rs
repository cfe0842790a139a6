//! Rules of our own for nodes that die: the specification describes calls, and has an orchestrator unpublish a volume everywhere before it is
//! detached, which is not possible on a node that does not answer.

use csi_harness::spec::requirements::{Level, Reliance, Requirement};

/// The document that explains them.
const SECTION: &str = "csi-sanity's own rules, docs/nodes.md";

const fn rule(id: &'static str, level: Level, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, level, when, expect)
}

/// Data move with the volume.
pub(super) static NODES_001: Requirement = rule(
    "NODES-001",
    Level::Must,
    "a volume is detached from a node and used on another one, also after a failure of the first node or of the controller",
    "the volume holds everything that was durable on the first node",
);

/// Volumes can leave nodes.
pub(super) static NODES_002: Requirement = rule(
    "NODES-002",
    Level::Should,
    "a volume is detached from a node and used on another one, and the driver fails a call, is killed during one, or postpones the detach \
     because the first node does not answer",
    "the calls succeed once they are repeated",
)
.relied_on_by(&[Reliance {
    component: "external-attacher",
    breaks: "the pod of a lost node does not start anywhere else",
    place: "repeats each call until the answer is OK, and has no other way to free a volume",
}]);

/// A node that was away gives back what it had.
pub(super) static NODES_003: Requirement = rule(
    "NODES-003",
    Level::Should,
    "a node unpublishes and unstages a volume that another node has, also if it was down during the detach, or if the driver is killed \
     during a call",
    "both calls are answered with OK once they are repeated",
)
.relied_on_by(&[Reliance {
    component: "kubelet",
    breaks: "the pod of the lost node never ends, and the mount of a volume that another node has stays",
    place: "unmounts what pods had that are gone, without a look at where the volume is attached now",
}]);

/// Data survive a reboot of their node.
pub(super) static NODES_004: Requirement = rule(
    "NODES-004",
    Level::Must,
    "a node reboots while volumes are in use on it",
    "a volume that is staged and published there again holds everything that was durable",
);

/// Volumes can be used after a reboot of their node, and given back.
pub(super) static NODES_005: Requirement = rule(
    "NODES-005",
    Level::Should,
    "a node reboots while volumes are in use on it, so that nothing is mounted",
    "the volumes can be staged and published again, or unpublished and unstaged",
)
.relied_on_by(&[Reliance {
    component: "kubelet",
    breaks: "pods neither start nor end on the node until somebody repairs it by hand",
    place: "finds the directories of pods after its start, and makes the calls that they need",
}]);

/// Nodes that share a device see one content.
pub(super) static NODES_006: Requirement = rule(
    "NODES-006",
    Level::Must,
    "a multi-writer volume is published on two nodes",
    "each node finds the data that the other one has made durable",
);

/// The mounts of the new node stay.
pub(super) static NODES_007: Requirement = rule(
    "NODES-007",
    Level::Must,
    "a volume is detached from a node while another node has it, or the first node then unpublishes and unstages it, also if it was down \
     before",
    "the volume stays attached to the other node, and published there",
);
