//! Counts, over a whole run, how often each RPC was called, how the calls ended and how long they took. Its size does
//! not depend on the number of calls.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use csi_proto::Rpc;
use csi_proto::lock::Mutex;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::answer::Answer;
use crate::text::shorten::shortened;

/// Significant decimal digits of a duration.
const DIGITS: u8 = 2;
/// Reasons of failures that are kept for an RPC.
const REASONS_MAX: usize = 100;

/// The calls of one RPC.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcCalls {
    /// The RPC that was called.
    pub rpc: Rpc,
    /// Calls that the driver did.
    pub done: u64,
    /// Calls that it refused.
    pub refused: u64,
    /// Calls whose end is unknown.
    pub unanswered: u64,
    /// Durations of the calls that the driver has done.
    pub times: Times,
    /// The longest write of a workload beside such a call, where there was one.
    pub longest_pause: Option<Duration>,
}

/// A histogram of the durations of calls in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Times {
        // The number of digits is one of those that are allowed.
        Times(Histogram::new(DIGITS).unwrap_or_else(|error| unreachable!("{error}")))
    }
}

impl Times {
    /// Adds a call.
    pub fn add(&mut self, time: Duration) {
        self.add_step(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), 1);
    }

    /// A time that this percentage of the calls did not exceed; zero if there is no call.
    pub fn percentile(&self, percent: u64) -> Duration {
        Duration::from_micros(self.0.value_at_percentile(percent.min(100) as f64))
    }

    /// The histogram as longest time of a step, in microseconds, and number of calls in it, so that several can be
    /// added up.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Adds calls of one step.
    pub fn add_step(&mut self, us: u64, calls: u64) {
        // A histogram that grows has room for every number on a machine of 64 bits.
        let _ = self.0.record_n(us, calls);
    }

    /// The longest of them.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }
}

/// The first of the calls that failed alike, with none after it that the driver did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BeganEntry")]
pub struct FirstFailure {
    /// The check that made it.
    pub check: String,
    /// The RPC, such as `CreateVolume`.
    pub rpc: String,
    /// The end of the call.
    pub how: String,
}

impl fmt::Display for FirstFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FirstFailure { check, rpc, how } = self;
        write!(f, "{check}: {rpc} ended with {how}, and none succeeded after it")
    }
}

/// Calls of a check that were answered only when they were made again, after `UNAVAILABLE` or no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// The number of such calls.
    pub(crate) calls: u64,
    /// The first of them, with the end that it had at first.
    pub(crate) first: String,
}

/// Counts the calls of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rpcs: Mutex<BTreeMap<&'static str, Counted>>,
    /// By the label of the check, so that there are no more entries than checks.
    repeated: Mutex<BTreeMap<String, Repeated>>,
}

#[derive(Debug)]
struct Counted {
    calls: RpcCalls,
    /// The first failure for each reason since the driver did such a call.
    failing: BTreeMap<String, FirstFailure>,
}

impl Counted {
    /// No calls so far.
    fn of(rpc: Rpc) -> Counted {
        let times = Times::default();
        let calls = RpcCalls { rpc, done: 0, refused: 0, unanswered: 0, times, longest_pause: None };
        Counted { calls, failing: BTreeMap::new() }
    }
}

impl Tally {
    /// Counts a call of a check.
    pub(crate) fn add<T>(&self, check: &str, rpc: Rpc, answer: &Answer<T>, time: Duration) {
        let mut rpcs = self.rpcs.lock();
        let Counted { calls, failing } = rpcs.entry(rpc.path).or_insert_with(|| Counted::of(rpc));
        let how = match answer {
            Answer::Ok(_) => {
                calls.done += 1;
                calls.times.add(time);
                failing.clear();
                return;
            }
            Answer::Refused(refused) => {
                calls.refused += 1;
                refused as &dyn fmt::Display
            }
            Answer::Unknown(no_answer) => {
                calls.unanswered += 1;
                no_answer
            }
        };
        if let Some(reason) = answer.failure_with_reason().filter(|_| failing.len() < REASONS_MAX) {
            let first = || FirstFailure {
                check: check.to_owned(),
                rpc: rpc.method.to_owned(),
                how: shortened(&how.to_string()),
            };
            failing.entry(reason).or_insert_with(first);
        }
    }

    /// Enters how long a write of a workload took beside calls of an RPC.
    pub(crate) fn paused(&self, rpc: Rpc, pause: Duration) {
        let mut rpcs = self.rpcs.lock();
        let longest = &mut rpcs.entry(rpc.path).or_insert_with(|| Counted::of(rpc)).calls.longest_pause;
        *longest = Some(longest.map_or(pause, |longest| longest.max(pause)));
    }

    /// Notes a call that was answered only when it was made again. `ended` is the end that it had at first.
    pub(crate) fn answered_when_repeated(&self, check: &str, rpc: Rpc, ended: &str) {
        let mut repeated = self.repeated.lock();
        let first =
            || Repeated { calls: 0, first: format!("{} ended with {}", rpc.method, shortened(ended)) };
        repeated.entry(check.to_owned()).or_insert_with(first).calls += 1;
    }

    /// Calls that were answered only when they were made again, by the label of the check.
    pub(crate) fn repeated(&self) -> BTreeMap<String, Repeated> {
        self.repeated.lock().clone()
    }

