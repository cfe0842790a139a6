//! Emulates the external-attacher, which attaches and detaches volumes at the request of the attach/detach
//! controller.

use std::sync::Arc;

use csi_harness::prelude::Capability;
use csi_proto::v1;

use super::access_mode;
use super::failure::{Caller, Failure};
use super::queue::{Work, work};
use super::shared::{Shared, capability};
use super::store::{Attachment, Objects, VolumeOnNode};
use crate::cluster::{Pairs, PersistentVolume, SecretUse};

pub(super) async fn run(shared: Arc<Shared>) {
    work(shared, wanted, |shared, place| async move {
        match shared.store.look(|objects| Some(objects.attachments.get(&place)?.detaching)) {
            Some(false) => attach(&shared, &place).await,
            Some(true) => detach(&shared, &place).await,
            None => Work::Done,
        }
    })
    .await;
}

fn wanted(objects: &Objects) -> Vec<VolumeOnNode> {
    let open = objects.attachments.iter().filter(|(_, attachment)| {
        attachment.given_up.is_none() && (attachment.detaching || attachment.attached.is_none())
    });
    open.map(|(place, _)| place.clone()).collect()
}

async fn attach(shared: &Shared, place: &VolumeOnNode) -> Work {
    let (name, node) = place;
    let Some(volume) = shared.store.look(|objects| Some(objects.volumes.get(name)?.volume.clone())) else {
        return Work::Again;
    };
    if !shared.has(Capability::PublishUnpublishVolume) {
        // In the trivial mode a volume counts as attached without a call.
        change(shared, place, |attachment| attachment.attached = Some(Pairs::new()));
        return Work::Done;
    }
    let failure = match publish(shared, &volume, *node).await {
        Ok(context) => {
            change(shared, place, |attachment| attachment.attached = Some(context));
            return Work::Done;
        }
        Err(failure) => failure,
    };
    for pod in shared.store.look(|objects| users(objects, name, |other| other == *node)) {
        shared.store.event(&pod, "FailedAttachVolume", failure.to_string());
    }
    change(shared, place, |attachment| attachment.failed = Some(failure.clone()));
    note(shared, place, &failure)
}

/// Calls ControllerPublishVolume once, and returns the publish_context.
async fn publish(shared: &Shared, volume: &PersistentVolume, node: usize) -> Result<Pairs, Failure> {
    let mode = access_mode::of_all(&volume.access_modes, shared.has(Capability::SingleNodeMultiWriter))
        .map_err(|problem| Failure::of_answer("ControllerPublishVolume", problem))?;
    let request = v1::ControllerPublishVolumeRequest {
        volume_id: volume.handle.clone(),
        node_id: shared.nodes[node].id.clone(),
        volume_capability: Some(capability(volume, mode, None)),
        volume_context: volume.attributes.clone(),
        ..Default::default()
    };
    let cx = shared.with_secret(&shared.cx, volume.secrets.get(&SecretUse::ControllerPublish))?;
    Ok(shared.heard(&cx.controller_publish(request).once().await)?.publish_context)
}

fn change(shared: &Shared, place: &VolumeOnNode, change: impl FnOnce(&mut Attachment)) {
    shared.store.change(|objects| objects.attachments.get_mut(place).map(change));
}

/// Returns the pods on some nodes that use the volume or wait for it.
fn users(objects: &Objects, volume: &str, is_there: impl Fn(usize) -> bool) -> Vec<String> {
    let uses = |name: &String| {
        objects.claims.get(name).is_some_and(|object| object.claim.volume.as_deref() == Some(volume))
    };
    let pods = objects.pods.values().filter(|pod| pod.node.is_some_and(&is_there));
    let pods = pods.filter(|pod| Objects::claims_of(&pod.pod).any(|name| uses(&name)));
    pods.map(|pod| pod.pod.spec.name.clone()).collect()
}

fn note(shared: &Shared, place: &VolumeOnNode, failure: &Failure) -> Work {
    let why = shared.gives_up(failure, Caller::Attacher);
    shared.store.change(|objects| {
        let Some(attachment) = objects.attachments.get_mut(place) else { return Work::Done };
        attachment.given_up.clone_from(&why);
        let Some(why) = why else { return Work::Again };
        // An attached volume cannot be deleted.
        if attachment.detaching
            && let Some(object) = objects.volumes.get_mut(&place.0)
        {
            object.volume.given_up = Some(why.clone());
        }
        for name in users(objects, &place.0, |node| node == place.1) {
            if let Some(pod) = objects.pods.get_mut(&name) {
                pod.pod.given_up = Some(why.clone());
            }
        }
        Work::Done
    })
}

async fn detach(shared: &Shared, place: &VolumeOnNode) -> Work {
    let (name, node) = place;
    let found = shared.store.look(|objects| {
        let id = objects.attachments.get(place)?.volume_id.clone();
        let volume = objects.volumes.get(name).map(|object| &object.volume);
        let secret = volume.and_then(|volume| volume.secrets.get(&SecretUse::ControllerPublish));
        Some((id, secret.cloned()))
    });
    let Some((id, secret)) = found else { return Work::Done };
    if shared.has(Capability::PublishUnpublishVolume) {
        let detached = async {
            let cx = shared.with_secret(&shared.cx, secret.as_ref())?;
            shared.heard(&cx.controller_unpublish(&id, &shared.nodes[*node].id).once().await)
        };
        if let Err(failure) = detached.await {
            shared.store.event(name, "FailedDetachVolume", failure.to_string());
            let at = &shared.nodes[*node].node.name;
            let why =
                format!("Multi-Attach error for volume {name}: it is still attached to {at}: {failure}");
            for pod in shared.store.look(|objects| users(objects, name, |other| other != *node)) {
                shared.store.event(&pod, "FailedAttachVolume", why.clone());
            }
            return note(shared, place, &failure);
        }
    }
    shared.store.change(|objects| objects.attachments.remove(place));
    Work::Done
}
