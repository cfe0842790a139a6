//! Callers that do not wait: they repeat calls that were answered, give calls up and make them again, or make two at the same time. Others
//! make calls again that have failed. All of that happens beside the workload.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_nemesis::watched_driver::WatchedDriver;
use csi_ops::operation::{Operation, Request, Response};
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::beside::Evidence;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};
use futures_util::future::join;

use crate::beside::{Action, InUse, beside, judge_copy};
use crate::expansion::larger;
use crate::insist::fail_in_turn;
use crate::make::{Source, clone_request, copy_of};

/// The wait of the first caller that gives up a call. Each further one waits twice as long, so that the call is given up early and late in
/// its work.
const PATIENCE: Duration = Duration::from_millis(5);
/// The largest number of callers that give up one call; together they wait five seconds.
const GIVEN_UP_MAX: u32 = 10;

/// The way in which a call is made more than once.
#[derive(Clone, Copy, Debug)]
enum Manner<'a> {
    /// It is answered, and made again.
    Repeated,
    /// It is given up, and made again until it is answered.
    GivenUp,
    /// Its first change of files or mounts fails, then its second one, until it is answered with OK.
    Failing(&'a WatchedDriver<'a>),
}

/// A call about a volume in use, with the names that failures have for it.
struct Step {
    operation: Operation,
    first: Action,
    repeated: Action,
    given_up: Action,
    failing: Action,
}

macro_rules! steps {
    ($($constant:ident: $operation:ident, $request:ident, $name:literal;)+) => {
        $(const $constant: Step = Step {
            operation: Operation::$operation,
            first: Action { name: $name, rpcs: &[v1::$request::RPC] },
            repeated: Action { name: concat!("a repeated ", $name), rpcs: &[v1::$request::RPC] },
            given_up: Action { name: concat!($name, " that is given up and repeated"), rpcs: &[v1::$request::RPC] },
            failing: Action { name: concat!($name, " that fails and is repeated"), rpcs: &[v1::$request::RPC] },
        };)+
    };
}

steps! {
    SNAPSHOT: CreateSnapshot, CreateSnapshotRequest, "CreateSnapshot";
    CLONE: CreateVolume, CreateVolumeRequest, "CreateVolume from the volume";
    STAGE: NodeStageVolume, NodeStageVolumeRequest, "NodeStageVolume";
    PUBLISH: NodePublishVolume, NodePublishVolumeRequest, "NodePublishVolume";
    EXPAND: ControllerExpandVolume, ControllerExpandVolumeRequest, "ControllerExpandVolume";
    EXPAND_ON_NODE: NodeExpandVolume, NodeExpandVolumeRequest, "NodeExpandVolume";
    DELETE: DeleteSnapshot, DeleteSnapshotRequest, "DeleteSnapshot";
}

impl Step {
    fn action(&self, manner: Manner<'_>) -> Action {
        match manner {
            Manner::Repeated => self.repeated,
            Manner::GivenUp => self.given_up,
            Manner::Failing(_) => self.failing,
        }
    }

    /// Makes the call beside the workload in one manner: the response and the evidence, or nothing if the driver rejects the call. A
    /// response to a repeated call counts from the first time, since repeating it may change nothing.
    async fn make(
        &self,
        cx: &Cx,
        user: &InUse,
        manner: Manner<'_>,
        request: &Request,
    ) -> CheckResult<Option<(Response, Evidence)>> {
        let action = self.action(manner);
        let answered = async {
            match manner {
                Manner::Repeated => {}
                Manner::GivenUp => {
                    for doublings in 0..GIVEN_UP_MAX {
                        let call = request.send(cx).once();
                        if let Some(reply) = cx.give_up_after(PATIENCE * 2_u32.pow(doublings), call).await
                            && matches!(reply.answer(), Answer::Ok(_))
                        {
                            return reply.any_answer();
                        }
                    }
                }
                Manner::Failing(driver) => {
                    if let (Some(response), _) = fail_in_turn(cx, driver, request).await {
                        return Ok(Ok(response));
                    }
                }
            }
            request.send(cx).await.any_answer()
        };
        let is_repeated = matches!(manner, Manner::Repeated);
        let (answer, [evidence]) =
            beside(if is_repeated { self.first } else { action }, [user], answered).await?;
        let Ok(response) = answer else { return Ok(None) };
        if !is_repeated {
            return Ok(Some((response, evidence)));
        }
        // Other checks judge a rejection.
        let again = async { request.send(cx).await.any_answer().map(drop) };
        let ((), [repetition]) = beside(action, [user], again).await?;
        Ok(Some((response, evidence.repeated_in(repetition))))
    }
}

