//! The calls of the model as requests to a driver in this process, with what an orchestrator keeps between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_harness::config::Pairs;
use csi_harness::protocol::capability::Capability;
use csi_mock_driver::MockDriver;
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::{self, VolumeCapability};
use csi_suite_stateful::model::answer::{Answer, Listed, Response, VolumeResponse, text_of};
use csi_suite_stateful::model::call::{Call, GroupCall, List, Size, SnapshotCall, Usage, VolumeCall, Wanted};
use csi_suite_stateful::model::call_context::DriverProfile;
use csi_suite_stateful::model::ids::Ids;
use csi_suite_stateful::model::names::{Id, Name, Node, ObjectKind, Target};
use tonic::{Request, Status};

use super::ground::node_id;
use super::said;

/// Somebody who makes calls.
pub(super) struct Caller<'a> {
    /// The driver as each node serves it; the first one is the controller, too.
    nodes: Vec<Arc<MockDriver>>,
    stages: bool,
    directory: &'a Path,
    /// Directories that were made.
    made: BTreeSet<PathBuf>,
    ids: Ids,
    parameters: BTreeMap<Id, u8>,
    contexts: BTreeMap<Id, Pairs>,
    publish_contexts: BTreeMap<(Id, Node), Pairs>,
    groups: BTreeMap<Id, v1::VolumeGroupSnapshot>,
}

type Reply<T> = Result<tonic::Response<T>, Status>;

/// How a call ended, with what was said.
fn answer<T>(reply: Reply<T>, said: impl FnOnce(T) -> Response) -> Answer<Response> {
    match reply {
        Ok(response) => Answer::Done(said(response.into_inner())),
        Err(status) => Answer::Refused(status.code()),
    }
}

fn nothing<T>(_: T) -> Response {
    Response::Volume(VolumeResponse::Nothing)
}

fn range(size: Size) -> Option<v1::CapacityRange> {
    Some(v1::CapacityRange { required_bytes: size.required_bytes, limit_bytes: size.limit_bytes })
}

fn capability(usage: Usage) -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: usage.mode.into() }),
    }
}

/// A set of parameters that volumes are made with.
fn parameters(set: u8) -> Pairs {
    if set == 0 { Pairs::new() } else { [("tier".to_owned(), "gold".to_owned())].into() }
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a path that is text")
}

fn mutable_parameters() -> Pairs {
    [("iops".to_owned(), "100".to_owned())].into()
}

