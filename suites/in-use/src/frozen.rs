//! A workload while the processes of the driver stand still and go on, with calls in progress.

use std::time::{Duration, Instant};

use csi_harness::driver::Frozen;
use csi_harness::prelude::*;
use csi_harness::text::message::error_chain;
use csi_ops::operation::{Operation, Request, Response};
use csi_workload::now_us;
use csi_workload::rules::{
    IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005, IN_USE_008, IN_USE_009,
};
use futures_util::future::{join, join_all};

use crate::beside::{Action, InUse, beside, judge_copy};
use crate::insist::{Insisted, insist};
use crate::make::{Source, clone_request, copy_of};

const STOP: Action = Action { name: "a stop of the driver's processes, and the calls during it", rpcs: &[] };
const BEFORE: Action = Action { name: "CreateSnapshot, and CreateVolume from the volume", rpcs: &[] };
/// The number of seconds for which the driver stands still, with the usual `--budget`.
const STILL_SECS: u32 = 5;
/// The largest number of seconds, which is longer than callers wait for an answer.
const STILL_SECS_MAX: u32 = 35;
/// The smallest number of seconds, so that callers can give up while the driver stands still.
const STILL_SECS_MIN: u32 = 2;
/// A caller that does not wait until the driver goes on gives up after this time.
const PATIENCE: Duration = Duration::from_secs(1);
/// A driver that answers within this time does not stand still.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// The driver stands still for this time without a call, to see whether writes need its processes.
const STILL_ALONE: Duration = Duration::from_secs(2);
/// The driver is stopped in the middle of its calls, half the time after they were sent that such calls have taken before; at least and at
/// most this long after.
const SENT_BEFORE_MIN: Duration = Duration::from_millis(10);
const SENT_BEFORE_MAX: Duration = Duration::from_secs(1);
/// A write needs the driver's processes if it waits for so much of the time for which they stand still, in percent.
const HELD_PERCENT: u64 = 75;

/// A call that is in progress when the driver is stopped.
struct Waiting {
    operation: Operation,
    request: Request,
    /// Its caller gives up while the driver stands still, and makes the call again.
    is_given_up: bool,
    origin: &'static str,
}

impl Waiting {
    /// Makes the call until it is done: the response, or none if the driver rejects it.
    async fn make(&self, cx: &Cx) -> CheckResult<Option<Response>> {
        if self.is_given_up
            && let Some(reply) = cx.give_up_after(PATIENCE, self.request.send(cx).once()).await
            && let Answer::Ok(response) = reply.answer()
        {
            return Ok(Some(response.clone()));
        }
        match insist(cx, self.operation, &self.request, may_pass).await? {
            Insisted::Done(response) => Ok(Some(response)),
            Insisted::Rejected(refused) if refused.code == Code::AlreadyExists => {
                Err(self.is_not_done(refused))
            }
            Insisted::Rejected(_) => Ok(None),
            Insisted::NotDone(answer) => Err(self.is_not_done(answer)),
        }
    }

    fn is_not_done(&self, answer: impl ToString) -> Stop {
        let method = self.operation.rpc().method;
        Violation::new(format!(
            "{method} does not succeed, although it is repeated after the driver's processes were stopped"
        ))
        .of(&IN_USE_008)
        .expected("OK, as for such a call before the stop")
        .actual(answer.to_string())
        .into()
    }
}

/// Returns true for codes on which a sidecar makes its call again. RESOURCE_EXHAUSTED is none of them, since the call before the stop may
/// have used up what there was.
fn may_pass(code: Code) -> bool {
    matches!(code, Code::Aborted | Code::Unavailable | Code::Internal | Code::Unknown)
}

/// The calls that the driver makes copies by, each about another volume, since a driver may do one call about a volume at a time. A driver
/// that rejects one while it runs is not asked for it.
/// Returns the shorter time that they took as well.
async fn calls(cx: &Cx, [first, second]: [&InUse; 2]) -> CheckResult<([Option<Waiting>; 2], Duration)> {
    let snapshot = || Request::CreateSnapshot(cx.create_snapshot_request(first.id()));
    let bytes = second.volume().volume.size_bytes;
    let clone = async || clone_request(cx, second.id(), bytes).await.map(Request::CreateVolume);
    let (mut calls, mut shortest, begun) = ([None, None], SENT_BEFORE_MAX * 2, Instant::now());
    let operation = Operation::CreateSnapshot;
    if operation.is_offered(cx) && snapshot().send(cx).await.any_answer()?.is_ok() {
        shortest = shortest.min(begun.elapsed());
        let origin = "a snapshot during which the driver was stopped";
        calls[0] = Some(Waiting { operation, request: snapshot(), is_given_up: false, origin });
    }
    let begun = Instant::now();
    let can_clone = cx.target().capabilities().has(Capability::CloneVolume);
    if can_clone && clone().await?.send(cx).await.any_answer()?.is_ok() {
        shortest = shortest.min(begun.elapsed());
        let (operation, request) = (Operation::CreateVolume, clone().await?);
        let origin = "a clone that was given up while the driver was stopped, and repeated";
        calls[1] = Some(Waiting { operation, request, is_given_up: true, origin });
    }
    Ok((calls, shortest))
}

