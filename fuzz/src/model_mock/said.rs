//! What the driver says, as the model hears it.

use std::collections::BTreeSet;

use csi_proto::v1;
use csi_proto::v1::volume_content_source::Type;
use csi_suite_stateful::model::answer::{
    GroupFacts, GroupResponse, Response, SnapshotFacts, SnapshotResponse, SourceTold, VolumeFacts,
    VolumeResponse,
};
use csi_suite_stateful::model::ids::Ids;
use csi_suite_stateful::model::names::{Id, Node, ObjectKind};

use super::ground::{NODES, node_id};

pub(super) fn volume(ids: &Ids, volume: &v1::Volume, id: Option<Id>) -> VolumeFacts {
    let source = volume.content_source.as_ref().and_then(|source| source.r#type.as_ref());
    let known = source.map(|source| match source {
        Type::Volume(source) => ids.find(&[ObjectKind::Volume], &source.volume_id),
        Type::Snapshot(source) => ids.find(&[ObjectKind::Snapshot, ObjectKind::Member], &source.snapshot_id),
    });
    let source =
        known.map_or(SourceTold::LeftOut, |known| known.map_or(SourceTold::Stranger, SourceTold::Known));
    VolumeFacts::new(volume, id, source)
}

fn nodes(ids: &[String]) -> BTreeSet<Node> {
    (0..NODES).map(Node).filter(|node| ids.contains(&node_id(node.0))).collect()
}

pub(super) fn volume_seen(ids: &Ids, response: v1::ControllerGetVolumeResponse) -> Response {
    let found = response.volume.unwrap_or_default();
    let id = ids.find(&[ObjectKind::Volume], &found.volume_id);
    Response::Volume(VolumeResponse::Seen(
        volume(ids, &found, id),
        response.status.map(|status| nodes(&status.published_node_ids)),
    ))
}

pub(super) fn volume_listed(
    ids: &Ids,
    entry: v1::list_volumes_response::Entry,
) -> Option<(Id, VolumeResponse)> {
    let found = entry.volume?;
    let id = ids.find(&[ObjectKind::Volume], &found.volume_id)?;
    let nodes = entry.status.map(|status| nodes(&status.published_node_ids));
    Some((id, VolumeResponse::Seen(volume(ids, &found, Some(id)), nodes)))
}

pub(super) fn health(ids: &Ids, health: Option<v1::VolumeHealth>) -> Response {
    let of = health.and_then(|health| ids.find(&[ObjectKind::Volume], &health.volume_id));
    Response::Volume(VolumeResponse::Health(of))
}

fn snapshot(ids: &Ids, snapshot: &v1::Snapshot, id: Option<Id>) -> SnapshotFacts {
    SnapshotFacts::new(snapshot, id, ids.find(&[ObjectKind::Volume], &snapshot.source_volume_id))
}

pub(super) fn snapshot_seen(ids: &Ids, found: &v1::Snapshot, id: Option<Id>) -> Response {
    Response::Snapshot(SnapshotResponse::Seen(snapshot(ids, found, id)))
}

pub(super) fn snapshot_listed(
    ids: &Ids,
    entry: v1::list_snapshots_response::Entry,
) -> Option<(Id, SnapshotResponse)> {
    let found = entry.snapshot?;
    let id = ids.find(&[ObjectKind::Snapshot], &found.snapshot_id)?;
    Some((id, SnapshotResponse::Seen(snapshot(ids, &found, Some(id)))))
}

pub(super) fn group(ids: &Ids, group: &v1::VolumeGroupSnapshot, id: Option<Id>) -> Response {
    let member = |found: &v1::Snapshot| {
        let id = ids.find(&[ObjectKind::Member], &found.snapshot_id)?;
        Some((id, snapshot(ids, found, Some(id))))
    };
    Response::Group(GroupResponse::Seen(GroupFacts {
        id,
        creation_time: group.creation_time.as_ref().map(|time| (time.seconds, time.nanos)),
        ready: group.ready_to_use,
        members: group.snapshots.iter().filter_map(member).collect(),
    }))
}

pub(super) fn nothing_of_snapshot<T>(_: T) -> Response {
    Response::Snapshot(SnapshotResponse::Nothing)
}

pub(super) fn nothing_of_group<T>(_: T) -> Response {
    Response::Group(GroupResponse::Nothing)
}
