//! What goes wrong where volumes and snapshots are made.

use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::*;
use tonic::{Request, Response};

use crate::{Defect, Faults, Reply, Seen};

impl Faults {
    pub(crate) async fn create_volume(
        &self,
        mut request: Request<CreateVolumeRequest>,
    ) -> Reply<CreateVolumeResponse> {
        let asked = request.get_ref().clone();
        let mut seen = self.seen.lock().await;
        let message = request.get_mut();
        message.volume_capabilities.iter_mut().for_each(|capability| self.misread(capability));
        self.misread_source(&seen, message);
        let mut done = self.driver.create_volume(request).await?;
        let Some(volume) = &mut done.get_mut().volume else { return Ok(done) };
        seen.names.insert(volume.volume_id.clone(), asked.name);
        volume.content_source = asked.volume_content_source;
        if volume.content_source.is_some() {
            seen.copies.insert(volume.volume_id.clone());
            seen.new_copies.insert(volume.volume_id.clone());
        }
        if self.has(Defect::RestoresNoLarger) {
            let required = asked.capacity_range.map_or(0, |range| range.required_bytes);
            volume.capacity_bytes = volume.capacity_bytes.max(required);
        }
        if self.has(Defect::MadeElsewhere) {
            let segments =
                volume.accessible_topology.iter_mut().flat_map(|place| place.segments.values_mut());
            segments.for_each(|value| "elsewhere".clone_into(value));
        }
        Ok(done)
    }

    pub(crate) async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Reply<DeleteVolumeResponse> {
        let mut seen = self.seen.lock().await;
        let name = seen.names.get(&request.get_ref().volume_id).cloned();
        let is_deleted_again = name.is_some_and(|name| !seen.deleted_names.insert(name));
        match is_deleted_again && self.has(Defect::DeletesNameOnce) {
            true => Ok(Response::new(DeleteVolumeResponse {})),
            false => self.driver.delete_volume(request).await,
        }
    }

    /// What the driver takes the source of a volume for.
    fn misread_source(&self, seen: &Seen, request: &mut CreateVolumeRequest) {
        let source = request.volume_content_source.as_ref().and_then(|source| source.r#type.clone());
        let snapshot = match &source {
            Some(Type::Snapshot(SnapshotSource { snapshot_id })) => snapshot_id.as_str(),
            _ => "",
        };
        let later = match (self.defect, &source) {
            (Some(Defect::ClonesNothing), Some(Type::Volume(_)))
            | (Some(Defect::RestoresNothing), Some(Type::Snapshot(_))) => {
                request.volume_content_source = None;
                None
            }
            (Some(Defect::RestoresNoLarger), _) => {
                if let Some(snapshot) = seen.snapshots.get(snapshot) {
                    let required_bytes = snapshot.size_bytes;
                    request.capacity_range = Some(CapacityRange { required_bytes, limit_bytes: 0 });
                }
                None
            }
            (Some(Defect::RestoresLater), _) => {
                seen.snapshots.get(snapshot).map(|snapshot| snapshot.source_volume_id.clone())
            }
            (Some(Defect::GroupsOverTime), _) => seen.late_members.get(snapshot).cloned(),
            _ => None,
        };
        if let Some(volume_id) = later {
            let source = Type::Volume(VolumeSource { volume_id });
            request.volume_content_source = Some(VolumeContentSource { r#type: Some(source) });
        }
    }

    pub(crate) async fn controller_publish_volume(
        &self,
        mut request: Request<ControllerPublishVolumeRequest>,
    ) -> Reply<ControllerPublishVolumeResponse> {
        let message = request.get_mut();
        message.volume_capability.iter_mut().for_each(|capability| self.misread(capability));
        message.readonly &= !self.has(Defect::AttachesForWriting);
        self.driver.controller_publish_volume(request).await
    }

    pub(crate) async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Reply<GetCapacityResponse> {
        let mut done = self.driver.get_capacity(request).await?;
        if self.has(Defect::NegativeCapacity) {
            done.get_mut().available_capacity = -1;
        }
        Ok(done)
    }

    pub(crate) async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Reply<CreateSnapshotResponse> {
        let mut seen = self.seen.lock().await;
        let done = self.driver.create_snapshot(request).await?;
        let snapshot = done.get_ref().snapshot.iter();
        seen.snapshots.extend(snapshot.map(|one| (one.snapshot_id.clone(), one.clone())));
        Ok(done)
    }

    pub(crate) async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Reply<CreateVolumeGroupSnapshotResponse> {
        let mut done = self.driver.create_volume_group_snapshot(request).await?;
        if let Some(group) = &mut done.get_mut().group_snapshot
            && let [first, second, ..] = &mut group.snapshots[..]
        {
            if self.has(Defect::MixesUpMembers) {
                std::mem::swap(&mut first.source_volume_id, &mut second.source_volume_id);
            }
            let late = (second.snapshot_id.clone(), second.source_volume_id.clone());
            self.seen.lock().await.late_members.extend([late]);
        }
        Ok(done)
    }

    pub(crate) async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Reply<ControllerExpandVolumeResponse> {
        if !self.has(Defect::ControllerExpandsNothing) {
            return self.driver.controller_expand_volume(request).await;
        }
        let capacity_bytes = request.get_ref().capacity_range.map_or(0, |range| range.required_bytes);
        Ok(Response::new(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: false }))
    }

    pub(crate) async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Reply<ControllerModifyVolumeResponse> {
        match self.has(Defect::TakesAnyAttributes) {
            true => Ok(Response::new(ControllerModifyVolumeResponse {})),
            false => self.driver.controller_modify_volume(request).await,
        }
    }
}