    /// The first call of the RPC that failed for this reason, if the driver has done none since.
    pub(crate) fn first_failure(&self, rpc: Rpc, reason: &str) -> Option<FirstFailure> {
        self.rpcs.lock().get(rpc.path)?.failing.get(reason).cloned()
    }

    /// Calls of the RPC so far, if there are any.
    pub(crate) fn calls_of(&self, rpc: Rpc) -> Option<RpcCalls> {
        self.rpcs.lock().get(rpc.path).map(|counted| counted.calls.clone())
    }

    /// Everything so far, by path.
    pub(crate) fn calls(&self) -> Vec<RpcCalls> {
        self.rpcs.lock().values().map(|counted| counted.calls.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use csi_proto::{Call as _, v1};

    use super::*;
    use crate::client::answer::NoAnswer;

    #[test]
    fn every_time_is_kept_to_two_digits() {
        for us in (0..10_000).chain([1 << 40, u64::MAX]) {
            let mut times = Times::default();
            times.add(Duration::from_micros(us));
            let kept_us = times.longest().as_micros() as u64;
            assert!(us <= kept_us && kept_us - us <= us / 100, "{us}: {kept_us}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_calls() {
        let mut times = Times::default();
        assert_eq!(times.percentile(50), Duration::ZERO);
        (1..=100).for_each(|us| times.add(Duration::from_micros(us)));
        assert_eq!(times.percentile(1), Duration::from_micros(1));
        let median = times.percentile(50).as_micros();
        assert!((50..=53).contains(&median), "{median}");
        assert_eq!(
            (times.percentile(100), times.longest()),
            (Duration::from_micros(100), Duration::from_micros(100))
        );
    }

    #[test]
    fn steps_make_the_same_times_again() {
        let mut times = Times::default();
        [3, 3, 700, 90_001].iter().for_each(|us| times.add(Duration::from_micros(*us)));
        let mut again = Times::default();
        times.steps().for_each(|(us, calls)| again.add_step(us, calls));
        assert_eq!(again, times);
    }

    #[test]
    fn the_first_failure_for_each_reason_is_kept() {
        let (tally, rpc) = (Tally::default(), v1::ProbeRequest::RPC);
        let refused = |code, message: &str| {
            let message = message.to_owned();
            Answer::<()>::Refused(crate::client::answer::Refused { code, message, after_messages: 0 })
        };
        let (full, busy) =
            (refused(tonic::Code::Internal, "pool p1 is full"), refused(tonic::Code::Internal, "busy"));
        let first = |answer: &Answer<()>| {
            let reason = answer.failure_with_reason().unwrap();
            tally.first_failure(rpc, &reason).map(|first| first.to_string())
        };
        tally.add("a", rpc, &busy, Duration::ZERO);
        tally.add("b", rpc, &full, Duration::ZERO);
        tally.add("c", rpc, &full, Duration::ZERO);
        let expected = "b: Probe ended with INTERNAL \"pool p1 is full\", and none succeeded after it";
        let of_another_pool = refused(tonic::Code::Internal, "pool p7 is full");
        assert_eq!(first(&of_another_pool).as_deref(), Some(expected));
        assert_eq!(first(&refused(tonic::Code::NotFound, "pool p1 is full")), None);
        tally.add("d", rpc, &Answer::Ok(()), Duration::ZERO);
        assert_eq!((first(&full), first(&busy)), (None, None));
    }

    #[test]
    fn the_three_ends_are_distinguished() {
        let tally = Tally::default();
        let rpc = v1::ProbeRequest::RPC;
        tally.add("a", rpc, &Answer::Ok(()), Duration::from_micros(5));
        tally.add::<()>("a", rpc, &Answer::Unknown(NoAnswer::CheckEnded), Duration::from_secs(9));
        let [calls] = &tally.calls()[..] else { panic!("one RPC") };
        assert_eq!((calls.done, calls.refused, calls.unanswered), (1, 0, 1));
        assert_eq!(calls.times.longest(), Duration::from_micros(5), "only what was done");
    }

    #[test]
    fn calls_answered_when_repeated_are_counted_by_check() {
        let (tally, rpc) = (Tally::default(), v1::ProbeRequest::RPC);
        tally.answered_when_repeated("a", rpc, "UNAVAILABLE \"later\"");
        tally.answered_when_repeated("a", rpc, "UNAVAILABLE \"still later\"");
        let expected = Repeated { calls: 2, first: "Probe ended with UNAVAILABLE \"later\"".to_owned() };
        assert_eq!(tally.repeated(), BTreeMap::from([("a".to_owned(), expected)]));
    }

    #[test]
    fn the_longest_pause_of_each_rpc_is_kept() {
        let (tally, rpc) = (Tally::default(), v1::ProbeRequest::RPC);
        for ms in [3, 7, 5] {
            tally.paused(rpc, Duration::from_millis(ms));
        }
        tally.add("a", rpc, &Answer::Ok(()), Duration::ZERO);
        let calls = tally.calls_of(rpc).unwrap();
        assert_eq!((calls.longest_pause, calls.done), (Some(Duration::from_millis(7)), 1));
    }
}
