//! Emulates the external-snapshotter for groups: one call takes the snapshots of all volumes, and one deletes them.

use std::sync::Arc;

use csi_harness::prelude::Cx;
use csi_proto::v1;

use super::failure::{Caller, Failure, Verdict};
use super::parameters::{self, Tokens};
use super::queue::{Work, work};
use super::shared::{Shared, hex_sha256};
use super::snapshotter::{ask_who, listed};
use super::store::{GroupObject, Objects, SnapshotObject};
use crate::cluster::{
    GroupSnapshotOrigin, GroupSnapshotSpec, ReclaimPolicy, SecretUse, Snapshot, SnapshotOrigin, SnapshotSpec,
};

pub(super) async fn run(shared: Arc<Shared>) {
    work(shared, wanted, |shared, name| async move { sync(&shared, &name).await }).await;
}

fn wanted(objects: &Objects) -> Vec<String> {
    let open =
        |object: &GroupObject| (object.deleting || !object.group.ready) && object.group.given_up.is_none();
    objects.group_snapshots.iter().filter(|(_, object)| open(object)).map(|(name, _)| name.clone()).collect()
}

async fn sync(shared: &Shared, name: &str) -> Work {
    let found = shared.store.look(|objects| {
        let object = objects.group_snapshots.get(name)?;
        let over = object.deleting && !object.in_flight;
        Some((object.group.spec.clone(), object.uid.clone(), over))
    });
    let Some((spec, uid, over)) = found else { return Work::Done };
    if over {
        return delete(shared, name).await;
    }
    let taken = match &spec.origin {
        GroupSnapshotOrigin::Labels(_) => create(shared, name, &spec, &uid).await,
        GroupSnapshotOrigin::Handles { group, snapshots } => look_up(shared, name, group, snapshots).await,
    };
    match taken {
        Ok(Some(group)) => taken_note(shared, name, &spec, &uid, group).await,
        Ok(None) => Work::Again,
        Err(failure) => failed(shared, name, "GroupSnapshotContentCreationFailed", &failure),
    }
}

/// Calls GetVolumeGroupSnapshot.
async fn look_up(
    shared: &Shared,
    name: &str,
    group: &str,
    snapshots: &[String],
) -> Result<Option<v1::VolumeGroupSnapshot>, Failure> {
    let request = v1::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group.to_owned(),
        snapshot_ids: snapshots.to_vec(),
        ..Default::default()
    };
    let cx = with_secret(shared, name, SecretUse::GroupSnapshotterGet)?;
    let reply = shared.heard(&cx.call(request).once().await)?;
    Ok(Some(reply.group_snapshot.unwrap_or_default()))
}

/// Returns the context for calls about a group, with the Secret of its class.
fn with_secret(shared: &Shared, name: &str, of: SecretUse) -> Result<Cx, Failure> {
    let found = shared.store.look(|objects| {
        let object = objects.group_snapshots.get(name)?;
        let class = objects.group_snapshot_classes.get(&object.group.spec.class)?.clone();
        Some((class, format!("groupsnapcontent-{}", object.uid)))
    });
    let Some((class, content)) = found else { return Ok(shared.cx.clone()) };
    let tokens = Tokens {
        anywhere: &[
            ("volumegroupsnapshotcontent.name", &content),
            ("volumegroupsnapshot.namespace", super::NAMESPACE),
        ],
        in_names: &[("volumegroupsnapshot.name", name)],
    };
    shared.with_class_secret(&class, parameters::GROUP_SNAPSHOTS, of, &tokens)
}

/// Calls CreateVolumeGroupSnapshot, unless it is too early for it.
async fn create(
    shared: &Shared,
    name: &str,
    spec: &GroupSnapshotSpec,
    uid: &str,
) -> Result<Option<v1::VolumeGroupSnapshot>, Failure> {
    let GroupSnapshotOrigin::Labels(labels) = &spec.origin else { return Ok(None) };
    let found = shared.store.look(|objects| {
        let class = objects.group_snapshot_classes.get(&spec.class).ok_or("there is no such class")?;
        let parameters = parameters::of_class(&class.parameters, parameters::GROUP_SNAPSHOTS)?.parameters;
        let selected = objects.claims.values().filter(|object| {
            labels.iter().all(|(key, value)| object.claim.spec.labels.get(key) == Some(value))
        });
        let volumes = selected.map(|object| objects.volume_of_claim(&object.claim.spec.name));
        let ids: Option<Vec<String>> = volumes.map(|volume| Some(volume?.handle.clone())).collect();
        let ids = ids.filter(|ids| !ids.is_empty()).ok_or("not all claims that it selects are bound")?;
        Ok::<_, String>((parameters, ids))
    });
    let (parameters, source_volume_ids) = match found {
        Ok(found) => found,
        Err(why) => {
            shared.store.event(name, "GroupSnapshotContentCreationFailed", why);
            return Ok(None);
        }
    };
    let cx = with_secret(shared, name, SecretUse::GroupSnapshotter)?;
    shared
        .store
        .change(|objects| objects.group_snapshots.get_mut(name).map(|object| object.in_flight = true));
    ask_who(shared, &cx).await?;
    let request = v1::CreateVolumeGroupSnapshotRequest {
        name: format!("groupsnapshot-{uid}"),
        source_volume_ids,
        parameters,
        ..Default::default()
    };
    let group = shared.heard(&cx.create_group_snapshot(request).once().await)?;
    match group.group_snapshot_id.is_empty() {
        true => Err(Failure::of_answer(
            "CreateVolumeGroupSnapshot",
            "the answer is OK, but has no group_snapshot_id",
        )),
        false => Ok(Some(group)),
    }
}

