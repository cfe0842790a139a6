//! Makes objects, and correct requests about them, from which hostile requests are derived.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use csi_proto::{Call, Rpc, Service, reflect};
use futures_util::future::BoxFuture;
use prost::Message as _;

/// A correct request.
#[derive(Clone, Debug)]
pub struct Request {
    pub rpc: Rpc,
    pub message: DynamicMessage,
}

impl Request {
    /// Returns the encoded message.
    pub fn bytes(&self) -> Vec<u8> {
        self.message.encode_to_vec()
    }

    /// Returns a copy with a new name, if the request makes an object.
    #[must_use]
    pub fn renamed(&self, cx: &Cx) -> Request {
        self.changed(cx, self.message.clone())
    }

    /// Returns a request of this RPC with another message. An object that it makes gets a new name, unless the name
    /// is the change.
    #[must_use]
    pub fn changed(&self, cx: &Cx, mut message: DynamicMessage) -> Request {
        if let Some(name) = message.descriptor().get_field_by_name("name")
            && message.get_field(&name) == self.message.get_field(&name)
        {
            message.set_field(&name, Value::String(cx.unique_name()));
        }
        Request { rpc: self.rpc, message }
    }
}

/// Returns a request to stage another volume again, if there can be one. Undoing a changed request unstages that volume, and later requests
/// need the one that is published. A volume is staged at one path, since some drivers detach it when the first of two is unstaged.
async fn stage_another(cx: &Cx, staged: &Staged) -> v1::NodeStageVolumeRequest {
    let another = async { cx.staged(cx.attached(cx.node_volume().await?).await?).await };
    match another.await {
        Ok(another) => cx.stage_request(&another.attached, &another.staging_path),
        Err(_) => cx.stage_request(&staged.attached, &staged.staging_path),
    }
}

/// Volumes, a snapshot and paths. They are removed with the check, or with the scope in which they were made.
#[derive(Debug)]
pub struct Scene {
    volume: NodeVolume,
    node_id: String,
    published: Option<Published>,
    snapshot: Option<v1::Snapshot>,
}

