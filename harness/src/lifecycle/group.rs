use csi_proto::v1;

use super::undo;
use crate::cx::Cx;
use crate::reply::{Answer, Reply};

impl Cx {
    /// A CreateVolumeGroupSnapshot request for these volumes, with everything that is configured.
    pub fn create_group_snapshot_request(
        &self,
        source_volume_ids: &[&str],
    ) -> v1::CreateVolumeGroupSnapshotRequest {
        v1::CreateVolumeGroupSnapshotRequest {
            name: self.unique_name(),
            source_volume_ids: source_volume_ids.iter().map(|id| (*id).to_owned()).collect(),
            parameters: self.config().group_snapshot_parameters.clone(),
            ..Default::default()
        }
    }

    /// Sends CreateVolumeGroupSnapshot. Whatever comes of it is deleted after the check, also if there was no
    /// answer.
    pub async fn create_group_snapshot(
        &self,
        request: v1::CreateVolumeGroupSnapshotRequest,
    ) -> Reply<v1::VolumeGroupSnapshot> {
        let pending = format!("group snapshot named {:?}", request.name);
        if !request.name.is_empty() {
            self.ledger.write(&pending, undo::group_snapshot_by_name(request.clone()));
        }
        let reply = self.call(request).await;
        match reply.answer() {
            Answer::Ok(response) => {
                if let Some(group) = &response.group_snapshot
                    && !group.group_snapshot_id.is_empty()
                {
                    self.target().made(&group.group_snapshot_id);
                    group.snapshots.iter().for_each(|member| self.target().made(&member.snapshot_id));
                    let undo = undo::group_snapshot(delete_request(group));
                    self.ledger.write(group_key(&group.group_snapshot_id), undo);
                }
                self.ledger.settle(&pending);
            }
            Answer::Refused(_) => self.ledger.settle(&pending),
            Answer::Unknown(_) => {}
        }
        reply
            .map(|response| response.group_snapshot.unwrap_or_default())
            .needs("group_snapshot_id", |group| !group.group_snapshot_id.is_empty())
    }

    /// Sends DeleteVolumeGroupSnapshot for a group with all its members.
    pub async fn delete_group_snapshot(
        &self,
        group: &v1::VolumeGroupSnapshot,
    ) -> Reply<v1::DeleteVolumeGroupSnapshotResponse> {
        let reply = self.call(delete_request(group)).await;
        if matches!(reply.answer(), Answer::Ok(_)) {
            self.ledger.settle(&group_key(&group.group_snapshot_id));
        }
        reply
    }
}

pub(super) fn delete_request(group: &v1::VolumeGroupSnapshot) -> v1::DeleteVolumeGroupSnapshotRequest {
    v1::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect(),
        ..Default::default()
    }
}

fn group_key(id: &str) -> String {
    format!("group snapshot {id}")
}
