//! Decides how long to wait for this driver. A wait in one check shortens equal waits in later checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use csi_proto::Rpc;
use csi_proto::lock::{Mutex, RwLock};
use tokio::sync::watch;

/// Time limit of a call of an RPC that has never been done and has been silent once for all of its time.
const SILENT_LIMIT: Duration = Duration::from_millis(500);

/// The time in which a driver has to settle, unless its behaviour so far suggests another one.
const SETTLE_LIMIT: Duration = Duration::from_secs(12);
/// A slow driver gets this many times the duration of its slowest call to settle.
const SETTLE_CALLS: u32 = 10;
/// The longest time that a slow driver gets to settle.
const SETTLE_LIMIT_MAX: Duration = Duration::from_secs(120);
/// The time to wait for something that always happened at once before, or that did not happen within its whole time.
const SETTLE_LIMIT_KNOWN: Duration = Duration::from_secs(2);
/// Times that something has to have happened at once before it is expected to.
const AT_ONCE_TIMES: u32 = 2;
/// Number of repetitions without success before an RPC is repeated less often.
const IN_VAIN_TIMES: u32 = 2;
/// Number of repetitions without success in a row before an RPC is repeated less often, if repetition has helped
/// before: a resource may have been used up for good since.
const IN_VAIN_SINCE_TIMES: u32 = 5;

/// First pause before a call is made again; each is three times as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause between two calls.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Changes that a driver may make after its answer. All waits for one change share what was learnt about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Settles {
    /// The plugin says that it is ready.
    PluginReady,
    /// A volume or attachment that was made is in the lists.
    VolumeListed,
    /// A volume that was deleted is unknown to calls about it.
    VolumeGone,
    /// A volume that was deleted is in no list.
    VolumeUnlisted,
    /// A snapshot that was made is in the lists.
    SnapshotListed,
    /// A snapshot or group snapshot is ready to use.
    SnapshotReady,
    /// A snapshot or group snapshot that was deleted is unknown to calls about it.
    SnapshotGone,
    /// A snapshot that was deleted is in no list.
    SnapshotUnlisted,
    /// A stream that its caller has cut off is at its end for the driver too.
    StreamEnded,
    /// The name of something deleted can be used again.
    NameFree,
    /// The controller knows the node.
    NodeKnown,
    /// The driver has noticed that something is ill.
    IllnessReported,
    /// The driver has noticed that something is well again.
    IllnessOver,
    /// A later reading of a clock that counts whole seconds.
    NextSecond,
    /// The driver's process takes up no more than before.
    ProcessShrunk,
    /// The driver does the RPC of this name, which it has put off.
    Willing(&'static str),
    /// The driver does the RPC of this name again, which failed while something was broken.
    Healed(&'static str),
    /// Everything that the driver may still be doing is done, so that anything wrong after that is a fault.
    Everything,
}

impl fmt::Display for Settles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Settles::Willing(method) => return write!(f, "{method}, which the driver postpones"),
            Settles::Healed(method) => return write!(f, "{method}, which failed while something was broken"),
            Settles::Everything => "the driver to finish all pending work",
            Settles::PluginReady => "the plugin to be ready",
            Settles::VolumeListed => "a volume to be listed",
            Settles::VolumeGone => "a deleted volume to be gone",
            Settles::VolumeUnlisted => "a deleted volume to disappear from the list",
            Settles::SnapshotListed => "a snapshot to be listed",
            Settles::SnapshotReady => "a snapshot to be ready",
            Settles::SnapshotGone => "a deleted snapshot to be gone",
            Settles::SnapshotUnlisted => "a deleted snapshot to disappear from the list",
            Settles::StreamEnded => "a stream that was cut off to end",
            Settles::NameFree => "a name to be free again",
            Settles::NodeKnown => "the controller to know the node",
            Settles::IllnessReported => "the driver to notice that something is unhealthy",
            Settles::IllnessOver => "the driver to notice that something is healthy again",
            Settles::NextSecond => "the next second",
            Settles::ProcessShrunk => "the driver to release its resources",
        };
        f.pad(text)
    }
}