/// Makes every call that the driver offers about a volume in use in one manner, and judges the copies that it makes.
async fn every_call(cx: &Cx, manner: Manner<'_>) -> CheckResult {
    let user = InUse::begin(cx).await?;
    let mut volume = larger(user.volume());
    let bytes = volume.volume.size_bytes;
    let mut copies = Vec::new();
    let mut snapshot = None;
    if SNAPSHOT.operation.is_offered(cx) {
        let request = volume.request(cx, SNAPSHOT.operation).await?;
        if let Some((Response::Snapshot(taken), evidence)) =
            SNAPSHOT.make(cx, &user, manner, &request).await?
        {
            volume.record(Response::Snapshot(taken.clone()));
            // A snapshot that is not ready yet may still change.
            snapshot = taken.ready_to_use.then_some((taken, evidence));
        }
    }
    if cx.target().capabilities().has(Capability::CloneVolume) {
        let request = Request::CreateVolume(clone_request(cx, user.id(), bytes).await?);
        if let Some((Response::Volume(clone), evidence)) = CLONE.make(cx, &user, manner, &request).await? {
            copies.push((NodeVolume::from(clone), evidence, "a clone"));
        }
    }
    if matches!(manner, Manner::Repeated) {
        // kubelet makes both calls again when it starts. They belong to the use of the volume, and are undone with it.
        for step in [STAGE, PUBLISH] {
            if step.operation.is_offered(cx) {
                let request = volume.request(user.cx(), step.operation).await?;
                step.make(user.cx(), &user, manner, &request).await?;
            }
        }
    }
    if EXPAND.operation.is_offered(cx) {
        let request = volume.request(cx, EXPAND.operation).await?;
        if let Some((response, _)) = EXPAND.make(cx, &user, manner, &request).await? {
            volume.record(response);
        }
    }
    let is_required = volume.expanded.as_ref().is_some_and(|answer| answer.node_expansion_required);
    if is_required && EXPAND_ON_NODE.operation.is_offered(cx) {
        let request = volume.request(cx, EXPAND_ON_NODE.operation).await?;
        EXPAND_ON_NODE.make(cx, &user, manner, &request).await?;
    }
    if let Some((taken, evidence)) = snapshot {
        let copy = copy_of(cx, Source::snapshot(&taken.snapshot_id), bytes).await?;
        copies.push((copy, evidence, "a snapshot"));
        let request = volume.request(cx, DELETE.operation).await?;
        DELETE.make(cx, &user, manner, &request).await?;
    }
    user.end(DELETE.action(manner)).await?;
    let origin = match manner {
        Manner::Repeated => "whose call was repeated",
        Manner::GivenUp => "whose call was given up and repeated",
        Manner::Failing(_) => "whose call had failed and was repeated",
    };
    for (copy, evidence, noun) in copies {
        judge_copy(cx, &evidence, copy, &format!("{noun} {origin}")).await?;
    }
    Ok(())
}

check! {
    /// Sidecars and kubelet repeat calls after each of their restarts, including calls that were answered
    /// long ago. A driver may begin its work again before it detects that there is nothing to do.
    REPEATED {
        id: "in-use/calls-repeated",
        title: "repeated calls for a volume in use do not harm the workload, and change no copy",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/repeated-snapshot-freezes-writer",
            "hostpath/repeated-snapshot-cuts-anew",
            "hostpath/repeated-snapshot-deletion-breaks-source",
            "hostpath/repeated-clone-breaks-source",
            "hostpath/repeated-expansion-breaks-writer",
            "hostpath/repeated-node-expansion-freezes-writer",
            "hostpath/repeated-staging-breaks-writer",
            "hostpath/repeated-publication-empties-volume",
            "hostpath/wipes-at-repeated-staging",
        ],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| { every_call(cx, Manner::Repeated).await }
}

check! {
    /// A sidecar gives up a call when its deadline passes, and repeats it. The driver is in the middle of its
    /// work then.
    GIVEN_UP {
        id: "in-use/calls-given-up",
        title: "calls for a volume in use that are given up and repeated do not harm the workload or its copies",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/given-up-snapshot-stays-frozen",
            "hostpath/given-up-snapshot-breaks-writer",
            "hostpath/given-up-snapshot-is-taken-for-whole",
            "hostpath/given-up-snapshot-deletion-stays-frozen",
            "hostpath/given-up-clone-breaks-source",
            "hostpath/given-up-expansion-breaks-writer",
            "hostpath/hands-out-half-copies",
        ],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| { every_call(cx, Manner::GivenUp).await }
}

check! {
    /// A full disk or a broken device stops a driver in the middle of its work. The driver then has to lift
    /// any barrier that blocks the workload, and the next call must not treat an incomplete result as
    /// complete.
    FAILING {
        id: "in-use/calls-failing",
        title: "failed calls for a volume in use do not harm the workload, and repeated calls make correct copies",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/failed-snapshot-stays-frozen",
            "hostpath/failed-snapshot-breaks-writer",
            "hostpath/failed-snapshot-is-taken-for-whole",
            "hostpath/failed-clone-breaks-source",
            "hostpath/failed-expansion-breaks-writer",
        ],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| {
        let driver = WatchedDriver::start(cx).await?;
        every_call(cx, Manner::Failing(&driver)).await
    }
}

