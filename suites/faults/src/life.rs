//! The life of a volume, step by step, as an orchestrator and a workload lead it: made, used, expanded, taken from the node and given
//! back to it with its data, copied by way of a snapshot, and deleted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::contents::Stamp;
use csi_harness::resources::workload::{self, WriteLocation, play};
use csi_harness::spec::verdict::ReproductionStep;
use csi_nemesis::fault::Fault;
use csi_nemesis::step::Step;
use csi_ops::operation::{Operation, Request, Response};
use csi_ops::volume::TrackedVolume;

use crate::found;

/// The place where the workload writes.
const PLACE: WriteLocation = WriteLocation::near(0);
/// The time for which a call is repeated once nothing is broken any more, unless the user sets another.
const CONVERGES_IN: Duration = Duration::from_secs(20);
/// Pauses between two tries.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// Facts about a driver that a life without faults has shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// True if the tests see what is published.
    pub(crate) sees: bool,
    /// True if something is mounted at the staging path then.
    pub(crate) mounts_staging: bool,
    /// The number of bytes by which the volume that the workload sees has grown; `None` if that cannot be seen, as in a
    /// file system that volumes share.
    pub(crate) grows_by: Option<u64>,
    /// True if a restored volume can be published, so that its data can be read.
    pub(crate) uses_copies: bool,
}

/// A volume on its way.
pub(crate) struct Life {
    cx: Cx,
    volume: TrackedVolume,
    /// The request of each step: a repetition sends an equal one.
    requests: BTreeMap<Step, Request>,
    /// The volume created from the snapshot.
    restored: Option<v1::Volume>,
    is_written: bool,
    /// The data that the workload writes.
    stamp: Stamp,
    /// The size that the workload saw first.
    first_bytes: Option<u64>,
    /// The calls and their answers, for people.
    lines: Vec<String>,
    /// The calls and what was done beside them, for programs.
    steps: Vec<ReproductionStep>,
    /// The last line of a call, and how often it came.
    noted: (String, u32),
    /// True once something has been broken in it.
    pub(crate) has_failed: bool,
}

impl Life {
    /// A volume that is not there yet. Its paths and the first request are made now, while nothing is broken.
    pub(crate) async fn begin(cx: &Cx) -> CheckResult<Life> {
        let mut volume = TrackedVolume::new(cx, NodeVolume::default());
        volume.target_path = cx.target_path().await?;
        if Step::Stage.is_offered(cx) {
            volume.staging_path = cx.staging_path().await?;
        }
        if Step::Attach.is_offered(cx) {
            volume.prepare(cx, Operation::ControllerPublishVolume).await?;
        }
        let create = volume.request(cx, Operation::CreateVolume).await?;
        Ok(Life {
            cx: cx.clone(),
            volume,
            requests: BTreeMap::from([(Step::Create, create)]),
            restored: None,
            is_written: false,
            stamp: found::stamp("under-test"),
            first_bytes: None,
            lines: Vec::new(),
            steps: Vec::new(),
            noted: Default::default(),
            has_failed: false,
        })
    }

    pub(crate) fn target_path(&self) -> &str {
        &self.volume.target_path
    }

    pub(crate) fn staging_path(&self) -> &str {
        &self.volume.staging_path
    }

    /// Returns true if there is nothing to do in the step.
    fn is_idle(&self, step: Step) -> bool {
        let node_grows =
            self.volume.expanded.as_ref().is_none_or(|expanded| expanded.node_expansion_required);
        step == Step::ExpandNode && !node_grows
    }

    pub(crate) async fn call(&mut self, step: Step) -> CheckResult<Answer<()>> {
        let answer = self.send(step).await?;
        let ended = match &answer {
            Answer::Ok(()) => "OK".to_owned(),
            Answer::Refused(refused) => refused.to_string(),
            Answer::Unknown(why) => why.to_string(),
        };
        self.note(format!("{} → {ended}", step.rpc()));
        self.keep_call();
        Ok(answer)
    }