/// A change of the driver that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The change that is awaited.
    pub what: Settles,
    /// The longest time that is left.
    pub longest: Duration,
}

/// The observed speed of the driver.
#[derive(Debug)]
pub(crate) struct Patience {
    silent_limit: Duration,
    /// RPCs that were done at least once.
    done: RwLock<BTreeSet<&'static str>>,
    /// RPCs that have never been done and did not answer within their whole time.
    silent: watch::Sender<BTreeSet<&'static str>>,
    /// Repetitions without success of calls that checks build on.
    in_vain: InVain,
    /// Repetitions without success of calls that are judged.
    judged_in_vain: InVain,
    /// Repetitions, while undoing, of failed calls that may have made something.
    made_again_in_vain: InVain,
    /// The slowest call so far that was done.
    slowest: Mutex<Duration>,
    settled: Mutex<BTreeMap<Settles, Settled>>,
    /// The last wait that is long enough to be shown.
    pub(crate) news: watch::Sender<Option<Waiting>>,
}

/// The observed delay of one kind of change.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    at_once: u32,
    /// True if the change was ever late.
    late: bool,
    /// True if the change did not happen within its whole time.
    never: bool,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            silent_limit: SILENT_LIMIT,
            done: RwLock::default(),
            silent: watch::Sender::default(),
            in_vain: Mutex::default(),
            judged_in_vain: Mutex::default(),
            made_again_in_vain: Mutex::default(),
            slowest: Mutex::default(),
            settled: Mutex::default(),
            news: watch::Sender::default(),
        }
    }
}

impl Patience {
    /// Waits for a call: for its limit, or for less once another call has shown that the RPC never answers. The call is pinned, because
    /// a future of this function would hold it twice.
    ///
    /// # Errors
    /// The time that passed without an answer.
    pub(crate) async fn wait<T>(
        &self,
        rpc: Rpc,
        limit: Duration,
        call: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Duration> {
        tokio::select! {
            biased;
            ended = call => Ok(ended),
            waited = self.in_vain(rpc, limit) => Err(waited),
        }
    }

    /// Resolves once another call has shown that the RPC never answers, with the time that was waited.
    async fn in_vain(&self, rpc: Rpc, limit: Duration) -> Duration {
        let mut silent = self.silent.subscribe();
        let (started, short) = (tokio::time::Instant::now(), self.silent_limit.min(limit));
        tokio::select! {
            () = tokio::time::sleep(limit) => return limit,
            // The sender is ours, so it lives on.
            _ = silent.wait_for(|silent| silent.contains(rpc.path)) => {}
        }
        tokio::time::sleep_until(started + short).await;
        started.elapsed().max(short)
    }

    /// Notes that a call of the RPC was done. A refusal proves less: it may come before what hangs.
    pub(crate) fn done(&self, rpc: Rpc) {
        // Each call comes here, and only the first one of an RPC changes anything.
        if !self.done.read().contains(rpc.path) {
            self.done.write().insert(rpc.path);
        }
        if self.is_silent(rpc) {
            self.silent.send_if_modified(|silent| silent.remove(rpc.path));
        }
    }

    /// Notes that the RPC did not answer within its whole limit.
    pub(crate) fn kept_silent(&self, rpc: Rpc) {
        if !self.done.read().contains(rpc.path) {
            self.silent.send_if_modified(|silent| silent.insert(rpc.path));
        }
    }

    /// Returns true if the RPC has never been done so far, and did not answer within its whole time.
    pub(crate) fn is_silent(&self, rpc: Rpc) -> bool {
        self.silent.borrow().contains(rpc.path)
    }

    /// Notes how long a call took that was done.
    pub(crate) fn took(&self, time: Duration) {
        let mut slowest = self.slowest.lock();
        *slowest = time.max(*slowest);
    }

    /// Notes whether a call that is made again and again was done in the end.
    pub(crate) fn was_willing(&self, rpc: Rpc, done: bool) {
        note(&self.in_vain, rpc, done);
    }

    /// Notes whether a call to be judged got another answer than "not now" when it was made again.
    pub(crate) fn was_judged(&self, rpc: Rpc, done: bool) {
        note(&self.judged_in_vain, rpc, done);
    }

    /// Returns true if repeating the RPC has never helped, or has stopped helping.
    pub(crate) fn is_unwilling(&self, rpc: Rpc) -> bool {
        again(&self.in_vain, rpc).helps_no_more()
    }

    /// Returns true if repeating the RPC to judge it has never helped.
    pub(crate) fn is_judged_in_vain(&self, rpc: Rpc) -> bool {
        let again = again(&self.judged_in_vain, rpc);
        !again.has_helped && again.in_vain >= IN_VAIN_TIMES
    }

    /// Records if a failed call has shown an object when it was repeated.
    pub(crate) fn was_made_again(&self, rpc: Rpc, done: bool) {
        note(&self.made_again_in_vain, rpc, done);
    }

    /// Returns true if repeating a failed call never shows that it had made something, or has stopped showing it.
    pub(crate) fn is_made_again_in_vain(&self, rpc: Rpc) -> bool {
        again(&self.made_again_in_vain, rpc).helps_no_more()
    }

    /// The time in which the driver has to settle: as configured, or by how fast its calls are.
    pub(crate) fn settle_limit(&self, configured_ms: Option<u64>) -> Duration {
        let by_calls = || SETTLE_LIMIT.max(*self.slowest.lock() * SETTLE_CALLS).min(SETTLE_LIMIT_MAX);
        configured_ms.map_or_else(by_calls, Duration::from_millis)
    }

    /// The time to wait for this change, considering earlier waits for it.
    pub(crate) fn settle_limit_of(&self, what: Settles, configured_ms: Option<u64>) -> Duration {
        let whole = self.settle_limit(configured_ms);
        let known = self.settled.lock().get(&what).copied().unwrap_or_default();
        let at_once = known.at_once >= AT_ONCE_TIMES && configured_ms.is_none();
        if !known.late && (known.never || at_once) { whole.min(SETTLE_LIMIT_KNOWN) } else { whole }
    }

    /// Notes that something has happened: at once, or only when asked again.
    pub(crate) fn settled(&self, what: Settles, at_once: bool) {
        let mut settled = self.settled.lock();
        let known = settled.entry(what).or_default();
        if at_once { known.at_once += 1 } else { known.late = true }
    }

    /// Records that a change did not happen within its whole time.
    pub(crate) fn never_settled(&self, what: Settles) {
        self.settled.lock().entry(what).or_default().never = true;
    }
}

/// Pauses that grow.
#[derive(Debug)]
pub(crate) struct Pauses {
    /// The next pause.
    pub(crate) next: Duration,
    /// The number of pauses so far.
    pub(crate) taken: u32,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { next: PAUSE_MIN, taken: 0 }
    }
}

