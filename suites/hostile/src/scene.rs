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
    /// The RPC of the request.
    pub rpc: Rpc,
    /// The message of the request.
    pub message: DynamicMessage,
}

impl Request {
    /// Adds the configured secrets.
    fn of<Q: Call>(cx: &Cx, mut request: Q) -> Option<Request> {
        if let (Some(secrets), Some(own)) = (request.secrets_mut(), cx.config().secrets_for(Q::RPC.method)) {
            secrets.clone_from(own);
        }
        Some(Request { rpc: Q::RPC, message: reflect::message(&request)? })
    }

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
                true => if_any(cx, publish(cx, volume.clone()).await)?,
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
            let mut all = of_identity(cx);
            all.extend(self.of_volumes(cx).await?);
            all.extend(self.of_snapshots(cx));
            all.extend(self.of_nodes(cx).await?);
            Ok(all.into_iter().flatten().collect())
        })
    }

    async fn of_volumes(&self, cx: &Cx) -> CheckResult<Vec<Option<Request>>> {
        use Capability::*;
        let has = |capability| cx.target().capabilities().has(capability);
        let id = || self.volume.id.clone();
        let mut all = Vec::new();
        if has(CreateDeleteVolume) {
            all.push(Request::of(cx, cx.create_node_volume_request().await?));
            all.push(Request::of(
                cx,
                v1::DeleteVolumeRequest { volume_id: cx.unknown_volume_id(), ..Default::default() },
            ));
        }
        if has(PublishUnpublishVolume) {
            all.push(Request::of(cx, cx.controller_publish_request(&self.volume, &self.node_id)));
            all.push(Request::of(
                cx,
                v1::ControllerUnpublishVolumeRequest {
                    volume_id: id(),
                    node_id: cx.unknown_node_id(),
                    ..Default::default()
                },
            ));
        }
        if cx.target().serves(Service::Controller) {
            all.push(Request::of(cx, cx.validate_request(&self.volume.id, &self.volume.context)));
            all.push(Request::of(cx, v1::ControllerGetCapabilitiesRequest {}));
        }
        if has(ListVolumes) {
            all.push(Request::of(cx, v1::ListVolumesRequest { max_entries: 2, ..Default::default() }));
        }
        if has(GetCapacity) {
            all.push(Request::of(
                cx,
                v1::GetCapacityRequest {
                    volume_capabilities: vec![cx.capability()],
                    parameters: cx.config().parameters.clone(),
                    ..Default::default()
                },
            ));
        }
        if has(ExpandVolume) {
            all.push(Request::of(
                cx,
                v1::ControllerExpandVolumeRequest {
                    volume_id: id(),
                    capacity_range: Some(size(cx)),
                    volume_capability: Some(cx.capability()),
                    ..Default::default()
                },
            ));
        }
        if has(GetVolume) {
            all.push(Request::of(cx, v1::ControllerGetVolumeRequest { volume_id: id() }));
        }
        if has(GetVolumeHealth) {
            let asked = v1::ControllerGetVolumeHealthRequest { volume_id: id(), ..Default::default() };
            all.push(Request::of(cx, asked));
        }
        if has(ListVolumeHealth) {
            let asked = v1::ControllerListVolumeHealthRequest { max_entries: 2, ..Default::default() };
            all.push(Request::of(cx, asked));
        }
        if has(GetNodeInfo) {
            all.push(Request::of(cx, v1::ControllerGetNodeInfoRequest { node_id: self.node_id.clone() }));
        }
        if has(ModifyVolume) {
            all.push(Request::of(
                cx,
                v1::ControllerModifyVolumeRequest {
                    volume_id: id(),
                    mutable_parameters: cx.config().mutable_parameters.clone(),
                    ..Default::default()
                },
            ));
        }
        Ok(all)
    }

    fn of_snapshots(&self, cx: &Cx) -> Vec<Option<Request>> {
        use Capability::*;
        let has = |capability| cx.target().capabilities().has(capability);
        let snapshot_id =
            || self.snapshot.as_ref().map(|snapshot| snapshot.snapshot_id.clone()).unwrap_or_default();
        let mut all = Vec::new();
        if has(CreateDeleteSnapshot) {
            all.push(Request::of(cx, cx.create_snapshot_request(&self.volume.id)));
            all.push(Request::of(
                cx,
                v1::DeleteSnapshotRequest { snapshot_id: cx.unknown_snapshot_id(), ..Default::default() },
            ));
        }
        if has(ListSnapshots) {
            all.push(Request::of(cx, v1::ListSnapshotsRequest { max_entries: 2, ..Default::default() }));
        }
        if has(GetSnapshot) {
            all.push(Request::of(
                cx,
                v1::GetSnapshotRequest { snapshot_id: snapshot_id(), ..Default::default() },
            ));
        }
        if has(CreateDeleteGetVolumeGroupSnapshot) {
            let group_snapshot_id = cx.unknown_group_snapshot_id();
            all.push(Request::of(cx, cx.create_group_snapshot_request(&[&self.volume.id])));
            all.push(Request::of(
                cx,
                v1::DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: group_snapshot_id.clone(),
                    ..Default::default()
                },
            ));
            all.push(Request::of(
                cx,
                v1::GetVolumeGroupSnapshotRequest { group_snapshot_id, ..Default::default() },
            ));
        }
        if has(SnapshotMetadataService) {
            all.push(Request::of(
                cx,
                v1::GetMetadataAllocatedRequest { snapshot_id: snapshot_id(), ..Default::default() },
            ));
            all.push(Request::of(
                cx,
                v1::GetMetadataDeltaRequest {
                    base_snapshot_id: snapshot_id(),
                    target_snapshot_id: snapshot_id(),
                    ..Default::default()
                },
            ));
        }
        all
    }

    async fn of_nodes(&self, cx: &Cx) -> CheckResult<Vec<Option<Request>>> {
        use Capability::*;
        let Some(published) = &self.published else { return Ok(Vec::new()) };
        let has = |capability| cx.target().capabilities().has(capability);
        let (id, staged) = (|| self.volume.id.clone(), &published.staged);
        let mut all = vec![
            Request::of(cx, v1::NodeGetInfoRequest::default()),
            Request::of(cx, v1::NodeGetCapabilitiesRequest {}),
            Request::of(cx, cx.publish_request(staged, &published.target_path)),
            Request::of(
                cx,
                v1::NodeUnpublishVolumeRequest { volume_id: id(), target_path: cx.target_path().await? },
            ),
        ];
        if has(StageUnstageVolume) {
            all.push(Request::of(cx, cx.stage_request(&staged.attached, &staged.staging_path)));
            all.push(Request::of(
                cx,
                v1::NodeUnstageVolumeRequest {
                    volume_id: cx.unknown_volume_id(),
                    staging_target_path: cx.staging_path().await?,
                },
            ));
        }
        if has(GetVolumeStats) || has(NodeVolumeCondition) {
            all.push(Request::of(cx, cx.stats_request(staged, &published.target_path)));
        }
        if has(NodeGetVolumeHealth) {
            all.push(Request::of(cx, cx.health_request(staged, &published.target_path)));
        }
        if has(GetStorageHealth) {
            all.push(Request::of(cx, v1::NodeGetStorageHealthRequest::default()));
        }
        if has(NodeExpandVolume) {
            all.push(Request::of(
                cx,
                v1::NodeExpandVolumeRequest {
                    volume_id: id(),
                    volume_path: published.target_path.clone(),
                    capacity_range: Some(size(cx)),
                    staging_target_path: staged.staging_path.clone(),
                    volume_capability: Some(cx.capability()),
                    ..Default::default()
                },
            ));
        }
        Ok(all)
    }
}

async fn publish(cx: &Cx, volume: NodeVolume) -> CheckResult<Published> {
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

fn of_identity(cx: &Cx) -> Vec<Option<Request>> {
    vec![
        Request::of(cx, v1::GetPluginInfoRequest {}),
        Request::of(cx, v1::GetPluginCapabilitiesRequest {}),
        Request::of(cx, v1::ProbeRequest {}),
    ]
}

/// Returns the size of the volumes, so that no request grows them.
fn size(cx: &Cx) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes: cx.volume_size_bytes(), limit_bytes: 0 }
}
