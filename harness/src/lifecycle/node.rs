//! The way of a volume to a workload on a node.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use csi_proto::{Call as _, Service, UnaryCall, v1};
use futures_util::future::BoxFuture;
use tonic::Code;

use crate::client::answer::Answer;
use crate::client::record::CallRecord;
use crate::client::reply::Reply;
use crate::client::retry::PendingCall;
use crate::config::{AccessType, Pairs};
use crate::lifecycle::cx::Cx;
use crate::protocol::capability::Capability;
use crate::resources::mounts;
use crate::resources::paths::{Layout, PathKind, PathParts};
use crate::resources::read_back;
use crate::resources::resource::Resource;
use crate::resources::workload;
use crate::spec::verdict::Stop;

/// Bits of a file's mode without one of which only root writes.
const WRITE_BITS: u32 = 0o222;

/// A volume to publish on the node: made for the check, or pre-provisioned.
#[derive(Clone, Debug, Default)]
pub struct NodeVolume {
    /// volume_id.
    pub id: String,
    /// volume_context.
    pub context: Pairs,
    /// Size in bytes, 0 where unknown.
    pub size_bytes: i64,
    /// True if it can only be published with `readonly`, which the user states of a pre-provisioned volume.
    pub readonly: bool,
    /// publish_context configured for a pre-provisioned volume.
    pub publish_context: Pairs,
}

impl From<v1::Volume> for NodeVolume {
    fn from(volume: v1::Volume) -> NodeVolume {
        NodeVolume {
            id: volume.volume_id,
            context: volume.volume_context,
            size_bytes: volume.capacity_bytes,
            readonly: false,
            publish_context: Pairs::new(),
        }
    }
}

/// A volume that the node may use.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The volume.
    pub volume: NodeVolume,
    /// The publish_context of ControllerPublishVolume, if the driver has that RPC.
    pub publish_context: Pairs,
}

/// A volume that is staged, or needs no staging.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The volume, attached.
    pub attached: Attached,
    /// staging_target_path; empty where the driver does not stage.
    pub staging_path: String,
}

/// A volume that a workload could use.
#[derive(Clone, Debug)]
pub struct Published {
    /// The volume, staged.
    pub staged: Staged,
    /// target_path.
    pub target_path: String,
}

impl Cx {
    /// A volume to publish: a new one, or a pre-provisioned one that no other check has.
    ///
    /// # Errors
    /// Broken if the driver refuses to create one; skip if no pre-provisioned one fits.
    pub async fn node_volume(&self) -> Result<NodeVolume, Stop> {
        self.usable_volume(false).await
    }

    /// A volume to publish and to write to.
    ///
    /// # Errors
    /// Broken if the driver refuses to create one; skip if no pre-provisioned one fits.
    pub async fn writable_volume(&self) -> Result<NodeVolume, Stop> {
        self.usable_volume(true).await
    }

