//! The VolumeGroupSnapshot message.

use csi_proto::v1;
use tonic::Status;

use crate::controller::{creation_time, look_at, snapshot_message};
use crate::driver::MockDriver;
use crate::state::{Group, State};
use crate::validate::invalid;

/// The VolumeGroupSnapshot message. Counts as a report of each member.
pub(super) fn group_message(
    driver: &MockDriver,
    state: &mut State,
    group: &Group,
) -> v1::VolumeGroupSnapshot {
    let mut snapshots = Vec::with_capacity(group.snapshot_ids.len());
    for id in &group.snapshot_ids {
        if let Some(snapshot) = state.snapshots.get_mut(id) {
            look_at(snapshot);
            snapshots.push(snapshot_message(driver, snapshot));
        }
    }
    v1::VolumeGroupSnapshot {
        group_snapshot_id: group.id.clone(),
        ready_to_use: snapshots.iter().all(|snapshot| snapshot.ready_to_use),
        snapshots,
        creation_time: Some(creation_time(driver, group.created_ms)),
    }
}

/// Checks that the request names exactly the members of the group, in any order.
pub(super) fn check_members(group: &Group, given: &[String]) -> Result<(), Status> {
    if given.is_empty() {
        return Err(invalid("snapshot_ids is missing"));
    }
    let mut given: Vec<&String> = given.iter().collect();
    let mut members: Vec<&String> = group.snapshot_ids.iter().collect();
    given.sort_unstable();
    members.sort_unstable();
    match given == members {
        true => Ok(()),
        false => Err(invalid("snapshot_ids are not those of the group snapshot")),
    }
}
