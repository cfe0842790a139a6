//! NodeGetVolumeStats.

use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{self, VolumeUsage};
use std::path::Path;
use tonic::Status;

use super::{find_volume, not_found};
use crate::controller::volume_condition;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Volume;
use crate::validate;

/// The space that a file system uses for itself.
const OVERHEAD_BYTES: i64 = 64 << 10;
/// The number of bytes for each inode.
const BYTES_PER_INODE: i64 = 16 << 10;
/// The number of inodes in use on a fresh file system.
const INODES_USED: i64 = 11;

pub(crate) async fn node_get_volume_stats(
    driver: &MockDriver,
    request: &v1::NodeGetVolumeStatsRequest,
) -> Result<v1::NodeGetVolumeStatsResponse, Status> {
    let path = request.volume_path.as_str();
    driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    validate::required("volume_path", path)?;
    let state = driver.state();
    let volume = find_volume(driver, &state, &request.volume_id, path);
    let volume = volume.ok_or_else(|| not_found(&request.volume_id))?;
    let here = volume.on(driver.this_node());
    let publication = here.published.get(path);
    let usage = publication.map(|publication| &publication.usage).or_else(|| here.staged.get(path));
    let usage =
        usage.ok_or_else(|| Status::not_found(format!("volume {} is not at volume_path", volume.id)))?;
    let lost = publication.is_some_and(|publication| publication.made.is_some() && !Path::new(path).exists());
    Ok(v1::NodeGetVolumeStatsResponse {
        usage: if lost { Vec::new() } else { usages(driver, volume, usage.is_block()) },
        volume_condition: condition(driver, volume, lost),
    })
}

/// The usage of a volume. For a block device, only the size is reported.
fn usages(driver: &MockDriver, volume: &Volume, is_block: bool) -> Vec<VolumeUsage> {
    if !driver.node_can(NodeType::GetVolumeStats)
        || (driver.is(Quirk::UsageEmpty) && driver.node_can(NodeType::VolumeCondition))
    {
        return Vec::new();
    }
    let total = volume.capacity_bytes;
    if is_block {
        return vec![VolumeUsage { total, unit: Unit::Bytes as i32, ..VolumeUsage::default() }];
    }
    let entry = |total: i64, used: i64, unit: Unit| VolumeUsage {
        total,
        used,
        available: (total - used).max(0),
        unit: unit as i32,
    };
    let inodes = total / BYTES_PER_INODE;
    vec![
        entry(total, OVERHEAD_BYTES.min(total), Unit::Bytes),
        entry(inodes, INODES_USED.min(inodes), Unit::Inodes),
    ]
}

fn condition(driver: &MockDriver, volume: &Volume, lost: bool) -> Option<v1::VolumeCondition> {
    if !driver.node_can(NodeType::VolumeCondition) {
        return None;
    }
    if lost {
        let message = "the target path is gone".to_owned();
        return Some(v1::VolumeCondition { abnormal: true, message });
    }
    Some(volume_condition(driver, volume))
}
