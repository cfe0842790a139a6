//! The reference driver, doing one thing wrong: each call goes to it directly, or through the defect that its RPC can have.
//! Tests of suites that look at what is mounted run on it.
#![expect(clippy::unwrap_used, reason = "a driver of tests; a panic is a failure of the test")]

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
    /// Targets that are directories of the node, and show no volume.
    pub(crate) bare: BTreeSet<String>,
    /// Volumes that were ever published for reading only.
    pub(crate) was_readonly: BTreeSet<String>,
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
    /// The inline volume that was published last.
    pub(crate) last_inline: Option<String>,
    /// What was first told of volumes by their ids.
    pub(crate) first_stats: BTreeMap<String, NodeGetVolumeStatsResponse>,
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

/// The defects of an RPC, or the driver itself.
macro_rules! behind {
    ($faulty:ident create_volume) => {
        $faulty.faults
    };
    ($faulty:ident delete_volume) => {
        $faulty.faults
    };
    ($faulty:ident controller_publish_volume) => {
        $faulty.faults
    };
    ($faulty:ident controller_unpublish_volume) => {
        $faulty.faults
    };
    ($faulty:ident get_capacity) => {
        $faulty.faults
    };
    ($faulty:ident create_snapshot) => {
        $faulty.faults
    };
    ($faulty:ident delete_snapshot) => {
        $faulty.faults
    };
    ($faulty:ident controller_expand_volume) => {
        $faulty.faults
    };
    ($faulty:ident controller_modify_volume) => {
        $faulty.faults
    };
    ($faulty:ident create_volume_group_snapshot) => {
        $faulty.faults
    };
    ($faulty:ident node_stage_volume) => {
        $faulty.faults
    };
    ($faulty:ident node_unstage_volume) => {
        $faulty.faults
    };
    ($faulty:ident node_publish_volume) => {
        $faulty.faults
    };
    ($faulty:ident node_unpublish_volume) => {
        $faulty.faults
    };
    ($faulty:ident node_get_volume_stats) => {
        $faulty.faults
    };
    ($faulty:ident node_expand_volume) => {
        $faulty.faults
    };
    ($faulty:ident node_get_info) => {
        $faulty.faults
    };
    ($faulty:ident $rpc:ident) => {
        $faulty.driver
    };
}

macro_rules! serve {
    ($service:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for Faulty {
            $(async fn $rpc(&self, request: Request<$request>) -> Reply<$response> {
                behind!(self $rpc).$rpc(request).await
            })*
        }
    };
}

csi_proto::rpcs!(Controller serve);
csi_proto::rpcs!(GroupController serve);
csi_proto::rpcs!(Node serve);
