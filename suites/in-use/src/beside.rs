//! A volume in use, calls beside its workload, and the judgement on both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::cleanup::Cleanup;
use csi_harness::resources::frozen;
use csi_harness::resources::workload::{play, size_bytes};
use csi_harness::spec::requirements::Requirement;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Rpc;
use csi_proto::lock::Mutex;
use csi_workload::checker::{Contents, Mistake, Moment, Span, Writer};
use csi_workload::log::{Log, Record, Trouble};
use csi_workload::{StartError, Workload, now_us, read_all};
use futures_util::future::join;

use crate::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};
use crate::timeline::timeline;

/// Records that are durable before each call, so that there is something to lose.
const RECORDS_BEFORE: u32 = 6;
/// A workload has gone on if so many records are durable that were begun after a call had returned.
const RECORDS_AFTER: usize = 3;
/// A pause of this length is worth a warning.
const PAUSE_WARNED: Duration = Duration::from_secs(5);
/// The time that a machine may take beyond the longest stall.
const MARGIN: Duration = Duration::from_secs(2);
/// A file system has its volume for itself if it is at most so much smaller, in percent.
const OVERHEAD_PERCENT_MAX: u64 = 50;

/// A volume that is published and has a workload.
#[derive(Debug)]
pub(crate) struct InUse {
    /// The scope that is undone at the end of the use.
    cx: Cx,
    volume: TrackedVolume,
    workload: Arc<Workload>,
    /// The last time for which the driver stood still, on the clock of workloads.
    still: Arc<Mutex<Still>>,
}

/// A time for which the driver stood still. Writes that need its processes wait for as long.
#[derive(Clone, Copy, Debug, Default)]
struct Still {
    from_us: u64,
    to_us: u64,
}

impl Still {
    /// The part of this time during which a record was in progress, in microseconds.
    fn held_us(self, record: &Record, now_us: u64) -> u64 {
        let end_us = record.durable_us.unwrap_or(now_us).min(self.to_us);
        end_us.saturating_sub(record.begun_us.max(self.from_us))
    }
}

impl InUse {
    /// Publishes a new volume, and starts to write to it.
    ///
    /// # Errors
    /// Broken if a call is rejected; skip where the tests do not see what is mounted or cannot start a workload.
    pub(crate) async fn begin(cx: &Cx) -> CheckResult<InUse> {
        let volume = cx.writable_volume().await?;
        InUse::of(cx, TrackedVolume::new(cx, volume)).await
    }

    /// Publishes two new volumes, and starts to write to both.
    ///
    /// # Errors
    /// As for [`InUse::begin`].
    pub(crate) async fn begin_two(cx: &Cx) -> CheckResult<[InUse; 2]> {
        // If one fails, the calls of the other one are still awaited, so that it is known what exists.
        let (first, second) = join(InUse::begin(cx), InUse::begin(cx)).await;
        Ok([first?, second?])
    }

    /// Publishes a new volume for several writers on one node where the driver has that mode, and starts to write to it.
    ///
    /// # Errors
    /// As for [`InUse::begin`].
    pub(crate) async fn begin_shared(cx: &Cx) -> CheckResult<InUse> {
        if !cx.target().capabilities().has(Capability::NodeSingleNodeMultiWriter) {
            return InUse::begin(cx).await;
        }
        let capability = cx.capability_with_mode(Mode::SingleNodeMultiWriter);
        let mut request = cx.create_node_volume_request().await?;
        request.volume_capabilities = vec![capability.clone()];
        let refused = "the driver makes no volumes for SINGLE_NODE_MULTI_WRITER";
        let volume = cx.create_volume(request).await.or_skip(refused)?;
        InUse::of(cx, TrackedVolume { capability, ..TrackedVolume::new(cx, volume.into()) }).await
    }

    /// Publishes a volume, and starts to write to it.
    ///
    /// # Errors
    /// As for [`InUse::begin`].
    pub(crate) async fn of(cx: &Cx, volume: TrackedVolume) -> CheckResult<InUse> {
        let cx = cx.scope();
        let volume = publish(&cx, volume).await?;
        let started = Workload::start(Path::new(&volume.target_path), &volume.volume.id).await;
        InUse::with(cx, volume, started)
    }