impl<'a> Caller<'a> {
    pub(super) fn new(driver: &Arc<MockDriver>, profile: &DriverProfile, directory: &'a Path) -> Caller<'a> {
        Caller {
            nodes: (0..profile.nodes.into()).filter_map(|node| driver.at_node(node)).collect(),
            stages: profile.has(Capability::StageUnstageVolume),
            directory,
            made: BTreeSet::new(),
            ids: Ids::default(),
            parameters: BTreeMap::new(),
            contexts: BTreeMap::new(),
            publish_contexts: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Removes what is at the paths, if any were made.
    pub(super) fn clear_away(&self) {
        if !self.made.is_empty() {
            fs::remove_dir_all(self.directory.join("nodes")).expect("directories of ours");
        }
    }

    /// Makes a call; `None` for what no call says by itself.
    pub(super) async fn call(&mut self, call: &Call) -> Option<Answer<Response>> {
        Some(match call {
            Call::Volume(call) => return self.volume(call).await,
            Call::Snapshot(call) => return self.snapshot(call).await,
            Call::Group(call) => return self.group(call).await,
            Call::List(List::Volumes) => self.list_volumes().await,
            Call::List(List::Snapshots) => self.list_snapshots().await,
            Call::List(List::VolumeHealth) => self.list_health().await,
        })
    }

    fn controller(&self) -> Arc<MockDriver> {
        Arc::clone(&self.nodes[0])
    }

    fn at(&self, node: Node) -> Arc<MockDriver> {
        Arc::clone(&self.nodes[usize::from(node.0)])
    }

    fn text(&self, id: Id) -> String {
        self.ids.text(id).expect("an id that was given").to_owned()
    }

    fn staging_path(&mut self, volume: Id, node: Node) -> String {
        if !self.stages {
            return String::new();
        }
        let path = self.directory.join(format!("nodes/{}/{volume}/staged", node.0));
        self.make(&path);
        text(path)
    }

    fn target_path(&mut self, volume: Id, node: Node, target: Target) -> String {
        let parent = self.directory.join(format!("nodes/{}/{volume}", node.0));
        self.make(&parent);
        text(parent.join(target.0.to_string()))
    }

    fn make(&mut self, directory: &Path) {
        if !self.made.contains(directory) {
            fs::create_dir_all(directory).expect("a directory of ours");
            self.made.insert(directory.to_owned());
        }
    }

    async fn volume(&mut self, call: &VolumeCall) -> Option<Answer<Response>> {
        use VolumeCall::*;
        let driver = self.controller();
        Some(match call {
            CreateVolume { name, wanted } => self.create_volume(*name, wanted).await,
            DeleteVolume { volume } => {
                let request = v1::DeleteVolumeRequest { volume_id: self.text(*volume), ..Default::default() };
                answer(driver.delete_volume(Request::new(request)).await, nothing)
            }
            ControllerPublishVolume { volume, node, usage, readonly } => {
                self.attach(*volume, *node, *usage, *readonly).await
            }
            ControllerUnpublishVolume { volume, node } => {
                let request = v1::ControllerUnpublishVolumeRequest {
                    volume_id: self.text(*volume),
                    node_id: node.map(|node| node_id(node.0)).unwrap_or_default(),
                    ..Default::default()
                };
                answer(driver.controller_unpublish_volume(Request::new(request)).await, nothing)
            }
            ValidateVolumeCapabilities { volume, usage } => {
                let request = v1::ValidateVolumeCapabilitiesRequest {
                    volume_id: self.text(*volume),
                    volume_context: self.contexts.get(volume).cloned().unwrap_or_default(),
                    volume_capabilities: vec![capability(*usage)],
                    parameters: parameters(self.parameters.get(volume).copied().unwrap_or_default()),
                    ..Default::default()
                };
                let reply = driver.validate_volume_capabilities(Request::new(request)).await;
                answer(reply, |said| Response::Volume(VolumeResponse::Confirmed(said.confirmed.is_some())))
            }
            ControllerGetVolume { volume } => {
                let request = v1::ControllerGetVolumeRequest { volume_id: self.text(*volume) };
                let reply = driver.controller_get_volume(Request::new(request)).await;
                answer(reply, |response| said::volume_seen(&self.ids, response))
            }
            ControllerExpandVolume { volume, size } => {
                let request = v1::ControllerExpandVolumeRequest {
                    volume_id: self.text(*volume),
                    capacity_range: range(*size),
                    ..Default::default()
                };
                let reply = driver.controller_expand_volume(Request::new(request)).await;
                answer(reply, |said| Response::Volume(VolumeResponse::Grown(said.capacity_bytes, true)))
            }
            ControllerModifyVolume { volume, .. } => {
                let request = v1::ControllerModifyVolumeRequest {
                    volume_id: self.text(*volume),
                    mutable_parameters: mutable_parameters(),
                    ..Default::default()
                };
                answer(driver.controller_modify_volume(Request::new(request)).await, nothing)
            }
            ControllerGetVolumeHealth { volume } => {
                let request = v1::ControllerGetVolumeHealthRequest {
                    volume_id: self.text(*volume),
                    ..Default::default()
                };
                let reply = driver.controller_get_volume_health(Request::new(request)).await;
                answer(reply, |response| said::health(&self.ids, response.volume_health))
            }
            call => return self.node(call).await,
        })
    }

    async fn create_volume(&mut self, name: Name, wanted: &Wanted) -> Answer<Response> {
        let request = v1::CreateVolumeRequest {
            name: name.to_string(),
            capacity_range: range(wanted.size),
            volume_capabilities: vec![capability(wanted.usage)],
            parameters: parameters(wanted.parameters),
            mutable_parameters: mutable_parameters(),
            volume_content_source: wanted.source.map(|source| self.source(source)),
            ..Default::default()
        };
        let reply = self.controller().create_volume(Request::new(request)).await;
        answer(reply, |response| {
            let volume = response.volume.unwrap_or_default();
            let id = self.ids.give(name, &volume.volume_id);
            if let Some(id) = id {
                self.contexts.insert(id, volume.volume_context.clone());
                self.parameters.insert(id, wanted.parameters);
            }
            Response::Volume(VolumeResponse::Made(said::volume(&self.ids, &volume, id)))
        })
    }

    fn source(&self, source: Id) -> v1::VolumeContentSource {
        let id = self.text(source);
        let kind = match source.name.kind {
            ObjectKind::Volume => Type::Volume(VolumeSource { volume_id: id }),
            ObjectKind::Snapshot | ObjectKind::Group | ObjectKind::Member => {
                Type::Snapshot(SnapshotSource { snapshot_id: id })
            }
        };
        v1::VolumeContentSource { r#type: Some(kind) }
    }

    async fn attach(&mut self, volume: Id, node: Node, usage: Usage, readonly: bool) -> Answer<Response> {
        let request = v1::ControllerPublishVolumeRequest {
            volume_id: self.text(volume),
            node_id: node_id(node.0),
            volume_capability: Some(capability(usage)),
            readonly,
            volume_context: self.contexts.get(&volume).cloned().unwrap_or_default(),
            ..Default::default()
        };
        let reply = self.controller().controller_publish_volume(Request::new(request)).await;
        answer(reply, |said| {
            let text = text_of(&said.publish_context);
            self.publish_contexts.insert((volume, node), said.publish_context);
            Response::Volume(VolumeResponse::Attached(text))
        })
    }

    async fn node(&mut self, call: &VolumeCall) -> Option<Answer<Response>> {
        use VolumeCall::*;
        Some(match *call {
            NodeStageVolume { volume, node, usage } => {
                let request = v1::NodeStageVolumeRequest {
                    volume_id: self.text(volume),
                    publish_context: self.publish_contexts.get(&(volume, node)).cloned().unwrap_or_default(),
                    staging_target_path: self.staging_path(volume, node),
                    volume_capability: Some(capability(usage)),
                    volume_context: self.contexts.get(&volume).cloned().unwrap_or_default(),
                    ..Default::default()
                };
                answer(self.at(node).node_stage_volume(Request::new(request)).await, nothing)
            }
            NodeUnstageVolume { volume, node } => {
                let staging_target_path = self.staging_path(volume, node);
                let request =
                    v1::NodeUnstageVolumeRequest { volume_id: self.text(volume), staging_target_path };
                answer(self.at(node).node_unstage_volume(Request::new(request)).await, nothing)
            }
            NodePublishVolume { volume, node, target, usage, readonly } => {
                let request = v1::NodePublishVolumeRequest {
                    volume_id: self.text(volume),
                    publish_context: self.publish_contexts.get(&(volume, node)).cloned().unwrap_or_default(),
                    staging_target_path: self.staging_path(volume, node),
                    target_path: self.target_path(volume, node, target),
                    volume_capability: Some(capability(usage)),
                    readonly,
                    volume_context: self.contexts.get(&volume).cloned().unwrap_or_default(),
                    ..Default::default()
                };
                answer(self.at(node).node_publish_volume(Request::new(request)).await, nothing)
            }
            NodeUnpublishVolume { volume, node, target } => {
                let target_path = self.target_path(volume, node, target);
                let request = v1::NodeUnpublishVolumeRequest { volume_id: self.text(volume), target_path };
                answer(self.at(node).node_unpublish_volume(Request::new(request)).await, nothing)
            }
            NodeExpandVolume { volume, node, target, size } => {
                let request = v1::NodeExpandVolumeRequest {
                    volume_id: self.text(volume),
                    volume_path: self.target_path(volume, node, target),
                    capacity_range: range(size),
                    staging_target_path: self.staging_path(volume, node),
                    ..Default::default()
                };
                answer(self.at(node).node_expand_volume(Request::new(request)).await, nothing)
            }
            NodeGetVolumeStats { volume, node, target } => {
                let request = v1::NodeGetVolumeStatsRequest {
                    volume_id: self.text(volume),
                    volume_path: self.target_path(volume, node, target),
                    staging_target_path: self.staging_path(volume, node),
                };
                answer(self.at(node).node_get_volume_stats(Request::new(request)).await, nothing)
            }
            NodeGetVolumeHealth { volume, node, target } => {
                let request = v1::NodeGetVolumeHealthRequest {
                    volume_id: self.text(volume),
                    volume_publish_path: self.target_path(volume, node, target),
                    staging_target_path: self.staging_path(volume, node),
                };
                let reply = self.at(node).node_get_volume_health(Request::new(request)).await;
                answer(reply, |response| said::health(&self.ids, response.volume_health))
            }
            _ => return None,
        })
    }

    async fn snapshot(&mut self, call: &SnapshotCall) -> Option<Answer<Response>> {
        let driver = self.controller();
        Some(match *call {
            SnapshotCall::CreateSnapshot { name, volume } => {
                let request = v1::CreateSnapshotRequest {
                    source_volume_id: self.text(volume),
                    name: name.to_string(),
                    ..Default::default()
                };
                answer(driver.create_snapshot(Request::new(request)).await, |response| {
                    let snapshot = response.snapshot.unwrap_or_default();
                    let id = self.ids.give(name, &snapshot.snapshot_id);
                    said::snapshot_seen(&self.ids, &snapshot, id)
                })
            }
            SnapshotCall::DeleteSnapshot { snapshot } => {
                let request =
                    v1::DeleteSnapshotRequest { snapshot_id: self.text(snapshot), ..Default::default() };
                answer(driver.delete_snapshot(Request::new(request)).await, said::nothing_of_snapshot)
            }
            SnapshotCall::GetSnapshot { snapshot } => {
                let request =
                    v1::GetSnapshotRequest { snapshot_id: self.text(snapshot), ..Default::default() };
                answer(driver.get_snapshot(Request::new(request)).await, |response| {
                    let snapshot = response.snapshot.unwrap_or_default();
                    let id =
                        self.ids.find(&[ObjectKind::Snapshot, ObjectKind::Member], &snapshot.snapshot_id);
                    said::snapshot_seen(&self.ids, &snapshot, id)
                })
            }
            SnapshotCall::Listing { .. } | SnapshotCall::Copying { .. } => return None,
        })
    }

    async fn group(&mut self, call: &GroupCall) -> Option<Answer<Response>> {
        let driver = self.controller();
        Some(match call {
            GroupCall::CreateVolumeGroupSnapshot { name, volumes } => {
                let request = v1::CreateVolumeGroupSnapshotRequest {
                    name: name.to_string(),
                    source_volume_ids: volumes.iter().map(|volume| self.text(*volume)).collect(),
                    ..Default::default()
                };
                answer(driver.create_volume_group_snapshot(Request::new(request)).await, |response| {
                    let group = response.group_snapshot.unwrap_or_default();
                    let id = self.ids.give(*name, &group.group_snapshot_id);
                    for member in &group.snapshots {
                        self.ids.give(name.members(), &member.snapshot_id);
                    }
                    self.groups.extend(id.map(|id| (id, group.clone())));
                    said::group(&self.ids, &group, id)
                })
            }
            GroupCall::DeleteVolumeGroupSnapshot { group } => {
                let (group_snapshot_id, snapshot_ids) = self.members(*group);
                let request = v1::DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id,
                    snapshot_ids,
                    ..Default::default()
                };
                answer(
                    driver.delete_volume_group_snapshot(Request::new(request)).await,
                    said::nothing_of_group,
                )
            }
            GroupCall::GetVolumeGroupSnapshot { group } => {
                let (group_snapshot_id, snapshot_ids) = self.members(*group);
                let request = v1::GetVolumeGroupSnapshotRequest {
                    group_snapshot_id,
                    snapshot_ids,
                    ..Default::default()
                };
                answer(driver.get_volume_group_snapshot(Request::new(request)).await, |response| {
                    let found = response.group_snapshot.unwrap_or_default();
                    let id = self.ids.find(&[ObjectKind::Group], &found.group_snapshot_id);
                    said::group(&self.ids, &found, id)
                })
            }
            GroupCall::DeleteMember { group, member } => {
                let id = self.text(*member);
                let request = v1::DeleteSnapshotRequest { snapshot_id: id.clone(), ..Default::default() };
                answer(driver.delete_snapshot(Request::new(request)).await, |response| {
                    if let Some(group) = self.groups.get_mut(group) {
                        group.snapshots.retain(|other| other.snapshot_id != id);
                    }
                    said::nothing_of_group(response)
                })
            }
            GroupCall::Copying { .. } => return None,
        })
    }

    /// The id of a group snapshot and those of its members.
    fn members(&self, group: Id) -> (String, Vec<String>) {
        let group = self.groups.get(&group).cloned().unwrap_or_default();
        (group.group_snapshot_id, group.snapshots.into_iter().map(|member| member.snapshot_id).collect())
    }

    async fn list_volumes(&self) -> Answer<Response> {
        let reply = self.controller().list_volumes(Request::new(v1::ListVolumesRequest::default())).await;
        answer(reply, |response| {
            let entries =
                response.entries.into_iter().filter_map(|entry| said::volume_listed(&self.ids, entry));
            Response::Volumes(Listed { pages: 1, entries: entries.collect() })
        })
    }

    async fn list_health(&self) -> Answer<Response> {
        let request = Request::new(v1::ControllerListVolumeHealthRequest::default());
        answer(self.controller().controller_list_volume_health(request).await, |response| {
            let entry = |health: v1::VolumeHealth| {
                let id = self.ids.find(&[ObjectKind::Volume], &health.volume_id)?;
                Some((id, VolumeResponse::Health(Some(id))))
            };
            Response::Volumes(Listed {
                pages: 1,
                entries: response.entries.into_iter().filter_map(entry).collect(),
            })
        })
    }

    async fn list_snapshots(&self) -> Answer<Response> {
        let reply = self.controller().list_snapshots(Request::new(v1::ListSnapshotsRequest::default())).await;
        answer(reply, |response| {
            let entries =
                response.entries.into_iter().filter_map(|entry| said::snapshot_listed(&self.ids, entry));
            Response::Snapshots(Listed { pages: 1, entries: entries.collect() })
        })
    }
}
