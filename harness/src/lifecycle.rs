//! Volumes, snapshots and their ways to a workload, as an orchestrator handles them: requests filled from the
//! configuration, and every call that makes something entered in the ledger. With the interview of
//! [`Target`](crate::target::Target), the only place of the harness that knows RPCs by name.

mod controller;
mod device;
mod group;
mod list;
mod node;
mod room;
pub(crate) mod size;
mod snapshot;
mod thing;

use csi_proto::{UnaryCall, v1};

use crate::calling::Calling;
use crate::config::AccessType;
use crate::cx::Cx;

pub use node::{Attached, NodeVolume, Published, Staged};
pub(crate) use room::Room;
pub(crate) use thing::{Stays, Thing};

/// Access modes of the protocol.
pub type Mode = v1::volume_capability::access_mode::Mode;

impl Cx {
    /// A call that makes a thing, which is undone after the check.
    fn make<Q>(&self, thing: Thing, request: Q) -> Calling<'_, Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        Calling::new(self, Q::RPC, move || self.making(thing.clone(), self.call(request.clone()).once()))
    }

    /// A call that undoes a thing.
    fn unmake<Q>(&self, thing: Thing, request: Q) -> Calling<'_, Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        Calling::new(self, Q::RPC, move || self.undoing(thing.clone(), self.call(request.clone()).once()))
    }

    /// The capability that volumes are made and used with unless a check says otherwise: the access type of this
    /// run, one node, reading and writing.
    pub fn capability(&self) -> v1::VolumeCapability {
        self.capability_for(self.access(), Mode::SingleNodeWriter)
    }

    /// A capability with another mode.
    pub fn capability_with_mode(&self, mode: Mode) -> v1::VolumeCapability {
        self.capability_for(self.access(), mode)
    }

    /// A capability with any access type and mode.
    pub fn capability_for(&self, access: AccessType, mode: Mode) -> v1::VolumeCapability {
        use v1::volume_capability::{AccessMode, AccessType as Kind, BlockVolume, MountVolume};
        let kind = match access {
            AccessType::Block => Kind::Block(BlockVolume {}),
            AccessType::Mount => Kind::Mount(MountVolume {
                fs_type: self.config().fs_type.clone(),
                mount_flags: self.config().mount_flags.clone(),
                volume_mount_group: String::new(),
            }),
        };
        v1::VolumeCapability { access_type: Some(kind), access_mode: Some(AccessMode { mode: mode.into() }) }
    }
}
