//! The work that is repeated: operations that are done and undone, and calls that are rejected or given up.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_ops::malformed::malformed;
use csi_ops::operation::{Operation, Request};
use csi_ops::volume::TrackedVolume;
use v1::VolumeContentSource as Source;

use crate::rules::{GROWTH_001, GROWTH_002, GROWTH_003};

/// The longest time after which a call is given up.
const GIVEN_UP_MAX: Duration = Duration::from_millis(4);

/// The request for a volume that was deleted, among the mistakes of requests.
const OF_DELETED_VOLUME: &str = "of a volume that was deleted";

/// NodeGetVolumeStats calls of a round.
const LOOKS_AT_VOLUME: usize = 5;

/// The work of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    /// Calls that change nothing.
    Looks,
    /// NodeGetVolumeStats of a published volume.
    Statistics,
    /// An operation, which is then undone.
    DoAndUndo(Operation),
    /// A volume created from a snapshot, or from a volume if the driver has no snapshots, and deleted.
    Copies,
    /// A volume created from a volume, and deleted.
    Clones,
    /// A volume created, expanded and deleted.
    Expansions,
    /// Requests for these operations that the driver must reject.
    Reject(&'static [Operation]),
    /// Requests for copies that the driver must reject.
    RejectCopies,
    /// CreateVolume, given up and made again, and the volume deleted.
    GivenUp,
    /// A connection that breaks, and a call over the next one.
    Connections,
}

/// The objects that all rounds of a check use.
#[derive(Debug)]
pub(super) struct Scene {
    volume: TrackedVolume,
    /// A volume that was deleted, for requests that the driver must reject.
    deleted: Option<TrackedVolume>,
    /// Objects to create volumes from.
    sources: Vec<Source>,
    /// Requests that the driver accepts, although it must reject them. They are not made again: what the driver takes up for them does not
    /// show what it takes up for a rejection.
    accepted: BTreeSet<(Operation, &'static str)>,
}

impl Cycle {
    /// The rule that a driver breaks which grows with it.
    pub(super) fn rule(self) -> &'static Requirement {
        use Cycle::*;
        match self {
            Looks | Statistics | DoAndUndo(_) | Copies | Clones | Expansions => &GROWTH_001,
            Reject(_) | RejectCopies => &GROWTH_002,
            GivenUp | Connections => &GROWTH_003,
        }
    }

    /// A round in words, which read after "for".
    pub(super) fn description(self) -> String {
        match self {
            Cycle::Looks => "each round of calls that only look".to_owned(),
            Cycle::Statistics => "each round of calls that look at a published volume".to_owned(),
            Cycle::DoAndUndo(operation) => format!("each {} that was undone", operation.method()),
            Cycle::Copies => "each CreateVolume from a source that was undone".to_owned(),
            Cycle::Clones => "each CreateVolume from a volume that was undone".to_owned(),
            Cycle::Expansions => "each volume that was expanded while unused, then deleted".to_owned(),
            Cycle::Reject(operations) => {
                let methods: Vec<&str> = operations.iter().map(|operation| operation.method()).collect();
                let were = if methods.len() > 1 { "were" } else { "was" };
                format!("each round of {} that {were} rejected", methods.join(" and "))
            }
            Cycle::RejectCopies => "each CreateVolume from a source that was rejected".to_owned(),
            Cycle::GivenUp => "each CreateVolume that was given up, made again and undone".to_owned(),
            Cycle::Connections => "each connection that was broken".to_owned(),
        }
    }

    /// Returns true if a round makes and undoes something, which takes longer than a look or a rejection.
    pub(super) fn makes_something(self) -> bool {
        use Cycle::*;
        matches!(self, DoAndUndo(_) | Copies | Clones | Expansions | GivenUp)
    }

