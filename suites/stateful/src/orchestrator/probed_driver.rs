//! Facts about a driver that are found out once, before calls are generated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use csi_model::call::Usage;
use csi_model::call_context::DriverProfile;
use csi_model::names::Node;
use csi_proto::Service;

use super::parameters;

/// Names of each kind that calls are made up with.
const NAMES: u16 = 4;
/// Places on each node at which one volume is published.
const TARGETS: u8 = 2;
/// The time that a deletion may need, as a multiple of the measured time.
const SETTLE_TIMES: u32 = 4;

/// A driver with the facts that were found out about it.
#[derive(Clone, Debug)]
pub struct ProbedDriver {
    /// The facts that the model needs.
    pub profile: DriverProfile,
    /// The way to use volumes that the configuration promises to work.
    pub usage: Usage,
    /// The request for volumes, without name and size.
    pub request: v1::CreateVolumeRequest,
    /// Sets of parameters that volumes are made with, the configured one first.
    parameters: Vec<Pairs>,
    nodes: Vec<String>,
    /// True if workloads can run here: a published volume is a mount or a device, and these tests can write to it.
    pub has_workloads: bool,
    /// True if something was right only once the driver had been given time.
    is_late: Arc<AtomicBool>,
}

impl ProbedDriver {
    /// Asks the driver, with volumes that are deleted again, unless another check has done so.
    ///
    /// # Errors
    /// Broken if a volume cannot be made, or NodeGetInfo is rejected.
    pub async fn probe(cx: &Cx) -> CheckResult<Arc<ProbedDriver>> {
        cx.learn(ProbedDriver::look(cx)).await
    }

    fn look(cx: &Cx) -> BoxFuture<'_, CheckResult<ProbedDriver>> {
        Box::pin(async move {
            let request = cx.create_node_volume_request().await?;
            let nodes = nodes(cx).await?;
            let usage = Usage { access: cx.access(), mode: Mode::SingleNodeWriter };
            let (config, capabilities) = (cx.config(), cx.target().capabilities());
            let parameters = parameters::sets(cx, &request).await?;
            let mut profile = DriverProfile {
                capabilities: Capability::ALL.iter().copied().filter(|one| capabilities.has(*one)).collect(),
                settle: Duration::ZERO,
                lists_lag: false,
                was_ended: false,
                usages: usages(cx, &request, usage).await?,
                size_bytes: cx.volume_size_bytes(),
                larger_bytes: cx.expand_size_bytes(),
                names: NAMES,
                nodes: u8::try_from(nodes.len()).unwrap_or(u8::MAX),
                targets: TARGETS,
                parameters: u8::try_from(parameters.len()).unwrap_or(u8::MAX),
                mutable_parameters: u8::from(!config.mutable_parameters.is_empty()),
                known: Default::default(),
            };
            let scope = cx.scope();
            profile.settle = settle(&scope, &request).await?;
            profile.lists_lag = lists_lag(&scope, &request).await?;
            scope.undo().await?;
            let has_workloads = has_workloads(cx).await?;
            let is_late = Arc::default();
            Ok(ProbedDriver { profile, usage, request, parameters, nodes, has_workloads, is_late })
        })
    }

    /// The facts that the model needs, including those that checks have found out.
    pub(crate) fn profile(&self, cx: &Cx) -> DriverProfile {
        let mut profile = self.profile.clone();
        if self.is_late.load(Ordering::Relaxed) {
            profile.settle = profile.settle.max(cx.settle_limit());
        }
        profile
    }

    /// Records that something was only right once the driver had been given time.
    pub(crate) fn needs_time(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    /// A set of parameters on the wire.
    pub(super) fn parameters(&self, set: u8) -> Pairs {
        self.parameters.get(usize::from(set)).cloned().unwrap_or_default()
    }

    /// The id of a node on the wire; empty where it is not known.
    pub(super) fn node(&self, node: Node) -> String {
        self.nodes.get(usize::from(node.0)).cloned().unwrap_or_default()
    }

    /// The nodes of the run among those that are named.
    pub(super) fn nodes(&self, ids: &[String]) -> BTreeSet<Node> {
        let node =
            |id: &String| u8::try_from(self.nodes.iter().position(|other| other == id)?).ok().map(Node);
        ids.iter().filter_map(node).collect()
    }
}

/// The ids of the nodes that a volume can be on: of more than the first only those that are where that one is.
async fn nodes(cx: &Cx) -> CheckResult<Vec<String>> {
    if !cx.target().serves(Service::Node) {
        return Ok(Vec::new());
    }
    let first = cx.call(v1::NodeGetInfoRequest::default()).setup("the id of the node").await?;
    let mut ids = vec![first.node_id.clone()];
    for number in 1..cx.target().nodes().len() {
        let other =
            cx.at_node(number).call(v1::NodeGetInfoRequest::default()).setup("the id of a node").await?;
        if ids.contains(&other.node_id) || other.accessible_topology != first.accessible_topology {
            break;
        }
        ids.push(other.node_id);
    }
    Ok(ids)
}

