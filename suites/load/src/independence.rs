//! Looks whether calls on one volume wait for those on another one that takes long, as where one lock covers all volumes.

use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_ops::operation::Operation;

use crate::cycle::{Caller, Held};
use crate::judge::LOAD_007;
use crate::load::Load;
use crate::threshold::Time;

/// Volumes that are published one after the other, and the time after which no further one is.
const VOLUMES_MAX: usize = 16;
const LOOKING_MAX: Duration = Duration::from_secs(30);
/// The time from which on a call takes long, if it is also this many times as long as on most other volumes.
const LONG_MIN: Duration = Duration::from_millis(200);
const LONG_TIMES: u32 = 5;
/// Times that a call has to wait for the one that takes long.
const TRIES: u32 = 3;
/// A call that waits begins after this part of the long one, as one in so many, and is this many times as short alone.
const BEGINS_AFTER: u32 = 4;
const SHORTER: u32 = 4;

/// A step of publication that takes long for one of several volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Uneven {
    step: usize,
    slow: usize,
    quick: usize,
}

/// A short call that was made beside a long one.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// The time of the long call.
    long: Duration,
    /// The time after its beginning at which the short one was made.
    begun_after: Duration,
    /// The time of the short call beside it, and alone.
    short: Duration,
    alone: Duration,
}

impl Beside {
    /// Returns true if the short call ended no earlier than the long one, for which it can have waited alone.
    fn has_waited(&self) -> bool {
        self.long >= LONG_MIN
            && self.alone * SHORTER <= self.long
            && self.begun_after + self.short >= self.long
    }
}

/// The step that takes longest for one volume and is short for most others, from the times of each volume.
fn uneven(times: &[Vec<Duration>]) -> Option<Uneven> {
    let steps = times.iter().map(Vec::len).min()?;
    let mut found: Option<(Duration, Uneven)> = None;
    for step in 0..steps {
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by_key(|volume| times[*volume][step]);
        let (quick, slow) = (order[0], order[order.len() - 1]);
        let (median, longest) = (times[order[order.len() / 2]][step], times[slow][step]);
        let is_uneven = longest >= LONG_MIN && longest >= median * LONG_TIMES;
        if is_uneven && found.is_none_or(|(before, _)| longest > before) {
            found = Some((longest, Uneven { step, slow, quick }));
        }
    }
    found.map(|(_, uneven)| uneven)
}

impl Load {
    /// Publishes volumes alone and, if one of them takes long, another one beside it, again and again. A call that waits each time is reported.
    ///
    /// # Errors
    /// Broken if a path cannot be made.
    pub(crate) async fn compare_volumes(&self, callers: &[Caller]) -> CheckResult {
        let [first, second, ..] = callers else { return Ok(()) };
        let mut rng = first.cx.rng();
        let mut volumes = Vec::new();
        while volumes.len() < VOLUMES_MAX
            && let Some(held) = self.fleet.take_idle(&mut rng)
        {
            volumes.push(held);
        }
        let ended = self.find_wait([first, second], &mut volumes).await;
        volumes.into_iter().for_each(|held| self.fleet.give_back(held));
        ended
    }

    async fn find_wait(&self, callers: [&Caller; 2], volumes: &mut [Held]) -> CheckResult {
        let until = Instant::now() + LOOKING_MAX;
        let mut times = Vec::new();
        for held in volumes.iter_mut() {
            if self.judge.is_dead() || Instant::now() >= until {
                break;
            }
            let Some(of_steps) = self.times_alone(callers[0], held).await? else { return Ok(()) };
            times.push(of_steps);
        }
        let Some(uneven) = uneven(&times) else { return Ok(()) };
        let step = self.fleet.lifecycle.publication().nth(uneven.step);
        let (Some(step), Ok([slow, quick])) = (step, volumes.get_disjoint_mut([uneven.slow, uneven.quick]))
        else {
            return Ok(());
        };
        let mut long = times[uneven.slow][uneven.step];
        for tries in 1..=TRIES {
            let Some(beside) = self.beside(callers, [&mut *slow, &mut *quick], uneven.step, long).await?
            else {
                break;
            };
            if !beside.has_waited() {
                break;
            }
            long = beside.long;
            if tries == TRIES {
                self.judge.blame(
                    Violation::new(format!("{} of one volume waits for that of another one", step.method()))
                        .of(&LOAD_007)
                        .expected("volumes do not wait for each other")
                        .actual(format!(
                            "each of {TRIES} times, it ended after that of {}, which took {}: it took {} instead of {} alone",
                            slow.volume.volume.id,
                            Time(beside.long),
                            Time(beside.short),
                            Time(beside.alone)
                        )),
                );
            }
        }
        Ok(())
    }

