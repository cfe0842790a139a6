//! Volume capabilities in a form that can be stored and compared.

use csi_proto::v1;
use csi_proto::v1::volume_capability::{AccessType, MountVolume, access_mode};
use serde::{Deserialize, Serialize};

use crate::error::{DriverError, Result, Shown};
use crate::mount::MountOptions;

/// The field that error messages name.
const FIELD: &str = "volume_capability";

/// The access modes of CSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AccessMode {
    SingleNodeWriter,
    SingleNodeReaderOnly,
    MultiNodeReaderOnly,
    MultiNodeSingleWriter,
    MultiNodeMultiWriter,
    SingleNodeSingleWriter,
    SingleNodeMultiWriter,
}

impl AccessMode {
    fn parse(mode: i32) -> Result<AccessMode> {
        use access_mode::Mode;
        match Mode::try_from(mode) {
            Ok(Mode::SingleNodeWriter) => Ok(AccessMode::SingleNodeWriter),
            Ok(Mode::SingleNodeReaderOnly) => Ok(AccessMode::SingleNodeReaderOnly),
            Ok(Mode::MultiNodeReaderOnly) => Ok(AccessMode::MultiNodeReaderOnly),
            Ok(Mode::MultiNodeSingleWriter) => Ok(AccessMode::MultiNodeSingleWriter),
            Ok(Mode::MultiNodeMultiWriter) => Ok(AccessMode::MultiNodeMultiWriter),
            Ok(Mode::SingleNodeSingleWriter) => Ok(AccessMode::SingleNodeSingleWriter),
            Ok(Mode::SingleNodeMultiWriter) => Ok(AccessMode::SingleNodeMultiWriter),
            Ok(Mode::Unknown) | Err(_) => Err(DriverError::invalid(FIELD, "its access_mode is unknown")),
        }
    }

    pub fn is_reader_only(self) -> bool {
        matches!(self, AccessMode::SingleNodeReaderOnly | AccessMode::MultiNodeReaderOnly)
    }

    /// Returns whether one node may publish the volume at several target paths (NODE-PUBLISH-012 to 016).
    pub fn allows_many_targets(self) -> bool {
        self.is_multi_node() || self == AccessMode::SingleNodeMultiWriter
    }

    pub fn is_multi_node(self) -> bool {
        use AccessMode::{MultiNodeMultiWriter, MultiNodeReaderOnly, MultiNodeSingleWriter};
        matches!(self, MultiNodeReaderOnly | MultiNodeSingleWriter | MultiNodeMultiWriter)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Block,
    Mount {
        /// The requested file system type; empty for any.
        fs_type: String,
        flags: Vec<String>,
        /// The numeric id of the group that shall own the files.
        group: Option<u32>,
    },
}

/// A volume capability whose form has been checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub access: Access,
    pub mode: AccessMode,
}

impl Capability {
    /// Converts a message and checks its form (MSG-VOLCAP-010, -012, -013).
    pub fn parse(message: &v1::VolumeCapability) -> Result<Capability> {
        let mode = message.access_mode.as_ref().ok_or(DriverError::Missing { field: "access_mode" })?;
        let access = match message.access_type.as_ref() {
            None => return Err(DriverError::Missing { field: "access_type" }),
            Some(AccessType::Block(_)) => Access::Block,
            Some(AccessType::Mount(mount)) => parse_mount(mount)?,
        };
        Ok(Capability { access, mode: AccessMode::parse(mode.mode)? })
    }

    /// Converts a mandatory message; its absence is an error.
    pub fn required(message: Option<&v1::VolumeCapability>) -> Result<Capability> {
        Capability::parse(message.ok_or(DriverError::Missing { field: FIELD })?)
    }

    /// Converts a list of messages; an empty list is an error.
    pub fn required_list(messages: &[v1::VolumeCapability]) -> Result<Vec<Capability>> {
        if messages.is_empty() {
            return Err(DriverError::Missing { field: "volume_capabilities" });
        }
        messages.iter().map(Capability::parse).collect()
    }

    pub fn is_block(&self) -> bool {
        self.access == Access::Block
    }

    /// The mount options; none for a block device.
    pub fn flags(&self) -> &[String] {
        match &self.access {
            Access::Block => &[],
            Access::Mount { flags, .. } => flags,
        }
    }

    /// The requested file system type; empty for any.
    pub fn fs_type(&self) -> &str {
        match &self.access {
            Access::Block => "",
            Access::Mount { fs_type, .. } => fs_type,
        }
    }

    pub fn group(&self) -> Option<u32> {
        match &self.access {
            Access::Block => None,
            Access::Mount { group, .. } => *group,
        }
    }

    /// The reason why a volume with this file system does not satisfy the capability; `None` if it does.
    pub(crate) fn other_fs_type(&self, present: &str) -> Option<String> {
        let asked = self.fs_type();
        let differs = !asked.is_empty() && asked != present;
        differs.then(|| format!("the volume holds {present}, not {}", Shown(asked)))
    }
}

fn parse_mount(mount: &MountVolume) -> Result<Access> {
    let short = |text: &String| text.len() <= crate::ids::STRING_BYTES_MAX && !text.contains('\0');
    if !short(&mount.fs_type) {
        return Err(DriverError::invalid(FIELD, "its fs_type is too long"));
    }
    let flags_bytes: usize = mount.mount_flags.iter().map(|flag| flag.len() + 1).sum();
    if flags_bytes > MountOptions::BYTES_MAX || mount.mount_flags.iter().any(|flag| flag.contains('\0')) {
        return Err(DriverError::invalid(FIELD, "its mount_flags are too long or hold a NUL"));
    }
    let group = match mount.volume_mount_group.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            DriverError::invalid(FIELD, "its volume_mount_group is not the number of a group")
        })?),
    };
    Ok(Access::Mount { fs_type: mount.fs_type.clone(), flags: mount.mount_flags.clone(), group })
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::v1::volume_capability::{AccessMode as ModeMessage, BlockVolume};

    fn message(mode: i32, access: Option<AccessType>) -> v1::VolumeCapability {
        v1::VolumeCapability { access_mode: Some(ModeMessage { mode }), access_type: access }
    }

    #[test]
    fn incomplete_capabilities_are_refused() {
        let block = Some(AccessType::Block(BlockVolume {}));
        assert!(Capability::parse(&message(0, block.clone())).is_err());
        assert!(Capability::parse(&message(99, block.clone())).is_err());
        assert!(Capability::parse(&message(1, None)).is_err());
        assert!(Capability::parse(&v1::VolumeCapability { access_mode: None, access_type: block }).is_err());
        assert!(Capability::required_list(&[]).is_err());
    }

    #[test]
    fn groups_are_numbers() {
        let mount = |group: &str| {
            AccessType::Mount(MountVolume { volume_mount_group: group.to_owned(), ..MountVolume::default() })
        };
        assert_eq!(Capability::parse(&message(1, Some(mount("1000")))).unwrap().group(), Some(1000));
        assert!(Capability::parse(&message(1, Some(mount("wheel")))).is_err());
        assert!(Capability::parse(&message(1, Some(mount("-1")))).is_err());
    }
}
