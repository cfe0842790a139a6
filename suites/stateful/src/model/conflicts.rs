//! Which parts of an object a call changes or looks at, so that calls about different parts need not be tried in all orders.

use super::names::Node;

/// Sets of parts, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    changes: u64,
    sees: u64,
    /// What the driver has and the model does not know until it has told it: nothing changes, and later answers have to agree.
    tells: u64,
}

/// Whether there is a volume, and which.
pub(super) const LIFE: u64 = 1;
pub(super) const SIZE: u64 = 1 << 1;
pub(super) const PARAMETERS: u64 = 1 << 2;
pub(super) const CONFIRMED: u64 = 1 << 3;
pub(super) const BYTES: u64 = 1 << 4;
/// Nodes that have bits of their own; beyond, several share one, which only makes more orders to be tried.
const NODES: u32 = 19;
const FIRST_NODE: u32 = 5;
/// The attachments to all nodes.
pub(super) const ATTACHMENTS: u64 = ((1 << NODES) - 1) << FIRST_NODE;
/// Everything.
pub(super) const ALL: u64 = u64::MAX;

pub(super) fn attached(node: Node) -> u64 {
    1 << (FIRST_NODE + u32::from(node.0) % NODES)
}

pub(super) fn staged(node: Node) -> u64 {
    attached(node) << NODES
}

pub(super) fn published(node: Node) -> u64 {
    attached(node) << (2 * NODES)
}

/// Whatever a node has.
pub(super) fn on(node: Node) -> u64 {
    attached(node) | staged(node) | published(node)
}

/// A call that changes parts, depending on parts.
pub(super) fn changes(parts: u64, sees: u64) -> Footprint {
    Footprint { changes: parts, sees, tells: 0 }
}

/// A call that only looks, at these parts.
pub(super) fn looks(sees: u64) -> Footprint {
    Footprint { changes: 0, sees, tells: 0 }
}

impl Footprint {
    /// The same with what the driver tells.
    pub(super) fn and_tells(self, tells: u64) -> Footprint {
        Footprint { tells, ..self }
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