    /// Makes the objects that all rounds use.
    pub(super) async fn begin(self, cx: &Cx) -> CheckResult<Scene> {
        let volume = TrackedVolume::new(cx, NodeVolume::default());
        let mut scene = Scene { volume, deleted: None, sources: Vec::new(), accepted: BTreeSet::new() };
        match self {
            Cycle::Looks | Cycle::Connections | Cycle::GivenUp | Cycle::Expansions => {}
            Cycle::DoAndUndo(Operation::CreateVolume) | Cycle::Reject([Operation::CreateVolume, ..]) => {}
            Cycle::Copies | Cycle::Clones | Cycle::RejectCopies => {
                scene.sources = sources(cx, &cx.new_volume().await?).await?;
            }
            Cycle::Statistics => {
                scene.volume = TrackedVolume::new(cx, cx.node_volume().await?);
                scene.volume.reach(cx, Operation::NodeUnpublishVolume).await?;
            }
            Cycle::DoAndUndo(operation) => {
                scene.volume = TrackedVolume::new(cx, cx.node_volume().await?);
                scene.volume.reach(cx, operation).await?;
                scene.volume.prepare(cx, operation).await?;
            }
            // An unknown volume may be an inline one, which a driver without CreateVolume makes now.
            Cycle::Reject(operations) if !cx.target().capabilities().has(Capability::CreateDeleteVolume) => {
                scene.volume = TrackedVolume::new(cx, cx.node_volume().await?);
                scene.volume.reach(cx, operations[0]).await?;
            }
            Cycle::Reject(operations) => {
                let operation = operations[0];
                let mut deleted = TrackedVolume::deleted(cx).await?;
                deleted.prepare(cx, operation).await?;
                scene.volume = deleted.clone();
                // A driver may look for the volume before it looks at the node.
                if operation == Operation::ControllerPublishVolume {
                    scene.volume.volume = cx.new_volume().await?.into();
                }
                scene.deleted = Some(deleted);
            }
        }
        Ok(scene)
    }

    /// Does it once. Returns false for a round that does not count, because the driver accepted a request that it must reject. Such a request
    /// is left out of later rounds. Skips if the driver accepts all requests that it must reject.
    pub(super) async fn round(
        self,
        cx: &Cx,
        scene: &mut Scene,
        rng: &mut fastrand::Rng,
    ) -> CheckResult<bool> {
        let cx = &cx.scope();
        let mut counts = true;
        match self {
            Cycle::Looks => look(cx).await?,
            Cycle::Statistics => statistics(cx, &scene.volume).await?,
            Cycle::DoAndUndo(operation) => {
                let request = scene.volume.request(cx, operation).await?;
                request.send(cx).setup(operation.product()).await?;
            }
            Cycle::Copies => {
                drop(cx.create_volume(copy_request(cx, scene.sources.first())).setup("a copy").await?)
            }
            Cycle::Clones => {
                drop(cx.create_volume(copy_request(cx, scene.sources.last())).setup("a clone").await?)
            }
            Cycle::Expansions => {
                let mut volume = TrackedVolume::new(cx, cx.new_volume().await?.into());
                let request = volume.request(cx, Operation::ControllerExpandVolume).await?;
                require_answer(request.send(cx).once().await)?;
            }
            Cycle::Reject(operations) => counts = reject(cx, scene, operations).await?,
            Cycle::RejectCopies => counts = reject_copies(cx, scene).await?,
            Cycle::GivenUp => {
                let request = cx.create_volume_request();
                let limit = GIVEN_UP_MAX.mul_f64(rng.f64());
                // The call is repeated afterwards, and its result shows then.
                let _ = cx.give_up_after(limit, cx.create_volume(request.clone()).once()).await;
                cx.create_volume(request).setup("a volume").await?;
            }
            Cycle::Connections => {
                cx.break_connections().await;
                require_answer(cx.call(v1::GetPluginInfoRequest {}).once().await)?;
            }
        }
        cx.undo().await?;
        Ok(counts)
    }
}

/// The objects that this driver can create volumes from: a snapshot of the volume first, the volume itself last.
async fn sources(cx: &Cx, volume: &v1::Volume) -> CheckResult<Vec<Source>> {
    let has = |capability| cx.target().capabilities().has(capability);
    let mut sources = Vec::new();
    if has(Capability::CreateDeleteSnapshot) {
        let snapshot_id = cx.new_snapshot(&volume.volume_id).await?.snapshot_id;
        sources.push(Source::snapshot(snapshot_id));
    }
    if has(Capability::CloneVolume) {
        sources.push(Source::volume(&volume.volume_id));
    }
    Ok(sources)
}

