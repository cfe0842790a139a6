//! Measures every call: how long it took, counted from the moment at which it was due, and how its tries ended.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::client::answer::{Answer, NoAnswer};
use csi_harness::client::session::CallObserver;
use csi_proto::Rpc;
use csi_proto::lock::Mutex;
use hdrhistogram::Histogram;

/// Digits of a time that are exact.
const DIGITS: u8 = 2;
/// Windows into which a stage is divided to see whether calls become slower.
pub(crate) const WINDOWS: usize = 20;
/// Slices of time into which a stage is divided, at most. Where a stage takes longer, each two become one.
pub(crate) const SLICES_MAX: usize = 64;
/// The length of a slice at first.
const SLICE_MIN: Duration = Duration::from_millis(250);
/// The longest time that is recorded; longer ones count as this.
const LONGEST_US: u64 = 24 * 3_600 * 1_000_000;

/// Calls that ended in one slice of a stage: how many of them took so many microseconds, as precisely as a histogram knows it.
pub type Slice = BTreeMap<u64, u64>;

/// Calls of one RPC in one stage.
#[derive(Clone, Debug)]
pub struct Series {
    /// Calls that the driver did.
    pub done: u64,
    /// Tries that ended otherwise, by gRPC code, or `no answer`. Most of them were made again.
    pub codes: BTreeMap<Cow<'static, str>, u64>,
    /// Times of calls that were done, from the moment at which they were due, in microseconds.
    times: Histogram<u64>,
    sum: Duration,
    /// These times by the slice of the stage in which the call ended.
    slices: Vec<Slice>,
    /// Times of the last try alone, by the part of the stage in which it ended.
    windows: Vec<Histogram<u64>>,
}

impl Default for Series {
    fn default() -> Series {
        Series {
            done: 0,
            codes: BTreeMap::new(),
            times: histogram(),
            sum: Duration::ZERO,
            slices: Vec::new(),
            windows: Vec::new(),
        }
    }
}

/// A histogram that grows with the times in it.
fn histogram() -> Histogram<u64> {
    // The number of digits is one of those that are allowed.
    Histogram::new(DIGITS).unwrap_or_else(|error| unreachable!("{error}"))
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(LONGEST_US).clamp(1, LONGEST_US)
}

fn add_slice(slice: &mut Slice, other: &Slice) {
    for (us, calls) in other {
        let sum = slice.entry(*us).or_default();
        *sum = sum.saturating_add(*calls);
    }
}

impl Series {
    /// The calls that were measured before, by slice, with their mean time.
    pub(crate) fn of_slices(slices: Vec<Slice>, mean: Duration) -> Series {
        let mut series = Series::default();
        for (us, calls) in slices.iter().flatten() {
            series.done = series.done.saturating_add(*calls);
            // A time from a file may be longer than any that is recorded.
            let _ = series.times.record_n((*us).clamp(1, LONGEST_US), *calls);
        }
        series.sum =
            mean.checked_mul(u32::try_from(series.done).unwrap_or(u32::MAX)).unwrap_or(Duration::MAX);
        series.slices = slices;
        series
    }

    /// Adds a call that was done in a slice of the stage, with the time since it was due.
    pub fn add(&mut self, slice: usize, since_due: Duration) {
        self.done += 1;
        self.sum += since_due;
        let us = microseconds(since_due);
        // The histogram grows with the time, which has a limit.
        let _ = self.times.record(us);
        if self.slices.len() <= slice {
            self.slices.resize_with(slice + 1, Slice::default);
        }
        *self.slices[slice].entry(self.times.lowest_equivalent(us).max(1)).or_default() += 1;
    }

    /// The times by slice.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Makes one slice of each two.
    pub(crate) fn halve(&mut self) {
        let joined = self.slices.chunks(2).map(|pair| {
            let mut joined = pair[0].clone();
            pair[1..].iter().for_each(|other| add_slice(&mut joined, other));
            joined
        });
        self.slices = joined.collect();
    }

