//! NodeExpandVolume.

use csi_proto::v1::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};
use tonic::{Code, Status};

use super::{GIB, check_lengths, forgive, volume_not_found};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::node;
use crate::state::Volume;
use crate::validate::{self, invalid};

pub(crate) async fn node_expand_volume(
    driver: &MockDriver,
    original: &NodeExpandVolumeRequest,
) -> Result<NodeExpandVolumeResponse, Status> {
    let has = |defect| driver.has(defect);
    reject(driver, original)?;
    let mut request = original.clone();
    if has(Defect::NodeExpandIgnoresCapability) {
        request.volume_capability = None;
    }
    let size = |volume: &Volume| volume.on(driver.this_node()).grown_bytes;
    let known = driver.state().volumes.get(&original.volume_id).map(size);
    let mut answer = node::node_expand_volume(driver, &request).await;
    if has(Defect::NodeExpandUnknownOk) && known.is_none() {
        forgive(&mut answer, Code::NotFound);
    }
    let range = validate::range(original.capacity_range.as_ref());
    let (small, repeated) = match (&answer, range) {
        (Ok(_), Ok(range)) => {
            (range.required_bytes < 3 * GIB, known.is_some_and(|size| size > 0 && range.contains(size)))
        }
        _ => (false, false),
    };
    if has(Defect::NodeExpandRefusesSmallSizes) && small || has(Defect::NodeExpandRefusesRepeats) && repeated
    {
        return Err(Status::internal("resize: nothing to do"));
    }
    if let Ok(response) = &mut answer
        && has(Defect::NodeExpandAnswersWrongSize)
    {
        response.capacity_bytes /= 2;
    }
    answer
}

fn reject(driver: &MockDriver, original: &NodeExpandVolumeRequest) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    if (has(Defect::NodeExpandEmptyIdAsNotFound) && original.volume_id.is_empty())
        || (has(Defect::NodeExpandMissingPathAsNotFound) && original.volume_path.is_empty())
    {
        return Err(volume_not_found(&original.volume_id));
    }
    if has(Defect::NodeExpandDemandsStagingPath) && original.staging_target_path.is_empty() {
        return Err(invalid("staging_target_path is missing"));
    }
    let limits = [Defect::NodeExpandRefusesPathsOf128Bytes, Defect::NodeExpandRefusesLongPaths];
    check_lengths(driver, &[&original.volume_path, &original.staging_target_path], limits)?;
    let state = driver.state();
    let Some(volume) = state.volumes.get(&original.volume_id) else { return Ok(()) };
    let here = volume.on(driver.this_node());
    if has(Defect::NodeExpandFailsOnDevices) && volume.is_block() {
        return Err(Status::internal("resize2fs: bad magic number in super-block"));
    }
    if has(Defect::NodeExpandRefusesStagingPath) && here.staged.contains_key(&original.volume_path) {
        return Err(Status::internal("resize: not a file system"));
    }
    Ok(())
}
