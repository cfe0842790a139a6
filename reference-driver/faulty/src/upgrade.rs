//! Defects of a driver that is replaced by its next version, or by the version before. Both versions are this program: a flag says which one it
//! is, and files in the directory of the driver say what each has done.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_hostpath_driver::HostpathDriver;
use csi_proto::lock::Mutex;
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type};
use csi_proto::v1::*;
use rustix::mount::mount_bind;
use tonic::{Request, Response, Status};

use crate::contents::Contents;
use crate::in_use::break_writes;
use crate::kept::{Kept, TARGETS};
use crate::target::{change, detach_mount};
use crate::{Defect, Faulty, Reply};

/// The ids that the next version has given.
const MADE: &str = "made-by-next-version";
/// It is there from the start of the next version on, until the version before comes back.
const NEXT_WAS_HERE: &str = "next-version";
/// It is there while the next version starts.
const STARTING: &str = "starting";
/// It is there once the next version has met the version before.
const HAS_MET: &str = "has-met-other-version";
/// The file with the records of the driver, and the file into which the next version converts them.
const RECORDS: &str = "state.redb";
const HALF_CONVERTED: &str = "state.redb.converted";
/// The directories with data.
const DATA: [&str; 2] = ["volumes", "snapshots"];
const GIB: i64 = 1 << 30;

/// One of the two versions.
#[derive(Debug)]
pub(crate) struct Version {
    defect: Option<Defect>,
    is_next: bool,
    /// True for the node plugin of the version before under the controller of the next one.
    is_beside_next: bool,
    state_dir: PathBuf,
    kept: Kept,
    /// Snapshots without data.
    hollow: Mutex<BTreeSet<String>>,
}

impl Version {
    pub(crate) fn new(defect: Option<Defect>, is_next: bool, state_dir: &Path) -> Version {
        Version {
            defect,
            is_next,
            is_beside_next: false,
            state_dir: state_dir.to_owned(),
            kept: Kept::new(state_dir),
            hollow: Mutex::default(),
        }
    }

    /// The version before this one, for a node plugin that is not updated yet.
    pub(crate) fn of_version_before(&self) -> Version {
        Version { is_beside_next: true, ..Version::new(self.defect, false, &self.state_dir) }
    }

    pub(crate) fn defect(&self) -> Option<Defect> {
        self.defect
    }

    /// Returns true for the next version with this defect.
    fn next_has(&self, defect: Defect) -> bool {
        self.is_next && self.defect == Some(defect)
    }

    fn is_back_with(&self, defect: Defect) -> bool {
        !self.is_next && self.defect == Some(defect) && self.file(NEXT_WAS_HERE).exists()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.state_dir.join(name)
    }

    fn made(&self, id: &str) {
        if self.is_next && self.defect.is_some() {
            self.kept.change(MADE, |made| made.insert(id.to_owned()));
        }
    }

    /// Returns true for the next version with this defect, if the version before has made the object.
    fn spoils(&self, defect: Defect, id: &str) -> bool {
        self.next_has(defect) && !self.kept.lines(MADE).contains(id)
    }

    /// Returns true for the version before with this defect, if the next version has made the object.
    fn spoils_new(&self, defect: Defect, id: &str) -> bool {
        !self.is_next && self.defect == Some(defect) && self.kept.lines(MADE).contains(id)
    }

