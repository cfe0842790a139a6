//! Emulates the external-snapshotter, which takes snapshots, waits until they are ready, looks up existing ones, and
//! deletes them.

use std::sync::Arc;

use csi_harness::prelude::{Capability, Cx, Stop};
use csi_proto::v1;
use tonic::Code;

use super::failure::{Caller, Failure, Verdict};
use super::parameters::{self, Tokens};
use super::queue::{Work, work};
use super::shared::Shared;
use super::store::{Objects, SnapshotObject};
use crate::cluster::{Block, DataSource, Done, Pairs, ReclaimPolicy, SecretUse, SnapshotOrigin};

pub(super) async fn run(shared: Arc<Shared>) {
    work(shared, wanted, |shared, name| async move { sync(&shared, &name).await }).await;
}

fn wanted(objects: &Objects) -> Vec<String> {
    let wanted = objects.snapshots.iter().filter(|(name, object)| {
        let open = match object.deleting {
            true => !is_source(objects, name),
            false => !object.snapshot.ready && object.group.is_none(),
        };
        open && object.snapshot.given_up.is_none()
    });
    wanted.map(|(name, _)| name.clone()).collect()
}

/// Returns whether a volume is being made from a snapshot.
fn is_source(objects: &Objects, snapshot: &str) -> bool {
    objects.claims.values().any(|object| {
        object.in_flight.is_some()
            && matches!(&object.claim.spec.source, Some(DataSource::Snapshot(name)) if name == snapshot)
    })
}

/// The next step for a snapshot.
enum Next {
    Create { claim: String, class: String, uid: String },
    LookUp(String),
    Delete(String),
    Remove,
}

fn next(object: &SnapshotObject) -> Next {
    let snapshot = &object.snapshot;
    if object.deleting && (!object.in_flight || object.group.is_some()) {
        // Members of a group are deleted with it, by one call for all.
        return match (&snapshot.handle, snapshot.deletion) {
            (Some(id), ReclaimPolicy::Delete) if object.group.is_none() => Next::Delete(id.clone()),
            _ => Next::Remove,
        };
    }
    match &snapshot.spec.origin {
        SnapshotOrigin::Claim(claim) => {
            Next::Create { claim: claim.clone(), class: snapshot.spec.class.clone(), uid: object.uid.clone() }
        }
        SnapshotOrigin::Handle(id) => Next::LookUp(id.clone()),
    }
}

async fn sync(shared: &Shared, name: &str) -> Work {
    let Some(next) = shared.store.look(|objects| objects.snapshots.get(name).map(next)) else {
        return Work::Done;
    };
    match next {
        Next::Create { claim, class, uid } => create(shared, name, &claim, &class, &uid).await,
        Next::LookUp(id) => look_up(shared, name, &id).await,
        Next::Delete(id) => {
            let deleted = async {
                let cx = with_secret(shared, name, SecretUse::Snapshotter)?;
                shared.heard(&cx.delete_snapshot(&id).once().await)
            };
            match deleted.await {
                Ok(_) => remove(shared, name),
                Err(failure) => failed(shared, name, "SnapshotDeleteError", &failure),
            }
        }
        Next::Remove => remove(shared, name),
    }
}

fn remove(shared: &Shared, name: &str) -> Work {
    shared.store.change(|objects| objects.snapshots.remove(name));
    Work::Done
}

