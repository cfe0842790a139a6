//! Right calls, and the same calls with something wrong.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use csi_proto::Service;
use v1::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};

/// A size that no storage has.
const TOO_LARGE_BYTES: i64 = i64::MAX - (i64::MAX % (1 << 30));

/// An RPC of which calls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedRpc {
    CreateVolume,
    Expand,
    Modify,
    Attach,
    Detach,
    Stage,
    Unstage,
    Publish,
    Unpublish,
    NodeExpand,
    CreateSnapshot,
    CreateGroupSnapshot,
}

const ALL: [RefusedRpc; 12] = [
    RefusedRpc::CreateVolume,
    RefusedRpc::Expand,
    RefusedRpc::Modify,
    RefusedRpc::Attach,
    RefusedRpc::Detach,
    RefusedRpc::Stage,
    RefusedRpc::Unstage,
    RefusedRpc::Publish,
    RefusedRpc::Unpublish,
    RefusedRpc::NodeExpand,
    RefusedRpc::CreateSnapshot,
    RefusedRpc::CreateGroupSnapshot,
];

/// A call, ready to be made as often as is needed.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    CreateVolume(Box<Creation>),
    Expand(v1::ControllerExpandVolumeRequest),
    Modify(v1::ControllerModifyVolumeRequest),
    Attach(v1::ControllerPublishVolumeRequest),
    Detach(v1::ControllerUnpublishVolumeRequest),
    Stage(v1::NodeStageVolumeRequest),
    Unstage(v1::NodeUnstageVolumeRequest),
    Publish(v1::NodePublishVolumeRequest),
    Unpublish(v1::NodeUnpublishVolumeRequest),
    NodeExpand(v1::NodeExpandVolumeRequest),
    CreateSnapshot(v1::CreateSnapshotRequest),
    CreateGroupSnapshot(v1::CreateVolumeGroupSnapshotRequest),
}

/// A volume to be made.
#[derive(Clone, Debug)]
pub(super) struct Creation {
    pub(super) request: v1::CreateVolumeRequest,
    /// A volume that exists, to be copied by requests that a driver rejects only once it has looked at the source.
    source: NodeVolume,
}

