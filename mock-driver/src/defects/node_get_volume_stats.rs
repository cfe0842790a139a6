//! NodeGetVolumeStats.

use csi_proto::v1::volume_usage::Unit;
use csi_proto::v1::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage};
use tonic::{Code, Status};

use super::volume::corrupt_condition;
use super::{Change, apply, check_lengths, forgive, recode, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;
use crate::validate::invalid;

pub(crate) async fn node_get_volume_stats(
    driver: &MockDriver,
    original: &NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Status> {
    let has = |defect| driver.has(defect);
    reject(driver, original)?;
    let is_known = driver.state().volumes.get(&original.volume_id).is_some();
    if (has(Defect::NodeGetVolumeStatsPanicsOnInlineIds) && is_inline(&original.volume_id))
        || (has(Defect::NodeGetVolumeStatsPanicsOnUnknownVolume)
            && !is_known
            && !original.volume_id.is_empty())
    {
        driver.crash("NodeGetVolumeStats");
    }
    let (known, elsewhere) = {
        let state = driver.state();
        let volume = state.volumes.get(&original.volume_id);
        let elsewhere =
            volume.is_some_and(|volume| !volume.on(driver.this_node()).has(&original.volume_path));
        (volume.is_some(), elsewhere)
    };
    let mut answer = node::node_get_volume_stats(driver, original).await;
    if (has(Defect::NodeGetVolumeStatsUnknownOk) && !known)
        || (has(Defect::NodeGetVolumeStatsIgnoresPath) && elsewhere)
    {
        forgive(&mut answer, Code::NotFound);
    }
    if has(Defect::NodeGetVolumeStatsWrongPathAsInternal) && elsewhere {
        recode(&mut answer, Code::NotFound, Code::Internal);
    }
    let mut response = answer?;
    response.usage.iter_mut().for_each(|usage| corrupt_usage(driver, usage));
    corrupt_condition(driver, response.volume_condition.as_mut());
    if has(Defect::NodeGetVolumeStatsOmitsCondition) {
        response.volume_condition = None;
    }
    if has(Defect::NodeGetVolumeStatsEmpty) {
        response = NodeGetVolumeStatsResponse::default();
    }
    Ok(response)
}

fn reject(driver: &MockDriver, original: &NodeGetVolumeStatsRequest) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    let path = &original.volume_path;
    if (has(Defect::NodeGetVolumeStatsEmptyIdAsNotFound) && original.volume_id.is_empty())
        || (has(Defect::NodeGetVolumeStatsMissingPathAsNotFound) && path.is_empty())
    {
        return Err(volume_not_found(&original.volume_id));
    }
    if has(Defect::NodeGetVolumeStatsDemandsStagingPath)
        && node::stages(driver)
        && original.staging_target_path.is_empty()
    {
        return Err(invalid("staging_target_path is missing"));
    }
    let limits =
        [Defect::NodeGetVolumeStatsRefusesPathsOf128Bytes, Defect::NodeGetVolumeStatsRefusesLongPaths];
    check_lengths(driver, &[path, &original.staging_target_path], limits)?;
    let state = driver.state();
    let volume = state.volumes.get(&original.volume_id);
    let is_staged = volume.is_some_and(|volume| volume.on(driver.this_node()).staged.contains_key(path));
    if has(Defect::NodeGetVolumeStatsRefusesStagingPath) && is_staged {
        return Err(Status::not_found("the volume is not published at volume_path"));
    }
    Ok(())
}

/// Returns whether an id has the form that kubelet uses for inline volumes.
fn is_inline(id: &str) -> bool {
    id.strip_prefix("csi-").is_some_and(|hash| hash.len() == 64)
}

fn corrupt_usage(driver: &MockDriver, usage: &mut VolumeUsage) {
    let changes: &[Change<VolumeUsage>] = &[
        (Defect::NodeGetVolumeStatsUnitUnknown, |usage| usage.unit = Unit::Unknown as i32),
        (Defect::NodeGetVolumeStatsAvailableNegative, |usage| usage.available = -1),
        (Defect::NodeGetVolumeStatsAvailableExceedsTotal, |usage| usage.available = usage.total + 1),
        (Defect::NodeGetVolumeStatsUsedNegative, |usage| usage.used = -1),
        (Defect::NodeGetVolumeStatsTotalNegative, |usage| usage.total = -1),
        (Defect::NodeGetVolumeStatsTotalZero, |usage| usage.total = 0),
    ];
    apply(driver, usage, changes);
}