async fn create(shared: &Shared, name: &str, claim: &str, class: &str, uid: &str) -> Work {
    let found = shared.store.look(|objects| {
        let class = objects.snapshot_classes.get(class).ok_or("there is no such class")?;
        let volume = objects.volume_of_claim(claim).ok_or("its claim is not bound")?;
        let read = parameters::of_class(&class.parameters, parameters::SNAPSHOTS)?;
        Ok::<_, String>((volume.handle.clone(), read.parameters, class.allowed_topologies.clone()))
    });
    let (source_volume_id, mut parameters, allowed) = match found {
        Ok(found) => found,
        Err(why) => {
            shared.store.event(name, "SnapshotContentCreationFailed", why);
            return Work::Again;
        }
    };
    if shared.settings.extra_create_metadata {
        for (key, value) in [
            ("volumesnapshot/name", name.to_owned()),
            ("volumesnapshot/namespace", super::NAMESPACE.to_owned()),
            ("volumesnapshotcontent/name", format!("snapcontent-{uid}")),
        ] {
            parameters.insert(format!("csi.storage.k8s.io/{key}"), value);
        }
    }
    shared.store.change(|objects| objects.snapshots.get_mut(name).map(|object| object.in_flight = true));
    let request = v1::CreateSnapshotRequest {
        source_volume_id,
        name: format!("snapshot-{uid}"),
        parameters,
        accessibility_requirements: requirement(shared, name, &allowed),
        ..Default::default()
    };
    match take(shared, name, request).await {
        Ok(created) => shared.store.change(|objects| {
            let Some(object) = objects.snapshots.get_mut(name) else { return Work::Done };
            object.in_flight = false;
            object.snapshot.error = None;
            // A known topology does not change.
            if object.snapshot.topology.is_empty() {
                let places = created.accessible_topology.into_iter().map(|place| place.segments);
                object.snapshot.topology = places.collect();
            }
            object.snapshot.handle = Some(created.snapshot_id);
            object.snapshot.restore_size_bytes = created.size_bytes.max(0);
            object.snapshot.ready = created.ready_to_use;
            // The call is repeated until the snapshot is ready.
            if created.ready_to_use { Work::Done } else { Work::Again }
        }),
        Err(failure) => failed(shared, name, "SnapshotContentCreationFailed", &failure),
    }
}

/// Returns the topologies in which a snapshot has to be usable, from its class. A driver without the capability is
/// not asked for it.
fn requirement(shared: &Shared, name: &str, allowed: &[Pairs]) -> Option<v1::TopologyRequirement> {
    if allowed.is_empty() {
        return None;
    }
    if !shared.has(Capability::SnapshotAccessibilityConstraints) {
        let why =
            "the driver does not have SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: allowedTopologies have no effect";
        shared.store.event(name, "SnapshotTopologyIgnored", why);
        return None;
    }
    let places: Vec<_> = allowed.iter().map(|place| v1::Topology { segments: place.clone() }).collect();
    Some(v1::TopologyRequirement { requisite: places.clone(), preferred: places })
}

/// Calls CreateSnapshot once.
async fn take(
    shared: &Shared,
    name: &str,
    request: v1::CreateSnapshotRequest,
) -> Result<v1::Snapshot, Failure> {
    let cx = with_secret(shared, name, SecretUse::Snapshotter)?;
    ask_who(shared, &cx).await?;
    let created = shared.heard(&cx.create_snapshot(request).once().await)?;
    match created.snapshot_id.is_empty() {
        true => Err(Failure::of_answer("CreateSnapshot", "the answer is OK, but has no snapshot_id")),
        false => Ok(created),
    }
}

/// Returns the context for calls about a snapshot, with the Secret of its class, or without one if it has no class.
fn with_secret(shared: &Shared, name: &str, of: SecretUse) -> Result<Cx, Failure> {
    let found = shared.store.look(|objects| {
        let object = objects.snapshots.get(name)?;
        let class = objects.snapshot_classes.get(&object.snapshot.spec.class)?.clone();
        Some((class, format!("snapcontent-{}", object.uid)))
    });
    let Some((class, content)) = found else { return Ok(shared.cx.clone()) };
    let content = ("volumesnapshotcontent.name", content.as_str());
    let tokens = match of {
        // The Secret of the list does not depend on the VolumeSnapshot.
        SecretUse::SnapshotterList => Tokens { anywhere: &[content], in_names: &[] },
        _ => Tokens {
            anywhere: &[content, ("volumesnapshot.namespace", super::NAMESPACE)],
            in_names: &[("volumesnapshot.name", name)],
        },
    };
    shared.with_class_secret(&class, parameters::SNAPSHOTS, of, &tokens)
}

/// Calls GetPluginInfo, as the sidecar does before it makes anything.
pub(super) async fn ask_who(shared: &Shared, cx: &Cx) -> Result<(), Failure> {
    shared.heard(&cx.call(v1::GetPluginInfoRequest {}).once().await).map(|_| ())
}

