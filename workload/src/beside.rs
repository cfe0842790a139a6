//! Calls beside workloads, and the judgement on both: a workload may not be hurt, and a copy that a call makes of
//! its volume has to be right.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::cleanup::Cleanup;
use csi_harness::resources::frozen;
use csi_harness::spec::requirements::Requirement;
use csi_harness::spec::verdict::CallSpan;
use csi_proto::Rpc;
use csi_proto::lock::Mutex;

use crate::checker::{Contents, Mistake, Moment, Span, Writer};
use crate::log::{Log, Record, Trouble};
use crate::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005, IN_USE_006};
use crate::timeline::timeline;
use crate::{Workload, now_us};

/// Records that are durable before each call, so that there is something to lose.
const RECORDS_BEFORE: u32 = 6;
/// A workload has gone on if so many records are durable that were begun after a call had returned.
const RECORDS_AFTER: usize = 3;
/// A pause of this length is worth a warning.
const PAUSE_WARNED: Duration = Duration::from_secs(5);
/// The time that a machine may take beyond the longest stall.
const MARGIN: Duration = Duration::from_secs(2);

/// An operation that is carried out beside a workload.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// A noun for it.
    pub name: &'static str,
    /// The RPCs for which the longest pause of a writer is reported.
    pub rpcs: &'static [Rpc],
}

/// An action with its times on the clock of workloads.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The action.
    pub action: Action,
    /// The time at which it was begun, in microseconds.
    pub from_us: u64,
    /// The time at which it had returned.
    pub to_us: u64,
}

impl Call {
    /// The call as a part of a time line.
    fn span(&self) -> CallSpan {
        CallSpan {
            worker: 0,
            party: Some("caller".to_owned()),
            call: self.action.name.to_owned(),
            answer: "returned".to_owned(),
            from_us: self.from_us,
            to_us: self.to_us,
        }
    }
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

/// A workload that is judged by the rules for volumes in use. It is killed at the end of its check at the latest.
#[derive(Clone, Debug)]
pub struct ObservedWorkload {
    cx: Cx,
    workload: Arc<Workload>,
    /// The latest interval in which the driver was stopped, on the clock of workloads.
    still: Arc<Mutex<Still>>,
    /// The file system of the volume, if it is known where the node has it.
    file_system: Option<FileSystem>,
}

impl ObservedWorkload {
    /// Observes a workload in the scope of a check.
    pub fn new(cx: &Cx, workload: Workload) -> ObservedWorkload {
        let workload = Arc::new(workload);
        cx.removes(workload.clone());
        ObservedWorkload { cx: cx.clone(), workload, still: Arc::default(), file_system: None }
    }

    /// Thaws the file system of the volume where the driver leaves it frozen. The paths are those at which the node has the volume, first the one
    /// of the workload.
    #[must_use]
    pub fn on_file_system(self, own_paths: [PathBuf; 2]) -> ObservedWorkload {
        let file_system = FileSystem(own_paths);
        // It comes before the workload is removed, which cannot end while it waits for a write.
        self.cx.removes(Arc::new(file_system.clone()));
        ObservedWorkload { file_system: Some(file_system), ..self }
    }

