//! The reference driver, doing one thing wrong: each call goes to it directly, or through the defect that its RPC can have.
//! Tests of suites that look at what is mounted run on it.
#![expect(clippy::unwrap_used, reason = "a driver of tests; a panic is a failure of the test")]
#![warn(missing_docs)]

mod contents;
mod controller;
mod data;
mod defect;
mod node;
pub mod plain;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use csi_hostpath_driver::HostpathDriver;
use csi_proto::v1::controller_server::{Controller, ControllerServer};
use csi_proto::v1::group_controller_server::{GroupController, GroupControllerServer};
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::{Node, NodeServer};
use csi_proto::v1::snapshot_metadata_server::{SnapshotMetadata, SnapshotMetadataServer};
use csi_proto::v1::*;
use tokio::sync::Mutex;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

pub use defect::Defect;

use data::Data;

pub(crate) type Reply<T> = Result<Response<T>, Status>;

/// The driver with a defect: each call goes to it directly, or through the defects that its RPC can have.
#[derive(Clone, Debug)]
struct Faulty {
    driver: HostpathDriver,
    faults: Faults,
}

/// Calls that may go wrong.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) driver: HostpathDriver,
    /// `None` is a right driver.
    pub(crate) defect: Option<Defect>,
    /// Held while a call is made, so that defects do not depend on which call is quicker.
    pub(crate) seen: Arc<Mutex<Seen>>,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Volumes that were ever staged.
    pub(crate) staged: BTreeSet<String>,
    /// Those of them that were staged again and not published since.
    pub(crate) restaged: BTreeSet<String>,
    /// Where volumes are staged.
    pub(crate) staging_paths: BTreeSet<String>,
    /// Volumes that were made from something.
    pub(crate) copies: BTreeSet<String>,
    /// Those of them that were not published since.
    pub(crate) new_copies: BTreeSet<String>,
    /// Paths with a mount over that of the driver, once for each.
    pub(crate) stacked: Vec<String>,
    /// The volume at each target, in the order of publication.
    pub(crate) published: Vec<(String, String)>,
    /// Targets with a mount over that of the driver.
    pub(crate) covered: BTreeSet<String>,
    /// Names of volumes by their ids.
    pub(crate) names: BTreeMap<String, String>,
    /// Names of which a volume was deleted.
    pub(crate) deleted_names: BTreeSet<String>,
    /// Snapshots by their ids.
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    /// The second members of group snapshots by their ids, with their volumes.
    pub(crate) late_members: BTreeMap<String, String>,
    /// Volumes that are attached.
    pub(crate) attached: BTreeSet<String>,
    /// Whether blocks of a snapshot were asked for.
    pub(crate) streamed: bool,
    pub(crate) data: Data,
}

/// The services of the driver with a defect.
pub fn routes(driver: &HostpathDriver, defect: Option<Defect>) -> Routes {
    let faults = Faults { driver: driver.clone(), defect, seen: Arc::default() };
    faults.start();
    let faulty = Faulty { driver: driver.clone(), faults };
    Routes::new(IdentityServer::new(driver.clone()))
        .add_service(ControllerServer::new(faulty.clone()))
        .add_service(GroupControllerServer::new(faulty.clone()))
        .add_service(SnapshotMetadataServer::new(faulty.clone()))
        .add_service(NodeServer::new(faulty))
}

impl Faults {
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// What the driver takes a capability for.
    pub(crate) fn misread(&self, capability: &mut VolumeCapability) {
        let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type else { return };
        match self.defect {
            Some(Defect::IgnoresGroup) => mount.volume_mount_group.clear(),
            Some(Defect::IgnoresFsType) => "ext4".clone_into(&mut mount.fs_type),
            Some(Defect::IgnoresMountFlags) => mount.mount_flags.clear(),
            Some(Defect::TakesFirstFlagOnly) => mount.mount_flags.truncate(1),
            Some(Defect::ForbidsExecution) => mount.mount_flags.push("noexec".to_owned()),
            _ => {}
        }
    }
}

impl Faults {
    /// Whether there is room for one more stream.
    async fn has_room_for_stream(&self) -> Result<(), Status> {
        let others = std::mem::replace(&mut self.seen.lock().await.streamed, true);
        match others && self.has(Defect::KeepsStreams) {
            true => Err(Status::resource_exhausted("too many streams")),
            false => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl SnapshotMetadata for Faulty {
    type GetMetadataAllocatedStream = <HostpathDriver as SnapshotMetadata>::GetMetadataAllocatedStream;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Reply<Self::GetMetadataAllocatedStream> {
        self.faults.has_room_for_stream().await?;
        self.driver.get_metadata_allocated(request).await
    }

    type GetMetadataDeltaStream = <HostpathDriver as SnapshotMetadata>::GetMetadataDeltaStream;

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Reply<Self::GetMetadataDeltaStream> {
        self.faults.has_room_for_stream().await?;
        self.driver.get_metadata_delta(request).await
    }
}

macro_rules! service {
    ($service:ident: $($through:ident.$call:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for Faulty {
            $(
                async fn $call(&self, request: Request<$request>) -> Reply<$response> {
                    self.$through.$call(request).await
                }
            )*
        }
    };
}

service! {
    Controller:
    faults.create_volume(CreateVolumeRequest) -> CreateVolumeResponse;
    faults.delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse;
    faults.controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse;
    faults.controller_unpublish_volume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse;
    driver.validate_volume_capabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse;
    driver.list_volumes(ListVolumesRequest) -> ListVolumesResponse;
    faults.get_capacity(GetCapacityRequest) -> GetCapacityResponse;
    driver.controller_get_capabilities(ControllerGetCapabilitiesRequest) -> ControllerGetCapabilitiesResponse;
    faults.create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse;
    faults.delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse;
    driver.list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
    driver.get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse;
    faults.controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse;
    driver.controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse;
    faults.controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse;
    driver.controller_list_volume_health(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse;
    driver.controller_get_volume_health(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse;
}

service! {
    GroupController:
    driver.group_controller_get_capabilities(GroupControllerGetCapabilitiesRequest) -> GroupControllerGetCapabilitiesResponse;
    faults.create_volume_group_snapshot(CreateVolumeGroupSnapshotRequest) -> CreateVolumeGroupSnapshotResponse;
    driver.delete_volume_group_snapshot(DeleteVolumeGroupSnapshotRequest) -> DeleteVolumeGroupSnapshotResponse;
    driver.get_volume_group_snapshot(GetVolumeGroupSnapshotRequest) -> GetVolumeGroupSnapshotResponse;
}

service! {
    Node:
    faults.node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
    faults.node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
    faults.node_publish_volume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
    faults.node_unpublish_volume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
    faults.node_get_volume_stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
    faults.node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
    driver.node_get_capabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse;
    faults.node_get_info(NodeGetInfoRequest) -> NodeGetInfoResponse;
    driver.node_get_volume_health(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
    driver.node_get_storage_health(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse;
}
