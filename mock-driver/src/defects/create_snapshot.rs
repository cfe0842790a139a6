//! CreateSnapshot.

use csi_proto::v1::{CreateSnapshotRequest, CreateSnapshotResponse, Snapshot, TopologyRequirement};
use tonic::Status;

use super::side_effects::after_rejected_create_snapshot;
use super::snapshot::corrupt_snapshot;
use super::{Change, apply, volume_not_found};
use crate::controller;
use crate::defect::Defect;
use crate::driver::{MockDriver, now_ms};
use crate::validate::invalid;

pub(crate) async fn create_snapshot(
    driver: &MockDriver,
    original: &CreateSnapshotRequest,
) -> Result<CreateSnapshotResponse, Status> {
    let has = |defect| driver.has(defect);
    reject(driver, original)?;
    let mut request = original.clone();
    if has(Defect::CreateSnapshotAcceptsEmptyName) && request.name.is_empty() {
        request.name = "unnamed".to_owned();
    }
    if has(Defect::CreateSnapshotTruncatesNames) {
        request.name = request.name.chars().take(48).collect();
    }
    if has(Defect::CreateSnapshotForgetsNames) {
        driver.state().snapshots.forget_name(&request.name);
    }
    let asks_for_nothing =
        |original: &TopologyRequirement| original.requisite.is_empty() && original.preferred.is_empty();
    let is_empty = original.accessibility_requirements.as_ref().is_some_and(asks_for_nothing);
    if has(Defect::CreateSnapshotIgnoresTopology)
        || has(Defect::CreateSnapshotEchoesTopology)
        || (has(Defect::CreateSnapshotAcceptsEmptyTopology) && is_empty)
    {
        request.accessibility_requirements = None;
    }
    let source = {
        let state = driver.state();
        state.snapshots.named(&request.name).map(|known| known.source_volume_id.clone())
    };
    if let Some(source) = &source {
        if has(Defect::CreateSnapshotRefusesRepeats) && *source == request.source_volume_id {
            return Err(Status::already_exists("a snapshot of this name exists"));
        }
        if has(Defect::CreateSnapshotIgnoresSourceConflict) {
            request.source_volume_id = source.clone();
        }
    }
    let answer = controller::create_snapshot(driver, &request).await;
    if answer.is_err() {
        after_rejected_create_snapshot(driver, original);
    }
    let mut response = answer?;
    if let Some(snapshot) = &mut response.snapshot {
        corrupt_snapshot(driver, snapshot);
        if has(Defect::CreateSnapshotEchoesTopology)
            && let Some(original) = &original.accessibility_requirements
        {
            snapshot.accessible_topology.clone_from(&original.requisite);
        }
        if has(Defect::CreateSnapshotTimeIsNow) {
            snapshot.creation_time = Some(controller::timestamp(now_ms() / 1000 * 1000));
        }
        if source.is_some() {
            corrupt_repeated(driver, snapshot);
        }
    }
    if has(Defect::CreateSnapshotAnswersWithoutSnapshot) && source.is_none() {
        response.snapshot = None;
    }
    Ok(response)
}

fn reject(driver: &MockDriver, original: &CreateSnapshotRequest) -> Result<(), Status> {
    let (source, is_known) =
        (&original.source_volume_id, |id: &String| driver.state().volumes.get(id).is_some());
    if driver.has(Defect::CreateSnapshotPanicsOnUnknownVolume) && !source.is_empty() && !is_known(source) {
        driver.crash("CreateSnapshot");
    }
    if driver.has(Defect::CreateSnapshotRefusesLongNames) && original.name.len() > 63 {
        return Err(invalid("name is longer than 63 bytes"));
    }
    if driver.has(Defect::CreateSnapshotRefusesUnicodeNames) && !original.name.is_ascii() {
        return Err(invalid("name is not ASCII"));
    }
    if driver.has(Defect::CreateSnapshotEmptySourceAsNotFound) && original.source_volume_id.is_empty() {
        return Err(volume_not_found(""));
    }
    Ok(())
}

fn corrupt_repeated(driver: &MockDriver, snapshot: &mut Snapshot) {
    let changes: &[Change<Snapshot>] = &[
        (Defect::CreateSnapshotRepeatOmitsTopology, |snapshot| snapshot.accessible_topology.clear()),
        (Defect::CreateSnapshotRepeatDropsSize, |snapshot| snapshot.size_bytes = 0),
        (Defect::CreateSnapshotRepeatNotReady, |snapshot| snapshot.ready_to_use = false),
        (Defect::CreateSnapshotRepeatChangesId, |snapshot| snapshot.snapshot_id.push_str("-0")),
    ];
    apply(driver, snapshot, changes);
    if driver.has(Defect::CreateSnapshotRepeatChangesTime) {
        snapshot.creation_time = Some(controller::timestamp(now_ms() + 1000));
    }
}