async fn look_up(shared: &Shared, name: &str, id: &str) -> Work {
    let found = async { listed(shared, &with_secret(shared, name, SecretUse::SnapshotterList)?, id).await };
    let found = match found.await {
        Ok(found) => found,
        Err(failure) => return failed(shared, name, "SnapshotContentCheckandUpdateFailed", &failure),
    };
    shared.store.change(|objects| {
        let Some(object) = objects.snapshots.get_mut(name) else { return Work::Done };
        object.snapshot.error = None;
        object.snapshot.handle = Some(id.to_owned());
        object.snapshot.restore_size_bytes = found.as_ref().map_or(0, |found| found.size_bytes.max(0));
        object.snapshot.ready = found.is_none_or(|found| found.ready_to_use);
        if object.snapshot.ready { Work::Done } else { Work::Again }
    })
}

/// Returns an existing snapshot from the driver's list, or `None` if the driver has no list; then it is assumed to
/// exist.
pub(super) async fn listed(shared: &Shared, cx: &Cx, id: &str) -> Result<Option<v1::Snapshot>, Failure> {
    shared.heard(&cx.call(v1::ControllerGetCapabilitiesRequest {}).once().await)?;
    if !shared.has(Capability::ListSnapshots) {
        return Ok(None);
    }
    let request = v1::ListSnapshotsRequest { snapshot_id: id.to_owned(), ..Default::default() };
    let page = shared.heard(&cx.call(request).once().await)?;
    let found = page.entries.into_iter().find_map(|entry| entry.snapshot);
    let found =
        found.ok_or_else(|| Failure::of_answer("ListSnapshots", format!("there is no snapshot {id}")))?;
    Ok(Some(found))
}

fn failed(shared: &Shared, name: &str, reason: &str, failure: &Failure) -> Work {
    shared.store.event(name, reason, failure.to_string());
    let why = shared.gives_up(failure, Caller::Snapshotter);
    shared.store.change(|objects| {
        let Some(object) = objects.snapshots.get_mut(name) else { return Work::Done };
        object.snapshot.error = Some(failure.to_string());
        object.in_flight &= Caller::Snapshotter.judges(failure.code) == Verdict::Uncertain;
        // The real sidecar would repeat the call forever for a deleted snapshot for which the driver has no space.
        object.in_flight &= !object.deleting || failure.code != Code::ResourceExhausted;
        object.snapshot.given_up = why;
        Work::after(object.snapshot.given_up.as_ref())
    })
}

/// Calls GetMetadataAllocated, or GetMetadataDelta if there is an earlier snapshot, from the beginning. The sidecar of the SnapshotMetadata
/// service streams the driver's answers to a client, which is the test here.
pub(super) async fn blocks(shared: &Shared, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>> {
    let cx = with_secret(shared, snapshot, SecretUse::Snapshotter);
    let cx = cx.map_err(|failure| Stop::broken(failure.to_string()))?;
    let target = handle(shared, snapshot)?;
    let blocks: Vec<v1::BlockMetadata> = match earlier {
        None => {
            let request = v1::GetMetadataAllocatedRequest { snapshot_id: target, ..Default::default() };
            let parts =
                cx.stream(request).await.must("the blocks of a snapshot that hold data can be listed")?;
            parts.into_iter().flat_map(|part| part.block_metadata).collect()
        }
        Some(earlier) => {
            let request = v1::GetMetadataDeltaRequest {
                base_snapshot_id: handle(shared, earlier)?,
                target_snapshot_id: target,
                ..Default::default()
            };
            let parts = cx
                .stream(request)
                .await
                .must("the blocks that differ between two snapshots can be listed")?;
            parts.into_iter().flat_map(|part| part.block_metadata).collect()
        }
    };
    blocks.iter().map(|block| Block::reported(block.byte_offset, block.size_bytes)).collect()
}

/// Returns the snapshot_id of a VolumeSnapshot.
fn handle(shared: &Shared, name: &str) -> Done<String> {
    let found = shared.store.look(|objects| objects.snapshots.get(name)?.snapshot.handle.clone());
    found.ok_or_else(|| Stop::broken(format!("there is no snapshot behind VolumeSnapshot {name}")))
}
