//! The access types and access modes in which volumes are used.

use csi_proto::v1;

use crate::config::AccessType;
use crate::lifecycle::cx::Cx;

/// Access modes of the protocol.
pub type Mode = v1::volume_capability::access_mode::Mode;

impl Cx {
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
