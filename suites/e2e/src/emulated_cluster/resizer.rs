//! Emulates the external-resizer, which expands volumes and applies VolumeAttributesClasses, in two independent
//! loops.

use std::sync::Arc;

use csi_harness::prelude::Capability;
use csi_proto::{UnaryCall, v1};
use tonic::Code;

use super::access_mode;
use super::failure::{Caller, Failure};
use super::queue::{Work, work};
use super::shared::{Shared, capability};
use super::store::{Objects, PvcObject};
use crate::cluster::{PersistentVolume, Pvc, PvcPhase, SecretReference, SecretUse};

/// The condition of a claim whose volume grows, until pods can use all of it.
pub(super) const RESIZING: &str = "Resizing";
/// The condition of a claim whose volume has grown, but not its file system.
pub(super) const NODE_PENDING: &str = "FileSystemResizePending";
/// The condition of a claim whose volume cannot be modified.
const MODIFY_ERROR: &str = "ModifyVolumeError";

/// Expands volumes.
pub(super) async fn expand_all(shared: Arc<Shared>) {
    if !shared.has(Capability::ExpandVolume) && !shared.has(Capability::NodeExpandVolume) {
        return;
    }
    work(shared, too_small, |shared, name| async move { expand(&shared, &name).await }).await;
}

fn too_small(objects: &Objects) -> Vec<String> {
    let wanted = objects.claims.iter().filter(|(name, object)| {
        let bound = object.claim.phase == PvcPhase::Bound && object.claim.given_up.is_none();
        let volume = objects.volume_of_claim(name);
        let small = volume.is_some_and(|volume| volume.capacity_bytes < object.claim.spec.request_bytes);
        let done = object.allocated_bytes >= object.claim.spec.request_bytes;
        let waits = object.expands_idle && objects.pods_with_claim(name).any(|pod| pod.node.is_some());
        bound && small && !done && !waits && !object.deleting
    });
    wanted.map(|(name, _)| name.clone()).collect()
}

async fn expand(shared: &Shared, name: &str) -> Work {
    let found = shared.store.look(|objects| {
        let request = objects.claims.get(name)?.claim.spec.request_bytes;
        Some((request, objects.volume_of_claim(name)?.clone()))
    });
    let Some((required_bytes, volume)) = found else { return Work::Done };
    shared.store.change_claim(name, |object| object.claim.set_condition(RESIZING));
    let failure = match controller_expand(shared, &volume, required_bytes).await {
        Ok((capacity_bytes, on_node)) => {
            shared.store.change(|objects| {
                if let Some(object) = objects.volumes.get_mut(&volume.name) {
                    object.volume.capacity_bytes = capacity_bytes;
                }
                let Some(object) = objects.claims.get_mut(name) else { return };
                object.allocated_bytes = required_bytes;
                if on_node {
                    object.claim.set_condition(NODE_PENDING);
                } else {
                    object.claim.drop_condition(RESIZING);
                    object.claim.capacity_bytes = capacity_bytes;
                }
            });
            return Work::Done;
        }
        Err(failure) => failure,
    };
    shared.store.event(name, "VolumeResizeFailed", failure.to_string());
    let why = shared.gives_up(&failure, Caller::Expander);
    shared.store.change(|objects| {
        let used = objects.pods_with_claim(name).any(|pod| pod.node.is_some());
        let Some(object) = objects.claims.get_mut(name) else { return Work::Done };
        // The driver cannot expand a volume in use.
        object.expands_idle = failure.code == Code::FailedPrecondition && used;
        if object.expands_idle {
            return Work::Done;
        }
        object.give_up(why)
    })
}

