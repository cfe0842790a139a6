//! Defects of the Controller service.

use std::path::Path;
use std::time::Duration;

use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::*;
use tonic::{Code, Request, Response, Status};

use crate::data::Origin;
use crate::in_use::{InProgress, Kind, Moment, is_written_to};
use crate::new_part::Image;
use crate::nodes::Move;
use crate::{Defect, Faults, Reply, Seen};

const MIB: i64 = 1 << 20;
/// The duration of a copy that its caller can abandon half-way.
const COPY_TIME: Duration = Duration::from_millis(80);
/// The duration of a CreateVolume beside which other ones begin that are a fifth of a second apart.
const CREATION_TIME: Duration = Duration::from_millis(500);

impl Faults {
    pub(crate) async fn create_volume(
        &self,
        mut request: Request<CreateVolumeRequest>,
    ) -> Reply<CreateVolumeResponse> {
        let asked = request.get_ref().clone();
        let source = match asked.volume_content_source.as_ref().and_then(|source| source.r#type.clone()) {
            Some(Type::Volume(VolumeSource { volume_id })) => Some(volume_id),
            _ => None,
        };
        let call = source.as_deref().map(|source| self.begin_call(Kind::Clone, source));
        let mut pending = source.as_ref().map(|_| self.clone_is_pending(&asked.name));
        if source.is_some() && self.has(Defect::StoppedSnapshotHoldsWriter) {
            // A snapshot that is requested meanwhile comes first.
            self.take_time(Moment::GivenUpClone, &Seen::default(), "").await;
        }
        let creation =
            self.has(Defect::OverlappingVolumesShare).then(|| self.begin_call(Kind::Creation, &asked.name));
        if creation.is_some() {
            tokio::time::sleep(CREATION_TIME).await;
        }
        let mut seen = self.seen.lock().await;
        if let Some(source) = &source {
            self.take_time(Moment::GivenUpClone, &seen, source).await;
        }
        let message = request.get_mut();
        if let Some(other) = creation.as_ref().and_then(InProgress::other_name) {
            other.clone_into(&mut message.name);
        }
        message.volume_capabilities.iter_mut().for_each(|capability| self.alter_capability(capability));
        self.alter_source(&seen, message);
        self.alter_size(&seen, message);
        if self.has(Defect::RestoresDemandGrown)
            && let Some(bytes) = seen.grown_source(message)
            && message.capacity_range.is_none_or(|range| range.required_bytes < bytes)
        {
            return Err(Status::out_of_range(format!("the source has {bytes} bytes")));
        }
        self.begin_copy(&mut seen, message).await?;
        if self.is_stuck(&asked.name) {
            return Err(Status::aborted("the clone is pending"));
        }
        let answer = self.driver.create_volume(request).await;
        if let (Err(_), Some(source)) = (&answer, &source) {
            self.hurt(Moment::FailedClone, &seen, source);
        }
        if answer.is_err()
            && asked.volume_content_source.is_some()
            && self.has(Defect::RejectedCopyWipesNamesake)
            && let Some(namesake) = seen.names.iter().find(|(_, name)| **name == asked.name)
        {
            let id = namesake.0.clone();
            self.empty(&mut seen, &id);
        }
        let mut done = answer?;
        if let Some(pending) = &mut pending {
            pending.is_finished();
        }
        let Some(volume) = &mut done.get_mut().volume else { return Ok(done) };
        let id = volume.volume_id.clone();
        let is_new = seen.names.insert(id.clone(), asked.name.clone()).is_none();
        match is_new {
            true => seen.note_origin(&id, asked.volume_content_source.as_ref()),
            false if self.has(Defect::WipesAtRepeatedCreation) => self.empty(&mut seen, &id),
            false => {}
        }
        if let Some(source) = &source {
            self.hurt(Moment::Clone, &seen, source);
            if !is_new {
                self.hurt(Moment::RepeatedClone, &seen, source);
            }
        }
        if let Some(call) = &call
            && let Some(source) = &source
            && call.is_beside(Kind::Snapshot, Some(source))
        {
            self.hurt(Moment::CloneBesideSnapshot, &seen, source);
            if self.has(Defect::CloneBesideSnapshotIsEmpty) {
                self.empty(&mut seen, &id);
            }
        }
        let origin = seen.data.origins.get(&id).cloned();
        if let Some(Origin { snapshot: Some(snapshot), volume }) = origin
            && is_new
        {
            self.hurt(Moment::Restore, &seen, &volume);
            if seen.data.hollow.contains(&snapshot) {
                self.empty(&mut seen, &id);
            }
        }
        volume.content_source = asked.volume_content_source;
        if self.reports_requested_size() {
            let asked = asked.capacity_range.map_or(0, |range| range.required_bytes);
            volume.capacity_bytes = if asked > 0 { asked } else { volume.capacity_bytes };
        }
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
        if is_deleted_again && self.has(Defect::DeletesNameOnce) {
            return Ok(Response::new(DeleteVolumeResponse {}));
        }
        let id = request.get_ref().volume_id.clone();
        let done = self.driver.delete_volume(request).await?;
        self.apply_side_effects(&mut seen, &id);
        // The name may be used again, with another id.
        seen.names.remove(&id);
        Ok(done)
    }