    /// Thaws the file system of the volume if nothing else can be hurt by that, because a call has returned and the workload still waits.
    ///
    /// # Errors
    /// A violation if it was frozen.
    async fn is_not_frozen(&self, call: &Call, waited: Duration) -> CheckResult {
        let Some(file_system) = &self.file_system else { return Ok(()) };
        if !file_system.thaw().await {
            return Ok(());
        }
        let spans = self.workload.log(|log| timeline(log, [call.span()], None));
        Err(Violation::new(format!("the file system of a volume stays frozen after {}", call.action.name))
            .of(&IN_USE_001)
            .expected("a file system that accepts writes once the call has returned")
            .actual(format!(
                "the workload has waited for {}, until this check thawed the file system",
                seconds(waited)
            ))
            .timeline(spans)
            .into())
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Notes that the driver stood still between two times, which is not counted when writes are judged.
    pub fn driver_stood_still(&self, from_us: u64, to_us: u64) {
        *self.still.lock() = Still { from_us, to_us };
    }

    /// The longest part of the last time for which the driver stood still that one write had to wait, in percent.
    pub fn longest_hold_percent(&self) -> u64 {
        let still = *self.still.lock();
        let now_us = now_us();
        let held = self.workload.log(|log| log.records().map(|record| still.held_us(record, now_us)).max());
        held.unwrap_or_default() * 100 / still.to_us.saturating_sub(still.from_us).max(1)
    }

    /// Waits until there is something to lose.
    async fn has_written(&self) -> CheckResult {
        let enough = self.workload.log(Log::acknowledged) + RECORDS_BEFORE;
        let limit = self.stall_limit() + MARGIN;
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
        let limit = self.stall_limit();
        let is_met = self.workload.until(limit + MARGIN, has_gone_on).await;
        if let Some(trouble) = self.trouble() {
            return Err(self.hurt(call, &trouble));
        }
        // A call may leave something behind that holds up the next write.
        let judged_us = self.workload.known_until_us();
        let longest = self.workload.log(|log| log.longest(call.from_us, judged_us, judged_us));
        let Some((record, took_us)) = longest else {
            return match is_met {
                true => Ok(()),
                false => Err(Stop::broken(format!("the workload has ended during {}", call.action.name))),
            };
        };
        let held_us = self.still.lock().held_us(&record, judged_us);
        let took = Duration::from_micros(took_us.saturating_sub(held_us));
        call.action.rpcs.iter().for_each(|rpc| self.cx.writer_paused(*rpc, took));
        if !is_met {
            self.is_not_frozen(call, took).await?;
        }
        let pause = |limit: Duration| {
            let end = if record.durable_us.is_some() { "" } else { ", and has not ended" };
            Violation::new(format!("a write of the workload is held up during {}", call.action.name))
                .of(&IN_USE_002)
                .expected(format!("a write that takes at most {}", seconds(limit)))
                .actual(format!("write {} took {}{end}", record.number, seconds(took)))
                .timeline(self.workload.log(|log| timeline(log, [call.span()], None)))
        };
        if took > limit {
            return Err(pause(limit).into());
        }
        if !is_met {
            return Err(Stop::broken(format!(
                "the state of the workload is unknown after {}",
                call.action.name
            )));
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
            Trouble::Deviates { .. } => ("a volume loses durable data", "what was written last"),
        };
        let violation = Violation::new(format!("{message} during or after {}", call.action.name));
        let spans = self.workload.log(|log| timeline(log, [call.span()], None));
        let violation = violation.of(&IN_USE_001).expected(expected).actual(trouble).timeline(spans);
        match trouble {
            Trouble::Failed { .. } => violation.into(),
            Trouble::Deviates { .. } => violation.damage(Damage::DataLoss).into(),
        }
    }

    /// Waits until the workload fails. Returns true if it does so because its file system does not take writes any more.
    pub async fn meets_read_only(&self) -> bool {
        self.workload.until(self.stall_limit() + MARGIN, |log| !log.troubles().is_empty()).await;
        self.trouble().is_some_and(|trouble| trouble.is_end_of_writing())
    }

    /// Ends a workload that has failed, without a judgement.
    pub async fn end_unjudged(&self) {
        self.workload.end(self.stall_limit() + MARGIN).await;
    }

    /// Ends the workload, which reads everything that it has written.
    ///
    /// # Errors
    /// A violation if the volume does not hold what was durable, or does not let the workload end.
    pub async fn end(&self, last: Action) -> CheckResult {
        let limit = self.stall_limit() + MARGIN;
        let has_ended = self.workload.end(limit).await;
        let now_us = now_us();
        let call = Call { action: last, from_us: now_us, to_us: now_us };
        if let Some(trouble) = self.trouble() {
            return Err(self.hurt(&call, &trouble));
        }
        if !has_ended {
            self.is_not_frozen(&call, limit).await?;
        }
        ensure!(
            has_ended,
            "a workload cannot end after {}", last.name;
            of: &IN_USE_002,
            expected: format!("a read of the volume that takes at most {}", seconds(limit)),
            actual: "no answer from the volume"
        );
        if !self.workload.log(Log::has_ended) {
            return Err(Stop::broken("the workload has died"));
        }
        Ok(())
    }

    /// Everything that the workload has written; it has ended.
    pub fn written(&self) -> Written {
        let last = self.workload.log(Log::acknowledged);
        Written { writer: self.workload.writer().clone(), last, begun: last }
    }

    /// Everything that was durable up to a record, for a workload that has gone on, and perhaps failed, since then; it has ended.
    pub fn written_up_to(&self, last: u32) -> Written {
        Written {
            writer: self.workload.writer().clone(),
            last,
            begun: self.workload.log(|log| log.begun_by(u64::MAX)),
        }
    }

    fn stall_limit(&self) -> Duration {
        Duration::from_millis(self.cx.config().time_limits.stall_ms)
    }
}

/// The file system of a volume, by the paths at which the node has it. The first one is that of the workload.
#[derive(Clone, Debug)]
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
pub struct Written {
    /// The writer, which can go on.
    pub writer: Writer,
    /// The last record that has to be there.
    pub last: u32,
    /// The last record that may be there: those between the two were written while nothing was promised of them.
    pub begun: u32,
}

impl Written {
    /// Judges whether the volume still holds it.
    ///
    /// # Errors
    /// A violation if it does not.
    pub fn judge(&self, contents: &Contents, noun: &str) -> CheckResult {
        let span = Span { acknowledged: self.last, begun: self.begun };
        let deviations = self.writer.judge(span, contents);
        // If nothing was promised about some records, the volume may hold some of them without those before them.
        let mut wrong = deviations.iter().filter(|one| one.mistake != Mistake::OutOfOrder);
        let Some(worst) = wrong.next() else { return Ok(()) };
        Err(Violation::new(format!("{noun} does not hold its durable data"))
            .of(&IN_USE_001)
            .expected(&worst.expected)
            .actual(worst)
            .damage(Damage::DataLoss)
            .into())
    }
}

/// Calls that are made beside workloads.
#[derive(Debug)]
pub struct Beside<'a> {
    action: Action,
    /// The workloads, each with the last record that was durable before the calls.
    users: Vec<(&'a ObservedWorkload, u32)>,
    from_us: u64,
}

impl<'a> Beside<'a> {
    /// Waits until each workload has something to lose. The calls are made after this.
    ///
    /// # Errors
    /// Broken if a workload does not write.
    pub async fn begin(
        action: Action,
        users: impl IntoIterator<Item = &'a ObservedWorkload>,
    ) -> CheckResult<Beside<'a>> {
        let users: Vec<&ObservedWorkload> = users.into_iter().collect();
        for user in &users {
            user.has_written().await?;
        }
        let acknowledged = |user: &'a ObservedWorkload| (user, user.workload.log(Log::acknowledged));
        let users = users.into_iter().map(acknowledged).collect();
        Ok(Beside { action, users, from_us: now_us() })
    }