/// The ways to use volumes that CreateVolume accepts and ValidateVolumeCapabilities confirms, the first one without a
/// question.
async fn usages(cx: &Cx, request: &v1::CreateVolumeRequest, first: Usage) -> CheckResult<Vec<Usage>> {
    let mut usages = vec![first];
    let many = Usage { mode: Mode::MultiNodeMultiWriter, ..first };
    let capability = cx.capability_for(many.access, many.mode);
    let request = v1::CreateVolumeRequest {
        name: cx.unique_name(),
        volume_capabilities: vec![capability.clone()],
        ..request.clone()
    };
    let reply = cx.create_volume(request).await;
    if let Answer::Ok(volume) = reply.answer() {
        let validate = v1::ValidateVolumeCapabilitiesRequest {
            volume_capabilities: vec![capability],
            ..cx.validate_request(&volume.volume_id, &volume.volume_context)
        };
        let validated = cx.call(validate).await;
        if matches!(validated.answer(), Answer::Ok(said) if said.confirmed.is_some()) {
            usages.push(many);
        }
    }
    Ok(usages)
}

/// Returns true if new objects are missing from lists for a while.
async fn lists_lag(cx: &Cx, request: &v1::CreateVolumeRequest) -> CheckResult<bool> {
    let has = |capability| cx.target().capabilities().has(capability);
    let request = v1::CreateVolumeRequest { name: cx.unique_name(), ..request.clone() };
    let id = cx.create_volume(request).setup("a volume").await?.volume_id;
    if has(Capability::ListVolumes) && !is_listed(cx, &id).await? {
        return Ok(true);
    }
    if has(Capability::ListSnapshots) && has(Capability::CreateDeleteSnapshot) {
        let request = cx.create_snapshot_request(&id);
        let reply = cx.create_snapshot(request).await;
        if let Answer::Ok(snapshot) = reply.answer() {
            let listed = cx.list_snapshots(Default::default()).await?;
            return Ok(!listed.iter().any(|other| other.snapshot_id == snapshot.snapshot_id));
        }
    }
    Ok(false)
}

fn is_listed<'a>(cx: &'a Cx, id: &'a str) -> BoxFuture<'a, CheckResult<bool>> {
    Box::pin(async move {
        let is_it = |entry: &v1::list_volumes_response::Entry| {
            entry.volume.as_ref().is_some_and(|volume| volume.volume_id == id)
        };
        Ok(cx.list_volumes().await?.iter().any(is_it))
    })
}

/// The time for which a deleted volume may still be there, with some reserve.
async fn settle(cx: &Cx, request: &v1::CreateVolumeRequest) -> CheckResult<Duration> {
    let request = v1::CreateVolumeRequest { name: cx.unique_name(), ..request.clone() };
    let volume = cx.create_volume(request).setup("a volume").await?;
    cx.delete_volume(&volume.volume_id).setup("a deleted volume").await?;
    let started = Instant::now();
    let mut asked = 0;
    let gone = cx.eventually(Settles::VolumeGone, || {
        asked += 1;
        is_gone(cx, &volume)
    });
    Ok(match gone.await? {
        Some(()) if asked == 1 => Duration::ZERO,
        Some(()) => started.elapsed() * SETTLE_TIMES,
        None => cx.settle_limit(),
    })
}

/// Returns a value if neither calls nor lists know the volume.
async fn is_gone(cx: &Cx, volume: &v1::Volume) -> CheckResult<Option<()>> {
    let validate = cx.validate_request(&volume.volume_id, &volume.volume_context);
    let reply = cx.call(validate).await;
    let is_unknown = matches!(reply.answer(), Answer::Refused(no) if no.code == Code::NotFound);
    let lists = cx.target().capabilities().has(Capability::ListVolumes);
    let is_gone = is_unknown && !(lists && is_listed(cx, &volume.volume_id).await?);
    Ok(is_gone.then_some(()))
}

/// Publishes a volume and looks at what is there.
fn has_workloads(cx: &Cx) -> BoxFuture<'_, CheckResult<bool>> {
    Box::pin(async move {
        if Need::Root.unmet(cx.target(), cx.access()).is_some() || !cx.target().serves(Service::Node) {
            return Ok(false);
        }
        let scope = cx.scope();
        let volume = scope.node_volume().await?;
        let published = scope.published(scope.staged(scope.attached(volume).await?).await?).await?;
        let is_there = cx.sees_published(&published.target_path);
        scope.undo().await?;
        Ok(is_there)
    })
}