async fn freeze(cx: &Cx) -> CheckResult<Frozen> {
    let cannot = || {
        Stop::skip(
            "the driver is not started by --driver-command, so its processes cannot be stopped for a while",
        )
    };
    let frozen = cx.target().driver().ok_or_else(cannot)?.freeze().await;
    frozen.map_err(|error| Stop::broken(error_chain(&error)))?.ok_or_else(cannot)
}

/// Stops the driver's processes for a while.
///
/// # Errors
/// Skip if the driver answers all the same.
async fn stand_still(cx: &Cx, users: [&InUse; 2], time: Duration) -> CheckResult {
    let frozen = freeze(cx).await?;
    let from_us = now_us();
    let answer = cx.give_up_after(ANSWER_LIMIT, cx.call(v1::ProbeRequest {}).once()).await;
    tokio::time::sleep(time.saturating_sub(ANSWER_LIMIT)).await;
    let to_us = now_us();
    users.iter().for_each(|user| user.workload().driver_stood_still(from_us, to_us));
    frozen.thaw().await.map_err(|error| Stop::broken(error_chain(&error)))?;
    match answer {
        Some(_) => {
            Err(Stop::skip("the driver answers while the process group of --driver-command is stopped"))
        }
        None => Ok(()),
    }
}

/// Judges writes that have waited for the driver's processes.
async fn judge_holds(cx: &Cx, users: [&InUse; 2]) -> CheckResult {
    let has_held = || users.iter().any(|user| user.workload().longest_hold_percent() >= HELD_PERCENT);
    if !has_held() {
        return Ok(());
    }
    beside(STOP, users, stand_still(cx, users, STILL_ALONE)).await?;
    match has_held() {
        true => cx.note("writes wait while the driver's processes are stopped, even without a call: the data go through them"),
        false => cx.warn(
            Violation::new("a write waits for as long as the driver's processes are stopped during a call")
                .of(&IN_USE_009)
                .expected("writes that continue")
                .actual("no write until the processes continued"),
        ),
    }
    Ok(())
}

check! {
    /// A node without memory, a debugger or a suspended machine stops a driver in the middle of its calls.
    /// The workload does not need the driver for its data. When the driver continues, its own deadlines have
    /// passed, and those of its callers.
    DRIVER_FROZEN {
        id: "in-use/driver-frozen",
        title: "a workload continues while the driver's processes are stopped, and waiting calls end correctly",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005, IN_USE_008, IN_USE_009],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/stopped-snapshot-holds-writer",
            "hostpath/late-snapshot-breaks-writer",
            "hostpath/late-snapshot-is-empty",
            "hostpath/late-clone-stays-pending",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let [first, second] = InUse::begin_two(cx).await?;
        let users = [&first, &second];
        let time = Duration::from_secs(cx.config().effort.scaled(STILL_SECS).clamp(STILL_SECS_MIN, STILL_SECS_MAX).into());
        let ((calls, shortest), _) = beside(BEFORE, users, calls(cx, users)).await?;
        let callers = [cx.worker(1), cx.worker(2)];
        let both = async {
            let made = calls.iter().flatten().zip(&callers).map(|(call, caller)| call.make(caller));
            let stopped = async {
                tokio::time::sleep((shortest / 2).max(SENT_BEFORE_MIN)).await;
                stand_still(cx, users, time).await
            };
            let (made, stopped) = join(join_all(made), stopped).await;
            stopped?;
            made.into_iter().collect::<CheckResult<Vec<_>>>()
        };
        let (made, evidence) = beside(STOP, users, both).await?;
        judge_holds(cx, users).await?;
        let bytes = first.volume().volume.size_bytes;
        let (ended, also) = join(first.end(STOP), second.end(STOP)).await;
        ended.and(also)?;
        let judged = calls.iter().zip(&evidence).filter_map(|(call, evidence)| Some((call.as_ref()?, evidence)));
        for (response, (call, evidence)) in made.into_iter().zip(judged) {
            let copy = match response {
                Some(Response::Volume(clone)) => NodeVolume::from(clone),
                Some(Response::Snapshot(taken)) if taken.ready_to_use => {
                    copy_of(cx, Source::snapshot(&taken.snapshot_id), bytes).await?
                }
                _ => continue,
            };
            judge_copy(cx, evidence, copy, call.origin).await?;
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&DRIVER_FROZEN];