    /// Adds the time of a try to a part of the stage.
    fn add_to_window(&mut self, window: usize, took: Duration) {
        if self.windows.is_empty() {
            self.windows.resize_with(WINDOWS, histogram);
        }
        if let Some(window) = self.windows.get_mut(window) {
            // The histogram grows with the time, which has a limit.
            let _ = window.record(microseconds(took));
        }
    }

    /// Adds a try that was not done.
    pub fn failed(&mut self, code: &'static str) {
        *self.codes.entry(code.into()).or_default() += 1;
    }

    /// Tries that were not done.
    pub fn errors(&self) -> u64 {
        self.codes.values().fold(0, |sum, tries| sum.saturating_add(*tries))
    }

    /// The time that so many percent of the calls did not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_micros(self.times.value_at_quantile(percent / 100.0).min(self.times.max()))
    }

    pub fn mean(&self) -> Duration {
        u32::try_from(self.done.max(1)).map_or(Duration::ZERO, |done| self.sum / done)
    }

    /// The median times of tries, in the order of the stage. Parts of the stage are joined until they have so many tries, so that a driver that
    /// hardly gets anything done is judged as well.
    pub(crate) fn medians(&self, tries_min: u64) -> Vec<Duration> {
        let mut medians = Vec::new();
        let mut joined = histogram();
        for window in &self.windows {
            // Both have the same number of digits, and no limit.
            let _ = joined.add(window);
            if joined.len() >= tries_min {
                medians.push(Duration::from_micros(joined.value_at_quantile(0.5)));
                joined.reset();
            }
        }
        medians
    }

    /// Adds the calls of a later stage.
    fn append(&mut self, later: &Series) {
        self.add_counts(later);
        self.slices.extend_from_slice(&later.slices);
    }

    /// Adds the calls that another process has made at the same time, in slices of the same length.
    pub(crate) fn join(&mut self, other: &Series) {
        self.add_counts(other);
        self.slices.resize_with(self.slices.len().max(other.slices.len()), Slice::default);
        self.slices.iter_mut().zip(&other.slices).for_each(|(slice, other)| add_slice(slice, other));
    }

    fn add_counts(&mut self, other: &Series) {
        self.done = self.done.saturating_add(other.done);
        self.sum = self.sum.saturating_add(other.sum);
        // Both have the same number of digits, and no limit.
        let _ = self.times.add(&other.times);
        for (code, tries) in &other.codes {
            let sum = self.codes.entry(code.clone()).or_default();
            *sum = sum.saturating_add(*tries);
        }
    }

    /// The calls of all these stages, and the time that the stages took; `None` where there is no stage.
    pub fn whole<S: std::borrow::Borrow<Series>>(
        stages: impl IntoIterator<Item = (S, Duration)>,
    ) -> Option<(Series, Duration)> {
        let mut whole: Option<(Series, Duration)> = None;
        for (series, elapsed) in stages {
            let (sum, time) = whole.get_or_insert_default();
            sum.append(series.borrow());
            *time += elapsed;
        }
        whole
    }
}

/// A stage, as far as it has come.
#[derive(Clone, Debug)]
pub struct StageRecord {
    pub name: String,
    /// Life cycles that were due, where that does not depend on the driver.
    pub planned: Option<u64>,
    /// Life cycles that began.
    pub begun: u64,
    /// Life cycles that ended.
    pub ended: u64,
    /// The time that it took.
    pub elapsed: Duration,
    pub rpcs: BTreeMap<&'static str, Series>,
    /// By the number of life cycles under way: the time with so many, and how many ended in it.
    pub under_way: BTreeMap<u64, (Duration, u64)>,
    /// The moment since which their number is what it is.
    changed: Instant,
    pub slice: Duration,
    started: Instant,
    /// Its length, if its load is constant.
    steady: Option<Duration>,
}

impl StageRecord {
    /// Adds the time since the number of life cycles under way has changed. Returns the entry for that number.
    fn note_under_way(&mut self) -> &mut (Duration, u64) {
        let since = std::mem::replace(&mut self.changed, Instant::now());
        let entry = self.under_way.entry(self.begun.saturating_sub(self.ended)).or_default();
        entry.0 += self.changed - since;
        entry
    }