    pub(crate) async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Reply<DeleteSnapshotResponse> {
        if self.has(Defect::KeepsDeletedSnapshots) {
            return Ok(Response::new(DeleteSnapshotResponse {}));
        }
        let id = request.get_ref().snapshot_id.clone();
        // The call begins before the lock is free, since a call beside it may hold the lock. Its volume is not known yet.
        let call = self.begin_call(Kind::Deletion, &id);
        let mut seen = self.seen.lock().await;
        let source =
            seen.data.cuts.iter().find(|(snapshot, _)| *snapshot == id).map(|(_, volume)| volume.clone());
        if let Some(source) = &source {
            self.take_time(Moment::GivenUpDeletion, &seen, source).await;
        }
        let done = self.driver.delete_snapshot(request).await?;
        self.forget_copies_of(&mut seen, &id);
        if let Some(gone) = seen.data.deleted_cuts.get(&id) {
            self.hurt(Moment::RepeatedDeletion, &seen, gone);
        }
        if let Some(source) = source {
            self.hurt(Moment::DeletedSnapshot, &seen, &source);
            if call.is_beside(Kind::Clone, Some(&source)) {
                self.hurt(Moment::DeletionBesideClone, &seen, &source);
            }
            seen.data.deleted_cuts.insert(id.clone(), source);
        }
        seen.data.cuts.retain(|(snapshot, _)| *snapshot != id);
        Ok(done)
    }