/// The same call with something wrong: what, behind the name of the RPC.
pub(super) type Wrong = (&'static str, Asked);

impl RefusedRpc {
    /// Those that the driver has, and that there is a place for.
    pub(super) fn of(cx: &Cx) -> Vec<RefusedRpc> {
        let has = |capability| cx.target().capabilities().has(capability);
        let has_node = cx.target().serves(Service::Node);
        let is_there = |kind: &RefusedRpc| match kind {
            RefusedRpc::CreateVolume => true,
            RefusedRpc::Expand => has(Capability::ExpandVolume),
            RefusedRpc::Modify => has(Capability::ModifyVolume) && !cx.config().mutable_parameters.is_empty(),
            RefusedRpc::Attach | RefusedRpc::Detach => has_node && has(Capability::PublishUnpublishVolume),
            RefusedRpc::Stage | RefusedRpc::Unstage => has_node && has(Capability::StageUnstageVolume),
            RefusedRpc::Publish | RefusedRpc::Unpublish => has_node,
            RefusedRpc::NodeExpand => has_node && has(Capability::NodeExpandVolume),
            RefusedRpc::CreateSnapshot => has(Capability::CreateDeleteSnapshot),
            RefusedRpc::CreateGroupSnapshot => has(Capability::CreateDeleteGetVolumeGroupSnapshot),
        };
        ALL.into_iter().filter(is_there).collect()
    }

    /// Makes everything that a right call needs, and the call.
    pub(super) async fn ready(self, cx: &Cx, volume: &NodeVolume) -> CheckResult<Asked> {
        let volume = volume.clone();
        Ok(match self {
            RefusedRpc::CreateVolume => {
                let request = cx.create_node_volume_request().await?;
                Asked::CreateVolume(Box::new(Creation { request, source: volume }))
            }
            RefusedRpc::Expand => Asked::Expand(v1::ControllerExpandVolumeRequest {
                volume_id: volume.id,
                capacity_range: Some(at_least(cx.expand_size_bytes())),
                volume_capability: Some(cx.capability()),
                ..Default::default()
            }),
            RefusedRpc::Modify => Asked::Modify(v1::ControllerModifyVolumeRequest {
                volume_id: volume.id,
                mutable_parameters: cx.config().mutable_parameters.clone(),
                ..Default::default()
            }),
            RefusedRpc::Attach => Asked::Attach(cx.controller_publish_request(&volume, &cx.node_id().await?)),
            RefusedRpc::Detach => {
                let volume_id = cx.attached(volume).await?.volume.id;
                let node_id = cx.node_id().await?;
                Asked::Detach(v1::ControllerUnpublishVolumeRequest {
                    volume_id,
                    node_id,
                    ..Default::default()
                })
            }
            RefusedRpc::Stage => {
                let attached = cx.attached(volume).await?;
                let path = cx.staging_path_of(&attached.volume.id).await?;
                Asked::Stage(cx.stage_request(&attached, &path))
            }
            RefusedRpc::Unstage => {
                let staged = cx.staged(cx.attached(volume).await?).await?;
                Asked::Unstage(v1::NodeUnstageVolumeRequest {
                    volume_id: staged.attached.volume.id,
                    staging_target_path: staged.staging_path,
                })
            }
            RefusedRpc::Publish => {
                let staged = cx.staged(cx.attached(volume).await?).await?;
                Asked::Publish(cx.publish_request(&staged, &cx.target_path().await?))
            }
            RefusedRpc::Unpublish => {
                Asked::unpublish(&cx.published(cx.staged(cx.attached(volume).await?).await?).await?)
            }
            RefusedRpc::NodeExpand => {
                let size_bytes = volume.size_bytes;
                let published = cx.published(cx.staged(cx.attached(volume).await?).await?).await?;
                Asked::NodeExpand(v1::NodeExpandVolumeRequest {
                    volume_id: published.staged.attached.volume.id,
                    volume_path: published.target_path,
                    staging_target_path: published.staged.staging_path,
                    // What it has, so that the controller has nothing to do before.
                    capacity_range: (size_bytes > 0).then(|| at_least(size_bytes)),
                    volume_capability: Some(cx.capability()),
                    ..Default::default()
                })
            }
            RefusedRpc::CreateSnapshot => Asked::CreateSnapshot(cx.create_snapshot_request(&volume.id)),
            RefusedRpc::CreateGroupSnapshot => {
                Asked::CreateGroupSnapshot(cx.create_group_snapshot_request(&[&volume.id]))
            }
        })
    }
}

impl Asked {
    /// The call that takes a published volume from its place.
    pub(super) fn unpublish(published: &Published) -> Asked {
        Asked::Unpublish(v1::NodeUnpublishVolumeRequest {
            volume_id: published.staged.attached.volume.id.clone(),
            target_path: published.target_path.clone(),
        })
    }

    /// The name of the RPC.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Asked::CreateVolume(_) => "CreateVolume",
            Asked::Expand(_) => "ControllerExpandVolume",
            Asked::Modify(_) => "ControllerModifyVolume",
            Asked::Attach(_) => "ControllerPublishVolume",
            Asked::Detach(_) => "ControllerUnpublishVolume",
            Asked::Stage(_) => "NodeStageVolume",
            Asked::Unstage(_) => "NodeUnstageVolume",
            Asked::Publish(_) => "NodePublishVolume",
            Asked::Unpublish(_) => "NodeUnpublishVolume",
            Asked::NodeExpand(_) => "NodeExpandVolume",
            Asked::CreateSnapshot(_) => "CreateSnapshot",
            Asked::CreateGroupSnapshot(_) => "CreateVolumeGroupSnapshot",
        }
    }

    /// The call with another name for what it makes, where it has a name.
    pub(super) fn under_a_new_name(&self, cx: &Cx) -> Asked {
        let mut asked = self.clone();
        match &mut asked {
            Asked::CreateVolume(asked) if !asked.request.name.is_empty() => {
                asked.request.name = cx.unique_name();
            }
            Asked::CreateSnapshot(request) if !request.name.is_empty() => request.name = cx.unique_name(),
            _ => {}
        }
        asked
    }

    /// Makes the call once.
    pub(super) async fn once(&self, cx: &Cx) -> Reply<()> {
        self.send(cx, false).await
    }

    /// Makes the call, again where the driver only says "not now".
    pub(super) async fn insist(&self, cx: &Cx) -> Reply<()> {
        self.send(cx, true).await
    }

    async fn send(&self, cx: &Cx, insists: bool) -> Reply<()> {
        match self.clone() {
            Asked::CreateVolume(asked) => answer(cx.create_volume(asked.request), insists).await,
            Asked::Expand(request) => answer(cx.call(request), insists).await,
            Asked::Modify(request) => answer(cx.call(request), insists).await,
            Asked::NodeExpand(request) => answer(cx.call(request), insists).await,
            Asked::Attach(request) => answer(cx.controller_publish(request), insists).await,
            Asked::Detach(request) => {
                answer(cx.controller_unpublish(&request.volume_id, &request.node_id), insists).await
            }
            Asked::Stage(request) => answer(cx.node_stage(request), insists).await,
            Asked::Unstage(request) => {
                answer(cx.node_unstage(&request.volume_id, &request.staging_target_path), insists).await
            }
            Asked::Publish(request) => answer(cx.node_publish(request), insists).await,
            Asked::Unpublish(request) => {
                answer(cx.node_unpublish(&request.volume_id, &request.target_path), insists).await
            }
            Asked::CreateSnapshot(request) => answer(cx.create_snapshot(request), insists).await,
            Asked::CreateGroupSnapshot(request) => answer(cx.create_group_snapshot(request), insists).await,
        }
    }

    /// The calls that a driver has reason to reject, one wrong thing in each.
    pub(super) fn wrong(&self, cx: &Cx) -> Vec<Wrong> {
        match self {
            Asked::CreateVolume(asked) => wrong_volumes(cx, asked),
            Asked::Expand(request) => wrong_expansions(cx, request),
            Asked::Modify(request) => wrong_modifications(request),
            Asked::Attach(request) => {
                let right = || request.clone();
                vec![
                    (
                        "without volume_capability",
                        Asked::Attach(v1::ControllerPublishVolumeRequest {
                            volume_capability: None,
                            ..right()
                        }),
                    ),
                    (
                        "without access mode",
                        Asked::Attach(v1::ControllerPublishVolumeRequest {
                            volume_capability: modeless(cx),
                            ..right()
                        }),
                    ),
                    (
                        "with an access type that it was not made for",
                        Asked::Attach(v1::ControllerPublishVolumeRequest {
                            volume_capability: Some(other_access(cx)),
                            ..right()
                        }),
                    ),
                    (
                        "to a node that does not exist",
                        Asked::Attach(v1::ControllerPublishVolumeRequest {
                            node_id: cx.unknown_node_id(),
                            ..right()
                        }),
                    ),
                ]
            }
            Asked::Detach(request) => {
                let volume_id = String::new();
                let wrong = v1::ControllerUnpublishVolumeRequest { volume_id, ..request.clone() };
                vec![("without volume_id", Asked::Detach(wrong))]
            }
            Asked::Stage(request) => wrong_stagings(cx, request),
            Asked::Unstage(request) => {
                let staging_target_path = String::new();
                let wrong = v1::NodeUnstageVolumeRequest { staging_target_path, ..request.clone() };
                vec![("without staging_target_path", Asked::Unstage(wrong))]
            }
            Asked::Publish(request) => wrong_publications(cx, request),
            Asked::Unpublish(request) => {
                let target_path = String::new();
                let wrong = v1::NodeUnpublishVolumeRequest { target_path, ..request.clone() };
                vec![("without target_path", Asked::Unpublish(wrong))]
            }
            Asked::NodeExpand(request) => wrong_node_expansions(request),
            Asked::CreateSnapshot(request) => {
                let of = |source_volume_id| {
                    Asked::CreateSnapshot(v1::CreateSnapshotRequest { source_volume_id, ..request.clone() })
                };
                let nameless = v1::CreateSnapshotRequest { name: String::new(), ..request.clone() };
                vec![
                    ("of a volume that does not exist", of(cx.unknown_volume_id())),
                    ("without source_volume_id", of(String::new())),
                    ("without name", Asked::CreateSnapshot(nameless)),
                ]
            }
            Asked::CreateGroupSnapshot(request) => {
                let of = |source_volume_ids| {
                    let request = request.clone();
                    Asked::CreateGroupSnapshot(v1::CreateVolumeGroupSnapshotRequest {
                        source_volume_ids,
                        ..request
                    })
                };
                let with_unknown =
                    request.source_volume_ids.iter().cloned().chain([cx.unknown_volume_id()]).collect();
                vec![
                    ("of a volume that does not exist", of(with_unknown)),
                    ("without source_volume_ids", of(Vec::new())),
                ]
            }
        }
    }
}

