//! A client with the calls of the benchmark.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use csi_proto::v1::controller_client::ControllerClient;
use csi_proto::v1::node_client::NodeClient;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::v1::{
    CapacityRange, CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
    VolumeCapability,
};
use tonic::transport::Channel;

use crate::error::{BenchError, IoContext, Result};

/// Makes the names of volumes and snapshots unique within a run.
static NEXT: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A plain mount capability, for which this driver creates a directory.
    Directory,
    /// A volume with its own file system, if the driver has such; other drivers ignore the parameter.
    Image,
    Block,
}

/// A volume, and the fields that later calls have to repeat.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) id: String,
    capability: VolumeCapability,
    context: std::collections::BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) staging: PathBuf,
    pub(crate) target: PathBuf,
}

impl Paths {
    /// Creates what a CO creates: the staging directory, and the parent directory of the target.
    pub(crate) fn make(directory: &Path) -> Result<Paths> {
        let paths =
            Paths { staging: directory.join("staging"), target: directory.join("pod").join("target") };
        for made in [&paths.staging, &directory.join("pod")] {
            std::fs::create_dir_all(made).on("make", made)?;
        }
        Ok(paths)
    }
}

/// A client of one driver. Clones share the connection, as the workers of a sidecar do.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    controller: ControllerClient<Channel>,
    node: NodeClient<Channel>,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Client {
        Client { controller: ControllerClient::new(channel.clone()), node: NodeClient::new(channel) }
    }

    pub(crate) async fn create_volume(&mut self, kind: Kind, bytes: i64) -> Result<Volume> {
        const RPC: &str = "CreateVolume";
        let capability = capability(kind);
        let request = CreateVolumeRequest {
            name: unique("volume"),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            volume_capabilities: vec![capability.clone()],
            parameters: (kind == Kind::Image)
                .then(|| ("backend".to_owned(), "image".to_owned()))
                .into_iter()
                .collect(),
            ..CreateVolumeRequest::default()
        };
        let answer = self.controller.create_volume(request).await.map_err(failed(RPC))?.into_inner();
        let volume = answer.volume.ok_or(BenchError::Answer { rpc: RPC, field: "volume" })?;
        Ok(Volume { id: volume.volume_id, capability, context: volume.volume_context })
    }

    pub(crate) async fn delete_volume(&mut self, id: String) -> Result<()> {
        let request = DeleteVolumeRequest { volume_id: id, ..DeleteVolumeRequest::default() };
        self.controller.delete_volume(request).await.map_err(failed("DeleteVolume"))?;
        Ok(())
    }

    /// Creates a snapshot that is ready to use, and returns its id.
    pub(crate) async fn create_snapshot(&mut self, volume: &Volume) -> Result<String> {
        const RPC: &str = "CreateSnapshot";
        let request = CreateSnapshotRequest {
            source_volume_id: volume.id.clone(),
            name: unique("snapshot"),
            ..CreateSnapshotRequest::default()
        };
        let answer = self.controller.create_snapshot(request).await.map_err(failed(RPC))?.into_inner();
        match answer.snapshot {
            Some(snapshot) if snapshot.ready_to_use => Ok(snapshot.snapshot_id),
            _ => Err(BenchError::Answer { rpc: RPC, field: "snapshot that is ready" }),
        }
    }

    pub(crate) async fn delete_snapshot(&mut self, id: String) -> Result<()> {
        let request = DeleteSnapshotRequest { snapshot_id: id, ..DeleteSnapshotRequest::default() };
        self.controller.delete_snapshot(request).await.map_err(failed("DeleteSnapshot"))?;
        Ok(())
    }

    pub(crate) async fn mount(&mut self, volume: &Volume, paths: &Paths) -> Result<()> {
        let stage = NodeStageVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: text(&paths.staging),
            volume_capability: Some(volume.capability.clone()),
            volume_context: volume.context.clone(),
            ..NodeStageVolumeRequest::default()
        };
        self.node.node_stage_volume(stage).await.map_err(failed("NodeStageVolume"))?;
        let publish = NodePublishVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: text(&paths.staging),
            target_path: text(&paths.target),
            volume_capability: Some(volume.capability.clone()),
            volume_context: volume.context.clone(),
            ..NodePublishVolumeRequest::default()
        };
        self.node.node_publish_volume(publish).await.map_err(failed("NodePublishVolume"))?;
        Ok(())
    }

    /// Unpublishes and unstages.
    pub(crate) async fn unmount(&mut self, volume: &Volume, paths: &Paths) -> Result<()> {
        let unpublish =
            NodeUnpublishVolumeRequest { volume_id: volume.id.clone(), target_path: text(&paths.target) };
        self.node.node_unpublish_volume(unpublish).await.map_err(failed("NodeUnpublishVolume"))?;
        let unstage = NodeUnstageVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: text(&paths.staging),
        };
        self.node.node_unstage_volume(unstage).await.map_err(failed("NodeUnstageVolume"))?;
        Ok(())
    }
}

fn capability(kind: Kind) -> VolumeCapability {
    let access_type = match kind {
        Kind::Block => AccessType::Block(BlockVolume {}),
        Kind::Directory => AccessType::Mount(MountVolume::default()),
        Kind::Image => {
            AccessType::Mount(MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() })
        }
    };
    VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(access_type),
    }
}

fn unique(what: &str) -> String {
    format!("load-{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failed(rpc: &'static str) -> impl FnOnce(tonic::Status) -> BenchError {
    move |status| BenchError::Call { rpc, status: Box::new(status) }
}