    /// Works on the state before the driver opens it.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        if self.defect.is_none() || !self.state_dir.exists() {
            return Ok(());
        }
        if self.next_has(Defect::UpgradeDoesNotStart) && self.file(RECORDS).exists() {
            return Err(io::Error::other("the format of the state is too old"));
        }
        if self.next_has(Defect::UpgradeStartsOnce) {
            let starting = fs::OpenOptions::new().write(true).create_new(true).open(self.file(STARTING));
            starting.map_err(|_| io::Error::other("another process of the driver starts"))?;
        }
        if self.next_has(Defect::UpgradeLosesHalfMigrated) {
            self.convert()?;
        }
        if self.is_back_with(Defect::DowngradeStartsEmpty) {
            self.put_away(RECORDS)?;
            DATA.iter().try_for_each(|data| self.put_away(data))?;
        }
        Ok(())
    }

    /// Converts the records once, in the place where they are.
    fn convert(&self) -> io::Result<()> {
        let (records, half) = (self.file(RECORDS), self.file(HALF_CONVERTED));
        if half.exists() {
            fs::remove_file(half)?;
            return DATA.iter().try_for_each(|data| self.put_away(data));
        }
        if !records.exists() || self.file(NEXT_WAS_HERE).exists() {
            return Ok(());
        }
        fs::rename(&records, &half)?;
        fs::copy(&half, &records)?;
        fs::remove_file(half)
    }

    fn put_away(&self, name: &str) -> io::Result<()> {
        let away =
            (0..).map(|number| self.file(&format!("{name}.away-{number}"))).find(|away| !away.exists());
        match fs::rename(self.file(name), away.unwrap_or_default()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Notes that the state is in use by another process.
    pub(crate) fn meets_other(&self) {
        if self.next_has(Defect::UpgradeDeletesBeside) {
            fs::write(self.file(HAS_MET), []).unwrap();
        }
    }

    /// Works on the objects and the volumes in use that a driver finds when it starts.
    pub(crate) async fn start(&self, driver: &HostpathDriver) {
        let is_first = !self.file(NEXT_WAS_HERE).exists();
        if self.defect.is_none() {
            return;
        }
        let _ = fs::remove_file(self.file(STARTING));
        let has_met = self.is_next && fs::remove_file(self.file(HAS_MET)).is_ok();
        if has_met || is_first && self.next_has(Defect::UpgradeDeletesUnknown) {
            delete_volumes(driver, |_| true).await;
        }
        if self.is_back_with(Defect::DowngradeLosesNew) {
            let made = self.kept.lines(MADE);
            delete_volumes(driver, |id| made.contains(id)).await;
        }
        let is = |next: Defect, back: Defect| self.next_has(next) || self.is_back_with(back);
        for target in self.kept.lines(TARGETS) {
            if is(Defect::UpgradeMountsAgain, Defect::DowngradeMountsAgain) {
                // It fails where the volume has gone.
                let _ = mount_bind(&target, &target);
            } else if is(Defect::UpgradeBreaksUsed, Defect::DowngradeBreaksUsed) {
                break_writes(&target);
            } else if self.next_has(Defect::UpgradeUnmountsUsed) {
                detach_mount(&target);
            }
        }
        if self.is_next {
            fs::write(self.file(NEXT_WAS_HERE), []).unwrap();
        } else {
            let _ = fs::remove_file(self.file(NEXT_WAS_HERE));
        }
    }

    fn uses(&self, target: &str, is_used: bool) {
        let is_about_targets = matches!(
            self.defect,
            Some(
                Defect::UpgradeMountsAgain
                    | Defect::UpgradeUnmountsUsed
                    | Defect::UpgradeBreaksUsed
                    | Defect::DowngradeMountsAgain
                    | Defect::DowngradeBreaksUsed
            )
        );
        if is_about_targets {
            self.kept.change(TARGETS, |targets| match is_used {
                true => targets.insert(target.to_owned()),
                false => targets.remove(target),
            });
        }
    }
}

/// Deletes the wanted volumes, and the snapshots that keep them, as far as nothing uses them.
async fn delete_volumes(driver: &HostpathDriver, is_wanted: impl Fn(&str) -> bool) {
    let listed = driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap().into_inner();
    for volume in listed.entries.into_iter().filter_map(|entry| entry.volume) {
        if is_wanted(&volume.volume_id) {
            let request = DeleteVolumeRequest { volume_id: volume.volume_id, ..Default::default() };
            // One that is in use stays.
            let _ = driver.delete_volume(Request::new(request)).await;
        }
    }
}

/// A driver as one of two versions. It answers each call with the method of `Altered` that is named like its RPC, or with that of the driver
/// inside if there is none.
#[derive(Clone, Debug)]
pub(crate) struct Versioned(Altered);

impl Versioned {
    pub(crate) fn new(inner: Faulty, version: Arc<Version>) -> Versioned {
        Versioned(Altered { inner, version })
    }
}

/// The implementation of the calls that have a defect in one of the versions.
#[derive(Clone, Debug)]
struct Altered {
    inner: Faulty,
    version: Arc<Version>,
}

impl Deref for Altered {
    type Target = Faulty;

    fn deref(&self) -> &Faulty {
        &self.inner
    }
}

impl Altered {
    async fn create_volume(&self, mut request: Request<CreateVolumeRequest>) -> Reply<CreateVolumeResponse> {
        let version = &self.version;
        let message = request.get_mut();
        if version.next_has(Defect::UpgradeForgetsNames) {
            message.name = format!("2-{}", message.name);
        }
        let source = message.volume_content_source.clone();
        if let Some(Type::Snapshot(SnapshotSource { snapshot_id })) =
            source.as_ref().and_then(|source| source.r#type.as_ref())
        {
            if version.spoils(Defect::UpgradeLosesSnapshots, snapshot_id) {
                return Err(Status::not_found("there is no such snapshot"));
            }
            if version.spoils(Defect::UpgradeEmptiesSnapshots, snapshot_id)
                || version.hollow.lock().contains(snapshot_id)
            {
                message.volume_content_source = None;
            }
        }
        if !version.is_next {
            return self.inner.create_volume(request).await;
        }
        let before = self.inner.list_volumes(Request::new(ListVolumesRequest::default())).await?.into_inner();
        let mut done = self.inner.create_volume(request).await?;
        if let Some(volume) = &mut done.get_mut().volume {
            volume.content_source = source;
            let mut old = before.entries.iter().filter_map(|entry| entry.volume.as_ref());
            if !old.any(|old| old.volume_id == volume.volume_id) {
                version.made(&volume.volume_id);
            }
            if version.spoils(Defect::UpgradeChangesContexts, &volume.volume_id) {
                volume.volume_context.insert("format".to_owned(), "2".to_owned());
            }
            if version.next_has(Defect::UpgradeMakesLarger)
                && !version.spoils(Defect::UpgradeMakesLarger, &volume.volume_id)
            {
                volume.capacity_bytes *= 2;
            }
        }
        Ok(done)
    }

    async fn delete_volume(&self, request: Request<DeleteVolumeRequest>) -> Reply<DeleteVolumeResponse> {
        let (version, id) = (&self.version, &request.get_ref().volume_id);
        let is_kept = version.spoils(Defect::UpgradeDeletesNothingOld, id)
            || version.spoils_new(Defect::DowngradeDeletesNothingNew, id);
        match is_kept {
            true => Ok(Response::new(DeleteVolumeResponse {})),
            false => self.inner.delete_volume(request).await,
        }
    }

    async fn list_volumes(&self, request: Request<ListVolumesRequest>) -> Reply<ListVolumesResponse> {
        let version = &self.version;
        let mut done = self.inner.list_volumes(request).await?;
        done.get_mut().entries.retain(|entry| {
            let id = entry.volume.as_ref().map_or("", |volume| volume.volume_id.as_str());
            !version.spoils(Defect::UpgradeListsNewOnly, id)
        });
        for volume in done.get_mut().entries.iter_mut().filter_map(|entry| entry.volume.as_mut()) {
            if version.spoils(Defect::UpgradeChangesIds, &volume.volume_id) {
                volume.volume_id = format!("2-{}", volume.volume_id);
            }
            self.round(volume);
        }
        Ok(done)
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Reply<ControllerGetVolumeResponse> {
        if self.version.spoils(Defect::UpgradeChangesIds, &request.get_ref().volume_id) {
            return Err(Status::not_found("there is no such volume"));
        }
        let mut done = self.inner.controller_get_volume(request).await?;
        if let Some(volume) = &mut done.get_mut().volume {
            self.round(volume);
        }
        Ok(done)
    }

    fn round(&self, volume: &mut Volume) {
        if self.version.spoils(Defect::UpgradeRoundsSizes, &volume.volume_id) {
            volume.capacity_bytes = (volume.capacity_bytes + GIB - 1) / GIB * GIB;
        }
    }

    async fn controller_get_capabilities(
        &self,
        request: Request<ControllerGetCapabilitiesRequest>,
    ) -> Reply<ControllerGetCapabilitiesResponse> {
        use controller_service_capability::{Rpc, Type, rpc};
        let mut done = self.inner.controller_get_capabilities(request).await?;
        if self.version.next_has(Defect::UpgradeDropsClones) {
            let clones = Type::Rpc(Rpc { r#type: rpc::Type::CloneVolume.into() });
            done.get_mut().capabilities.retain(|capability| capability.r#type.as_ref() != Some(&clones));
        }
        Ok(done)
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Reply<ControllerPublishVolumeResponse> {
        let id = request.get_ref().volume_id.clone();
        let mut done = self.inner.controller_publish_volume(request).await?;
        if self.version.spoils(Defect::UpgradeRenamesAttachments, &id) {
            done.get_mut().publish_context.insert("attachment".to_owned(), format!("2-{id}"));
        }
        Ok(done)
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Reply<ControllerUnpublishVolumeResponse> {
        match self.version.spoils(Defect::UpgradeKeepsAttachments, &request.get_ref().volume_id) {
            true => Ok(Response::new(ControllerUnpublishVolumeResponse {})),
            false => self.inner.controller_unpublish_volume(request).await,
        }
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Reply<CreateSnapshotResponse> {
        if !self.version.is_next {
            return self.inner.create_snapshot(request).await;
        }
        let is_spoilt =
            self.version.spoils(Defect::UpgradeSnapshotsEmpty, &request.get_ref().source_volume_id);
        let before =
            self.inner.list_snapshots(Request::new(ListSnapshotsRequest::default())).await?.into_inner();
        let done = self.inner.create_snapshot(request).await?;
        if let Some(snapshot) = &done.get_ref().snapshot {
            if !before.entries.iter().filter_map(|entry| entry.snapshot.as_ref()).any(|old| old == snapshot) {
                self.version.made(&snapshot.snapshot_id);
            }
            if is_spoilt {
                self.version.hollow.lock().insert(snapshot.snapshot_id.clone());
            }
        }
        Ok(done)
    }

    async fn list_snapshots(&self, request: Request<ListSnapshotsRequest>) -> Reply<ListSnapshotsResponse> {
        let mut done = self.inner.list_snapshots(request).await?;
        done.get_mut().entries.retain(|entry| {
            let id = entry.snapshot.as_ref().map_or("", |snapshot| snapshot.snapshot_id.as_str());
            !self.version.spoils(Defect::UpgradeLosesSnapshots, id)
        });
        Ok(done)
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Reply<ControllerExpandVolumeResponse> {
        match self.version.spoils(Defect::UpgradeExpandsNothingOld, &request.get_ref().volume_id) {
            true => Err(Status::internal("the volume has no label of this format")),
            false => self.inner.controller_expand_volume(request).await,
        }
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Reply<NodePublishVolumeResponse> {
        let (id, target) = (request.get_ref().volume_id.clone(), request.get_ref().target_path.clone());
        if self.version.is_beside_next && self.version.spoils_new(Defect::UpgradeNeedsNewNodes, &id) {
            return Err(Status::failed_precondition("the volume has a format of a later version"));
        }
        let done = self.inner.node_publish_volume(request).await?;
        self.version.uses(&target, true);
        if self.version.is_beside_next && self.version.spoils_new(Defect::UpgradeEmptiesOnOldNodes, &id) {
            change(&target, Contents::emptied);
        }
        if self.version.spoils(Defect::UpgradeEmptiesVolumes, &id)
            || self.version.spoils_new(Defect::DowngradeEmptiesNew, &id)
        {
            change(&target, Contents::emptied);
        }
        Ok(done)
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        if self.version.spoils(Defect::UpgradeForgetsPublications, &request.get_ref().volume_id) {
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        let target = request.get_ref().target_path.clone();
        let done = self.inner.node_unpublish_volume(request).await?;
        self.version.uses(&target, false);
        Ok(done)
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Reply<NodeUnstageVolumeResponse> {
        match self.version.spoils(Defect::UpgradeForgetsStagings, &request.get_ref().volume_id) {
            true => Ok(Response::new(NodeUnstageVolumeResponse {})),
            false => self.inner.node_unstage_volume(request).await,
        }
    }

    async fn node_get_info(&self, request: Request<NodeGetInfoRequest>) -> Reply<NodeGetInfoResponse> {
        let mut done = self.inner.node_get_info(request).await?;
        if let Some(place) = &mut done.get_mut().accessible_topology
            && self.version.next_has(Defect::UpgradeHasNewTopology)
        {
            place.segments = std::mem::take(&mut place.segments)
                .into_iter()
                .map(|(key, value)| (format!("{key}-2"), value))
                .collect();
        }
        Ok(done)
    }
}

macro_rules! serve {
    ($service:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for Versioned {
            $(async fn $rpc(&self, request: Request<$request>) -> Reply<$response> {
                self.0.$rpc(request).await
            })*
        }
    };
}

csi_proto::rpcs!(Controller serve);
csi_proto::rpcs!(Node serve);