async fn answer<'a, T: Send + 'a>(call: PendingCall<'a, T>, insists: bool) -> Reply<()> {
    if insists { call.await.map(drop) } else { call.once().await.map(drop) }
}

fn at_least(required_bytes: i64) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes, limit_bytes: 0 }
}

/// A range that nothing lies in.
fn crossed(required_bytes: i64) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes, limit_bytes: (required_bytes - 1).max(1) }
}

/// What a volume of these checks is not made for.
fn other_access(cx: &Cx) -> v1::VolumeCapability {
    cx.capability_for(cx.access().other(), Mode::SingleNodeWriter)
}

/// The same with a key that no driver has.
fn with_unknown_key(pairs: &Pairs) -> Pairs {
    let unknown = ("csi-sanity-no-such-key".to_owned(), "x".to_owned());
    pairs.clone().into_iter().chain([unknown]).collect()
}

fn modeless(cx: &Cx) -> Option<v1::VolumeCapability> {
    Some(v1::VolumeCapability { access_mode: None, ..cx.capability() })
}

/// The capability with a file system that does not exist.
fn unknown_fs_type(cx: &Cx) -> v1::VolumeCapability {
    use v1::volume_capability::{AccessType as Access, MountVolume};
    let mount = MountVolume { fs_type: "csi-sanity-no-such-fs".to_owned(), ..Default::default() };
    v1::VolumeCapability {
        access_type: Some(Access::Mount(mount)),
        ..cx.capability_for(AccessType::Mount, Mode::SingleNodeWriter)
    }
}

