//! DeleteVolume.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Row as _, State, Volume};

pub(crate) fn delete_volume(
    driver: &MockDriver,
    request: &v1::DeleteVolumeRequest,
) -> Result<v1::DeleteVolumeResponse, Status> {
    let id = &request.volume_id;
    if id.is_empty() && driver.has(Defect::DeleteVolumeAcceptsEmptyId) {
        return Ok(v1::DeleteVolumeResponse {});
    }
    driver.check_id_format("volume_id", id, "vol")?;
    if driver.has(Defect::DeleteVolumeCrashesOnPaths) && id.contains("..") {
        driver.crash("DeleteVolume");
    }
    let mut state = driver.state();
    let Some(volume) = state.volumes.get(id) else {
        return unknown(driver, id);
    };
    check_unused(driver, &state, volume)?;
    if driver.has(Defect::DeleteVolumeKeepsVolume) {
        return Ok(v1::DeleteVolumeResponse {});
    }
    if driver.has(Defect::DeleteVolumeKeepsName) {
        forget_all_but_the_name(&mut state, id);
        return Ok(v1::DeleteVolumeResponse {});
    }
    let volume = state.remove_volume(id);
    if driver.has(Defect::DeleteVolumeDeletesSnapshots) {
        let gone: Vec<String> = snapshots_of(&state, id);
        gone.iter().for_each(|snapshot| drop(state.snapshots.remove(snapshot)));
    }
    if let Some(volume) = volume
        && (driver.is(Quirk::BackgroundDeletion))
    {
        state.let_linger(volume);
    }
    Ok(v1::DeleteVolumeResponse {})
}

/// A volume that is not there is as good as deleted.
fn unknown(driver: &MockDriver, id: &str) -> Result<v1::DeleteVolumeResponse, Status> {
    if driver.has(Defect::DeleteVolumeUnknownNotFound) {
        return Err(Status::not_found(format!("volume {id} does not exist")));
    }
    if driver.has(Defect::DeleteVolumeUnknownInternal) {
        return Err(Status::internal("unlink: no such file or directory"));
    }
    Ok(v1::DeleteVolumeResponse {})
}

fn check_unused(driver: &MockDriver, state: &State, volume: &Volume) -> Result<(), Status> {
    let in_use = |why: String| match driver.has(Defect::DeleteVolumeInUseAsInternal) {
        true => Err(Status::internal(why)),
        false => Err(Status::failed_precondition(why)),
    };
    let attached_counts =
        !driver.is(Quirk::VolumeInUseDeletable) && !driver.has(Defect::DeleteVolumeDeletesInUse);
    if attached_counts && let Some(node) = volume.attachments.keys().next() {
        return in_use(format!("the volume is published to node {node}"));
    }
    if volume.is_staged_or_published() && !driver.has(Defect::DeleteVolumeDeletesInUse) {
        return in_use("the volume is in use on this node".to_owned());
    }
    if driver.is(Quirk::SnapshotsBlockDeletion) && !snapshots_of(state, &volume.id).is_empty() {
        return in_use("the volume has snapshots".to_owned());
    }
    if driver.has(Defect::DeleteVolumeWithSnapshotsAsInternal) && !snapshots_of(state, &volume.id).is_empty()
    {
        return Err(Status::internal("dataset has children"));
    }
    Ok(())
}

fn snapshots_of(state: &State, volume_id: &str) -> Vec<String> {
    let of_volume = state.snapshots.values().filter(|snapshot| snapshot.source_volume_id == volume_id);
    of_volume.map(|snapshot| snapshot.id().to_owned()).collect()
}

/// Leaves an object that cannot be found by its id any more but still holds its name.
fn forget_all_but_the_name(state: &mut State, id: &str) {
    let Some(volume) = state.remove_volume(id) else { return };
    let husk_id = state.fresh_id("husk");
    // Without any size, so that no later request for the name finds what it wants.
    state.add_volume(Volume { id: husk_id, capacity_bytes: 0, ..volume });
}