    /// Goes on to write to a volume that is published in this scope after another node had it.
    ///
    /// # Errors
    /// Skip where the tests cannot start a workload.
    pub(crate) async fn resume(cx: Cx, volume: TrackedVolume, written: &Written) -> CheckResult<InUse> {
        let path = Path::new(&volume.target_path);
        let resumed = Workload::resume(path, &written.writer, written.last).await;
        InUse::with(cx, volume, resumed)
    }

    fn with(cx: Cx, volume: TrackedVolume, started: Result<Workload, StartError>) -> CheckResult<InUse> {
        let workload = started.map_err(|error| Stop::skip(format!("no workload can be started: {error}")))?;
        let workload = Arc::new(workload);
        cx.removes(workload.clone());
        let user = InUse { cx, volume, workload, still: Arc::default() };
        // It comes before the workload is removed, which cannot end while it waits for a write.
        user.cx.removes(Arc::new(FileSystem(user.own_paths())));
        Ok(user)
    }

    /// The paths at which the node has the volume.
    fn own_paths(&self) -> [PathBuf; 2] {
        [&self.volume.target_path, &self.volume.staging_path].map(PathBuf::from)
    }

    /// Thaws the file system of the volume if nothing else can be hurt by that. Returns a clause if it was frozen.
    async fn thaw(&self) -> &'static str {
        match FileSystem(self.own_paths()).thaw().await {
            true => ", since the file system is frozen",
            false => "",
        }
    }

    /// The scope of the use, for calls that are undone with it.
    pub(crate) fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The volume with its ids and paths.
    pub(crate) fn volume(&self) -> &TrackedVolume {
        &self.volume
    }

    /// The id of the volume.
    pub(crate) fn id(&self) -> &str {
        &self.volume.volume.id
    }

    /// The path at which it is published.
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.volume.target_path)
    }

    /// Notes that the driver stood still between two times, which is not counted when writes are judged.
    pub(crate) fn driver_stood_still(&self, from_us: u64, to_us: u64) {
        *self.still.lock() = Still { from_us, to_us };
    }

    /// The longest part of the last time for which the driver stood still that one write had to wait, in percent.
    pub(crate) fn longest_hold_percent(&self) -> u64 {
        let still = *self.still.lock();
        let now_us = now_us();
        let held = self.workload.log(|log| log.records().map(|record| still.held_us(record, now_us)).max());
        held.unwrap_or_default() * 100 / still.to_us.saturating_sub(still.from_us).max(1)
    }

    /// Waits until there is something to lose.
    async fn has_written(&self) -> CheckResult {
        let enough = self.workload.log(|log| log.acknowledged()) + RECORDS_BEFORE;
        let limit = stall_limit(&self.cx) + MARGIN;
        let is_met = self.workload.until(limit, |log| log.acknowledged() >= enough).await;
        match (is_met, self.trouble()) {
            (_, Some(trouble)) => {
                Err(Stop::broken(format!("the workload failed before the call: {trouble}")))
            }
            (true, None) => Ok(()),
            (false, None) => Err(Stop::broken("the workload does not write, although nothing was called")),
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        self.workload.log(|log| log.troubles().first().cloned())
    }

    /// Waits until the workload has gone on after a call, and judges whether it was hurt.
    async fn is_not_hurt(&self, call: &Call) -> CheckResult {
        let has_gone_on = |log: &Log| {
            let after = log.records().rev().take_while(|record| record.begun_us > call.to_us);
            let durable = after.filter(|record| record.durable_us.is_some()).count();
            durable >= RECORDS_AFTER || !log.troubles().is_empty()
        };
        let goes_on = self.workload.until(stall_limit(&self.cx) + MARGIN, has_gone_on).await;
        if let Some(trouble) = self.trouble() {
            return Err(self.hurt(call, &trouble));
        }
        // A call may leave something behind that holds up the next write.
        let judged_us = now_us();
        let longest = self.workload.log(|log| log.longest(call.from_us, judged_us, judged_us));
        let Some((record, took_us)) = longest else {
            return match goes_on {
                true => Ok(()),
                false => Err(Stop::broken(format!("the workload has ended during {}", call.action.name))),
            };
        };
        let took = Duration::from_micros(took_us - self.still.lock().held_us(&record, judged_us));
        call.action.rpcs.iter().for_each(|rpc| self.cx.writer_paused(*rpc, took));
        let frozen = if goes_on { "" } else { self.thaw().await };
        let pause = |limit: Duration| {
            let end = if record.durable_us.is_some() { "" } else { ", and has not ended" };
            Violation::new(format!("a write of the workload is held up during {}", call.action.name))
                .of(&IN_USE_002)
                .expected(format!("a write that takes at most {}", seconds(limit)))
                .actual(format!("write {} took {}{end}{frozen}", record.number, seconds(took)))
                .timeline(self.workload.log(|log| timeline(log, call, None)))
        };
        let limit = stall_limit(&self.cx);
        if took > limit || !goes_on {
            return Err(pause(limit).into());
        }
        if took > PAUSE_WARNED {
            self.cx.warn(pause(PAUSE_WARNED));
        }
        Ok(())
    }

    fn hurt(&self, call: &Call, trouble: &Trouble) -> Stop {
        if trouble.is_lack_of_space() {
            return Stop::broken(format!("there is no space left for the workload: {trouble}"));
        }
        let (message, expected) = match trouble {
            _ if trouble.is_read_only() => {
                ("the file system of a volume becomes read-only", "a file system that stays writable")
            }
            Trouble::Failed { .. } => ("a workload gets an error", "writes and reads that succeed"),
            Trouble::Deviates { .. } => ("a volume loses what was durable", "what was written last"),
        };
        let violation = Violation::new(format!("{message} during or after {}", call.action.name));
        let spans = self.workload.log(|log| timeline(log, call, None));
        let violation = violation.of(&IN_USE_001).expected(expected).actual(trouble).timeline(spans);
        match trouble {
            Trouble::Failed { .. } => violation.into(),
            Trouble::Deviates { .. } => violation.damage(Damage::DataLoss).into(),
        }
    }

    /// Ends the workload, which reads everything that it has written, and undoes the use of the volume.
    ///
    /// # Errors
    /// A violation if the volume does not hold what was durable, or does not let the workload end.
    pub(crate) async fn end(self, last: Action) -> CheckResult {
        self.end_workload(last).await?;
        self.cx.undo().await
    }

    /// Ends the workload in that way, and takes the volume from the paths of the node. It stays attached. Returns the volume, and what it
    /// holds.
    ///
    /// # Errors
    /// As for [`InUse::end`].
    pub(crate) async fn leave_node(self, last: Action) -> CheckResult<(TrackedVolume, Written)> {
        self.end_workload(last).await?;
        let mut volume = self.volume.clone();
        for step in [Operation::NodeUnpublishVolume, Operation::NodeUnstageVolume] {
            if step.is_offered(&self.cx) {
                let request = volume.request(&self.cx, step).await?;
                request.send(&self.cx).setup("a volume that has left its node").await?;
            }
        }
        let last = self.workload.log(Log::acknowledged);
        Ok((volume, Written { writer: self.workload.writer().clone(), last }))
    }

    /// Waits until the workload fails. Returns true if it finds its file system read-only.
    pub(crate) async fn meets_read_only(&self) -> bool {
        self.workload.until(stall_limit(&self.cx) + MARGIN, |log| !log.troubles().is_empty()).await;
        self.trouble().is_some_and(|trouble| trouble.is_read_only())
    }

    /// Undoes the use of a volume whose workload has failed, without a judgement.
    pub(crate) async fn give_back(self) -> CheckResult {
        self.workload.end(stall_limit(&self.cx) + MARGIN).await;
        self.cx.undo().await
    }

    async fn end_workload(&self, last: Action) -> CheckResult {
        let limit = stall_limit(&self.cx) + MARGIN;
        let has_ended = self.workload.end(limit).await;
        let now_us = now_us();
        let call = Call { action: last, from_us: now_us, to_us: now_us };
        if let Some(trouble) = self.trouble() {
            return Err(self.hurt(&call, &trouble));
        }
        let frozen = if has_ended { "" } else { self.thaw().await };
        ensure!(
            has_ended,
            "a workload cannot end after {}", last.name;
            of: &IN_USE_002,
            expected: format!("a read of the volume that takes at most {}", seconds(limit)),
            actual: format!("no answer of the volume{frozen}")
        );
        if !self.workload.log(|log| log.has_ended()) {
            return Err(Stop::broken("the workload has died"));
        }
        Ok(())
    }
}