impl Scene {
    /// Makes the objects, as far as the driver can. Without a snapshot or a second volume there are fewer requests,
    /// and a note says so.
    ///
    /// # Errors
    /// Broken if making the volume fails; skips if the driver makes none.
    pub fn set(cx: &Cx) -> BoxFuture<'_, CheckResult<Scene>> {
        Box::pin(async move {
            let has = |capability| cx.target().capabilities().has(capability);
            let is_node = cx.target().serves(Service::Node);
            let volume = cx.node_volume().await?;
            let node_id = if is_node { cx.node_id().await? } else { cx.unknown_node_id() };
            let snapshot = match has(Capability::CreateDeleteSnapshot) {
                true => if_any(cx, cx.new_snapshot(&volume.id).await)?,
                false => None,
            };
            let published = match is_node {
                true => if_any(cx, published(cx, volume.clone()).await)?,
                false => None,
            };
            Ok(Scene { volume, node_id, published, snapshot })
        })
    }

    pub fn volume(&self) -> &NodeVolume {
        &self.volume
    }

    /// Returns the texts that name objects and paths of the scene, each with a placeholder.
    pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
        let snapshot = self.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id.clone());
        let mut texts = vec![
            ("{volume}", self.volume.id.clone()),
            ("{node}", self.node_id.clone()),
            ("{snapshot}", snapshot.unwrap_or_default()),
        ];
        if let Some(published) = &self.published {
            texts.push(("{target}", published.target_path.clone()));
            texts.push(("{staging}", published.staged.staging_path.clone()));
        }
        texts
    }

    /// Returns the volume_context of the calls about the volume.
    pub(crate) fn volume_context(&self) -> Pairs {
        self.volume.context.clone()
    }

    /// Returns the publish_context of the calls on the node where the volume is attached.
    pub(crate) fn publish_context(&self) -> Pairs {
        let attached = self.published.as_ref().map(|published| &published.staged.attached);
        attached.map(|attached| attached.publish_context.clone()).unwrap_or_default()
    }

    /// Returns a request for each RPC that the driver serves and advertises. No unchanged request removes an object
    /// of the scene.
    ///
    /// # Errors
    /// Broken if a path cannot be made.
    pub fn requests<'a>(&'a self, cx: &'a Cx) -> BoxFuture<'a, CheckResult<Vec<Request>>> {
        Box::pin(async move {
            let mut all = Requests { cx, all: Vec::new() };
            all.add(|| v1::GetPluginInfoRequest {});
            all.add(|| v1::GetPluginCapabilitiesRequest {});
            all.add(|| v1::ProbeRequest {});
            self.of_volumes(&mut all).await?;
            self.of_snapshots(&mut all);
            self.of_nodes(&mut all).await?;
            Ok(all.all)
        })
    }

    async fn of_volumes(&self, all: &mut Requests<'_>) -> CheckResult {
        let cx = all.cx;
        let id = || self.volume.id.clone();
        if cx.target().offers(v1::CreateVolumeRequest::RPC) {
            let request = cx.create_node_volume_request().await?;
            all.add(|| request);
        }
        all.add(|| v1::DeleteVolumeRequest { volume_id: cx.unknown_volume_id(), ..Default::default() });
        all.add(|| cx.controller_publish_request(&self.volume, &self.node_id));
        all.add(|| v1::ControllerUnpublishVolumeRequest {
            volume_id: id(),
            node_id: cx.unknown_node_id(),
            ..Default::default()
        });
        all.add(|| cx.validate_request(&self.volume.id, &self.volume.context));
        all.add(|| v1::ControllerGetCapabilitiesRequest {});
        all.add(|| v1::ListVolumesRequest { max_entries: 2, ..Default::default() });
        all.add(|| v1::GetCapacityRequest {
            volume_capabilities: vec![cx.capability()],
            ..cx.capacity_request()
        });
        all.add(|| v1::ControllerExpandVolumeRequest {
            volume_id: id(),
            capacity_range: Some(size(cx)),
            volume_capability: Some(cx.capability()),
            ..Default::default()
        });
        all.add(|| v1::ControllerGetVolumeRequest { volume_id: id() });
        all.add(|| v1::ControllerGetVolumeHealthRequest { volume_id: id(), ..Default::default() });
        all.add(|| v1::ControllerListVolumeHealthRequest { max_entries: 2, ..Default::default() });
        all.add(|| v1::ControllerGetNodeInfoRequest { node_id: self.node_id.clone() });
        all.add(|| v1::ControllerModifyVolumeRequest {
            volume_id: id(),
            mutable_parameters: cx.config().mutable_parameters.clone(),
            ..Default::default()
        });
        Ok(())
    }

    fn of_snapshots(&self, all: &mut Requests<'_>) {
        let cx = all.cx;
        let snapshot_id =
            || self.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id.clone()).unwrap_or_default();
        all.add(|| cx.create_snapshot_request(&self.volume.id));
        all.add(|| v1::DeleteSnapshotRequest { snapshot_id: cx.unknown_snapshot_id(), ..Default::default() });
        all.add(|| v1::ListSnapshotsRequest { max_entries: 2, ..Default::default() });
        all.add(|| v1::GetSnapshotRequest { snapshot_id: snapshot_id(), ..Default::default() });
        if cx.target().offers(v1::CreateVolumeGroupSnapshotRequest::RPC) {
            let group_snapshot_id = cx.unknown_group_snapshot_id();
            all.add(|| cx.create_group_snapshot_request(&[&self.volume.id]));
            all.add(|| v1::DeleteVolumeGroupSnapshotRequest {
                group_snapshot_id: group_snapshot_id.clone(),
                ..Default::default()
            });
            all.add(|| v1::GetVolumeGroupSnapshotRequest { group_snapshot_id, ..Default::default() });
        }
        all.add(|| v1::GetMetadataAllocatedRequest { snapshot_id: snapshot_id(), ..Default::default() });
        all.add(|| v1::GetMetadataDeltaRequest {
            base_snapshot_id: snapshot_id(),
            target_snapshot_id: snapshot_id(),
            ..Default::default()
        });
    }

    async fn of_nodes(&self, all: &mut Requests<'_>) -> CheckResult {
        let Some(Published { staged, target_path }) = &self.published else { return Ok(()) };
        let cx = all.cx;
        let id = || self.volume.id.clone();
        all.add(v1::NodeGetInfoRequest::default);
        all.add(|| v1::NodeGetCapabilitiesRequest {});
        all.add(|| cx.publish_request(staged, target_path));
        let other_path = cx.target_path().await?;
        all.add(|| v1::NodeUnpublishVolumeRequest { volume_id: id(), target_path: other_path });
        if cx.target().offers(v1::NodeUnstageVolumeRequest::RPC) {
            let stage = stage_another(cx, staged).await;
            all.add(|| stage);
            let request = v1::NodeUnstageVolumeRequest {
                volume_id: cx.unknown_volume_id(),
                staging_target_path: cx.staging_path().await?,
            };
            all.add(|| request);
        }
        all.add(|| cx.stats_request(staged, target_path));
        all.add(|| cx.health_request(staged, target_path));
        all.add(v1::NodeGetStorageHealthRequest::default);
        all.add(|| v1::NodeExpandVolumeRequest {
            volume_id: id(),
            volume_path: target_path.clone(),
            capacity_range: Some(size(cx)),
            staging_target_path: staged.staging_path.clone(),
            volume_capability: Some(cx.capability()),
            ..Default::default()
        });
        Ok(())
    }
}

/// The requests for the RPCs that the driver offers.
struct Requests<'a> {
    cx: &'a Cx,
    all: Vec<Request>,
}

impl Requests<'_> {
    /// Adds a request with the configured secrets, if the driver offers its RPC. It is made only then, since each name that it takes changes
    /// those that come after it.
    fn add<Q: Call>(&mut self, request: impl FnOnce() -> Q) {
        if !self.cx.target().offers(Q::RPC) {
            return;
        }
        let mut request = request();
        self.cx.fill_secrets(&mut request);
        self.all.extend(reflect::message(&request).map(|message| Request { rpc: Q::RPC, message }));
    }
}

pub(crate) async fn published(cx: &Cx, volume: NodeVolume) -> CheckResult<Published> {
    cx.published(cx.staged(cx.attached(volume).await?).await?).await
}

/// Returns the object, or `None` if the driver does not make it, for example because its back end cannot.
fn if_any<T>(cx: &Cx, made: CheckResult<T>) -> CheckResult<Option<T>> {
    match made {
        Ok(thing) => Ok(Some(thing)),
        Err(Stop::Broken(why)) => {
            cx.note(format!("fewer requests: {why}"));
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Returns the size of the volumes, so that no request grows them.
fn size(cx: &Cx) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes: cx.volume_size_bytes(), limit_bytes: 0 }
}