    /// Keeps the last call for programs. An equal call with an equal answer is not kept again.
    fn keep_call(&mut self) {
        let call = self.cx.last_call().filter(|call| self.steps.last() != Some(call));
        self.steps.extend(call);
    }

    /// Notes that the caller has given up a call.
    pub(crate) fn gave_up(&mut self, step: Step, waited: Duration) {
        self.lines.push(format!("{} → given up by the caller after {} ms", step.rpc(), waited.as_millis()));
        self.keep_call();
    }

    /// Notes the fault that the last call has met.
    pub(crate) fn met(&mut self, fault: &Fault, described: &str) {
        self.has_failed = true;
        self.lines.push(format!("  fault: {described}"));
        let broken = ReproductionStep::by_hand(format!("while the next call is made: {described} ({fault})"));
        self.steps.insert(self.steps.len().saturating_sub(1), broken);
    }

    /// Notes an action or an event between calls.
    pub(crate) fn happened(&mut self, what: &str) {
        self.lines.push(what.to_owned());
        self.steps.push(ReproductionStep::by_hand(what));
    }

    /// Returns the calls and events so far, for people and for programs.
    pub(crate) fn story(&self) -> (Vec<String>, Vec<ReproductionStep>) {
        (self.lines.clone(), self.steps.clone())
    }

    /// Adds a line for people. A line that equals the one before is counted with it.
    fn note(&mut self, line: String) {
        let (same, times) = &mut self.noted;
        let counted = |line: &str, times: u32| match times {
            1 => line.to_owned(),
            _ => format!("{line} ({times} times)"),
        };
        match self.lines.last_mut().filter(|last| *same == line && **last == counted(same, *times)) {
            Some(last) => {
                *times += 1;
                *last = counted(same, *times);
            }
            None => {
                self.lines.push(line.clone());
                self.noted = (line, 1);
            }
        }
    }

    async fn send(&mut self, step: Step) -> CheckResult<Answer<()>> {
        if self.is_idle(step) {
            return Ok(Answer::Ok(()));
        }
        let request = self.request(step).await?;
        let reply = request.send(&self.cx).once().await;
        if let Answer::Ok(response) = reply.answer() {
            self.record(step, response.clone())?;
        }
        Ok(reply.answer().as_ref().map(|_| ()))
    }

    async fn request(&mut self, step: Step) -> CheckResult<Request> {
        if let Some(request) = self.requests.get(&step) {
            return Ok(request.clone());
        }
        let request = match step {
            Step::Restore => self.restore_request()?,
            Step::DeleteRestored => {
                let volume_id = self.restored.clone().unwrap_or_default().volume_id;
                Request::DeleteVolume(v1::DeleteVolumeRequest { volume_id, ..Default::default() })
            }
            step => self.volume.request(&self.cx, step.operation()).await?,
        };
        self.requests.insert(step, request.clone());
        Ok(request)
    }

    fn restore_request(&self) -> CheckResult<Request> {
        let (Some(Request::CreateVolume(create)), Some(snapshot)) =
            (self.requests.get(&Step::Create), &self.volume.snapshot)
        else {
            return Err(Stop::broken("needs a snapshot to create a volume from"));
        };
        // A copy is as large as its source, which may have been expanded.
        let expanded = v1::CapacityRange { required_bytes: self.volume.expand_to_bytes, limit_bytes: 0 };
        let is_expanded = self.volume.expanded.is_some();
        Ok(Request::CreateVolume(v1::CreateVolumeRequest {
            name: self.cx.unique_name(),
            capacity_range: if is_expanded { Some(expanded) } else { create.capacity_range },
            volume_content_source: Some(v1::VolumeContentSource::snapshot(&snapshot.snapshot_id)),
            ..create.clone()
        }))
    }