/// The file system of a volume, by the paths at which the node has it. The first one is that of the workload.
#[derive(Debug)]
struct FileSystem([PathBuf; 2]);

impl FileSystem {
    async fn thaw(&self) -> bool {
        frozen::thaw(&self.0[0], &self.0.each_ref().map(PathBuf::as_path)).await
    }
}

/// A driver may have left it frozen.
#[tonic::async_trait]
impl Cleanup for FileSystem {
    fn name(&self) -> String {
        format!("the frozen file system at {}", self.0[0].display())
    }

    async fn remove(&self) -> Result<(), String> {
        self.thaw().await;
        Ok(())
    }
}

/// Everything that a workload has written to its volume until it ended.
#[derive(Debug)]
pub(crate) struct Written {
    writer: Writer,
    last: u32,
}

impl Written {
    /// Judges whether the volume still holds it where it is published now.
    ///
    /// # Errors
    /// A violation if it does not; broken if it cannot be read.
    pub(crate) async fn judge(&self, volume: &TrackedVolume, noun: &str) -> CheckResult {
        let contents = read(volume, &self.writer).await?;
        let span = Span { acknowledged: self.last, begun: self.last };
        let deviations = self.writer.judge(span, &contents);
        let Some(worst) = deviations.first() else { return Ok(()) };
        Err(Violation::new(format!("{noun} does not hold what was durable in it"))
            .of(&IN_USE_001)
            .expected(&worst.expected)
            .actual(worst)
            .damage(Damage::DataLoss)
            .into())
    }
}