/// Calls ControllerExpandVolume once. Returns the new capacity, and whether the node has to expand the volume, too.
async fn controller_expand(
    shared: &Shared,
    volume: &PersistentVolume,
    required_bytes: i64,
) -> Result<(i64, bool), Failure> {
    if !shared.has(Capability::ExpandVolume) {
        // The trivial resizer leaves the expansion to the node.
        return Ok((required_bytes, true));
    }
    let mode = access_mode::of_all(&volume.access_modes, shared.has(Capability::SingleNodeMultiWriter))
        .map_err(|problem| Failure::of_answer("ControllerExpandVolume", problem))?;
    let request = v1::ControllerExpandVolumeRequest {
        volume_id: volume.handle.clone(),
        capacity_range: Some(v1::CapacityRange { required_bytes, limit_bytes: 0 }),
        volume_capability: Some(capability(volume, mode, None)),
        ..Default::default()
    };
    let reply = call(shared, volume.secrets.get(&SecretUse::ControllerExpand), request).await?;
    Ok((reply.capacity_bytes, reply.node_expansion_required))
}

/// Modifies volumes.
pub(super) async fn modify_all(shared: Arc<Shared>) {
    if !shared.has(Capability::ModifyVolume) {
        return;
    }
    work(shared, to_be_modified, |shared, name| async move { modify(&shared, &name).await }).await;
}

fn to_be_modified(objects: &Objects) -> Vec<String> {
    let wanted = objects.claims.iter().filter(|(_, object)| {
        let claim = &object.claim;
        let class = claim
            .spec
            .attributes_class
            .as_ref()
            .filter(|class| claim.attributes_class.as_ref() != Some(*class));
        claim.phase == PvcPhase::Bound
            && claim.given_up.is_none()
            && !object.deleting
            && class.is_some_and(|class| objects.attributes_classes.contains_key(class))
    });
    wanted.map(|(name, _)| name.clone()).collect()
}

async fn modify(shared: &Shared, name: &str) -> Work {
    let found = shared.store.look(|objects| {
        let class = objects.claims.get(name)?.claim.spec.attributes_class.clone()?;
        let parameters = objects.attributes_classes.get(&class)?.parameters.clone();
        let volume = objects.volume_of_claim(name)?;
        let secret = volume.secrets.get(&SecretUse::ControllerModify).cloned();
        Some((class, parameters, volume.handle.clone(), secret))
    });
    let Some((class, mutable_parameters, volume_id, secret)) = found else { return Work::Done };
    let request = v1::ControllerModifyVolumeRequest { volume_id, mutable_parameters, ..Default::default() };
    let reply = call(shared, secret.as_ref(), request).await;
    let mut why = None;
    if let Err(failure) = &reply {
        shared.store.event(name, "VolumeModifyFailed", failure.to_string());
        why = shared.gives_up(failure, Caller::Modifier);
    }
    shared.store.change(|objects| {
        let Some(object) = objects.claims.get_mut(name) else { return Work::Done };
        match reply {
            Ok(_) => {
                object.claim.attributes_class = Some(class);
                object.claim.drop_condition(MODIFY_ERROR);
                Work::Done
            }
            Err(_) => {
                object.claim.set_condition(MODIFY_ERROR);
                object.give_up(why)
            }
        }
    })
}

async fn call<Q: UnaryCall>(
    shared: &Shared,
    secret: Option<&SecretReference>,
    request: Q,
) -> Result<Q::Response, Failure> {
    let cx = shared.with_secret(&shared.cx, secret)?;
    shared.heard(&cx.call(request).once().await)
}

impl PvcObject {
    /// Records why the component gives up, if it does.
    fn give_up(&mut self, why: Option<String>) -> Work {
        self.claim.given_up = why;
        Work::after(self.claim.given_up.as_ref())
    }
}

impl Pvc {
    fn set_condition(&mut self, condition: &str) {
        if !self.conditions.iter().any(|known| known == condition) {
            self.conditions.push(condition.to_owned());
        }
    }

    /// Removes a condition that is over.
    pub(super) fn drop_condition(&mut self, condition: &str) {
        self.conditions.retain(|known| known != condition);
    }
}