/// Writes the objects of a group's members, and records whether all of them are ready.
async fn taken_note(
    shared: &Shared,
    name: &str,
    spec: &GroupSnapshotSpec,
    uid: &str,
    group: v1::VolumeGroupSnapshot,
) -> Work {
    for member in &group.snapshots {
        // The sidecar already has the contents of this answer from the group's answer.
        if let Err(failure) = listed(shared, &shared.cx, &member.snapshot_id).await {
            return failed(shared, name, "GroupSnapshotContentCheckandUpdateFailed", &failure);
        }
    }
    let ready = group.ready_to_use && group.snapshots.iter().all(|member| member.ready_to_use);
    shared.store.change(|objects| {
        let mut members = Vec::new();
        for member in &group.snapshots {
            let object = member_object(spec, name, uid, member);
            let claim =
                objects.volumes.values().find(|object| object.volume.handle == member.source_volume_id);
            let claim = claim.and_then(|object| object.volume.claim.clone()).unwrap_or_default();
            members.push((object.snapshot.spec.name.clone(), claim));
            objects.snapshots.insert(object.snapshot.spec.name.clone(), object);
        }
        let Some(object) = objects.group_snapshots.get_mut(name) else { return Work::Done };
        object.in_flight = false;
        object.handles = group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect();
        object.group.error = None;
        object.group.handle = Some(group.group_snapshot_id.clone());
        object.group.members = members;
        object.group.ready = ready;
        if ready { Work::Done } else { Work::Again }
    })
}

fn member_object(spec: &GroupSnapshotSpec, group: &str, uid: &str, member: &v1::Snapshot) -> SnapshotObject {
    let name = format!("snapshot-{}", hex_sha256(&format!("{uid}{}", member.source_volume_id)));
    let origin = SnapshotOrigin::Handle(member.snapshot_id.clone());
    SnapshotObject {
        snapshot: Snapshot {
            spec: SnapshotSpec { name, class: spec.class.clone(), origin },
            ready: member.ready_to_use,
            handle: Some(member.snapshot_id.clone()),
            restore_size_bytes: member.size_bytes.max(0),
            topology: Vec::new(),
            deletion: ReclaimPolicy::Retain,
            error: None,
            given_up: None,
        },
        uid: String::new(),
        deleting: false,
        group: Some(group.to_owned()),
        in_flight: false,
    }
}

/// Calls DeleteVolumeGroupSnapshot, unless the group is to be retained.
async fn delete(shared: &Shared, name: &str) -> Work {
    let found = shared.store.look(|objects| {
        let object = objects.group_snapshots.get(name)?;
        let id = object.group.handle.clone().filter(|_| object.group.deletion == ReclaimPolicy::Delete);
        Some((id, object.handles.clone()))
    });
    let Some((id, members)) = found else { return Work::Done };
    if let Some(group_snapshot_id) = id {
        let snapshot =
            |snapshot_id: &String| v1::Snapshot { snapshot_id: snapshot_id.clone(), ..Default::default() };
        let group = v1::VolumeGroupSnapshot {
            group_snapshot_id,
            snapshots: members.iter().map(snapshot).collect(),
            ..Default::default()
        };
        let deleted = async {
            let cx = with_secret(shared, name, SecretUse::GroupSnapshotter)?;
            shared.heard(&cx.delete_group_snapshot(&group).once().await)
        };
        if let Err(failure) = deleted.await {
            return failed(shared, name, "GroupSnapshotDeleteError", &failure);
        }
    }
    shared.store.change(|objects| {
        objects.snapshots.retain(|_, object| object.group.as_deref() != Some(name));
        objects.group_snapshots.remove(name);
    });
    Work::Done
}

fn failed(shared: &Shared, name: &str, reason: &str, failure: &Failure) -> Work {
    shared.store.event(name, reason, failure.to_string());
    let why = shared.gives_up(failure, Caller::Snapshotter);
    shared.store.change(|objects| {
        let Some(object) = objects.group_snapshots.get_mut(name) else { return Work::Done };
        object.group.error = Some(failure.to_string());
        object.in_flight &= Caller::Snapshotter.judges(failure.code) == Verdict::Uncertain;
        object.group.given_up = why;
        Work::after(object.group.given_up.as_ref())
    })
}
