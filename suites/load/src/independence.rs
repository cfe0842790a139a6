//! Looks whether calls on one volume wait until a call on another one has ended, as where one lock covers all volumes.
//!
//! While one volume is staged or published, which takes long, that step is undone for another volume, which is short. These are two RPCs,
//! so that a driver which limits how many volumes are staged at once does not look like one with a lock. One call that is done before the long
//! one ends proves that there is no lock. Only a call that ends each time together with the long one, however late it began, has waited for it; and
//! while it waits, a call about no volume is answered again and again, so that neither the machine nor the whole driver stands still.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_proto::Service;

use crate::cycle::{Caller, Held};
use crate::judge::LOAD_007;
use crate::run::Load;
use crate::threshold::Time;

/// The time after which no further volume is looked at.
const LOOKING_MAX: Duration = Duration::from_secs(12);
/// The time from which on a call is long enough to see whether others wait for it.
const LONG_MIN: Duration = Duration::from_millis(200);
/// The moments at which the short call begins, as parts of the time of the long one, out of 8. It has to wait at each of them.
const BEGINS: [u32; 3] = [1, 2, 4];
/// The times that calls are made beside each other at most. Those that prove nothing are made again.
const TRIES_MAX: u32 = 9;
/// A short call is so many times as short as the long one, and the times that are compared may differ by that much.
const SHORTER: u32 = 8;

/// The times of two calls that were made beside each other, from the beginning of the long one.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// The end of the long call.
    long: Duration,
    /// The beginning and the end of the short call.
    begun: Duration,
    ended: Duration,
    /// The time that the short call takes alone.
    alone: Duration,
    /// The longest time of the calls about no volume that were made while the short call was under way.
    witness: Duration,
}

/// The result of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The short call ended together with the long one.
    Waited,
    /// The short call was done while the long one went on.
    Independent,
    /// The times have other reasons, such as a machine that is busy.
    Unclear,
}

impl Beside {
    fn judge(&self) -> Seen {
        let spare = self.long / SHORTER;
        if self.long >= LONG_MIN && self.ended + spare < self.long {
            return Seen::Independent;
        }
        let is_clear = self.long >= LONG_MIN
            && self.alone <= spare
            && self.witness <= spare
            // There was time enough to be done before the long call.
            && self.begun + 2 * spare <= self.long;
        match is_clear && self.ended <= self.long + spare {
            true => Seen::Waited,
            false => Seen::Unclear,
        }
    }
}

/// The node's steps of publication, which take place on the node alone. A back end may attach one volume after the other.
fn is_of_node(step: Operation) -> bool {
    step.rpc().service == Service::Node && step.undoes().is_none()
}

impl Load {
    /// Publishes the volumes that stay one after the other, and if that takes long for one of them, looks whether others wait for it.
    pub(crate) async fn compare_volumes(&self, callers: &[Caller]) -> CheckResult {
        let [first, second, ..] = callers else { return Ok(()) };
        let until = Instant::now() + LOOKING_MAX;
        let mut rng = first.cx.rng();
        let mut other: Option<Held> = None;
        let mut looked_at = Vec::new();
        while !self.judge.is_dead()
            && Instant::now() < until
            && let Some(mut held) = self.fleet.take_attachable(&mut rng)
        {
            let times = self.times_alone(first, &mut held).await?;
            let longest =
                times.into_iter().filter(|(step, _)| is_of_node(*step)).max_by_key(|(_, time)| *time);
            let mut is_settled = held.is_doubtful;
            if let Some((step, long)) = longest.filter(|(_, long)| *long >= LONG_MIN)
                && let Some(undo) = step.inverse()
                && let Some(mut quick) = other.take().or_else(|| self.fleet.take_attachable(&mut rng))
            {
                is_settled |=
                    self.settle([first, second], [&mut held, &mut quick], [step, undo], long, until).await?;
                other = Some(quick).filter(|quick| !quick.is_doubtful);
            }
            looked_at.extend(Some(held).filter(|held| !held.is_doubtful));
            if is_settled {
                break;
            }
            if other.is_none() {
                other = looked_at.pop();
            }
        }
        looked_at.into_iter().chain(other).for_each(|held| self.fleet.give_back(held));
        Ok(())
    }