    /// Keeps a response. Equal requests make one volume, however often they are sent.
    fn record(&mut self, step: Step, response: Response) -> CheckResult {
        match (step, response) {
            (Step::Restore, Response::Volume(restored)) => self.restored = Some(restored),
            (Step::Create, Response::Volume(volume)) => {
                let first = &self.volume.volume.id;
                ensure!(
                    first.is_empty() || *first == volume.volume_id,
                    "the same CreateVolume creates another volume";
                    of: &req::CTRL_CREATEVOL_004,
                    expected: format!("volume_id {first:?}"),
                    actual: format!("volume_id {:?}", volume.volume_id)
                );
                self.volume.expand_to_bytes =
                    self.cx.expand_size_bytes().max(volume.capacity_bytes.saturating_mul(2));
                self.volume.record(Response::Volume(volume));
            }
            (_, response) => self.volume.record(response),
        }
        Ok(())
    }

    /// The time for which a call is repeated: this one, or the full one if that is shorter or this is `None`.
    pub(crate) fn converges_in(&self, limit: Option<Duration>) -> Duration {
        let settle_ms = self.cx.config().time_limits.settle_ms;
        let full = settle_ms.map_or(CONVERGES_IN, Duration::from_millis);
        limit.map_or(full, |limit| limit.min(full))
    }

