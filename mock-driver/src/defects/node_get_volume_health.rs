//! NodeGetVolumeHealth.

use std::path::Path;

use csi_proto::v1::{
    NodeGetVolumeHealthRequest, NodeGetVolumeHealthResponse, VolumeHealth, VolumeHealthErrorType,
};
use tonic::Status;

use super::health::corrupt_health;
use super::{check_lengths, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::health::entry;
use crate::node;
use crate::validate::invalid;

pub(crate) async fn node_get_volume_health(
    driver: &MockDriver,
    original: &NodeGetVolumeHealthRequest,
) -> Result<NodeGetVolumeHealthResponse, Status> {
    let has = |defect| driver.has(defect);
    let id = &original.volume_id;
    reject(driver, original)?;
    let (known, used, published) = {
        let state = driver.state();
        let here = state.volumes.get(id).map(|volume| volume.on(driver.this_node()));
        let published = here.is_some_and(|here| !here.published.is_empty());
        (here.is_some(), here.is_some_and(|here| published || !here.staged.is_empty()), published)
    };
    if has(Defect::NodeGetVolumeHealthUnknownOk) && !known && !id.is_empty() {
        let well = VolumeHealth { volume_id: id.clone(), health_statuses: Vec::new() };
        return Ok(NodeGetVolumeHealthResponse { volume_health: Some(well) });
    }
    if has(Defect::NodeGetVolumeHealthRefusesUnused) && known && !used {
        return Err(Status::internal("stat: the volume is not mounted"));
    }
    if has(Defect::NodeGetVolumeHealthMakesPaths) && Path::new(&original.volume_publish_path).is_absolute() {
        // The defect is not about whether the directory can be created.
        let _ = std::fs::create_dir(&original.volume_publish_path);
    }
    let mut response = node::node_get_volume_health(driver, original).await?;
    if let Some(health) = &mut response.volume_health {
        corrupt_health(driver, health);
        corrupt_reply(driver, published, health);
    }
    if has(Defect::NodeGetVolumeHealthWithoutHealth) {
        response.volume_health = None;
    }
    Ok(response)
}

fn reject(driver: &MockDriver, original: &NodeGetVolumeHealthRequest) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    let paths = [original.volume_publish_path.as_str(), original.staging_target_path.as_str()];
    if has(Defect::NodeGetVolumeHealthEmptyIdAsNotFound) && original.volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    if has(Defect::NodeGetVolumeHealthDemandsPaths) && paths[0].is_empty() {
        return Err(invalid("volume_publish_path is missing"));
    }
    if has(Defect::NodeGetVolumeHealthRefusesStagingPath) && !paths[1].is_empty() {
        return Err(invalid("the volume is not published at staging_target_path"));
    }
    let limits =
        [Defect::NodeGetVolumeHealthRefusesPathsOf128Bytes, Defect::NodeGetVolumeHealthRefusesLongPaths];
    check_lengths(driver, &paths, limits)
}

fn corrupt_reply(driver: &MockDriver, published: bool, health: &mut VolumeHealth) {
    let has = |defect| driver.has(defect);
    if has(Defect::NodeGetVolumeHealthIgnoresLostPath) {
        health.health_statuses.retain(|status| status.reason != "TargetPathGone");
    }
    if has(Defect::NodeGetVolumeHealthNeverIll) {
        health.health_statuses.clear();
    }
    if has(Defect::NodeGetVolumeHealthInaccessibleWhenUsed) && published {
        health.health_statuses.push(entry(
            VolumeHealthErrorType::Inaccessible,
            "InUse",
            "the volume is in use",
        ));
    }
    if has(Defect::NodeGetVolumeHealthOtherId) {
        health.volume_id.push_str("-0");
    }
}