fn wrong_volumes(cx: &Cx, Creation { request, source }: &Creation) -> Vec<Wrong> {
    let asked = |request| Asked::CreateVolume(Box::new(Creation { request, source: source.clone() }));
    let with =
        |volume_capabilities| asked(v1::CreateVolumeRequest { volume_capabilities, ..request.clone() });
    let sized = |range| asked(v1::CreateVolumeRequest { capacity_range: Some(range), ..request.clone() });
    let from = |source| {
        let volume_content_source = Some(v1::VolumeContentSource { r#type: Some(source) });
        asked(v1::CreateVolumeRequest { volume_content_source, ..request.clone() })
    };
    let has = |capability| cx.target().capabilities().has(capability);
    let mut wrong = vec![
        ("without volume_capabilities", with(Vec::new())),
        ("without access mode", with(modeless(cx).into_iter().collect())),
        ("with a file system that does not exist", with(vec![unknown_fs_type(cx)])),
        ("with limit_bytes below required_bytes", sized(crossed(cx.volume_size_bytes()))),
        ("with a size that no storage has", sized(at_least(TOO_LARGE_BYTES))),
        (
            "with a parameter that does not exist",
            asked(v1::CreateVolumeRequest {
                parameters: with_unknown_key(&request.parameters),
                ..request.clone()
            }),
        ),
    ];
    if has(Capability::ModifyVolume) {
        let mutable_parameters = with_unknown_key(&request.mutable_parameters);
        wrong.push((
            "with a mutable parameter that does not exist",
            asked(v1::CreateVolumeRequest { mutable_parameters, ..request.clone() }),
        ));
    }
    if has(Capability::VolumeAccessibilityConstraints) {
        let nowhere = v1::Topology { segments: with_unknown_key(&Pairs::new()) };
        let requirement = v1::TopologyRequirement { requisite: vec![nowhere], preferred: Vec::new() };
        wrong.push((
            "in a place that does not exist",
            asked(v1::CreateVolumeRequest {
                accessibility_requirements: Some(requirement),
                ..request.clone()
            }),
        ));
    }
    if has(Capability::CreateDeleteSnapshot) {
        let snapshot_id = cx.unknown_snapshot_id();
        wrong.push((
            "from a snapshot that does not exist",
            from(Source::Snapshot(SnapshotSource { snapshot_id })),
        ));
    }
    if has(Capability::CloneVolume) {
        let volume_id = cx.unknown_volume_id();
        wrong.push(("from a volume that does not exist", from(Source::Volume(VolumeSource { volume_id }))));
        let limit_bytes = source.size_bytes / 2;
        if limit_bytes > 0 {
            let volume_id = source.id.clone();
            let r#type = Some(Source::Volume(VolumeSource { volume_id }));
            wrong.push((
                "from a volume that is larger than limit_bytes",
                asked(v1::CreateVolumeRequest {
                    volume_content_source: Some(v1::VolumeContentSource { r#type }),
                    capacity_range: Some(v1::CapacityRange { required_bytes: 0, limit_bytes }),
                    ..request.clone()
                }),
            ));
        }
    }
    wrong
}

fn wrong_expansions(cx: &Cx, request: &v1::ControllerExpandVolumeRequest) -> Vec<Wrong> {
    let with = |capacity_range| {
        Asked::Expand(v1::ControllerExpandVolumeRequest { capacity_range, ..request.clone() })
    };
    let required_bytes = request.capacity_range.map_or(0, |range| range.required_bytes);
    vec![
        ("without capacity_range", with(None)),
        ("with limit_bytes below required_bytes", with(Some(crossed(required_bytes)))),
        ("to less than the volume has", with(Some(v1::CapacityRange { required_bytes: 0, limit_bytes: 1 }))),
        ("to a size that no storage has", with(Some(at_least(TOO_LARGE_BYTES)))),
        (
            "with an access type that it was not made for",
            Asked::Expand(v1::ControllerExpandVolumeRequest {
                volume_capability: Some(other_access(cx)),
                ..request.clone()
            }),
        ),
    ]
}

fn wrong_modifications(request: &v1::ControllerModifyVolumeRequest) -> Vec<Wrong> {
    let with = |mutable_parameters| {
        Asked::Modify(v1::ControllerModifyVolumeRequest { mutable_parameters, ..request.clone() })
    };
    vec![
        ("without mutable_parameters", with(Pairs::new())),
        ("with a parameter that does not exist", with(with_unknown_key(&request.mutable_parameters))),
    ]
}

fn wrong_node_expansions(request: &v1::NodeExpandVolumeRequest) -> Vec<Wrong> {
    let at = |volume_path| Asked::NodeExpand(v1::NodeExpandVolumeRequest { volume_path, ..request.clone() });
    let to = |range| {
        Asked::NodeExpand(v1::NodeExpandVolumeRequest { capacity_range: Some(range), ..request.clone() })
    };
    let required_bytes = request.capacity_range.map_or(1 << 30, |range| range.required_bytes);
    vec![
        ("without volume_path", at(String::new())),
        ("with a volume_path where nothing is published", at(format!("{}-elsewhere", request.volume_path))),
        ("with limit_bytes below required_bytes", to(crossed(required_bytes))),
        ("to a size that no storage has", to(at_least(TOO_LARGE_BYTES))),
    ]
}

fn wrong_stagings(cx: &Cx, request: &v1::NodeStageVolumeRequest) -> Vec<Wrong> {
    let with =
        |volume_capability| Asked::Stage(v1::NodeStageVolumeRequest { volume_capability, ..request.clone() });
    let pathless = v1::NodeStageVolumeRequest { staging_target_path: String::new(), ..request.clone() };
    vec![
        ("without volume_capability", with(None)),
        ("without access mode", with(modeless(cx))),
        ("with a file system that does not exist", with(Some(unknown_fs_type(cx)))),
        ("with an access type that it was not made for", with(Some(other_access(cx)))),
        ("without staging_target_path", Asked::Stage(pathless)),
    ]
}

fn wrong_publications(cx: &Cx, request: &v1::NodePublishVolumeRequest) -> Vec<Wrong> {
    let with = |volume_capability| {
        Asked::Publish(v1::NodePublishVolumeRequest { volume_capability, ..request.clone() })
    };
    let targetless = v1::NodePublishVolumeRequest { target_path: String::new(), ..request.clone() };
    let mut wrong = vec![
        ("without volume_capability", with(None)),
        ("without access mode", with(modeless(cx))),
        ("with an access type that it was not made for", with(Some(other_access(cx)))),
        ("without target_path", Asked::Publish(targetless)),
    ];
    if !request.staging_target_path.is_empty() {
        let staging_target_path = String::new();
        let unstaged = v1::NodePublishVolumeRequest { staging_target_path, ..request.clone() };
        wrong.push(("without staging_target_path", Asked::Publish(unstaged)));
        let elsewhere = format!("{}-elsewhere", request.staging_target_path);
        let unstaged = v1::NodePublishVolumeRequest { staging_target_path: elsewhere, ..request.clone() };
        wrong.push(("with a staging_target_path where nothing is staged", Asked::Publish(unstaged)));
    }
    wrong
}
