//! The GroupController service: snapshots of several volumes at one point in time.

mod create;

use std::collections::BTreeSet;

use csi_proto::v1;
use csi_proto::v1::group_controller_service_capability::rpc::Type as Rpc;
use csi_proto::v1::group_controller_service_capability::{self, Type};
use csi_proto::v1::{
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotRequest,
    GetVolumeGroupSnapshotResponse, GroupControllerGetCapabilitiesRequest,
    GroupControllerGetCapabilitiesResponse, GroupControllerServiceCapability,
};

use crate::controller::{snapshot_message, timestamp};
use crate::driver::{Driver, required};
use crate::error::{DriverError, Result};
use crate::locks::Key;
use crate::storage;
use crate::store::{Change, Group, Snapshot, View};

pub(crate) use create::create_volume_group_snapshot;

pub(crate) fn group_controller_get_capabilities(
    _: &Driver,
    _: &GroupControllerGetCapabilitiesRequest,
) -> Result<GroupControllerGetCapabilitiesResponse> {
    let rpc =
        group_controller_service_capability::Rpc { r#type: Rpc::CreateDeleteGetVolumeGroupSnapshot.into() };
    let capability = GroupControllerServiceCapability { r#type: Some(Type::Rpc(rpc)) };
    Ok(GroupControllerGetCapabilitiesResponse { capabilities: vec![capability] })
}

fn group_message(driver: &Driver, group: &Group, members: &[Snapshot]) -> v1::VolumeGroupSnapshot {
    v1::VolumeGroupSnapshot {
        group_snapshot_id: group.key.to_string(),
        snapshots: members.iter().map(|member| snapshot_message(driver, member)).collect(),
        creation_time: Some(timestamp(group.created_ns)),
        ready_to_use: true,
    }
}

fn members(view: &View, group: &Group) -> Result<Vec<Snapshot>> {
    let mut members = Vec::with_capacity(group.snapshots.len());
    for key in &group.snapshots {
        members.extend(view.snapshot(key.as_str())?);
    }
    Ok(members)
}

/// Fails unless the request names exactly the members of the group (GROUP-DELETE-008, -012, GROUP-GET-008, -013).
fn check_members(group: &Group, snapshot_ids: &[String]) -> Result<()> {
    if snapshot_ids.is_empty() {
        return Err(DriverError::Missing { field: "snapshot_ids" });
    }
    let named: BTreeSet<&str> = snapshot_ids.iter().map(String::as_str).collect();
    let present: BTreeSet<&str> = group.snapshots.iter().map(|key| key.as_str()).collect();
    if named == present {
        return Ok(());
    }
    Err(DriverError::invalid("snapshot_ids", "they are not the members of the group snapshot"))
}

pub(crate) fn get_volume_group_snapshot(
    driver: &Driver,
    request: &GetVolumeGroupSnapshotRequest,
) -> Result<GetVolumeGroupSnapshotResponse> {
    required("group_snapshot_id", &request.group_snapshot_id)?;
    let view = driver.store.view()?;
    let unknown = || DriverError::not_found("group snapshot", &request.group_snapshot_id);
    let group = view.group(&request.group_snapshot_id)?.ok_or_else(unknown)?;
    check_members(&group, &request.snapshot_ids)?;
    let members = members(&view, &group)?;
    Ok(GetVolumeGroupSnapshotResponse { group_snapshot: Some(group_message(driver, &group, &members)) })
}

pub(crate) fn delete_volume_group_snapshot(
    driver: &Driver,
    request: &DeleteVolumeGroupSnapshotRequest,
) -> Result<DeleteVolumeGroupSnapshotResponse> {
    required("group_snapshot_id", &request.group_snapshot_id)?;
    let Some(found) = driver.store.view()?.group(&request.group_snapshot_id)? else {
        return Ok(DeleteVolumeGroupSnapshotResponse {});
    };
    let _guard = driver.locks.exclusive(Key::Object(found.key))?;
    let view = driver.store.view()?;
    let Some(group) = view.group(&request.group_snapshot_id)? else {
        return Ok(DeleteVolumeGroupSnapshotResponse {});
    };
    check_members(&group, &request.snapshot_ids)?;
    let _name = driver.locks.exclusive(Key::GroupName(group.name.clone()))?;
    let mut guards = Vec::with_capacity(group.snapshots.len());
    for key in &group.snapshots {
        guards.push(driver.locks.exclusive(Key::Object(key.clone()))?);
    }
    let members = members(&view, &group)?;
    let records = members.iter().cloned().map(Change::DeleteSnapshot);
    driver.store.commit(records.chain([Change::DeleteGroup(group)]).collect())?;
    for member in &members {
        storage::remove_later(driver, driver.layout.snapshot(&member.key));
    }
    Ok(DeleteVolumeGroupSnapshotResponse {})
}
