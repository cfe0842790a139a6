//! CreateSnapshot, DeleteSnapshot, ListSnapshots and GetSnapshot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use csi_proto::v1;
use csi_proto::v1::list_snapshots_response::Entry;
use csi_proto::v1::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
};

use super::{Page, is_reachable, node_topology};
use crate::capacity_range::signed;
use crate::driver::{Driver, checked_map, checked_name, required};
use crate::error::{DriverError, Result, Shown};
use crate::ids::{ObjectId, ObjectKind};
use crate::locks::Key;
use crate::storage::{self, NewData};
use crate::store::{Change, Snapshot, Volume, may_be_committed};

pub(crate) fn create_snapshot(
    driver: &Driver,
    request: &CreateSnapshotRequest,
) -> Result<CreateSnapshotResponse> {
    required("source_volume_id", &request.source_volume_id)?;
    let name = checked_name(&request.name)?;
    checked_map("parameters", &request.parameters)?;
    let reachable = is_reachable(driver, request.accessibility_requirements.as_ref())?;
    let _name = driver.locks.exclusive(Key::SnapshotName(name.to_owned()))?;
    if let Some(existing) = driver.store.view()?.snapshot_by_name(name)? {
        if existing.source_volume_id != request.source_volume_id {
            let what = format!("the snapshot named {}", Shown(name));
            let reason = "it was cut from another volume".to_owned();
            return Err(DriverError::Exists { what, reason });
        }
        if !reachable {
            let what = format!("the snapshot named {}", Shown(name));
            let reason = "it cannot be used from the topology asked for".to_owned();
            return Err(DriverError::Exists { what, reason });
        }
        return Ok(CreateSnapshotResponse { snapshot: Some(snapshot_message(driver, &existing)) });
    }
    let (volume, _guard) = driver.volume_exclusive_waiting(&request.source_volume_id)?;
    if !reachable {
        return Err(DriverError::Exhausted {
            resource: "storage",
            reason: "this node does not lie in the requisite topology".to_owned(),
        });
    }
    let frozen = volume.backend().quiesce(driver, &volume)?;
    let taken = take_snapshot(driver, &volume, name, None);
    drop(frozen);
    let (snapshot, data) = taken?;
    let record = Change::PutSnapshot(snapshot.clone());
    let committed = driver.store.commit_after_flush(driver.layout.snapshots_directory(), vec![record]);
    if may_be_committed(&committed) {
        data.keep();
    }
    committed?;
    Ok(CreateSnapshotResponse { snapshot: Some(snapshot_message(driver, &snapshot)) })
}

/// Creates the snapshot of a volume that nothing writes to.
pub(crate) fn take_snapshot(
    driver: &Driver,
    volume: &Volume,
    name: &str,
    group: Option<&ObjectId>,
) -> Result<(Snapshot, NewData)> {
    storage::check_present(driver, volume)?;
    let snapshot = Snapshot {
        key: ObjectId::generate(ObjectKind::Snapshot)?,
        name: name.to_owned(),
        source_volume_id: volume.id().to_owned(),
        group: group.cloned(),
        size_bytes: volume.capacity_bytes,
        backend: volume.backend,
        fs: volume.fs,
        created_ns: now_ns(),
    };
    let data = volume.backend().snapshot(driver, volume, &driver.layout.snapshot(&snapshot.key))?;
    Ok((snapshot, data))
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn snapshot_message(driver: &Driver, snapshot: &Snapshot) -> v1::Snapshot {
    v1::Snapshot {
        size_bytes: signed(snapshot.size_bytes),
        snapshot_id: snapshot.key.to_string(),
        source_volume_id: snapshot.source_volume_id.clone(),
        creation_time: Some(timestamp(snapshot.created_ns)),
        ready_to_use: true,
        group_snapshot_id: snapshot.group.as_ref().map(ToString::to_string).unwrap_or_default(),
        accessible_topology: node_topology(driver).into_iter().collect(),
    }
}

pub(crate) fn timestamp(ns: u64) -> prost_types::Timestamp {
    let second = 1_000_000_000;
    prost_types::Timestamp {
        seconds: i64::try_from(ns / second).unwrap_or(i64::MAX),
        nanos: i32::try_from(ns % second).unwrap_or(0),
    }
}

pub(crate) fn delete_snapshot(
    driver: &Driver,
    request: &DeleteSnapshotRequest,
) -> Result<DeleteSnapshotResponse> {
    required("snapshot_id", &request.snapshot_id)?;
    let Some(found) = driver.store.view()?.snapshot(&request.snapshot_id)? else {
        return Ok(DeleteSnapshotResponse {});
    };
    let _guard = driver.locks.exclusive(Key::Object(found.key.clone()))?;
    let Some(snapshot) = driver.store.view()?.snapshot(&request.snapshot_id)? else {
        return Ok(DeleteSnapshotResponse {});
    };
    if let Some(group) = &snapshot.group {
        let reason = format!("the snapshot can only be deleted together with {group}");
        return Err(DriverError::invalid("snapshot_id", reason));
    }
    let _name = driver.locks.exclusive(Key::SnapshotName(snapshot.name.clone()))?;
    driver.store.commit(vec![Change::DeleteSnapshot(snapshot.clone())])?;
    storage::remove_later(driver, driver.layout.snapshot(&snapshot.key));
    Ok(DeleteSnapshotResponse {})
}

pub(crate) fn list_snapshots(
    driver: &Driver,
    request: &ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse> {
    driver.require(driver.config.list_snapshots, "listing snapshots")?;
    let page = Page::read(ObjectKind::Snapshot, request.max_entries, &request.starting_token)?;
    let view = driver.store.view()?;
    let volume = request.source_volume_id.as_str();
    let mut found = if !request.snapshot_id.is_empty() {
        let wanted = view.snapshot(&request.snapshot_id)?;
        let fits = |one: &Snapshot| {
            one.key.as_str() > page.after && (volume.is_empty() || one.source_volume_id == volume)
        };
        wanted.into_iter().filter(fits).collect()
    } else if !volume.is_empty() {
        view.snapshots_of_after(volume, page.after, page.fetch_count())?
    } else {
        view.snapshots_after(page.after, page.fetch_count())?
    };
    let next_token = page.truncate(&mut found, |snapshot| &snapshot.key);
    let entries = found.iter().map(|snapshot| Entry { snapshot: Some(snapshot_message(driver, snapshot)) });
    Ok(ListSnapshotsResponse { entries: entries.collect(), next_token })
}

pub(crate) fn get_snapshot(driver: &Driver, request: &GetSnapshotRequest) -> Result<GetSnapshotResponse> {
    let snapshot = driver.snapshot(&driver.store.view()?, "snapshot_id", &request.snapshot_id)?;
    Ok(GetSnapshotResponse { snapshot: Some(snapshot_message(driver, &snapshot)) })
}