    /// Makes the call until it is done, as an orchestrator does. Returns how long that took, or the last answer if it is not done in time. As
    /// long as nothing has been broken, an answer that the request is wrong ends it at once: the driver does not put the call off.
    pub(crate) async fn converge(
        &mut self,
        step: Step,
        limit: Duration,
    ) -> CheckResult<Result<Duration, String>> {
        let begun = Instant::now();
        let limit = limit.min(self.cx.remaining());
        let settles = if self.has_failed { Settles::Healed } else { Settles::Willing };
        let mut pause = PAUSES[0];
        loop {
            let answer = match self.call(step).await? {
                Answer::Ok(()) => return Ok(Ok(begun.elapsed())),
                Answer::Refused(refused) if !self.has_failed && is_final(refused.code) => {
                    return Ok(Err(refused.to_string()));
                }
                Answer::Refused(refused) => refused.to_string(),
                Answer::Unknown(why) => why.to_string(),
            };
            if begun.elapsed() + pause > limit {
                return Ok(Err(format!("{answer}, repeatedly for {} s", begun.elapsed().as_secs())));
            }
            self.cx.wait(settles(step.rpc()), pause, limit).await;
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Checks that a step that was answered with OK has done its work, as far as that can be seen.
    pub(crate) async fn is_done(&mut self, step: Step, plan: &Plan) -> CheckResult {
        match step {
            Step::Publish | Step::PublishAgain if plan.sees => {
                self.is_used(step).await?;
                self.is_large(step, plan).await
            }
            Step::Unpublish | Step::UnpublishAgain if plan.sees => {
                found::is_free(&self.cx, &self.volume.target_path, "target", &req::NODE_UNPUBLISH_002)
            }
            Step::Unstage | Step::UnstageAgain if plan.mounts_staging => {
                found::is_free(&self.cx, &self.volume.staging_path, "staging", &req::NODE_UNSTAGE_002)
            }
            Step::Stage | Step::StageAgain
                if plan.mounts_staging && self.cx.mounts_at(&self.volume.staging_path) == 0 =>
            {
                Err(found::not_done("NodeStageVolume", "nothing is mounted at the staging path").into())
            }
            _ => Ok(()),
        }
    }

    /// Looks whether a volume that was answered for is still known in a step, or after it; `after` says what has happened since. One that
    /// is being deleted need not be.
    pub(crate) async fn is_kept(&self, step: Step, after: &str) -> CheckResult {
        let volume = &self.volume.volume;
        match volume.id.is_empty() || step >= Step::Delete {
            true => Ok(()),
            false => found::is_known(&self.cx, &volume.id, &volume.context, after).await,
        }
    }

    /// Lets the workload use the volume that was published: it writes the first time, and reads what it wrote after that.
    async fn is_used(&mut self, step: Step) -> CheckResult {
        let path = PathBuf::from(&self.volume.target_path);
        if !self.cx.sees_published(&self.volume.target_path) {
            let nothing = found::not_done("NodePublishVolume", "nothing is mounted at the target path");
            return Err(nothing.of(found::publish_rule(&self.cx)).into());
        }
        if step == Step::Publish && !self.is_written {
            let stamp = self.stamp.clone();
            let written = play(move || workload::write(&path, PLACE, &stamp)).await?;
            written.map_err(|error| {
                let unwritten =
                    found::not_done("NodePublishVolume", &format!("it cannot be written: {error}"));
                Stop::from(unwritten.of(found::publish_rule(&self.cx)))
            })?;
            self.is_written = true;
            self.first_bytes = self.size_bytes().await;
            self.happened("a workload writes a file to the volume, and syncs it");
            return Ok(());
        }
        if !self.is_written {
            return Ok(());
        }
        found::holds(path, PLACE, &self.stamp, "data that a workload has written to the volume are lost")
            .await
    }

    /// Looks for the data in the volume that was restored, where such a volume could be published in a life without faults.
    pub(crate) async fn restored_holds(&self) -> CheckResult {
        let Some(volume) = self.restored.clone().filter(|_| self.is_written) else { return Ok(()) };
        let cx = self.cx.scope();
        let held = self.published_holds(&cx, volume.into()).await;
        let undone = cx.undo().await;
        held.and(undone)
    }

    async fn published_holds(&self, cx: &Cx, volume: NodeVolume) -> CheckResult {
        let mut volume = TrackedVolume::new(cx, volume);
        volume.reach(cx, Operation::NodeStageVolume).await?;
        for step in [Operation::NodeStageVolume, Operation::NodePublishVolume] {
            if step.is_offered(cx) {
                let request = volume.request(cx, step).await?;
                is_usable(step.method(), request.send(cx).await.answer())?;
            }
        }
        let lost =
            "data that a workload had written before the snapshot are not in the volume restored from it";
        found::holds(PathBuf::from(volume.target_path), PLACE, &self.stamp, lost).await
    }

    /// The room that all calls have promised is there when the volume is published again.
    async fn is_large(&self, step: Step, plan: &Plan) -> CheckResult {
        let Some(wanted) = plan.grows_by.filter(|_| step == Step::PublishAgain) else { return Ok(()) };
        let by = self.has_grown_by().await.unwrap_or_default();
        if by >= wanted / 2 {
            return Ok(());
        }
        let small =
            format!("the workload finds {by} bytes more than at first, and {wanted} without any fault");
        Err(found::not_done("each call that expands the volume", &small).into())
    }

    /// The number of bytes by which the volume that the workload sees has grown.
    pub(crate) async fn has_grown_by(&self) -> Option<u64> {
        let by = self.size_bytes().await?.checked_sub(self.first_bytes?)?;
        (by > self.first_bytes? / 4).then_some(by)
    }

    /// Bytes that the workload sees.
    async fn size_bytes(&self) -> Option<u64> {
        let path = PathBuf::from(&self.volume.target_path);
        play(move || workload::size_bytes(&path)).await.ok()?.ok()
    }
}

/// True for a code that says that the request is wrong: an equal request will not succeed later either.
fn is_final(code: Code) -> bool {
    use Code::{InvalidArgument, OutOfRange, PermissionDenied, Unauthenticated, Unimplemented};
    matches!(code, InvalidArgument | OutOfRange | PermissionDenied | Unauthenticated | Unimplemented)
}

/// The driver has to stage and publish a volume that CreateVolume has made from a snapshot. Fails with a violation if
/// it rejects that, and is broken if there is no answer, which shows nothing of the copy.
fn is_usable<T>(rpc: &str, answer: &Answer<T>) -> CheckResult {
    match answer {
        Answer::Ok(_) => Ok(()),
        Answer::Refused(refused) => {
            let why = format!("{rpc} of the volume is rejected: {refused}");
            Err(found::not_done("CreateVolume from a snapshot", &why).into())
        }
        Answer::Unknown(why) => Err(Stop::broken(format!("{rpc} of a volume from a snapshot: {why}"))),
    }
}
