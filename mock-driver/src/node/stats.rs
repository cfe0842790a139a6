//! NodeGetVolumeStats.

use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{self, VolumeUsage};
use std::path::Path;
use tonic::Status;

use super::{meant, not_found, target};
use crate::controller::state_of_health;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::Volume;
use crate::validate;

/// What a file system keeps for itself.
const OVERHEAD_BYTES: i64 = 64 << 10;
/// Bytes for each inode.
const BYTES_PER_INODE: i64 = 16 << 10;
/// Inodes in use on a fresh file system.
const INODES_USED: i64 = 11;

pub(crate) async fn node_get_volume_stats(
    driver: &MockDriver,
    request: &v1::NodeGetVolumeStatsRequest,
) -> Result<v1::NodeGetVolumeStatsResponse, Status> {
    if !(request.volume_id.is_empty() && driver.has(Defect::NodeGetVolumeStatsEmptyIdAsNotFound)) {
        driver.check_id_format("volume_id", &request.volume_id, "vol")?;
    }
    let path = request.volume_path.as_str();
    if !(path.is_empty() && driver.has(Defect::NodeGetVolumeStatsMissingPathAsNotFound)) {
        validate::required("volume_path", path)?;
    }
    if driver.has(Defect::NodeGetVolumeStatsDemandsStagingPath)
        && super::stages(driver)
        && request.staging_target_path.is_empty()
    {
        return Err(validate::invalid("staging_target_path is missing"));
    }
    for path in [path, &request.staging_target_path] {
        let limits =
            [Defect::NodeGetVolumeStatsRefusesPathsOf128Bytes, Defect::NodeGetVolumeStatsRefusesLongPaths];
        target::length(driver, path, limits)?;
    }
    let state = driver.state();
    let Some(volume) = meant(driver, &state, &request.volume_id, path) else {
        if driver.has(Defect::NodeGetVolumeStatsUnknownOk) {
            return Ok(v1::NodeGetVolumeStatsResponse::default());
        }
        return Err(not_found(&request.volume_id));
    };
    let here = volume.on(driver.this_node());
    let publication = here.published.get(path);
    let usage = publication.map(|publication| &publication.usage).or_else(|| here.staged.get(path));
    if driver.has(Defect::NodeGetVolumeStatsRefusesStagingPath) && publication.is_none() {
        return Err(Status::not_found("the volume is not published at volume_path"));
    }
    if usage.is_none() && !driver.has(Defect::NodeGetVolumeStatsIgnoresPath) {
        return Err(match driver.has(Defect::NodeGetVolumeStatsWrongPathAsInternal) {
            true => Status::internal("statfs: no such file or directory"),
            false => Status::not_found(format!("volume {} is not at volume_path", volume.id)),
        });
    }
    let lost = publication.is_some_and(|publication| publication.made.is_some() && !Path::new(path).exists());
    let is_block = usage.is_some_and(|usage| usage.is_block());
    Ok(v1::NodeGetVolumeStatsResponse {
        usage: if lost { Vec::new() } else { usages(driver, volume, is_block) },
        volume_condition: condition(driver, volume, lost),
    })
}

/// What is used and left. A block device has a size only.
fn usages(driver: &MockDriver, volume: &Volume, is_block: bool) -> Vec<VolumeUsage> {
    if !driver.node_can(NodeType::GetVolumeStats)
        || (driver.is(Quirk::UsageEmpty) && driver.node_can(NodeType::VolumeCondition))
    {
        return Vec::new();
    }
    let entry = |total: i64, used: i64, unit: Unit| VolumeUsage {
        total,
        used,
        available: (total - used).max(0),
        unit: unit as i32,
    };
    let total = volume.capacity_bytes;
    let mut usages = match is_block {
        true => vec![VolumeUsage { total, unit: Unit::Bytes as i32, ..VolumeUsage::default() }],
        false => vec![
            entry(total, OVERHEAD_BYTES.min(total), Unit::Bytes),
            entry(total / BYTES_PER_INODE, INODES_USED.min(total / BYTES_PER_INODE), Unit::Inodes),
        ],
    };
    if driver.has(Defect::NodeGetVolumeStatsUnitUnknown) {
        usages.iter_mut().for_each(|usage| usage.unit = Unit::Unknown as i32);
    }
    if driver.has(Defect::NodeGetVolumeStatsAvailableNegative) {
        usages.iter_mut().for_each(|usage| usage.available = -1);
    }
    if driver.has(Defect::NodeGetVolumeStatsUsedNegative) {
        usages.iter_mut().for_each(|usage| usage.used = -1);
    }
    if driver.has(Defect::NodeGetVolumeStatsTotalNegative) {
        usages.iter_mut().for_each(|usage| usage.total = -1);
    }
    if driver.has(Defect::NodeGetVolumeStatsTotalZero) {
        usages.iter_mut().for_each(|usage| usage.total = 0);
    }
    if driver.has(Defect::NodeGetVolumeStatsSumExceedsTotal) {
        usages.iter_mut().for_each(|usage| usage.available = usage.total);
    }
    if driver.has(Defect::NodeGetVolumeStatsEmpty) {
        usages.clear();
    }
    usages
}

fn condition(driver: &MockDriver, volume: &Volume, lost: bool) -> Option<v1::VolumeCondition> {
    if !driver.node_can(NodeType::VolumeCondition)
        || driver.has(Defect::NodeGetVolumeStatsOmitsCondition)
        || driver.has(Defect::NodeGetVolumeStatsEmpty)
    {
        return None;
    }
    if lost && !driver.has(Defect::NodeGetVolumeStatsHidesLostTarget) {
        let message = "the target path is gone".to_owned();
        return Some(v1::VolumeCondition { abnormal: true, message });
    }
    Some(state_of_health(driver, volume))
}
