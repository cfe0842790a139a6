//! Compares the parts of an object that calls change or look at, so that calls about different parts need not be tried
//! in all orders.

use super::names::Node;

/// Sets of parts, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    changes: u64,
    sees: u64,
    /// Facts that the model learns only from the answer: nothing changes, and later answers have to agree.
    reveals: u64,
}

/// The existence of a volume.
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
/// Every part of the state, for a call that conflicts with all others.
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

/// Everything that a node has.
pub(super) fn on(node: Node) -> u64 {
    attached(node) | staged(node) | published(node)
}

/// A call that changes parts, depending on parts.
pub(super) fn changes(parts: u64, sees: u64) -> Footprint {
    Footprint { changes: parts, sees, reveals: 0 }
}

/// A call that changes nothing, and whose answer depends on these parts.
pub(super) fn looks(sees: u64) -> Footprint {
    Footprint { changes: 0, sees, reveals: 0 }
}

impl Footprint {
    /// Adds facts that the answer reveals.
    pub(super) fn and_reveals(self, reveals: u64) -> Footprint {
        Footprint { reveals, ..self }
    }

    /// Returns true if nothing is changed.
    pub(super) fn only_looks(self) -> bool {
        self.changes == 0
    }

    /// Returns true if the order of two calls may make a difference.
    pub(super) fn depends(self, other: Footprint) -> bool {
        let (one, two) = (self.changes | self.reveals, other.changes | other.reveals);
        one & (two | other.sees) != 0 || two & self.sees != 0
    }
}