    /// Makes calls beside each other until they prove something, and reports calls that wait. Returns false if nothing was proven.
    async fn settle(
        &self,
        callers: [&Caller; 2],
        [slow, quick]: [&mut Held; 2],
        [step, undo]: [Operation; 2],
        mut long: Duration,
        until: Instant,
    ) -> CheckResult<bool> {
        let mut waited = Vec::new();
        for _ in 0..TRIES_MAX {
            let Some(eighths) = BEGINS.get(waited.len()) else { break };
            if Instant::now() >= until || self.judge.is_dead() {
                return Ok(false);
            }
            let begins = long / SHORTER * *eighths;
            let Some(beside) = self.beside(callers, [&mut *slow, &mut *quick], [step, undo], begins).await?
            else {
                if slow.is_doubtful || quick.is_doubtful {
                    return Ok(true);
                }
                continue;
            };
            match beside.judge() {
                Seen::Independent => return Ok(true),
                Seen::Waited => waited.push(beside),
                Seen::Unclear if beside.long < LONG_MIN => return Ok(false),
                Seen::Unclear => {}
            }
            long = beside.long;
        }
        let (Some(last), true) = (waited.last(), waited.len() == BEGINS.len()) else { return Ok(false) };
        let (step, undo) = (step.method(), undo.method());
        self.judge.blame(
            Violation::new(format!("{undo} of one volume waits for {step} of another one"))
                .of(&LOAD_007)
                .expected("calls on other volumes that do not wait for it")
                .actual(format!(
                    "each of {} times, it ended together with {step} of {}, however late it began: the last time it took {} instead of {} \
                     alone, and NodeGetInfo was answered within {} meanwhile",
                    BEGINS.len(),
                    slow.volume.volume.id,
                    Time(last.ended.saturating_sub(last.begun)),
                    Time(last.alone),
                    Time(last.witness),
                )),
        );
        Ok(true)
    }

    /// Publishes a volume and undoes that, and returns the time of each call that was done at once.
    async fn times_alone(&self, caller: &Caller, held: &mut Held) -> CheckResult<Vec<(Operation, Duration)>> {
        let mut times = Vec::new();
        let undone = self.fleet.lifecycle.teardown().filter(|step| *step != Operation::DeleteVolume);
        for step in self.fleet.lifecycle.publication().chain(undone) {
            match self.do_at_once(caller, held, step).await? {
                Some((begun, ended)) => times.push((step, ended.duration_since(begun))),
                None if held.is_doubtful => break,
                None => {}
            }
        }
        self.forget_paths(held);
        Ok(times)
    }

    /// Does a step for the slow volume, and undoes it for the other one, beginning so much later. Returns `None` if that was not done at once.
    async fn beside(
        &self,
        [first, second]: [&Caller; 2],
        [slow, quick]: [&mut Held; 2],
        [step, undo]: [Operation; 2],
        begins: Duration,
    ) -> CheckResult<Option<Beside>> {
        let alone = self.times_alone(second, quick).await?;
        let Some((_, alone)) = alone.into_iter().find(|(done, _)| *done == undo) else { return Ok(None) };
        let steps: Vec<Operation> = self.fleet.lifecycle.publication().collect();
        let at = steps.iter().position(|one| *one == step).unwrap_or_default();
        if !self.do_all(first, slow, &steps[..at]).await?
            || !self.do_all(second, quick, &steps[..=at]).await?
        {
            return Ok(None);
        }
        let is_over = AtomicBool::new(false);
        let (long, short, witness) = tokio::join!(
            self.do_at_once(first, slow, step),
            async {
                tokio::time::sleep(begins).await;
                let short = self.do_at_once(second, quick, undo).await;
                is_over.store(true, Ordering::Relaxed);
                short
            },
            self.slowest_answer(begins, || !is_over.load(Ordering::Relaxed)),
        );
        let (long, short) = (long?, short?);
        let is_undone = !slow.is_doubtful
            && !quick.is_doubtful
            && self.do_all(first, slow, &steps[at + 1..]).await?
            && self.do_all(second, quick, &steps[at..]).await?
            && self.unpublish(first, slow).await?
            && self.unpublish(second, quick).await?;
        self.forget_paths(slow);
        self.forget_paths(quick);
        let (Some(long), Some(short), Some(witness), true) = (long, short, witness, is_undone) else {
            return Ok(None);
        };
        let since = |moment: Instant| moment.duration_since(long.0);
        let [long, begun, ended] = [long.1, short.0, short.1].map(since);
        Ok(Some(Beside { long, begun, ended, alone, witness }))
    }

