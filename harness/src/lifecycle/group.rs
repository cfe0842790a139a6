use csi_proto::{Call as _, v1};

use crate::client::retry::PendingCall;
use crate::lifecycle::cx::Cx;
use crate::resources::resource::Resource;

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

    /// Sends CreateVolumeGroupSnapshot. The group snapshot is deleted after the check, also if there was no answer.
    pub fn create_group_snapshot(
        &self,
        request: v1::CreateVolumeGroupSnapshotRequest,
    ) -> PendingCall<'_, v1::VolumeGroupSnapshot> {
        PendingCall::new(self, v1::CreateVolumeGroupSnapshotRequest::RPC, move || {
            let call = self.call(request.clone()).once();
            let pending = Resource::GroupSnapshotNamed(Box::new(request.clone()));
            async move {
                let reply = self.learning(pending, call, |response| {
                    let group = response.group_snapshot.as_ref()?;
                    let has_id = self.made(&group.group_snapshot_id);
                    for member in &group.snapshots {
                        self.made(&member.snapshot_id);
                    }
                    has_id.then(|| resource(delete_request(group)))
                });
                reply
                    .await
                    .map(|response| response.group_snapshot.unwrap_or_default())
                    .needs("group_snapshot_id", |group| !group.group_snapshot_id.is_empty())
            }
        })
    }

    /// A GetVolumeGroupSnapshot request for a group with all its members.
    pub fn get_group_snapshot_request(
        &self,
        group: &v1::VolumeGroupSnapshot,
    ) -> v1::GetVolumeGroupSnapshotRequest {
        v1::GetVolumeGroupSnapshotRequest {
            group_snapshot_id: group.group_snapshot_id.clone(),
            snapshot_ids: group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect(),
            ..Default::default()
        }
    }

    /// Sends DeleteVolumeGroupSnapshot for a group with all its members.
    pub fn delete_group_snapshot(
        &self,
        group: &v1::VolumeGroupSnapshot,
    ) -> PendingCall<'_, v1::DeleteVolumeGroupSnapshotResponse> {
        let request = delete_request(group);
        self.unmake(resource(request.clone()), request)
    }

    /// Sends DeleteSnapshot for one member of a group. If that may be done, the group is deleted without the member after
    /// the check.
    pub fn delete_group_member(
        &self,
        group: &v1::VolumeGroupSnapshot,
        snapshot_id: &str,
    ) -> PendingCall<'_, v1::DeleteSnapshotResponse> {
        let of = resource(delete_request(group));
        let request = v1::DeleteSnapshotRequest { snapshot_id: snapshot_id.to_owned(), ..Default::default() };
        PendingCall::new(self, v1::DeleteSnapshotRequest::RPC, move || {
            let call = self.call(request.clone()).once();
            self.delete_member(of.clone(), request.snapshot_id.clone(), call)
        })
    }
}

fn resource(request: v1::DeleteVolumeGroupSnapshotRequest) -> Resource {
    Resource::GroupSnapshot { request: Box::new(request), gone: Vec::new() }
}

pub(super) fn delete_request(group: &v1::VolumeGroupSnapshot) -> v1::DeleteVolumeGroupSnapshotRequest {
    v1::DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: group.group_snapshot_id.clone(),
        snapshot_ids: group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect(),
        ..Default::default()
    }
}