    pub(crate) async fn controller_unpublish_volume(
        &self,
        mut request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Reply<ControllerUnpublishVolumeResponse> {
        let (id, node) = (request.get_ref().volume_id.clone(), request.get_ref().node_id.clone());
        let mut pending = self.detach_is_pending(&id);
        self.take_time_to_detach().await;
        self.begin_move(Move::Detach, &id).await?;
        let holder = self.seen.lock().await.holders.get(&id).cloned();
        let (had, has_other) = match &holder {
            Some((before, now)) => (before.contains(&node), *now != node),
            None => (false, false),
        };
        if has_other {
            let moment = if had { Moment::LateDetach } else { Moment::DetachElsewhere };
            self.hurt(moment, &*self.seen.lock().await, &id);
            if had && self.has(Defect::LateDetachStaysPending) {
                return Err(Status::aborted("the volume is being detached"));
            }
        }
        if holder.is_some_and(|(_, now)| now == node) {
            self.detach_by_force(&*self.seen.lock().await, &id).await?;
        }
        self.detach_shared(&*self.seen.lock().await, request.get_mut());
        if self.has(Defect::FailedDetachIsDone) && self.seen.lock().await.failed_detaches.contains(&id) {
            return Ok(Response::new(ControllerUnpublishVolumeResponse {}));
        }
        let answer = self.driver.controller_unpublish_volume(request).await;
        if answer.is_err() {
            self.fail_detach(&mut *self.seen.lock().await, &id);
        }
        let done = answer?;
        pending.is_finished();
        self.finish_move(Move::Detach, &mut *self.seen.lock().await, &id);
        self.seen.lock().await.attached.remove(&id);
        self.forget_single_writer(&mut *self.seen.lock().await, &id);
        if self.has(Defect::WipesAtDetach) {
            self.empty(&mut *self.seen.lock().await, &id);
        }
        Ok(done)
    }

    /// Takes a snapshot without a request, of a volume that is about to be used.
    pub(crate) async fn take_hidden_snapshot(&self, seen: &mut Seen, id: &str) {
        let name = format!("unseen-{}-{}", id, seen.data.staged_as.len() + seen.data.cuts.len());
        let request = CreateSnapshotRequest { source_volume_id: id.to_owned(), name, ..Default::default() };
        if let Ok(done) = self.driver.create_snapshot(Request::new(request)).await
            && let Some(snapshot) = done.into_inner().snapshot
        {
            seen.data.staged_as.insert(id.to_owned(), snapshot.snapshot_id);
        }
    }

    /// Creates the volume of a copy first and its data later. A caller that abandons the call and repeats it, or one that repeats it after
    /// the driver was killed, gets the volume without its data.
    async fn begin_copy(
        &self,
        seen: &mut Seen,
        request: &mut CreateVolumeRequest,
    ) -> Result<(), tonic::Status> {
        let is_copy = request.volume_content_source.is_some();
        let after_kill = self.has(Defect::StartTakesHalfCopy);
        if !is_copy
            || !(after_kill || self.has(Defect::HandsOutHalfCopies))
            || seen.names.values().any(|name| *name == request.name)
        {
            return Ok(());
        }
        let empty = CreateVolumeRequest { volume_content_source: None, ..request.clone() };
        let is_begun = seen.data.half.contains(&request.name);
        if is_begun && !after_kill {
            *request = empty;
            return Ok(());
        }
        let before =
            self.driver.list_volumes(Request::new(ListVolumesRequest::default())).await?.into_inner().entries;
        let made = match self.driver.create_volume(Request::new(empty.clone())).await {
            Ok(made) => made.into_inner(),
            // The copy is complete.
            Err(exists) if exists.code() == Code::AlreadyExists => return Ok(()),
            Err(failed) => return Err(failed),
        };
        if after_kill && !is_begun && before.iter().any(|entry| entry.volume == made.volume) {
            *request = empty;
            return Ok(());
        }
        seen.data.half.insert(request.name.clone());
        tokio::time::sleep(COPY_TIME).await;
        seen.data.half.remove(&request.name);
        let volume_id = made.volume.unwrap_or_default().volume_id;
        self.driver
            .delete_volume(Request::new(DeleteVolumeRequest { volume_id, ..Default::default() }))
            .await?;
        Ok(())
    }

    /// Returns whether replies contain the requested size instead of the real one.
    fn reports_requested_size(&self) -> bool {
        matches!(self.defect, Defect::RoundsDown | Defect::ExceedsLimit | Defect::RestoresGrown)
    }

    fn alter_size(&self, seen: &Seen, request: &mut CreateVolumeRequest) {
        let grown_bytes = seen.grown_source(request);
        let Some(range) = &mut request.capacity_range else { return };
        match self.defect {
            Defect::RoundsDown if range.limit_bytes == 0 => range.required_bytes &= !(MIB - 1),
            Defect::ExceedsLimit if range.limit_bytes > 0 => {
                *range = CapacityRange { required_bytes: range.limit_bytes + MIB, limit_bytes: 0 };
            }
            Defect::RestoresGrown => {
                if let Some(required_bytes) = grown_bytes {
                    *range = CapacityRange { required_bytes, limit_bytes: 0 };
                }
            }
            _ => {}
        }
    }

    /// Changes the requested content source as the defect does.
    fn alter_source(&self, seen: &Seen, request: &mut CreateVolumeRequest) {
        let source = request.volume_content_source.as_ref().and_then(|source| source.r#type.clone());
        let snapshot = match &source {
            Some(Type::Snapshot(SnapshotSource { snapshot_id })) => snapshot_id.as_str(),
            _ => "",
        };
        let later = match (self.defect, &source) {
            (Defect::ClonesNothing, Some(Type::Volume(_)))
            | (Defect::RestoresNothing, Some(Type::Snapshot(_))) => {
                request.volume_content_source = None;
                None
            }
            (Defect::RestoresNoLarger, _) => {
                if let Some(snapshot) = seen.snapshots.get(snapshot) {
                    let required_bytes = snapshot.size_bytes;
                    request.capacity_range = Some(CapacityRange { required_bytes, limit_bytes: 0 });
                }
                None
            }
            (Defect::RestoresLater, _) => {
                seen.snapshots.get(snapshot).map(|snapshot| snapshot.source_volume_id.clone())
            }
            (Defect::GroupsOverTime, _) => seen.late_members.get(snapshot).cloned(),
            (Defect::ClonesMissUse, Some(Type::Volume(VolumeSource { volume_id }))) => {
                if let Some(snapshot_id) = seen.data.staged_as.get(volume_id).cloned() {
                    request.volume_content_source = Some(VolumeContentSource::snapshot(snapshot_id));
                }
                None
            }
            (Defect::ClonesSourceOfCopy, Some(Type::Volume(VolumeSource { volume_id }))) => {
                seen.origin_of(volume_id, true)
            }
            (Defect::RestoresNothingOfDeleted, Some(Type::Snapshot(_))) => {
                let of = seen.snapshots.get(snapshot).map(|snapshot| &snapshot.source_volume_id);
                if of.is_some_and(|volume| seen.data.deleted.contains(volume)) {
                    request.volume_content_source = None;
                }
                None
            }
            (_, Some(Type::Snapshot(_))) => {
                if let Some(snapshot_id) = self.other_snapshot(seen, snapshot) {
                    request.volume_content_source = Some(VolumeContentSource::snapshot(snapshot_id));
                }
                None
            }
            _ => None,
        };
        if let Some(volume_id) = later {
            request.volume_content_source = Some(VolumeContentSource::volume(volume_id));
        }
    }

    /// The snapshot that the defect restores in place of the requested one.
    fn other_snapshot(&self, seen: &Seen, snapshot: &str) -> Option<String> {
        let of =
            |id: &str| seen.data.cuts.iter().find(|(snapshot, _)| snapshot == id).map(|(_, volume)| volume);
        let mut alike = seen.data.cuts.iter().filter(|(_, volume)| of(snapshot) == Some(volume));
        match self.defect {
            Defect::RestoresFirst => alike.next().map(|(snapshot, _)| snapshot.clone()),
            Defect::RestoresNewest => alike.next_back().map(|(snapshot, _)| snapshot.clone()),
            Defect::MembersHoldFirst
            | Defect::SnapshotsMissUse
            | Defect::RepeatedSnapshotCutsAnew
            | Defect::OverlappingSnapshotsMixUp
            | Defect::GroupsOneByOne => seen.data.instead.get(snapshot).cloned(),
            _ => None,
        }
    }

    pub(crate) async fn controller_publish_volume(
        &self,
        mut request: Request<ControllerPublishVolumeRequest>,
    ) -> Reply<ControllerPublishVolumeResponse> {
        let message = request.get_mut();
        message.volume_capability.iter_mut().for_each(|capability| self.alter_capability(capability));
        if let Some(volume_capability::AccessType::Mount(mount)) =
            message.volume_capability.as_mut().and_then(|capability| capability.access_type.as_mut())
            && self.has(Defect::FormatsOtherFsType)
        {
            // Only a node looks at the file system.
            mount.fs_type.clear();
        }
        message.readonly &= !self.has(Defect::AttachesForWriting);
        self.keep_single_writer(&mut *self.seen.lock().await, message)?;
        let (id, node) = (message.volume_id.clone(), message.node_id.clone());
        let holder = self.seen.lock().await.holders.get(&id).map(|(_, now)| now.clone());
        if holder.is_some_and(|now| now != node) {
            if self.is_stuck(&id) {
                return Err(Status::failed_precondition("the volume is being detached"));
            }
            self.hurt(Moment::AttachElsewhere, &*self.seen.lock().await, &id);
        }
        self.keep_rejected(&*self.seen.lock().await, &id, &node)?;
        self.begin_move(Move::Attach, &id).await?;
        match self.driver.controller_publish_volume(request).await {
            Ok(done) => {
                let mut seen = self.seen.lock().await;
                self.finish_move(Move::Attach, &mut seen, &id);
                self.give_to_waiting(&mut seen, &id, &node);
                seen.attached.insert(id.clone());
                let (before, now) = seen.holders.entry(id).or_default();
                if *now != node {
                    before.insert(std::mem::replace(now, node));
                }
                Ok(done)
            }
            Err(full) if full.code() == Code::ResourceExhausted && self.has(Defect::FullIsInternal) => {
                Err(Status::internal(full.message()))
            }
            Err(refused) => {
                if refused.code() == Code::FailedPrecondition {
                    self.seen.lock().await.waiting.insert((id, node));
                }
                Err(refused)
            }
        }
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
        mut request: Request<CreateSnapshotRequest>,
    ) -> Reply<CreateSnapshotResponse> {
        let (volume, name) = (request.get_ref().source_volume_id.clone(), request.get_ref().name.clone());
        let call = self.begin_call(Kind::Snapshot, &volume);
        let mut seen = self.seen.lock().await;
        if self.has(Defect::SnapshotsNeedQuiet)
            && let Some(target) = seen.target_of(&volume)
            && is_written_to(&target).await
        {
            return Err(Status::unknown("a file changed while it was read"));
        }
        let is_left = self.begin_snapshot(&seen, &name, &volume)?;
        self.take_time(Moment::GivenUpSnapshot, &seen, &volume).await;
        if self.has(Defect::SnapshotsSourceOfCopy)
            && let Some(source) = seen.origin_of(&volume, true)
        {
            request.get_mut().source_volume_id = source;
        }
        let answer = self.driver.create_snapshot(request).await;
        if answer.is_err() {
            self.hurt(Moment::FailedSnapshot, &seen, &volume);
        }
        let mut done = answer?;
        let Some(snapshot) = &mut done.get_mut().snapshot else { return Ok(done) };
        snapshot.source_volume_id.clone_from(&volume);
        let id = snapshot.snapshot_id.clone();
        self.finish_snapshot(&name);
        self.alter_snapshot(&call, &mut seen, &id, is_left).await;
        seen.snapshots.insert(id.clone(), snapshot.clone());
        if !seen.data.cuts.iter().any(|(other, _)| *other == id) {
            seen.data.cuts.push((id.clone(), volume.clone()));
            if let Some(unseen) = seen.data.staged_as.get(&volume).cloned()
                && seen.target_of(&volume).is_some()
            {
                seen.data.instead.insert(id, unseen);
            }
        }
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
            let mut seen = self.seen.lock().await;
            if self.has(Defect::MembersHoldFirst) {
                seen.data.instead.insert(second.snapshot_id.clone(), first.snapshot_id.clone());
            }
            self.take_second_later(&mut seen, second).await;
            self.hurt(Moment::GroupOfFirst, &seen, &first.source_volume_id);
            self.hurt(Moment::GroupOfSecond, &seen, &second.source_volume_id);
            seen.late_members.extend([late]);
        }
        Ok(done)
    }

    pub(crate) async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Reply<ControllerExpandVolumeResponse> {
        if !self.has(Defect::ControllerExpandsNothing) {
            let id = request.get_ref().volume_id.clone();
            let call = self.begin_call(Kind::Expansion, &id);
            let mut seen = self.seen.lock().await;
            self.take_time(Moment::GivenUpExpansion, &seen, &id).await;
            let before = seen.target_of(&id).and_then(|target| Image::at(Path::new(&target)));
            let answer = self.driver.controller_expand_volume(request).await;
            if answer.is_err() {
                self.hurt(Moment::FailedExpansion, &seen, &id);
            }
            let done = answer?;
            match before {
                Some(before) if done.get_ref().node_expansion_required => {
                    seen.data.unfinished_expansions.insert(id.clone(), before);
                }
                Some(before) => self.spoil_new_part(&mut seen, &id, &before),
                None => {}
            }
            let bytes = done.get_ref().capacity_bytes;
            self.collide(&seen, &id, bytes);
            self.forget_fresh_copy(&mut seen, &id);
            self.hurt(Moment::Expansion, &seen, &id);
            if seen.data.grown.insert(id.clone(), bytes) == Some(bytes) {
                self.hurt(Moment::RepeatedExpansion, &seen, &id);
            }
            if call.is_beside(Kind::Clone, Some(&id)) {
                self.hurt(Moment::ExpansionBesideClone, &seen, &id);
            }
            if let Some(source) = seen.origin_of(&id, true) {
                self.hurt(Moment::ExpansionOfCopy, &seen, &source);
            }
            if self.has(Defect::ExpansionWipes) {
                self.empty(&mut seen, &id);
            }
            return Ok(done);
        }
        let capacity_bytes = request.get_ref().capacity_range.map_or(0, |range| range.required_bytes);
        Ok(Response::new(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: false }))
    }