fn copy_request(cx: &Cx, source: Option<&Source>) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest { volume_content_source: source.cloned(), ..cx.create_volume_request() }
}

/// Looks at a published volume as kubelet does, several times, since each call takes little.
async fn statistics(cx: &Cx, volume: &TrackedVolume) -> CheckResult {
    let request = cx.stats_request(&volume.published().staged, &volume.target_path);
    for _ in 0..LOOKS_AT_VOLUME {
        require_answer(cx.call(request.clone()).once().await)?;
    }
    Ok(())
}

/// The first operation for a volume that was deleted, and each operation with each mistake that the driver must reject. Each request that
/// creates something has its own name. Returns false if the driver accepted a request.
async fn reject(cx: &Cx, scene: &mut Scene, operations: &[Operation]) -> CheckResult<bool> {
    let mut requests = Vec::new();
    if let Some(deleted) = &mut scene.deleted {
        requests.push((OF_DELETED_VOLUME, deleted.request(cx, operations[0]).await?));
    }
    for operation in operations {
        let right = scene.volume.request(cx, *operation).await?;
        let wrong = malformed(cx, &scene.volume, &right).into_iter().filter(|wrong| wrong.must_be_rejected);
        requests.extend(wrong.map(|wrong| (wrong.what, wrong.request.renamed(cx))));
    }
    let row = |what, request: &Request| (request.operation(), what);
    requests.retain(|(what, request)| !scene.accepted.contains(&row(*what, request)));
    if requests.is_empty() {
        return Err(all_accepted());
    }
    let before = scene.accepted.len();
    for (what, request) in requests {
        if request.send(cx).once().await.any_answer()?.is_ok() {
            scene.accepted.insert(row(what, &request));
        }
    }
    Ok(scene.accepted.len() == before)
}

/// A copy of each source with a limit below its size. Returns false if the driver accepted one, whose source is not used again.
async fn reject_copies(cx: &Cx, scene: &mut Scene) -> CheckResult<bool> {
    let mut rejected = Vec::new();
    for source in &scene.sources {
        let impossible = Some(v1::CapacityRange { required_bytes: 0, limit_bytes: 1 });
        let request =
            v1::CreateVolumeRequest { capacity_range: impossible, ..copy_request(cx, Some(source)) };
        if cx.create_volume(request).once().await.any_answer()?.is_err() {
            rejected.push(source.clone());
        }
    }
    if rejected.is_empty() {
        return Err(all_accepted());
    }
    let counts = rejected.len() == scene.sources.len();
    scene.sources = rejected;
    Ok(counts)
}

fn all_accepted() -> Stop {
    Stop::skip("the driver accepts every request here that it must reject")
}

/// Any answer will do: other checks judge whether it is the right one.
fn require_answer<T>(reply: Reply<T>) -> CheckResult {
    reply.any_answer().map(|_| ())
}

async fn look(cx: &Cx) -> CheckResult {
    let capabilities = cx.target().capabilities();
    require_answer(cx.call(v1::GetPluginInfoRequest {}).once().await)?;
    require_answer(cx.call(v1::GetPluginCapabilitiesRequest {}).once().await)?;
    require_answer(cx.call(v1::ProbeRequest {}).once().await)?;
    if NODE.unmet(cx.target(), cx.access()).is_none() {
        require_answer(cx.call(v1::NodeGetInfoRequest::default()).once().await)?;
    }
    if capabilities.has(Capability::ListVolumes) {
        require_answer(cx.call(v1::ListVolumesRequest::default()).once().await)?;
    }
    if capabilities.has(Capability::ListSnapshots) {
        require_answer(cx.call(v1::ListSnapshotsRequest::default()).once().await)?;
    }
    if capabilities.has(Capability::GetCapacity) {
        require_answer(cx.call(cx.capacity_request()).once().await)?;
    }
    Ok(())
}