impl Pauses {
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.take()).await;
    }

    /// The next one, as if it were over.
    pub(crate) fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 3).min(PAUSE_MAX);
        self.taken += 1;
        pause
    }
}

/// Repetitions by RPC.
type InVain = Mutex<BTreeMap<&'static str, Again>>;

/// The success of repeating a call.
#[derive(Clone, Copy, Debug, Default)]
struct Again {
    has_helped: bool,
    /// The number of repetitions without success since the last that helped.
    in_vain: u32,
}

impl Again {
    fn helps_no_more(self) -> bool {
        self.in_vain >= if self.has_helped { IN_VAIN_SINCE_TIMES } else { IN_VAIN_TIMES }
    }
}

fn note(in_vain: &InVain, rpc: Rpc, done: bool) {
    let mut in_vain = in_vain.lock();
    let again = in_vain.entry(rpc.path).or_default();
    again.has_helped |= done;
    again.in_vain = if done { 0 } else { again.in_vain + 1 };
}

fn again(in_vain: &InVain, rpc: Rpc) -> Again {
    in_vain.lock().get(rpc.path).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use csi_proto::{Call as _, v1};

    use super::*;

    const RPC: Rpc = v1::ProbeRequest::RPC;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn hasty() -> Patience {
        Patience { silent_limit: Duration::from_millis(1), ..Patience::default() }
    }

    #[tokio::test]
    async fn one_long_wait_shortens_the_others() {
        let patience = hasty();
        let [one, other] = [pin!(std::future::pending::<()>()), pin!(std::future::pending::<()>())];
        let others = async { tokio::join!(patience.wait(RPC, DAY, one), patience.wait(RPC, DAY, other)) };
        let (ended, ()) = tokio::join!(others, async { patience.kept_silent(RPC) });
        assert!(ended.0.is_err_and(|waited| waited < DAY) && ended.1.is_err_and(|waited| waited < DAY));
        assert!(patience.wait(RPC, DAY, pin!(std::future::pending::<()>())).await.is_err());
        let other = v1::GetPluginInfoRequest::RPC;
        assert_eq!(patience.wait(other, DAY, pin!(std::future::ready(1))).await, Ok(1));
    }

    #[test]
    fn an_rpc_that_does_something_is_never_called_silent() {
        let patience = hasty();
        patience.kept_silent(RPC);
        assert!(patience.is_silent(RPC));
        patience.done(RPC);
        assert!(!patience.is_silent(RPC));
        patience.kept_silent(RPC);
        assert!(!patience.is_silent(RPC));
    }

    #[test]
    fn known_effects_are_not_waited_for_again() {
        let patience = Patience::default();
        let limit = |what| patience.settle_limit_of(what, None);
        assert_eq!(limit(Settles::VolumeGone), SETTLE_LIMIT);
        patience.never_settled(Settles::VolumeGone);
        assert_eq!(limit(Settles::VolumeGone), SETTLE_LIMIT_KNOWN);
        for _ in 0..AT_ONCE_TIMES {
            assert_eq!(limit(Settles::SnapshotGone), SETTLE_LIMIT);
            patience.settled(Settles::SnapshotGone, true);
        }
        assert_eq!(limit(Settles::SnapshotGone), SETTLE_LIMIT_KNOWN);
        assert_eq!(limit(Settles::NameFree), SETTLE_LIMIT, "one thing says nothing about another");
        assert_eq!(patience.settle_limit_of(Settles::SnapshotGone, Some(9_000)), Duration::from_secs(9));
        patience.settled(Settles::SnapshotGone, false);
        assert_eq!(limit(Settles::SnapshotGone), SETTLE_LIMIT, "it may take its time after all");
    }

    #[test]
    fn a_slow_driver_has_more_time() {
        let patience = Patience::default();
        patience.took(Duration::from_secs(3));
        assert_eq!(patience.settle_limit(None), Duration::from_secs(30));
        patience.took(Duration::from_secs(60));
        assert_eq!(patience.settle_limit(None), SETTLE_LIMIT_MAX);
        assert_eq!(patience.settle_limit(Some(5)), Duration::from_millis(5));
    }

    #[test]
    fn calls_are_made_again_as_long_as_that_may_help() {
        let patience = Patience::default();
        let other = v1::GetPluginInfoRequest::RPC;
        for _ in 0..IN_VAIN_TIMES {
            assert!(!patience.is_unwilling(RPC));
            patience.was_willing(RPC, false);
            patience.was_willing(other, true);
        }
        assert!(patience.is_unwilling(RPC) && !patience.is_unwilling(other));
        for _ in 0..IN_VAIN_SINCE_TIMES {
            assert!(!patience.is_unwilling(other), "it has helped before");
            patience.was_willing(other, false);
            patience.was_judged(other, false);
        }
        assert!(patience.is_unwilling(other), "it does no more");
        patience.was_willing(other, true);
        patience.was_judged(other, true);
        assert!(!patience.is_unwilling(other) && !patience.is_judged_in_vain(other));
    }

    #[test]
    fn what_was_never_there_is_looked_for_less() {
        let patience = Patience::default();
        for _ in 0..IN_VAIN_TIMES {
            assert!(!patience.is_made_again_in_vain(RPC));
            patience.was_made_again(RPC, false);
        }
        assert!(patience.is_made_again_in_vain(RPC));
        patience.was_made_again(RPC, true);
        for _ in 0..IN_VAIN_SINCE_TIMES {
            assert!(!patience.is_made_again_in_vain(RPC), "once, there was something");
            patience.was_made_again(RPC, false);
        }
        assert!(patience.is_made_again_in_vain(RPC), "there is no more");
    }
}
