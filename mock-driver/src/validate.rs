//! Checks of the form of requests.

use std::collections::BTreeMap;

use csi_proto::v1;
use csi_proto::v1::volume_capability::AccessType;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use crate::state::{Access, Map, Usage};

/// The largest accepted string map, counting keys and values.
const MAP_BYTES_MAX: usize = 4 << 10;
/// The largest number of capabilities in a request.
const CAPABILITIES_MAX: usize = 64;
/// The file systems that the driver claims to support; an empty name leaves the choice to the driver.
const FS_TYPES: [&str; 5] = ["", "ext3", "ext4", "xfs", "btrfs"];

/// Returns INVALID_ARGUMENT with a reason.
pub(crate) fn invalid(reason: impl Into<String>) -> Status {
    Status::invalid_argument(reason)
}

/// Checks a mandatory field.
pub(crate) fn required(field: &str, value: &str) -> Result<(), Status> {
    if value.is_empty() { Err(invalid(format!("{field} is missing"))) } else { Ok(()) }
}

/// Checks a name that the caller has chosen.
pub(crate) fn name(value: &str, bytes_max: usize) -> Result<(), Status> {
    required("name", value)?;
    if value.len() > bytes_max {
        return Err(invalid(format!("name has {} bytes, at most {bytes_max} are possible", value.len())));
    }
    match value.chars().find(|c| is_banned(*c)) {
        Some(banned) => {
            Err(invalid(format!("name contains the control character {}", banned.escape_unicode())))
        }
        None => Ok(()),
    }
}

/// Returns whether a character is a control character other than tab, line feed or carriage return.
fn is_banned(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}

/// Checks that a string map is within the limit of the protocol.
pub(crate) fn map(field: &str, map: &Map) -> Result<(), Status> {
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAP_BYTES_MAX {
        return Err(invalid(format!("{field} has {bytes} bytes, at most {MAP_BYTES_MAX} are possible")));
    }
    Ok(())
}

/// Checks a page size or number of results.
pub(crate) fn not_negative(field: &str, value: i32) -> Result<usize, Status> {
    usize::try_from(value).map_err(|_| invalid(format!("{field} is negative: {value}")))
}

/// Converts a list of volume capabilities, which must not be empty.
pub(crate) fn usages(capabilities: &[v1::VolumeCapability]) -> Result<Vec<Usage>, Status> {
    if capabilities.is_empty() {
        return Err(invalid("volume_capabilities is missing"));
    }
    if capabilities.len() > CAPABILITIES_MAX {
        return Err(invalid(format!("more than {CAPABILITIES_MAX} volume_capabilities")));
    }
    capabilities.iter().map(usage).collect()
}

/// Converts a mandatory volume capability.
pub(crate) fn required_usage(capability: Option<&v1::VolumeCapability>) -> Result<Usage, Status> {
    usage(capability.ok_or_else(|| invalid("volume_capability is missing"))?)
}

/// Converts a volume capability and checks that it is complete.
pub(crate) fn usage(capability: &v1::VolumeCapability) -> Result<Usage, Status> {
    let access = match &capability.access_type {
        None => return Err(invalid("volume_capability names neither block nor mount")),
        Some(AccessType::Block(_)) => Access::Block,
        Some(AccessType::Mount(mount)) => Access::Mount {
            fs_type: mount.fs_type.clone(),
            mount_flags: mount.mount_flags.clone(),
            volume_mount_group: mount.volume_mount_group.clone(),
        },
    };
    let mode = capability.access_mode.ok_or_else(|| invalid("access_mode is missing"))?.mode;
    match Mode::try_from(mode) {
        Ok(Mode::Unknown) | Err(_) => Err(invalid(format!("access_mode {mode} is not one of the protocol"))),
        Ok(mode) => Ok(Usage::new(access, mode)),
    }
}

/// Returns whether the driver supports the file system of a usage.
pub(crate) fn knows_fs_type(usage: &Usage) -> bool {
    match &usage.access {
        Access::Block => true,
        Access::Mount { fs_type, .. } => FS_TYPES.contains(&fs_type.as_str()),
    }
}

/// The capacity range of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) required_bytes: i64,
    /// The largest number if the request sets no limit.
    pub(crate) limit_bytes: i64,
}

impl Range {
    pub(crate) const ANY: Range = Range { required_bytes: 0, limit_bytes: i64::MAX };

    pub(crate) fn contains(&self, bytes: i64) -> bool {
        (self.required_bytes..=self.limit_bytes).contains(&bytes)
    }
}

/// Converts a capacity range; an absent one allows any size.
pub(crate) fn range(range: Option<&v1::CapacityRange>) -> Result<Range, Status> {
    let Some(range) = range else { return Ok(Range::ANY) };
    let v1::CapacityRange { required_bytes, limit_bytes } = *range;
    if required_bytes < 0 || limit_bytes < 0 {
        return Err(invalid(format!("capacity_range is negative: {required_bytes} to {limit_bytes}")));
    }
    if required_bytes == 0 && limit_bytes == 0 {
        return Err(invalid("capacity_range has neither required_bytes nor limit_bytes"));
    }
    let limit_bytes = if limit_bytes == 0 { i64::MAX } else { limit_bytes };
    if required_bytes > limit_bytes {
        return Err(Status::out_of_range(format!(
            "required_bytes {required_bytes} exceed limit_bytes {limit_bytes}"
        )));
    }
    Ok(Range { required_bytes, limit_bytes })
}

/// Checks the keys of parameters. Keys that Kubernetes adds are ignored.
pub(crate) fn known_parameters(field: &str, given: &Map, known: &[String]) -> Result<(), Status> {
    for (key, value) in given {
        if key.starts_with("csi.storage.k8s.io/") {
            continue;
        }
        if !known.iter().any(|known| known == key) {
            return Err(invalid(format!("{field} has the unknown key `{key}`")));
        }
        if key == "iops" && value.parse::<u32>().is_err() {
            return Err(invalid(format!("{field} has iops `{value}`, which is not a whole number")));
        }
    }
    Ok(())
}

/// Checks required pairs. Errors only name the key, because values may be secret.
pub(crate) fn demanded<'a>(given: &Map, demanded: &'a BTreeMap<String, String>) -> Result<(), Demand<'a>> {
    for (key, value) in demanded {
        match given.get(key) {
            None => return Err(Demand::Missing(key)),
            Some(other) if other != value => return Err(Demand::Wrong(key)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The problem with a required pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand<'a> {
    Missing(&'a str),
    Wrong(&'a str),
}