    /// The number of the present slice. Slices become longer where there are too many.
    fn slice_now(&mut self) -> usize {
        let elapsed = self.started.elapsed();
        let number = |slice: Duration| (elapsed.as_nanos() / slice.as_nanos().max(1)) as usize;
        while number(self.slice) >= SLICES_MAX {
            self.slice *= 2;
            self.rpcs.values_mut().for_each(Series::halve);
        }
        number(self.slice)
    }
}

/// The measurements of a load.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<StageRecord>>);

impl Recorder {
    /// Begins a stage; the one before it has ended. A stage of constant load has a length.
    pub(crate) fn begin(&self, name: &str, planned: Option<u64>, steady: Option<Duration>) {
        self.0.lock().push(StageRecord {
            name: name.to_owned(),
            planned,
            begun: 0,
            ended: 0,
            elapsed: Duration::ZERO,
            rpcs: BTreeMap::new(),
            under_way: BTreeMap::new(),
            changed: Instant::now(),
            slice: SLICE_MIN,
            started: Instant::now(),
            steady,
        });
    }

    pub(crate) fn end(&self) {
        self.with_stage(|_| {});
    }

    /// Forgets everything, for a load that runs once more.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn cycle_begins(&self) {
        self.with_stage(|stage| {
            stage.note_under_way();
            stage.begun += 1;
        });
    }

    pub(crate) fn cycle_ends(&self) {
        self.with_stage(|stage| {
            stage.note_under_way().1 += 1;
            stage.ended += 1;
        });
    }

    /// Life cycles that have ended in all stages.
    pub(crate) fn cycles(&self) -> u64 {
        self.0.lock().iter().map(|stage| stage.ended).sum()
    }

    /// The stages so far.
    pub fn stages(&self) -> Vec<StageRecord> {
        self.0.lock().clone()
    }

    /// All calls of an RPC, and the time of the stages in which there were any.
    pub fn whole(&self, rpc: &str) -> Option<(Series, Duration)> {
        let stages = self.0.lock();
        Series::whole(stages.iter().filter_map(|stage| Some((stage.rpcs.get(rpc)?, stage.elapsed))))
    }

    fn with_stage(&self, change: impl FnOnce(&mut StageRecord)) {
        if let Some(stage) = self.0.lock().last_mut() {
            change(stage);
            // A load that is stopped has the time up to its last call.
            stage.elapsed = stage.started.elapsed();
        }
    }

    fn done(&self, rpc: Rpc, since_due: Duration, took: Duration) {
        self.with_stage(|stage| {
            let part = stage.steady.map(|length| {
                stage.started.elapsed().as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE)
            });
            let slice = stage.slice_now();
            let series = stage.rpcs.entry(rpc.method).or_default();
            series.add(slice, since_due);
            if let Some(part) = part {
                series.add_to_window((part * WINDOWS as f64) as usize, took);
            }
        });
    }
}

/// Measures the calls of one caller, who makes one after another.
#[derive(Debug)]
pub(crate) struct CallerClock {
    recorder: Arc<Recorder>,
    /// The moment at which the operation under way was due: when its first try was sent, or, for the first one of a life cycle, when
    /// that was due.
    due: Mutex<Option<Instant>>,
}

impl CallerClock {
    pub(crate) fn new(recorder: Arc<Recorder>) -> CallerClock {
        CallerClock { recorder, due: Mutex::default() }
    }

    /// Begins a life cycle that was due at this moment.
    pub(crate) fn cycle_was_due(&self, due: Instant) {
        *self.due.lock() = Some(due);
    }

    /// Begins another operation, which is due when it is sent.
    pub(crate) fn gives_up(&self) {
        *self.due.lock() = None;
    }
}

