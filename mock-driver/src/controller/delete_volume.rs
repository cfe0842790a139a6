//! DeleteVolume.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Row as _, State, Volume};

pub(crate) async fn delete_volume(
    driver: &MockDriver,
    request: &v1::DeleteVolumeRequest,
) -> Result<v1::DeleteVolumeResponse, Status> {
    let id = &request.volume_id;
    driver.check_id_format("volume_id", id, "vol")?;
    let deleted = driver.change(request, |state| {
        // A volume that does not exist counts as deleted.
        let Some(volume) = state.volumes.get(id) else { return Ok(()) };
        check_unused(driver, state, volume)?;
        if driver.has(Defect::DeleteVolumeKeepsVolume) {
            return Ok(());
        }
        if driver.has(Defect::DeleteVolumeKeepsName) {
            forget_all_but_the_name(state, id);
            return Ok(());
        }
        let volume = state.remove_volume(id);
        if driver.has(Defect::DeleteVolumeDeletesSnapshots) {
            let gone = snapshots_of(state, id);
            gone.iter().for_each(|snapshot| drop(state.snapshots.remove(snapshot)));
        }
        if let Some(volume) = volume
            && driver.is(Quirk::BackgroundDeletion)
        {
            state.keep_listed(volume);
        }
        Ok(())
    });
    deleted.await?;
    Ok(v1::DeleteVolumeResponse {})
}

fn check_unused(driver: &MockDriver, state: &State, volume: &Volume) -> Result<(), Status> {
    if driver.has(Defect::DeleteVolumeDeletesInUse) {
        return Ok(());
    }
    if !driver.is(Quirk::VolumeInUseDeletable)
        && let Some(node) = volume.attachments.keys().next()
    {
        return Err(Status::failed_precondition(format!("the volume is published to node {node}")));
    }
    if volume.is_staged_or_published() {
        return Err(Status::failed_precondition("the volume is in use on a node"));
    }
    let independent =
        !driver.is(Quirk::SnapshotsBlockDeletion) && !driver.has(Defect::DeleteVolumeDemandsNoSnapshots);
    if !independent && !snapshots_of(state, &volume.id).is_empty() {
        return Err(Status::failed_precondition("the volume has snapshots"));
    }
    Ok(())
}

pub(crate) fn snapshots_of(state: &State, volume_id: &str) -> Vec<String> {
    let of_volume = state.snapshots.values().filter(|snapshot| snapshot.source_volume_id == volume_id);
    of_volume.map(|snapshot| snapshot.id().to_owned()).collect()
}

/// Deletes a volume, but leaves an object without a usable id that still has its name.
fn forget_all_but_the_name(state: &mut State, id: &str) {
    let Some(volume) = state.remove_volume(id) else { return };
    let husk_id = state.fresh_id("husk");
    // The size of zero satisfies no later request for the name.
    state.add_volume(Volume { id: husk_id, capacity_bytes: 0, ..volume });
}
