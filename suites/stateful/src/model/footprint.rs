//! Which parts of a volume a call changes or looks at, so that calls about different parts need not be tried in all orders. This
//! also says which calls only look.

use super::call::VolumeCall;
use super::names::Node;

/// Sets of parts, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    changes: u64,
    sees: u64,
    /// What the driver has and the model does not know until it has told it: nothing changes, and later answers have to agree.
    tells: u64,
}

/// Whether there is a volume, and which.
const LIFE: u64 = 1;
const SIZE: u64 = 1 << 1;
const PARAMETERS: u64 = 1 << 2;
const CONFIRMED: u64 = 1 << 3;
const BYTES: u64 = 1 << 4;
/// Nodes that have bits of their own; beyond, several share one, which only makes more orders to be tried.
const NODES: u32 = 19;
const FIRST_NODE: u32 = 5;
/// The attachments to all nodes.
const ATTACHMENTS: u64 = ((1 << NODES) - 1) << FIRST_NODE;
/// Everything.
const ALL: u64 = u64::MAX;

fn attached(node: Node) -> u64 {
    1 << (FIRST_NODE + u32::from(node.0) % NODES)
}

fn staged(node: Node) -> u64 {
    attached(node) << NODES
}

fn published(node: Node) -> u64 {
    attached(node) << (2 * NODES)
}

impl Footprint {
    pub(super) fn of(call: &VolumeCall) -> Footprint {
        use VolumeCall::*;
        let mut tells = 0;
        let (changes, sees) = match *call {
            CreateVolume { .. } | DeleteVolume { .. } => (ALL, ALL),
            ControllerPublishVolume { node, .. } => (attached(node), LIFE | ATTACHMENTS | CONFIRMED),
            ControllerUnpublishVolume { node: Some(node), .. } => {
                (attached(node), LIFE | staged(node) | published(node))
            }
            ControllerUnpublishVolume { node: None, .. } => (ATTACHMENTS, ALL),
            ValidateVolumeCapabilities { .. } => {
                tells = CONFIRMED;
                (0, LIFE | ATTACHMENTS)
            }
            ControllerGetVolume { .. } | Listing { .. } => (0, LIFE | SIZE | ATTACHMENTS),
            // In use is what any node has.
            ControllerExpandVolume { .. } => (SIZE, ALL),
            ControllerModifyVolume { .. } => (PARAMETERS, LIFE),
            NodeStageVolume { node, .. } => (staged(node), LIFE | attached(node)),
            NodeUnstageVolume { node, .. } => (staged(node), LIFE | published(node)),
            NodePublishVolume { node, .. } => (published(node), LIFE | attached(node) | staged(node)),
            NodeUnpublishVolume { node, .. } => (published(node), LIFE),
            NodeExpandVolume { node, .. } | NodeGetVolumeStats { node, .. } => {
                (0, LIFE | attached(node) | staged(node) | published(node))
            }
            // What other nodes have in memory may be older.
            Write { .. } => (BYTES, ALL),
            Read { node, .. } => (0, LIFE | BYTES | attached(node) | staged(node) | published(node)),
            Unmount { node, .. } => {
                let places = staged(node) | published(node);
                (places, LIFE | places)
            }
            Copying { .. } => (0, LIFE),
        };
        Footprint { changes, sees, tells }
    }

    /// Whether nothing is changed.
    pub(super) fn only_looks(self) -> bool {
        self.changes == 0
    }

    /// Whether it may make a difference which of two calls comes first.
    pub(super) fn depends(self, other: Footprint) -> bool {
        let (one, two) = (self.changes | self.tells, other.changes | other.tells);
        one & (two | other.sees) != 0 || two & self.sees != 0
    }
}