    fn usable_volume(&self, writable: bool) -> BoxFuture<'_, Result<NodeVolume, Stop>> {
        Box::pin(async move {
            if self.target().capabilities().has(Capability::CreateDeleteVolume) {
                let request = self.create_node_volume_request().await?;
                return Ok(self.create_volume(request).setup("a volume").await?.into());
            }
            self.lease_volume(writable).await
        })
    }

    /// A CreateVolume request for a volume that this node can reach, where the endpoint serves a node that reports its topology.
    ///
    /// # Errors
    /// Broken if NodeGetInfo fails.
    pub fn create_node_volume_request(&self) -> BoxFuture<'_, Result<v1::CreateVolumeRequest, Stop>> {
        Box::pin(async move {
            let mut request = self.create_volume_request();
            if request.accessibility_requirements.is_none()
                && self.target().capabilities().has(Capability::VolumeAccessibilityConstraints)
                && self.target().serves(Service::Node)
            {
                let reply = self.call(v1::NodeGetInfoRequest::default()).await;
                // A volume that the node may not reach is better than none, since not every check needs the node.
                if matches!(reply.answer(), Answer::Refused(refused) if refused.code == Code::Unimplemented) {
                    return Ok(request);
                }
                let info = reply.setup("the topology of the node")?;
                request.accessibility_requirements = info
                    .accessible_topology
                    // A topology without segments names no place, and a requirement made of it would be empty.
                    .filter(|here| !here.segments.is_empty())
                    .map(|here| v1::TopologyRequirement {
                        requisite: vec![here.clone()],
                        preferred: vec![here],
                    });
            }
            Ok(request)
        })
    }

    /// A pre-provisioned volume that no other check has.
    ///
    /// # Errors
    /// Skip if none fits the access type.
    pub async fn provisioned_volume(&self) -> Result<NodeVolume, Stop> {
        self.lease_volume(false).await
    }

    fn lease_volume(&self, writable: bool) -> BoxFuture<'_, Result<NodeVolume, Stop>> {
        Box::pin(async move {
            let volume = self.lease(writable).await.map_err(|held| {
                let volumes = match held {
                    0 => "a pre-provisioned volume".to_owned(),
                    held => format!("{} or more pre-provisioned volumes", held + 1),
                };
                let only = if writable { ", and not only for reading" } else { "" };
                Stop::skip(format!("needs {volumes} for {} access{only}", self.access()))
            })?;
            Ok(NodeVolume {
                id: volume.id,
                context: volume.context,
                size_bytes: volume.size_bytes,
                readonly: volume.readonly,
                publish_context: volume.publish_context,
            })
        })
    }

    /// The id of the node that the endpoint serves.
    ///
    /// # Errors
    /// Broken if NodeGetInfo is refused: a check of it reports that.
    pub fn node_id(&self) -> BoxFuture<'_, Result<String, Stop>> {
        Box::pin(async move {
            Ok(self.call(v1::NodeGetInfoRequest::default()).setup("the id of the node").await?.node_id)
        })
    }

    /// A ControllerPublishVolume request.
    pub fn controller_publish_request(
        &self,
        volume: &NodeVolume,
        node_id: &str,
    ) -> v1::ControllerPublishVolumeRequest {
        v1::ControllerPublishVolumeRequest {
            volume_id: volume.id.clone(),
            node_id: node_id.to_owned(),
            volume_capability: Some(self.capability()),
            volume_context: volume.context.clone(),
            readonly: volume.readonly && self.target().capabilities().has(Capability::PublishReadonly),
            ..Default::default()
        }
    }

    /// Sends ControllerPublishVolume, once there is room on the node. The volume is detached after the check.
    pub fn controller_publish(
        &self,
        request: v1::ControllerPublishVolumeRequest,
    ) -> PendingCall<'_, v1::ControllerPublishVolumeResponse> {
        let (volume_id, node_id) = (request.volume_id.clone(), request.node_id.clone());
        let resource = Resource::Attachment { volume_id, node_id };
        PendingCall::new(self, v1::ControllerPublishVolumeRequest::RPC, move || {
            let (resource, request) = (resource.clone(), request.clone());
            if request.readonly {
                self.target().read_back.attached_readonly(&request.volume_id);
            }
            async move {
                self.enter_node().await;
                self.making(resource, self.call(request).once()).await
            }
        })
    }

    /// Sends ControllerUnpublishVolume.
    pub fn controller_unpublish(
        &self,
        volume_id: &str,
        node_id: &str,
    ) -> PendingCall<'_, v1::ControllerUnpublishVolumeResponse> {
        let (volume_id, node_id) = (volume_id.to_owned(), node_id.to_owned());
        let request = v1::ControllerUnpublishVolumeRequest {
            volume_id: volume_id.clone(),
            node_id: node_id.clone(),
            ..Default::default()
        };
        self.unmake(Resource::Attachment { volume_id, node_id }, request)
    }

    /// A NodeStageVolume request for a path from [`Cx::staging_path`].
    pub fn stage_request(&self, attached: &Attached, staging_path: &str) -> v1::NodeStageVolumeRequest {
        v1::NodeStageVolumeRequest {
            volume_id: attached.volume.id.clone(),
            publish_context: attached.publish_context.clone(),
            staging_target_path: staging_path.to_owned(),
            volume_capability: Some(self.capability()),
            volume_context: attached.volume.context.clone(),
            ..Default::default()
        }
    }

    /// Sends NodeStageVolume. The volume is unstaged after the check.
    pub fn node_stage(
        &self,
        request: v1::NodeStageVolumeRequest,
    ) -> PendingCall<'_, v1::NodeStageVolumeResponse> {
        let (volume_id, path) = (request.volume_id.clone(), request.staging_target_path.clone());
        self.paths().renew_staging(Path::new(&path));
        self.make(Resource::Staging { volume_id, path }, request)
    }

    /// Sends NodeUnstageVolume.
    pub fn node_unstage(
        &self,
        volume_id: &str,
        path: &str,
    ) -> PendingCall<'_, v1::NodeUnstageVolumeResponse> {
        let (volume_id, path) = (volume_id.to_owned(), path.to_owned());
        let request =
            v1::NodeUnstageVolumeRequest { volume_id: volume_id.clone(), staging_target_path: path.clone() };
        self.taking_away(Resource::Staging { volume_id: volume_id.clone(), path }, volume_id, request)
    }

    /// A NodePublishVolume request for a path from [`Cx::target_path`].
    pub fn publish_request(&self, staged: &Staged, target_path: &str) -> v1::NodePublishVolumeRequest {
        v1::NodePublishVolumeRequest {
            volume_id: staged.attached.volume.id.clone(),
            publish_context: staged.attached.publish_context.clone(),
            staging_target_path: staged.staging_path.clone(),
            target_path: target_path.to_owned(),
            readonly: staged.attached.volume.readonly,
            volume_capability: Some(self.capability()),
            volume_context: staged.attached.volume.context.clone(),
            ..Default::default()
        }
    }

    /// A NodeGetVolumeStats request for a volume at a path, with everything that an orchestrator sends.
    pub fn stats_request(&self, staged: &Staged, volume_path: &str) -> v1::NodeGetVolumeStatsRequest {
        v1::NodeGetVolumeStatsRequest {
            volume_id: staged.attached.volume.id.clone(),
            volume_path: volume_path.to_owned(),
            staging_target_path: staged.staging_path.clone(),
        }
    }

    /// A NodeGetVolumeHealth request for a volume with both paths, as kubelet sends it.
    pub fn health_request(&self, staged: &Staged, publish_path: &str) -> v1::NodeGetVolumeHealthRequest {
        v1::NodeGetVolumeHealthRequest {
            volume_id: staged.attached.volume.id.clone(),
            volume_publish_path: publish_path.to_owned(),
            staging_target_path: staged.staging_path.clone(),
        }
    }

    /// Sends NodePublishVolume. The volume is unpublished after the check.
    pub fn node_publish(
        &self,
        request: v1::NodePublishVolumeRequest,
    ) -> PendingCall<'_, v1::NodePublishVolumeResponse> {
        let (volume_id, path) = (request.volume_id.clone(), request.target_path.clone());
        let resource = Resource::Publication { volume_id, path };
        PendingCall::new(self, v1::NodePublishVolumeRequest::RPC, move || {
            self.read_back(resource.clone(), request.clone())
        })
    }

    /// Sends a NodePublishVolume that no orchestrator would send. The mount is not compared with the request, because
    /// an absurd request has no right result. The volume is unpublished after the check.
    pub fn node_publish_hostile(
        &self,
        request: v1::NodePublishVolumeRequest,
    ) -> PendingCall<'_, v1::NodePublishVolumeResponse> {
        let (volume_id, path) = (request.volume_id.clone(), request.target_path.clone());
        self.make(Resource::Publication { volume_id, path }, request)
    }

    /// Publishes a volume, and looks whether it is published as it was asked for, where the tests see that.
    async fn read_back(
        &self,
        resource: Resource,
        request: v1::NodePublishVolumeRequest,
    ) -> Reply<v1::NodePublishVolumeResponse> {
        let target = self.target();
        let under_way = target.read_back.begin(self.node(), &request.volume_id);
        let staging = Resource::Staging {
            volume_id: request.volume_id.clone(),
            path: request.staging_target_path.clone(),
        };
        let is_staged = self.has(&staging);
        let reply = self.making(resource, self.call(request.clone()).once()).await;
        // A request with an access type that the volume was not made for is left to the check that makes it.
        if matches!(reply.answer(), Answer::Ok(_))
            && read_back::is_for(self.access(), &request)
            && target.node(self.node()).sees_files().await
        {
            let volume = BTreeSet::from([request.volume_id.clone()]);
            let changes = || self.log().changes_of(&volume);
            let steps = || changes().iter().map(CallRecord::reproduction).collect();
            target.read_back.published(&under_way, &request, is_staged, self.label(), steps);
        }
        if !matches!(reply.answer(), Answer::Unknown(_)) {
            target.read_back.end(under_way);
        }
        reply
    }

    /// A call that takes a volume from a place on this node.
    fn taking_away<Q: UnaryCall>(
        &self,
        resource: Resource,
        volume_id: String,
        request: Q,
    ) -> PendingCall<'_, Q::Response> {
        PendingCall::new(self, Q::RPC, move || {
            let (resource, request, volume_id) = (resource.clone(), request.clone(), volume_id.clone());
            async move {
                let under_way = self.target().read_back.begin(self.node(), &volume_id);
                let reply = self.undoing(resource.clone(), self.call(request).once()).await;
                if matches!(reply.answer(), Answer::Ok(_)) {
                    let read_back = &self.target().read_back;
                    match &resource {
                        Resource::Publication { path, .. } => read_back.unpublished(self.node(), path),
                        _ => read_back.left_node(self.node(), &volume_id),
                    }
                    if self.is_still_mounted(&resource).await {
                        self.owns(resource);
                    }
                }
                if !matches!(reply.answer(), Answer::Unknown(_)) {
                    self.target().read_back.end(under_way);
                }
                reply
            }
        })
    }

    /// Returns true if there is still a mount at the place from which the driver says that it has taken the volume.
    async fn is_still_mounted(&self, resource: &Resource) -> bool {
        let (Resource::Publication { path, .. } | Resource::Staging { path, .. }) = resource else {
            return false;
        };
        self.is_mount_point(path) && self.target().node(self.node()).sees_files().await
    }

    /// Sends NodeUnpublishVolume.
    pub fn node_unpublish(
        &self,
        volume_id: &str,
        path: &str,
    ) -> PendingCall<'_, v1::NodeUnpublishVolumeResponse> {
        let (volume_id, path) = (volume_id.to_owned(), path.to_owned());
        let request =
            v1::NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path: path.clone() };
        self.taking_away(Resource::Publication { volume_id: volume_id.clone(), path }, volume_id, request)
    }

    /// Attaches a volume to this node, if the driver attaches volumes. Waits for room on a node that other checks have
    /// filled.
    ///
    /// # Errors
    /// Broken if a call on the way is refused.
    pub fn attached(&self, volume: NodeVolume) -> BoxFuture<'_, Result<Attached, Stop>> {
        Box::pin(async move {
            if !self.target().capabilities().has(Capability::PublishUnpublishVolume) {
                return Ok(Attached { publish_context: volume.publish_context.clone(), volume });
            }
            let node_id = self.node_id().await?;
            let request = self.controller_publish_request(&volume, &node_id);
            let response = self.controller_publish(request).setup("an attached volume").await?;
            Ok(Attached { volume, publish_context: response.publish_context })
        })
    }

    /// A volume that was attached, detached and deleted just now, so that its id and contexts have the driver's form. A driver that finds
    /// its device by a context may take the disk of the host if the context is missing.
    ///
    /// # Errors
    /// Broken if a call on the way is refused.
    pub async fn deleted_volume(&self) -> Result<Attached, Stop> {
        let volume = self.node_volume().await?;
        // Only a node service gets the contexts.
        let has_node = self.target().serves(Service::Node);
        let attached = match has_node {
            true => self.attached(volume).await?,
            false => Attached { publish_context: volume.publish_context.clone(), volume },
        };
        if has_node && self.target().capabilities().has(Capability::PublishUnpublishVolume) {
            let node_id = self.node_id().await?;
            self.controller_unpublish(&attached.volume.id, &node_id)
                .setup("a volume that is detached")
                .await?;
        }
        self.delete_volume(&attached.volume.id).setup("a volume that is deleted").await?;
        Ok(attached)
    }

    /// Stages a volume on this node, if the driver stages volumes.
    ///
    /// # Errors
    /// Broken if a call on the way is refused.
    pub fn staged(&self, attached: Attached) -> BoxFuture<'_, Result<Staged, Stop>> {
        Box::pin(async move {
            if !self.target().capabilities().has(Capability::StageUnstageVolume) {
                return Ok(Staged { attached, staging_path: String::new() });
            }
            let staging_path = self.staging_path_of(&attached.volume.id).await?;
            self.node_stage(self.stage_request(&attached, &staging_path)).setup("a staged volume").await?;
            Ok(Staged { attached, staging_path })
        })
    }

    /// A volume published on this node.
    ///
    /// # Errors
    /// Broken if a call on the way is refused.
    pub fn published(&self, staged: Staged) -> BoxFuture<'_, Result<Published, Stop>> {
        Box::pin(async move {
            let target_path = self.target_path().await?;
            self.node_publish(self.publish_request(&staged, &target_path))
                .setup("a published volume")
                .await?;
            Ok(Published { staged, target_path })
        })
    }

    /// A staging directory of this check's own, made as the orchestrator makes it.
    ///
    /// # Errors
    /// Broken if it cannot be made.
    pub async fn staging_path(&self) -> Result<String, Stop> {
        self.staging_path_of(&self.unique_name()).await
    }

    /// Makes a staging directory for a volume, as the orchestrator does. kubelet always uses one directory for the file
    /// system of a volume.
    ///
    /// # Errors
    /// Broken if it cannot be made.
    pub async fn staging_path_of(&self, volume_id: &str) -> Result<String, Stop> {
        let place = self.paths().layout().staging(volume_id, &self.unique_name(), self.access());
        self.make_staging(place).await
    }

    /// A staging directory whose path has exactly this many bytes.
    ///
    /// # Errors
    /// Broken if it cannot be made; skip if paths of that length are impossible here.
    pub async fn staging_path_of_length(&self, bytes: usize) -> Result<String, Stop> {
        let mut name = self.unique_name();
        let above = self.paths().staging_dir().as_os_str().len() + 1;
        let missing = bytes.checked_sub(above + name.len()).ok_or_else(|| no_path_of(bytes))?;
        name.push_str(&"x".repeat(missing));
        let path = self.make_staging(PathParts::flat(&name)).await?;
        if path.len() == bytes { Ok(path) } else { Err(no_path_of(bytes)) }
    }

    /// The staging directory that kubelet has for a volume: found by its id for a file system, by `name`, under which the
    /// orchestrator knows the volume, for a device.
    ///
    /// # Errors
    /// Broken if it cannot be made.
    pub async fn kubelet_staging_path(
        &self,
        volume_id: &str,
        name: &str,
        access: AccessType,
    ) -> Result<String, Stop> {
        self.make_staging(self.paths().layout().staging(volume_id, name, access)).await
    }

    fn make_staging(&self, place: PathParts) -> BoxFuture<'_, Result<String, Stop>> {
        Box::pin(async move {
            let path = self.paths().make_staging(&place).await.map_err(Stop::Broken)?;
            self.made(&path.to_string_lossy());
            self.owns(Resource::StagingDirectory(path.clone()));
            text(path)
        })
    }

    /// A target path of this check's own: the parent exists, the path itself is for the driver to make.
    ///
    /// # Errors
    /// Broken if the parent cannot be made.
    pub async fn target_path(&self) -> Result<String, Stop> {
        let place = self.paths().layout().target(&self.unique_name(), self.access());
        self.make_target(place).await
    }

    /// The target path that kubelet has for a volume known by `name` in the pod with this UID.
    ///
    /// # Errors
    /// Broken if the parent cannot be made.
    pub async fn kubelet_target_path(
        &self,
        pod_uid: &str,
        name: &str,
        access: AccessType,
    ) -> Result<String, Stop> {
        self.make_target(self.paths().layout().target_in(pod_uid, name, access)).await
    }

    /// The directory of kubelet on this node, where paths are laid out as it does.
    pub fn kubelet_dir(&self) -> &Path {
        self.paths().mount_dir()
    }

    /// The file in which kubelet notes what it has to know of a block volume that it knows by `name`. It is not there yet,
    /// but the directories above it are.
    ///
    /// # Errors
    /// Broken if they cannot be made.
    pub async fn kubelet_device_data_path(&self, name: &str) -> Result<String, Stop> {
        self.make_target(Layout::device_data(name)).await
    }

    /// The directory in which kubelet maps a block volume that it knows by `name` to its pods.
    ///
    /// # Errors
    /// Broken if it cannot be made.
    pub async fn kubelet_device_map_path(&self, name: &str) -> Result<String, Stop> {
        self.make_staging(Layout::device_map(name)).await
    }

    /// Writes a file that belongs to the check and is removed after it, such as kubelet's `vol_data.json`.
    ///
    /// # Errors
    /// Broken if it cannot be written.
    pub async fn write_file(&self, path: &Path, text: &str) -> Result<(), Stop> {
        self.owns(Resource::File(path.to_owned()));
        let written = tokio::fs::write(path, text).await;
        written.map_err(|error| Stop::broken(format!("failed to write {}: {error}", path.display())))
    }

    /// A target path that has exactly this many bytes.
    ///
    /// # Errors
    /// Broken if the parent cannot be made; skip if paths of that length are impossible here.
    pub async fn target_path_of_length(&self, bytes: usize) -> Result<String, Stop> {
        let mut path = self.make_target(PathParts::flat(&self.unique_name())).await?;
        let missing = bytes.checked_sub(path.len()).ok_or_else(|| no_path_of(bytes))?;
        path.push_str(&"x".repeat(missing));
        // A driver may leave this path, which is then in the way of the directories above it.
        self.owns(Resource::TargetDirectories(PathBuf::from(&path)));
        Ok(path)
    }

    fn make_target(&self, place: PathParts) -> BoxFuture<'_, Result<String, Stop>> {
        Box::pin(async move {
            let path = self.paths().make_target(&place).await.map_err(Stop::Broken)?;
            self.made(&path.to_string_lossy());
            self.owns(Resource::TargetDirectories(path.clone()));
            text(path)
        })
    }

    /// Skips the check where the tests neither share the driver's file system nor have a command that looks at it.
    ///
    /// # Errors
    /// Skip, with the flag that is missing.
    pub fn need_path_kind(&self) -> Result<(), Stop> {
        if self.paths().commands().is_some_and(|commands| commands.check_path_command.is_none()) {
            return Err(Stop::skip("paths are made by commands, and no check-path-command is configured"));
        }
        Ok(())
    }

    /// Finds out what lies at a path of the driver's file system.
    ///
    /// # Errors
    /// Broken if it cannot be looked at.
    pub async fn path_kind(&self, path: &str) -> Result<PathKind, Stop> {
        self.paths().check(Path::new(path)).await.map_err(Stop::Broken)
    }

    /// Returns true if the tests see a mount at a path. Always false if they do not share the driver's file system.
    pub fn is_mount_point(&self, path: &str) -> bool {
        self.mounts_at(path) > 0
    }

    /// The number of mounts that the tests see at a path, one over the other. Zero if they do not share the driver's
    /// file system.
    pub fn mounts_at(&self, path: &str) -> usize {
        if self.paths().commands().is_some() { 0 } else { mounts::at(Path::new(path)).len() }
    }

    /// Returns true if the tests see the volume at a target path: a mount, or a device. Plain files prove nothing,
    /// because without a mount their owner is unknown, even if the tests see the driver's files.
    pub fn sees_published(&self, path: &str) -> bool {
        self.paths().commands().is_none() && workload::is_published(Path::new(path))
    }

    /// Unmounts everything at or below paths that the run has made, as a reboot of the node does; directories stay.
    /// Returns the number of mounts. Only for drivers for which [`Cx::shares_files_with_driver`] returns true.
    ///
    /// # Errors
    /// Broken if one cannot be unmounted.
    pub fn unmount_below<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Result<usize, Stop> {
        let mut count = 0;
        // Looking at a mount whose device or process is gone fails, so that an error does not mean that nothing is there.
        let is_there = |path: &&Path| path.try_exists().unwrap_or(true);
        for path in paths.into_iter().map(Path::new).filter(is_there) {
            let failed = |error| Stop::broken(format!("failed to unmount {}: {error}", path.display()));
            count += mounts::unmount_below(path).map_err(failed)?;
        }
        Ok(count)
    }

    /// Finds out if a workload could write into the directory at a target path, by making a file there and removing it.
    /// `None` if the tests may not see the volume there.
    pub fn is_writable(&self, path: &str) -> Option<bool> {
        let found =
            std::fs::metadata(path).ok().filter(|found| self.sees_published(path) && found.is_dir())?;
        let file = Path::new(path).join(self.unique_name());
        let written = found.permissions().mode() & WRITE_BITS != 0 && std::fs::write(&file, "").is_ok();
        // A file that cannot be removed is found when the volume is unpublished.
        let _ = std::fs::remove_file(&file);
        Some(written)
    }

    /// The process of the driver, by the number that it has here: the one that listens at the endpoint of this node, unless the user
    /// names another; none where it cannot be known, as over TCP.
    pub async fn driver_process(&self) -> Option<u32> {
        if self.config().driver_pid.is_some() {
            return self.config().driver_pid;
        }
        let pid = mounts::listener(self.target().node(self.node()).endpoint()).await?;
        u32::try_from(pid).ok()
    }

    /// Returns true if the tests are known to see what the driver does to files: they have its mount namespace and its
    /// root directory, or a command of the user looks where the driver is.
    pub async fn shares_files_with_driver(&self) -> bool {
        self.target().node(self.node()).shares_files().await
    }
}

fn no_path_of(bytes: usize) -> Stop {
    Stop::skip(format!(
        "there can be no path of {bytes} bytes here; choose other --mount-dir and --staging-dir"
    ))
}

fn text(path: PathBuf) -> Result<String, Stop> {
    path.into_os_string().into_string().map_err(|path| {
        Stop::broken(format!("{} is not UTF-8, which the protocol requires of paths", path.display()))
    })
}
