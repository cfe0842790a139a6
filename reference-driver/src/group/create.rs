//! CreateVolumeGroupSnapshot.

use std::collections::BTreeSet;

use csi_proto::v1::{CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse};

use super::{group_message, members};
use crate::controller::take_snapshot;
use crate::driver::{Driver, checked_map, checked_name};
use crate::error::{DriverError, Result, Shown};
use crate::ids::{ObjectId, ObjectKind};
use crate::locks::{Guard, Key};
use crate::mount::Frozen;
use crate::storage::NewData;
use crate::store::{Change, Group, Snapshot, Volume, may_be_committed};

const VOLUMES_MAX: usize = 1024;

pub(crate) fn create_volume_group_snapshot(
    driver: &Driver,
    request: &CreateVolumeGroupSnapshotRequest,
) -> Result<CreateVolumeGroupSnapshotResponse> {
    let name = checked_name(&request.name)?;
    let volume_ids = read_volume_ids(&request.source_volume_ids)?;
    checked_map("parameters", &request.parameters)?;
    let _name = driver.locks.exclusive(Key::GroupName(name.to_owned()))?;
    let view = driver.store.view()?;
    if let Some(existing) = view.group_by_name(name)? {
        check_same(&existing, &volume_ids, request)?;
        let members = members(&view, &existing)?;
        return Ok(CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(group_message(driver, &existing, &members)),
        });
    }
    let volumes = hold(driver, &volume_ids)?;
    let key = ObjectId::generate(ObjectKind::Group)?;
    let snapshots = take_snapshots(driver, &volumes, &key)?;
    let (mut members, data): (Vec<Snapshot>, Vec<NewData>) = snapshots.into_iter().unzip();
    members.sort_by(|one, other| one.key.cmp(&other.key)); // A later call reads them back in this order.
    let group = Group {
        key,
        name: name.to_owned(),
        snapshots: members.iter().map(|member| member.key.clone()).collect(),
        source_volume_ids: volume_ids,
        parameters: request.parameters.clone(),
        created_ns: members.iter().map(|member| member.created_ns).max().unwrap_or(0),
    };
    let records = members.iter().cloned().map(Change::PutSnapshot);
    let records = records.chain([Change::PutGroup(group.clone())]).collect();
    let committed = driver.store.commit_after_flush(driver.layout.snapshots_directory(), records);
    if may_be_committed(&committed) {
        data.into_iter().for_each(NewData::keep);
    }
    committed?;
    Ok(CreateVolumeGroupSnapshotResponse { group_snapshot: Some(group_message(driver, &group, &members)) })
}

fn read_volume_ids(volume_ids: &[String]) -> Result<BTreeSet<String>> {
    const FIELD: &str = "source_volume_ids";
    if volume_ids.is_empty() || volume_ids.iter().any(String::is_empty) {
        return Err(DriverError::Missing { field: FIELD });
    }
    if volume_ids.len() > VOLUMES_MAX {
        return Err(DriverError::invalid(FIELD, format!("there are more than {VOLUMES_MAX}")));
    }
    let distinct: BTreeSet<String> = volume_ids.iter().cloned().collect();
    if distinct.len() < volume_ids.len() {
        return Err(DriverError::invalid(FIELD, "a volume is named twice"));
    }
    Ok(distinct)
}

/// Fails unless an existing group snapshot of this name is what the request asks for (GROUP-CREATE-029).
fn check_same(
    existing: &Group,
    volume_ids: &BTreeSet<String>,
    request: &CreateVolumeGroupSnapshotRequest,
) -> Result<()> {
    let reason = if existing.source_volume_ids != *volume_ids {
        "it was cut from other volumes"
    } else if existing.parameters != request.parameters {
        "it was made with other parameters"
    } else {
        return Ok(());
    };
    let what = format!("the group snapshot named {}", Shown(&existing.name));
    Err(DriverError::Exists { what, reason: reason.to_owned() })
}

/// Locks all volumes, and makes sure that all of them can be frozen at the same time.
fn hold(driver: &Driver, volume_ids: &BTreeSet<String>) -> Result<Vec<(Volume, Guard)>> {
    let mut held = Vec::with_capacity(volume_ids.len());
    for id in volume_ids {
        let (volume, guard) = driver.volume_exclusive_waiting(id)?;
        held.push((volume, guard));
    }
    if held.len() > 1 {
        let view = driver.store.view()?;
        for (volume, _) in &held {
            // Without freezing, the snapshots would not be of one point in time.
            if !volume.backend().can_freeze() && !view.published_of(&volume.key)?.is_empty() {
                let reason =
                    format!("a {} volume cannot be frozen while it is published", volume.backend.name());
                return Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason));
            }
        }
    }
    Ok(held)
}

/// Freezes all volumes, copies them, and thaws them, even if a copy fails.
fn take_snapshots(
    driver: &Driver,
    volumes: &[(Volume, Guard)],
    group: &ObjectId,
) -> Result<Vec<(Snapshot, NewData)>> {
    let mut frozen: Vec<Option<Frozen>> = Vec::with_capacity(volumes.len());
    for (volume, _) in volumes {
        frozen.push(volume.backend().quiesce(driver, volume)?);
    }
    volumes.iter().map(|(volume, _)| take_snapshot(driver, volume, "", Some(group))).collect()
}