impl CallObserver for CallerClock {
    fn ended(&self, rpc: Rpc, answer: &Answer<()>, took: Duration) {
        let now = Instant::now();
        let sent = now.checked_sub(took).unwrap_or(now);
        let mut due = self.due.lock();
        let since = due.map_or(sent, |due| due.min(sent));
        let code = match answer {
            Answer::Ok(()) => {
                *due = None;
                return self.recorder.done(rpc, now - since, took);
            }
            // The driver did not do it, and is asked again.
            Answer::Refused(refused) | Answer::Unknown(NoAnswer::GivenUp(refused)) => refused.code_name(),
            Answer::Unknown(NoAnswer::NotSent(_)) => return,
            Answer::Unknown(_) => "no answer",
        };
        *due = Some(since);
        self.recorder.with_stage(|stage| stage.rpcs.entry(rpc.method).or_default().failed(code));
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    // Microseconds are enough.
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use csi_harness::client::answer::Refused;
    use csi_proto::{Call as _, v1};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn refused() -> Answer<()> {
        let message = "later".to_owned();
        Answer::Refused(Refused { code: csi_harness::prelude::Code::Aborted, message, after_messages: 0 })
    }

    /// Otherwise a driver that stalls would be measured only by the calls that happened to be under way.
    #[test]
    fn a_call_is_measured_since_it_was_due() {
        let recorder = Arc::new(Recorder::default());
        recorder.begin("hold", Some(2), None);
        let clock = CallerClock::new(recorder.clone());
        let rpc = v1::CreateVolumeRequest::RPC;
        clock.cycle_was_due(Instant::now().checked_sub(500 * MS).unwrap());
        clock.ended(rpc, &refused(), MS);
        clock.ended(rpc, &Answer::Ok(()), MS);
        clock.ended(rpc, &Answer::Ok(()), 7 * MS);
        let (series, _) = recorder.whole("CreateVolume").unwrap();
        assert_eq!((series.done, series.errors(), series.codes.get("ABORTED")), (2, 1, Some(&1)));
        assert!(series.percentile(100.0) >= 500 * MS && series.percentile(50.0) < 8 * MS, "{series:?}");
        assert!(series.mean() > 250 * MS);
    }

    #[test]
    fn slices_of_a_long_stage_have_each_call_once() {
        let mut series = Series::default();
        (0..SLICES_MAX).for_each(|slice| series.add(slice, Duration::from_micros(1_000 + slice as u64)));
        series.halve();
        assert_eq!(series.slices().len(), SLICES_MAX / 2);
        let again = Series::of_slices(series.slices().to_vec(), series.mean());
        assert_eq!((again.done, again.mean()), (series.done, series.mean()));
        for percent in [1.0, 50.0, 99.9, 100.0] {
            assert_eq!(again.percentile(percent), series.percentile(percent));
        }
        let mut both = again.clone();
        both.join(&series);
        assert_eq!((both.done, both.slices().len()), (128, 32));
        assert_eq!(both.percentile(50.0), series.percentile(50.0));
    }

    /// A driver that has become so slow that it answers once in a part of the stage would not be seen otherwise.
    #[test]
    fn parts_with_few_tries_are_joined() {
        let window = |tries: u64, time: Duration| {
            let mut window = histogram();
            window.record_n(time.as_micros() as u64, tries).unwrap();
            window
        };
        let windows = [(9, MS), (1, 50 * MS), (0, MS), (3, 50 * MS), (2, 90 * MS)];
        let windows = windows.into_iter().map(|(tries, time)| window(tries, time)).collect();
        let medians = Series { windows, ..Series::default() }.medians(4);
        assert!(matches!(medians[..], [fast, slow] if fast < 2 * MS && slow > 49 * MS), "{medians:?}");
    }

    #[test]
    fn stages_add_up_to_the_whole() {
        let recorder = Arc::new(Recorder::default());
        let clock = CallerClock::new(recorder.clone());
        for stage in ["ramp", "hold"] {
            recorder.begin(stage, None, Some(MS));
            (0..50).for_each(|ms| clock.ended(v1::ProbeRequest::RPC, &Answer::Ok(()), ms * MS));
            recorder.end();
        }
        assert_eq!(recorder.whole("Probe").unwrap().0.done, 100);
        assert!(recorder.whole("CreateVolume").is_none());
        let names: Vec<String> = recorder.stages().into_iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["ramp", "hold"]);
    }
}