    /// Judges the workloads once the calls have returned. Returns the evidence for each volume.
    ///
    /// # Errors
    /// A violation if a workload is hurt.
    pub async fn end(self) -> CheckResult<Vec<Evidence>> {
        let call = Call { action: self.action, from_us: self.from_us, to_us: now_us() };
        for (user, _) in &self.users {
            user.is_not_hurt(&call).await?;
        }
        let evidence = self.users.into_iter().map(|(user, acknowledged)| {
            let log = user.workload.log(Log::clone);
            let span = Span { acknowledged, begun: log.begun_by(call.to_us) };
            let (writer, is_elsewhere) = (user.workload.writer().clone(), user.workload.is_elsewhere());
            Evidence { writer, log, calls: vec![call], span, is_elsewhere }
        });
        Ok(evidence.collect())
    }
}

/// Everything that is known about a call that was made beside a workload.
#[derive(Clone, Debug)]
pub struct Evidence {
    writer: Writer,
    log: Log,
    /// The call, and its repetition if there was one.
    calls: Vec<Call>,
    span: Span,
    is_elsewhere: bool,
}

impl Evidence {
    /// Returns true if the workload ran on another machine. Moments by its clock cannot be compared with those by other clocks.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// The writer of the source.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Adds the repetition of the call. The copy still has to be of the time of the first call.
    #[must_use]
    pub fn repeated_in(mut self, repetition: Evidence) -> Evidence {
        self.calls.extend(repetition.calls);
        Evidence { log: repetition.log, ..self }
    }

    /// Judges what a copy holds that the call made. `is_own` is false for a volume that is a directory of something larger. Returns the
    /// moment of the copy.
    ///
    /// # Errors
    /// A violation if the copy is wrong.
    pub fn judge(&self, cx: &Cx, contents: &Contents, is_own: bool, origin: &str) -> CheckResult<Moment> {
        let moment = self.moment(contents);
        let deviations = self.writer.judge(self.span, contents);
        let Some(worst) = deviations.first() else { return Ok(moment) };
        let (message, rule, damage): (_, &'static Requirement, _) = match worst.mistake {
            Mistake::Foreign => ("holds the data of another volume", &IN_USE_004, Some(Damage::DataLoss)),
            Mistake::Lost => {
                ("lacks data that were durable before the call", &IN_USE_003, Some(Damage::DataLoss))
            }
            Mistake::Later => ("holds data written after the call had returned", &IN_USE_004, None),
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
            .timeline(timeline(&self.log, self.calls.iter().map(Call::span), Some(moment)));
        Err(match damage {
            Some(damage) => violation.damage(damage),
            None => violation,
        }
        .into())
    }

    /// The moment of a copy, inferred from the records in it.
    fn moment(&self, contents: &Contents) -> Moment {
        let last = self.writer.moment(contents);
        let next = self.log.record(last + 1).and_then(|record| record.durable_us);
        Moment {
            after_us: self.log.record(last).map_or(0, |record| record.begun_us),
            before_us: next.unwrap_or(u64::MAX),
        }
    }
}

/// Judges whether the members of a group snapshot are of one moment.
///
/// # Errors
/// A violation if they are not.
pub fn judge_group(moments: &[Moment]) -> CheckResult {
    let latest = moments.iter().map(|one| one.after_us).max().unwrap_or_default();
    let earliest = moments.iter().map(|one| one.before_us).min().unwrap_or(u64::MAX);
    ensure!(
        latest <= earliest,
        "the members of a group snapshot are of different moments";
        of: &IN_USE_006,
        expected: "members that hold their volumes as they were at one moment",
        actual: format!(
            "one holds a write that began {} ms after another one was cut",
            (latest - earliest) / 1_000
        )
    );
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_separate_moments_are_no_group() {
        let moment = |after_us, before_us| Moment { after_us, before_us };
        assert!(judge_group(&[moment(10, 30), moment(20, 40)]).is_ok());
        assert!(judge_group(&[moment(10, 20), moment(21, 40)]).is_err());
        assert!(judge_group(&[]).is_ok());
    }
}