    /// Does a step, and returns the moments at which the call was sent and done; `None` if it was not done at once, but in a later try or not
    /// at all.
    async fn do_at_once(
        &self,
        caller: &Caller,
        held: &mut Held,
        step: Operation,
    ) -> CheckResult<Option<(Instant, Instant)>> {
        let request = held.volume.request(&caller.cx, step).await?;
        let begun = Instant::now();
        let reply = request.send(&caller.cx).once().await;
        let ended = Instant::now();
        if let Answer::Ok(response) = reply.answer() {
            held.volume.record(response.clone());
            return Ok(Some((begun, ended)));
        }
        self.operate(caller, held, step).await?;
        Ok(None)
    }

    async fn do_all(&self, caller: &Caller, held: &mut Held, steps: &[Operation]) -> CheckResult<bool> {
        for step in steps {
            if !self.operate(caller, held, *step).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes calls about no volume after this time, while something is under way. Returns the longest time of one of them, or `None` if one was
    /// not answered.
    async fn slowest_answer(&self, begins: Duration, is_under_way: impl Fn() -> bool) -> Option<Duration> {
        tokio::time::sleep(begins).await;
        let mut slowest = Duration::ZERO;
        while is_under_way() {
            let asked = Instant::now();
            let reply = self.cx.call(v1::NodeGetInfoRequest::default()).once().await;
            slowest = slowest.max(asked.elapsed());
            if reply.any_answer().is_err() {
                return None;
            }
            tokio::time::sleep(LONG_MIN / (SHORTER * 2)).await;
        }
        Some(slowest)
    }

    /// Forgets the paths of a volume that is not published any more: the next pod has others.
    pub(crate) fn forget_paths(&self, held: &mut Held) {
        if !held.is_doubtful {
            held.volume.staging_path.clear();
            held.volume.target_path.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of 10 ms that begins after this time beside one of 800 ms, and ends after that time.
    fn beside(begun: u64, ended: u64) -> Beside {
        let [long, begun, ended, alone, witness] = [800, begun, ended, 10, 5].map(Duration::from_millis);
        Beside { long, begun, ended, alone, witness }
    }

    #[test]
    fn a_call_that_ends_with_the_long_one_has_waited() {
        assert_eq!(beside(100, 801).judge(), Seen::Waited);
        // The answers arrive at once, so that the one of the long call may be read last.
        assert_eq!(beside(400, 799).judge(), Seen::Waited);
        assert_eq!(beside(100, 112).judge(), Seen::Independent);
    }

    #[test]
    fn other_reasons_for_a_late_end_prove_nothing() {
        let usual = beside(200, 805);
        let ms = Duration::from_millis;
        for (other, why) in [
            (Beside { alone: ms(300), ..usual }, "it takes long by itself, too"),
            (Beside { witness: ms(500), ..usual }, "the machine stands still, or the driver does"),
            (Beside { begun: ms(780), ..usual }, "it began too late to be done before"),
            (Beside { ended: ms(1_400), ..usual }, "it waits for something else"),
            (Beside { long: ms(150), ended: ms(150), ..usual }, "the other call was not long this time"),
        ] {
            assert_eq!(other.judge(), Seen::Unclear, "{why}");
        }
    }
}