/// Reads all places of a volume that is published.
async fn read(volume: &TrackedVolume, writer: &Writer) -> CheckResult<Contents> {
    let (path, layout) = (PathBuf::from(&volume.target_path), writer.layout);
    let read = play(move || read_all(&path, &layout)).await?;
    read.map_err(|error| Stop::broken(format!("failed to read {}: {error}", volume.target_path)))
}

/// Everything that is known about a call that was made beside a workload.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    writer: Writer,
    log: Log,
    call: Call,
    span: Span,
}

impl Evidence {
    /// Judges a copy that the call made. Nothing may use the source any more, since some file systems cannot be mounted beside their
    /// copy, which other checks judge. Returns the moment of the copy.
    ///
    /// # Errors
    /// A violation if the copy is wrong; broken if it cannot be read.
    pub(crate) async fn judge_copy(&self, cx: &Cx, copy: NodeVolume, origin: &str) -> CheckResult<Moment> {
        let used = cx.scope();
        let volume = published(&used, copy).await?;
        let is_own = has_own_file_system(&used, &volume).await?;
        let contents = read(&volume, &self.writer).await?;
        used.undo().await?;
        let moment = self.moment(&contents);
        let deviations = self.writer.judge(self.span, &contents);
        let Some(worst) = deviations.first() else { return Ok(moment) };
        let (message, rule, damage): (_, &'static Requirement, _) = match worst.mistake {
            Mistake::Foreign => ("holds the data of another volume", &IN_USE_004, Some(Damage::DataLoss)),
            Mistake::Lost => ("lacks what was durable before the call", &IN_USE_003, Some(Damage::DataLoss)),
            Mistake::Later => ("holds what was written after the call had returned", &IN_USE_004, None),
            Mistake::OutOfOrder => ("holds writes of several moments", &IN_USE_005, None),
        };
        if worst.mistake == Mistake::OutOfOrder && !is_own {
            cx.note(format!(
                "{origin} {message}: its volumes are directories of one file system, which has no snapshots of one directory"
            ));
            return Ok(moment);
        }
        let more = deviations.len() - 1;
        let others = if more > 0 { format!("; {more} other places are wrong") } else { String::new() };
        let Span { acknowledged, begun } = self.span;
        let actual = format!(
            "{worst}{others}; write {acknowledged} was durable before the call, and {begun} was the last one begun before the answer"
        );
        let violation = Violation::new(format!("{origin} {message}"))
            .of(rule)
            .expected(&worst.expected)
            .actual(actual)
            .timeline(timeline(&self.log, &self.call, Some(moment)));
        Err(match damage {
            Some(damage) => violation.damage(damage),
            None => violation,
        }
        .into())
    }