    /// Publishes a volume, undoes that, and returns the time of each step of the publication; `None` if not all was done.
    async fn times_alone(&self, caller: &Caller, held: &mut Held) -> CheckResult<Option<Vec<Duration>>> {
        let mut times = Vec::new();
        for step in self.fleet.lifecycle.publication() {
            let Some(took) = self.time(caller, held, step).await? else { return Ok(None) };
            times.push(took);
        }
        Ok(self.retire(caller, held).await?.then_some(times))
    }

    /// Makes the step for the quick volume alone, and while that of the slow one is under way, which is expected to take so long. Returns `None`
    /// if not all was done.
    async fn beside(
        &self,
        [first, second]: [&Caller; 2],
        [slow, quick]: [&mut Held; 2],
        step: usize,
        long: Duration,
    ) -> CheckResult<Option<Beside>> {
        let Some(alone) = self.times_alone(second, quick).await? else { return Ok(None) };
        let steps: Vec<Operation> = self.fleet.lifecycle.publication().collect();
        for earlier in &steps[..step] {
            if !self.operate(first, slow, *earlier).await? || !self.operate(second, quick, *earlier).await? {
                return Ok(None);
            }
        }
        let begun_after = long / BEGINS_AFTER;
        let (long, short) = tokio::join!(self.time(first, slow, steps[step]), async {
            tokio::time::sleep(begun_after).await;
            self.time(second, quick, steps[step]).await
        });
        let (Some(long), Some(short)) = (long?, short?) else { return Ok(None) };
        for later in &steps[step + 1..] {
            if !self.operate(first, slow, *later).await? || !self.operate(second, quick, *later).await? {
                return Ok(None);
            }
        }
        let is_retired = self.retire(first, slow).await? && self.retire(second, quick).await?;
        Ok(is_retired.then_some(Beside { long, begun_after, short, alone: alone[step] }))
    }

    /// The time of one step; `None` if it was not done.
    async fn time(&self, caller: &Caller, held: &mut Held, step: Operation) -> CheckResult<Option<Duration>> {
        let begun = Instant::now();
        Ok(self.operate(caller, held, step).await?.then(|| begun.elapsed()))
    }

    /// Undoes a publication, and forgets its paths, since the next pod has others. Returns false if that was not done.
    pub(crate) async fn retire(&self, caller: &Caller, held: &mut Held) -> CheckResult<bool> {
        let is_undone = self.unpublish(caller, held).await?;
        if !held.is_doubtful {
            held.volume.staging_path.clear();
            held.volume.target_path.clear();
        }
        Ok(is_undone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of_volumes: &[[u64; 2]]) -> Vec<Vec<Duration>> {
        of_volumes.iter().map(|steps| steps.map(Duration::from_millis).to_vec()).collect()
    }

    #[test]
    fn a_step_that_is_long_for_one_volume_is_found() {
        let uneven_step = uneven(&times(&[[5, 10], [300, 11], [6, 900], [5, 9], [5, 12]]));
        assert_eq!(uneven_step, Some(Uneven { step: 1, slow: 2, quick: 3 }));
        // All volumes take long, or none does.
        assert_eq!(uneven(&times(&[[400, 10], [900, 11], [800, 12]])), None);
        assert_eq!(uneven(&times(&[[1, 1], [150, 1], [1, 1]])), None);
        assert_eq!(uneven(&[]), None);
    }

    #[test]
    fn only_a_call_that_is_short_alone_has_waited() {
        let beside = |long, short, alone| {
            let [long, short, alone] = [long, short, alone].map(Duration::from_millis);
            Beside { long, begun_after: Duration::from_millis(150), short, alone }.has_waited()
        };
        assert!(beside(600, 460, 10));
        assert!(!beside(600, 12, 10), "it is done while the other one goes on");
        assert!(!beside(600, 460, 300), "it may take as long by itself");
        assert!(!beside(40, 460, 5), "the other one was not long this time");
    }
}