/// A pair of calls about one volume that are made at the same time.
const fn pair(name: &'static str) -> Action {
    Action { name, rpcs: &[] }
}

/// The calls that come in pairs, each with all others.
const PAIRS: [(Operation, Operation, Action); 6] = [
    (
        Operation::CreateSnapshot,
        Operation::CreateVolume,
        pair("CreateSnapshot beside CreateVolume from the volume"),
    ),
    (Operation::CreateSnapshot, Operation::DeleteSnapshot, pair("CreateSnapshot beside DeleteSnapshot")),
    (
        Operation::CreateSnapshot,
        Operation::ControllerExpandVolume,
        pair("CreateSnapshot beside ControllerExpandVolume"),
    ),
    (
        Operation::CreateVolume,
        Operation::DeleteSnapshot,
        pair("CreateVolume from the volume beside DeleteSnapshot"),
    ),
    (
        Operation::CreateVolume,
        Operation::ControllerExpandVolume,
        pair("CreateVolume from the volume beside ControllerExpandVolume"),
    ),
    (
        Operation::DeleteSnapshot,
        Operation::ControllerExpandVolume,
        pair("DeleteSnapshot beside ControllerExpandVolume"),
    ),
];

check! {
    /// Sidecars do not know of each other, so calls of several kinds arrive for one volume at the same time.
    /// A driver may reject one of them.
    IN_PAIRS {
        id: "in-use/calls-in-pairs",
        title: "two simultaneous calls for a volume in use do not harm the workload, and make correct copies",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
            ROOT,
        ],
        refuted_by: [
            "hostpath/snapshot-beside-expansion-breaks-writer",
            "hostpath/snapshot-beside-deletion-is-empty",
            "hostpath/snapshot-deletion-beside-clone-breaks-source",
            "hostpath/clone-beside-snapshot-freezes-source",
            "hostpath/clone-beside-snapshot-is-empty",
            "hostpath/expansion-beside-clone-damages-source",
        ],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let mut volume = user.volume().clone();
        let mut made = Vec::new();
        let mut last = None;
        let is_offered = |operation| match operation {
            Operation::CreateVolume => cx.target().capabilities().has(Capability::CloneVolume),
            other => other.is_offered(cx),
        };
        for (one, other, action) in PAIRS {
            if !is_offered(one) || !is_offered(other) {
                continue;
            }
            let Some(one) = next_request(cx, &user, &mut volume, one).await? else { continue };
            let Some(other) = next_request(cx, &user, &mut volume, other).await? else { continue };
            let both = async {
                let (one, other) = join(one.send(cx).once(), other.send(cx).once()).await;
                Ok([one.any_answer(), other.any_answer()])
            };
            let (answers, [evidence]) = beside(action, [&user], both).await?;
            last = Some(action);
            for answer in answers {
                match answer? {
                    Ok(Response::Expanded(expanded)) => volume.volume.size_bytes = expanded.capacity_bytes,
                    Ok(response) => made.push((response, evidence.clone())),
                    Err(_) => {}
                }
            }
        }
        let Some(last) = last else { return Err(Stop::skip("the driver supports no two calls that can be made at once")) };
        user.end(last).await?;
        for (response, evidence) in made {
            let (copy, noun) = match response {
                Response::Volume(clone) => (NodeVolume::from(clone), "a clone"),
                Response::Snapshot(taken) if taken.ready_to_use => {
                    let copy = copy_of(cx, Source::snapshot(&taken.snapshot_id), taken.size_bytes).await?;
                    (copy, "a snapshot")
                }
                _ => continue,
            };
            judge_copy(cx, &evidence, copy, &format!("{noun} that was made beside another call")).await?;
        }
        Ok(())
    }
}

/// The next request for an operation, with what it needs: a larger size, or a snapshot to delete. There is none if the driver rejects
/// that.
async fn next_request(
    cx: &Cx,
    user: &InUse,
    volume: &mut TrackedVolume,
    operation: Operation,
) -> CheckResult<Option<Request>> {
    let bytes = volume.volume.size_bytes;
    match operation {
        Operation::CreateVolume => {
            return Ok(Some(Request::CreateVolume(clone_request(cx, user.id(), bytes).await?)));
        }
        Operation::ControllerExpandVolume => {
            volume.expand_to_bytes = bytes.saturating_add(user.volume().volume.size_bytes / 2);
        }
        Operation::DeleteSnapshot => {
            let request = volume.request(cx, Operation::CreateSnapshot).await?;
            let Ok(spare) = request.send(cx).await.any_answer()? else { return Ok(None) };
            volume.record(spare);
        }
        _ => {}
    }
    volume.request(cx, operation).await.map(Some)
}

pub(crate) static CHECKS: &[&Check] = &[&REPEATED, &GIVEN_UP, &FAILING, &IN_PAIRS];