    pub(crate) async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Reply<ControllerModifyVolumeResponse> {
        let id = &request.get_ref().volume_id;
        self.hurt(Moment::Modification, &*self.seen.lock().await, id);
        match self.has(Defect::TakesAnyAttributes) {
            true => Ok(Response::new(ControllerModifyVolumeResponse {})),
            false => self.driver.controller_modify_volume(request).await,
        }
    }
}

impl Seen {
    /// The size of the source volume of a requested snapshot, if that volume has grown.
    fn grown_source(&self, request: &CreateVolumeRequest) -> Option<i64> {
        let Some(Type::Snapshot(SnapshotSource { snapshot_id })) =
            request.volume_content_source.as_ref()?.r#type.as_ref()
        else {
            return None;
        };
        self.data.grown.get(&self.snapshots.get(snapshot_id)?.source_volume_id).copied()
    }

    /// Records the content source of a new volume.
    fn note_origin(&mut self, id: &str, source: Option<&VolumeContentSource>) {
        self.data.unused.insert(id.to_owned());
        let origin = match source.and_then(|source| source.r#type.clone()) {
            Some(Type::Volume(VolumeSource { volume_id })) => Origin { snapshot: None, volume: volume_id },
            Some(Type::Snapshot(SnapshotSource { snapshot_id })) => {
                let volume =
                    self.snapshots.get(&snapshot_id).map(|snapshot| snapshot.source_volume_id.clone());
                Origin { snapshot: Some(snapshot_id), volume: volume.unwrap_or_default() }
            }
            None => return,
        };
        self.data.origins.insert(id.to_owned(), origin);
    }
}
