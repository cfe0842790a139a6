//! The SnapshotMetadata service. It describes which blocks of a snapshot contain data, and which differ from another
//! snapshot.

mod ranges;

use csi_proto::v1;
use tonic::Status;

use self::ranges::{Query, messages};
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Snapshot, State};
use crate::validate::{self, invalid};

pub(crate) async fn get_metadata_allocated(
    driver: &MockDriver,
    request: &v1::GetMetadataAllocatedRequest,
) -> Result<Vec<Message>, Status> {
    driver.check_id_format("snapshot_id", &request.snapshot_id, "snap")?;
    let max_results = validate::not_negative("max_results", request.max_results)?;
    let state = driver.state();
    let snapshot = state.snapshots.get(&request.snapshot_id);
    let snapshot = snapshot.ok_or_else(|| not_found("snapshot", &request.snapshot_id))?;
    let missing = driver.has(Defect::GetMetadataAllocatedMissesWrites);
    let less = missing.then(|| Snapshot { content: snapshot.content.without_written(), ..snapshot.clone() });
    let snapshot = less.as_ref().unwrap_or(snapshot);
    let asked = Query { starting_offset: request.starting_offset, max_results, snapshot, base: None };
    messages(driver, &asked)
}

pub(crate) async fn get_metadata_delta(
    driver: &MockDriver,
    request: &v1::GetMetadataDeltaRequest,
) -> Result<Vec<Message>, Status> {
    let (base_id, target_id) = (&request.base_snapshot_id, &request.target_snapshot_id);
    driver.check_id_format("base_snapshot_id", base_id, "snap")?;
    driver.check_id_format("target_snapshot_id", target_id, "snap")?;
    let max_results = validate::not_negative("max_results", request.max_results)?;
    let state = driver.state();
    let base = find(&state, "base", base_id)?;
    let target = find(&state, "target", target_id)?;
    if base.source_volume_id != target.source_volume_id {
        return Err(invalid("the two snapshots are of different volumes"));
    }
    if driver.is(Quirk::ChangeTrackingOff) {
        return Err(Status::failed_precondition("changed blocks are not tracked"));
    }
    let starting_offset = request.starting_offset;
    let base = (!driver.is(Quirk::DeltasOfWholeVolumes)).then_some(base);
    let asked = Query { starting_offset, max_results, snapshot: target, base };
    messages(driver, &asked)
}

fn find<'a>(state: &'a State, role: &str, id: &str) -> Result<&'a Snapshot, Status> {
    state.snapshots.get(id).ok_or_else(|| not_found(&format!("{role} snapshot"), id))
}

fn not_found(what: &str, id: &str) -> Status {
    Status::not_found(format!("{what} {id} does not exist"))
}

/// A message of either stream: both have the same fields.
pub(crate) type Message = v1::GetMetadataAllocatedResponse;