    /// When a copy was made, from the records that are in it.
    fn moment(&self, contents: &Contents) -> Moment {
        let last = self.writer.moment(contents);
        let next = self.log.record(last + 1).and_then(|record| record.durable_us);
        Moment {
            after_us: self.log.record(last).map_or(0, |record| record.begun_us),
            before_us: next.unwrap_or(u64::MAX),
        }
    }
}

/// What is done beside a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    /// A noun for it.
    pub(crate) name: &'static str,
    /// The RPCs for which the longest pause of a writer is reported.
    pub(crate) rpcs: &'static [Rpc],
}

/// An action with its times on the clock of workloads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) action: Action,
    pub(crate) from_us: u64,
    pub(crate) to_us: u64,
}

/// Makes calls beside the workloads of volumes: the result of the calls, and the evidence for each volume. The workloads are judged
/// first, since a call that fails may not hurt them either.
///
/// # Errors
/// A violation if a workload is hurt; the error of the calls.
pub(crate) async fn beside<T, const N: usize>(
    action: Action,
    users: [&InUse; N],
    calls: impl Future<Output = CheckResult<T>>,
) -> CheckResult<(T, [Evidence; N])> {
    for user in users {
        user.has_written().await?;
    }
    let acknowledged = users.map(|user| user.workload.log(Log::acknowledged));
    let from_us = now_us();
    let result = calls.await;
    let call = Call { action, from_us, to_us: now_us() };
    for user in users {
        user.is_not_hurt(&call).await?;
    }
    let mut acknowledged = acknowledged.into_iter();
    let evidence = users.map(|user| {
        let log = user.workload.log(Log::clone);
        let span =
            Span { acknowledged: acknowledged.next().unwrap_or_default(), begun: log.begun_by(call.to_us) };
        Evidence { writer: user.workload.writer().clone(), log, call, span }
    });
    Ok((result?, evidence))
}

/// A volume that is published on the node.
///
/// # Errors
/// Broken if a call is rejected; skip where the tests do not see what is mounted.
pub(crate) async fn published(cx: &Cx, volume: NodeVolume) -> CheckResult<TrackedVolume> {
    publish(cx, TrackedVolume::new(cx, volume)).await
}

async fn publish(cx: &Cx, mut volume: TrackedVolume) -> CheckResult<TrackedVolume> {
    for step in Lifecycle::of(cx).publication() {
        let response = volume.request(cx, step).await?.send(cx).setup(step.product()).await?;
        volume.record(response);
    }
    if !cx.sees_published(&volume.target_path) {
        return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
    }
    Ok(volume)
}

/// Makes one call about a volume in use, with the names and paths that it needs.
///
/// # Errors
/// Skip if the driver rejects it: nothing requires that it takes the call while the volume is in use.
pub(crate) async fn call(cx: &Cx, volume: &mut TrackedVolume, operation: Operation) -> CheckResult {
    let request = volume.request(cx, operation).await?;
    let response = request.send(cx).await.or_skip("the driver does not do this to a volume in use")?;
    volume.record(response);
    Ok(())
}

/// Returns false if the volume is a directory of something larger.
pub(crate) async fn has_own_file_system(cx: &Cx, volume: &TrackedVolume) -> CheckResult<bool> {
    if cx.access() == AccessType::Block {
        return Ok(true);
    }
    let path = PathBuf::from(&volume.target_path);
    let found = play(move || size_bytes(&path)).await?;
    let found = found.map_err(|error| Stop::broken(format!("failed to measure the copy: {error}")))?;
    let capacity = u64::try_from(volume.volume.size_bytes).unwrap_or_default();
    Ok(capacity > 0 && (capacity / 100 * (100 - OVERHEAD_PERCENT_MAX)..=capacity).contains(&found))
}

fn stall_limit(cx: &Cx) -> Duration {
    Duration::from_millis(cx.config().time_limits.stall_ms)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
