//! Emulates the scheduler, which chooses the node of a pod or reports why there is none.

use std::collections::{BTreeMap, BTreeSet};

use super::ControllerStep;
use crate::cluster::{AccessMode, PersistentVolume, Pod, PodPhase, VolumeBindingMode};
use crate::emulated_cluster::shared::{KubeNode, Shared};
use crate::emulated_cluster::store::{Objects, PvcObject};
use crate::emulated_cluster::topology;

/// Advances a pod one step towards a node.
pub(super) fn schedule(shared: &Shared, objects: &Objects, name: &str) -> Option<ControllerStep> {
    let object = objects.pods.get(name)?;
    if object.node.is_some() || object.deleting {
        return None;
    }
    let why = match choose(shared, objects, &object.pod) {
        Ok(step) => return step,
        Err(why) => format!("Unschedulable: {why}"),
    };
    let is_known = objects.events_of(name).last().is_some_and(|event| event.message == why);
    (!is_known).then(|| ControllerStep::AddEvent { pod: name.to_owned(), why })
}

fn choose(shared: &Shared, objects: &Objects, pod: &Pod) -> Result<Option<ControllerStep>, String> {
    let request = Request::of(objects, pod)?;
    let mut refusals: BTreeMap<&str, usize> = BTreeMap::new();
    let node = shared.nodes.iter().enumerate().position(|(index, node)| {
        let refusal = request.refusal(objects, index, node);
        refusal.inspect(|why| *refusals.entry(why).or_default() += 1).is_none()
    });
    let Some(node) = node else {
        let why: Vec<String> = refusals.iter().map(|(why, nodes)| format!("{nodes} node(s) {why}")).collect();
        return Err(format!("0/{} nodes are available: {}", shared.nodes.len(), why.join(", ")));
    };
    Ok(match request.waiting.into_iter().find(|(_, claim)| claim.selected_node.is_none()) {
        Some((claim, _)) => Some(ControllerStep::SelectNode { claim, node }),
        None if Objects::claims_of(pod).all(|claim| objects.volume_of_claim(&claim).is_some()) => {
            Some(ControllerStep::Schedule { pod: pod.spec.name.clone(), node })
        }
        None => None,
    })
}

/// The demands of a pod on its node.
struct Request<'a> {
    pod: &'a Pod,
    /// The existing volumes of the pod.
    volumes: Vec<&'a PersistentVolume>,
    /// The claims whose volumes are made for the chosen node.
    waiting: Vec<(String, &'a PvcObject)>,
}

impl<'a> Request<'a> {
    /// # Errors
    /// Fails with the reason why no node can be considered yet.
    fn of(objects: &'a Objects, pod: &'a Pod) -> Result<Request<'a>, String> {
        let mut request = Request { pod, volumes: Vec::new(), waiting: Vec::new() };
        for claim in Objects::claims_of(pod) {
            let object = objects.claims.get(&claim).ok_or_else(|| format!("claim {claim} does not exist"))?;
            if object.claim.spec.access_modes.contains(&AccessMode::ReadWriteOncePod)
                && objects
                    .pods_with_claim(&claim)
                    .any(|other| other.pod.uid != pod.uid && other.node.is_some())
            {
                return Err(format!("claim {claim} is ReadWriteOncePod, and another pod has it"));
            }
            let class = objects.storage_classes.get(&object.claim.spec.class);
            match objects.volume_of_claim(&claim) {
                Some(volume) => request.volumes.push(volume),
                None if class.is_some_and(|class| {
                    class.volume_binding_mode == VolumeBindingMode::WaitForFirstConsumer
                }) =>
                {
                    request.waiting.push((claim, object));
                }
                None => return Err(format!("claim {claim} is not bound")),
            }
        }
        Ok(request)
    }

    /// Returns why the node cannot run the pod, in the words of the scheduler.
    fn refusal(&self, objects: &Objects, index: usize, node: &KubeNode) -> Option<&'static str> {
        let node = &node.node;
        let is_named = self.pod.spec.node.as_ref().is_none_or(|name| *name == node.name);
        let is_chosen =
            self.waiting.iter().all(|(_, claim)| claim.selected_node.is_none_or(|chosen| chosen == index));
        let is_allowed = self.waiting.iter().all(|(_, claim)| {
            let class = objects.storage_classes.get(&claim.claim.spec.class);
            class.is_none_or(|class| topology::allows(class, &node.topology))
        });
        let is_reached = self.volumes.iter().all(|volume| topology::reaches(volume, &node.topology));
        if objects.out_of_service.contains(&index) {
            Some("had untolerated taint(s)")
        } else if !is_named || self.pod.spec.not_on.contains(&node.name) {
            Some("didn't match Pod's node affinity/selector")
        } else if !is_chosen || !is_allowed {
            Some("didn't find available persistent volumes to bind")
        } else if !is_reached {
            Some("had volume node affinity conflict")
        } else if !self.has_room(objects, index, objects.volume_limit(index, node)) {
            Some("exceed max volume count")
        } else {
            None
        }
    }

    /// Returns whether the node can have the volumes of the pod besides its own.
    fn has_room(&self, objects: &Objects, node: usize, limit: Option<u64>) -> bool {
        let Some(limit) = limit else { return true };
        let mut all = volumes_on(objects, node);
        all.extend(self.volumes.iter().map(|volume| volume.handle.as_str()));
        u64::try_from(all.len() + self.waiting.len()).is_ok_and(|count| count <= limit)
    }
}

/// Returns the ids of the volumes on a node: those of its pods until these are gone, and those that are still
/// attached.
fn volumes_on(objects: &Objects, node: usize) -> BTreeSet<&str> {
    let ended = |phase: PodPhase| matches!(phase, PodPhase::Succeeded | PodPhase::Failed);
    let pods = objects.pods.values().filter(|object| object.node == Some(node) && !ended(object.pod.phase));
    let claims = pods.flat_map(|object| Objects::claims_of(&object.pod));
    let of_pods =
        claims.filter_map(|claim| objects.volume_of_claim(&claim)).map(|volume| volume.handle.as_str());
    let attached = objects.attachments.iter().filter(|((_, at), _)| *at == node);
    of_pods.chain(attached.map(|(_, attachment)| attachment.volume_id.as_str())).collect()
}
