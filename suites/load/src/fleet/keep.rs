//! Creates the volumes before the stages, and checks and deletes them afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_proto::Call as _;
use csi_proto::lock::Mutex;
use futures_util::future::join_all;

use crate::cycle::{Caller, Cycle, Held};
use crate::judge::LOAD_004;
use crate::recorder::{Recorder, milliseconds};
use crate::run::Load;
use crate::scaling::Cost;
use crate::workload::Workload;

/// Volumes that cannot be created or published, after which creation stops.
const FAILURES_MAX: u32 = 16;
/// Lists are timed when there are this many volumes, and whenever their number has doubled.
const LISTED_MIN: u32 = 16;
/// Times that each of these lists is read; the shortest time counts.
const LISTED_TIMES: usize = 3;
/// Life cycles of each kind whose calls are timed then, and the time after which none of them begins.
const TIMED_TIMES: usize = 3;
const TIMED_MAX: Duration = Duration::from_secs(5);
/// The time for which calls are timed again that seem to become too slow, and the pause before each time, in which a busy machine may become
/// idle.
const AGAIN_MAX: Duration = Duration::from_secs(10);
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Numbers of volumes from which on these times show how they grow.
const TIMED_GOALS_MIN: usize = 4;

impl Load {
    /// Creates the volumes, and publishes some of them. Returns the times of lists and other calls on the way.
    pub(crate) async fn fill(&self, callers: &mut [Caller]) -> CheckResult<Vec<Cost>> {
        let Workload { volumes, published, .. } = self.workload;
        let room = self.fleet.room(published);
        if room < published {
            self.cx.note(format!("max_volumes_per_node allows {room} volumes on the node, so {room} are published instead of {published}"));
        }
        let lists = self.cx.target().capabilities().has(Capability::ListVolumes);
        let (mut lists_timed, mut timed) = (Vec::new(), BTreeMap::<&str, Vec<(usize, f64)>>::new());
        let goals = goals(volumes);
        // The volumes of other parts of the load are not counted.
        let times_calls = goals.len() >= TIMED_GOALS_MIN && self.workload.part.is_none();
        let (begun, failures) = (AtomicU32::new(0), AtomicU32::new(0));
        for goal in goals.iter().copied() {
            let filled =
                join_all(callers.iter().map(|caller| self.fill_up(caller, goal, room, &begun, &failures)));
            filled.await.into_iter().collect::<CheckResult>()?;
            if failures.load(Ordering::Relaxed) > 0 || goals.len() < 2 {
                continue;
            }
            if lists {
                lists_timed.extend(self.time_list(&callers[0]).await?);
            }
            if times_calls {
                for (rpc, ms) in self.time_calls().await? {
                    timed.entry(rpc).or_default().push((goal as usize, ms));
                }
            }
        }
        let costs = timed.into_iter().filter_map(|(rpc, points)| Cost::new(rpc, points));
        let mut costs: Vec<Cost> =
            Cost::new(v1::ListVolumesRequest::RPC.method, lists_timed).into_iter().chain(costs).collect();
        self.confirm_costs(&callers[0], &mut costs).await?;
        if self.ends.is_none() && !self.is_node_full(callers.len()) {
            self.use_once(callers).await?;
        }
        let (there, in_use) = (self.fleet.ids.lock().len(), self.fleet.published.lock().len());
        // Volumes of others may be on the node of a driver that is not tested for its limit.
        if in_use < room as usize && self.ends.is_none() {
            self.confirm_limit(&callers[0], in_use).await?;
        }
        if there < volumes as usize {
            self.judge.lacks(format!(
                "{there} of the {volumes} volumes that the load needs could be created and published"
            ));
        }
        Ok(costs)
    }

    /// Times calls again that seem to become too slow with the number of volumes.
    async fn confirm_costs(&self, caller: &Caller, costs: &mut [Cost]) -> CheckResult {
        let (until, list) = (Instant::now() + AGAIN_MAX, v1::ListVolumesRequest::RPC.method);
        let is_slow = |cost: &Cost| cost.violation().is_some();
        while costs.iter().any(is_slow) && Instant::now() < until && !self.judge.is_dead() {
            tokio::time::sleep(AGAIN_AFTER).await;
            let mut again = BTreeMap::new();
            if costs.iter().any(|cost| is_slow(cost) && cost.rpc != list) {
                again.extend(self.time_calls().await?);
            }
            if costs.iter().any(|cost| is_slow(cost) && cost.rpc == list) {
                again.extend(self.time_list(caller).await?.map(|(_, ms)| (list, ms)));
            }
            for cost in costs.iter_mut().filter(|cost| is_slow(cost)) {
                if let Some(ms) = again.get(&*cost.rpc) {
                    cost.timed_again(*ms);
                }
            }
        }
        Ok(())
    }

    async fn fill_up(
        &self,
        caller: &Caller,
        goal: u32,
        room: u32,
        begun: &AtomicU32,
        failures: &AtomicU32,
    ) -> CheckResult {
        while !self.judge.is_dead() && !self.is_over() && failures.load(Ordering::Relaxed) < FAILURES_MAX {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if number >= goal {
                begun.fetch_sub(1, Ordering::Relaxed);
                break;
            }
            self.cx.stage("volume", u64::from(number) + 1, Some(self.workload.volumes.into()));
            let Some(mut held) = self.create(caller, None).await? else {
                failures.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let is_published = number < room;
            if is_published && !self.publish(caller, &mut held).await? {
                failures.fetch_add(1, Ordering::Relaxed);
                self.fleet.idle.lock().push(held);
                continue;
            }
            self.fleet.ids.lock().insert(held.volume.volume.id.clone());
            match is_published {
                true => self.fleet.published.lock().push(held),
                false => self.fleet.keep(held),
            }
        }
        Ok(())
    }

    /// Publishes a volume once more while no other call is under way, if the driver said that the node has no room for it, and reports a limit
    /// that the node does not name.
    async fn confirm_limit(&self, caller: &Caller, in_use: usize) -> CheckResult {
        let failed = self.fleet.idle.lock().iter().find(|held| held.is_doubtful).cloned();
        let Some(mut held) = failed else { return Ok(()) };
        let Some(operation) = held.failed_at.filter(|operation| *operation != Operation::CreateVolume) else {
            return Ok(());
        };
        let request = held.volume.request(&caller.cx, operation).await?;
        let reply = request.send(&caller.cx).patiently().await;
        if let Answer::Refused(refused) = reply.answer()
            && refused.code == Code::ResourceExhausted
            && caller.cx.target().has_done(operation.rpc())
        {
            let named = match self.fleet.max_volumes_per_node {
                0 => "no limit".to_owned(),
                limit => format!("{limit} as its limit"),
            };
            self.judge.blame(
                Violation::new(format!("{} stops before the limit of the node", operation.method()))
                    .of(&LOAD_004)
                    .expected(format!("room for more volumes: NodeGetInfo names {named}"))
                    .actual(format!("{refused} after {in_use} volumes")),
            );
        }
        Ok(())
    }

    async fn time_list(&self, caller: &Caller) -> CheckResult<Option<(usize, f64)>> {
        let mut shortest: Option<(usize, f64)> = None;
        for _ in 0..LISTED_TIMES {
            let begun = Instant::now();
            let Some(volumes) = self.list(caller).await? else { return Ok(None) };
            let ms = milliseconds(begun.elapsed());
            if shortest.is_none_or(|(_, shortest)| ms < shortest) {
                shortest = Some((volumes, ms));
            }
        }
        Ok(shortest)
    }

    /// Returns true if the node has no room for so many more volumes than those that are published.
    fn is_node_full(&self, more: usize) -> bool {
        let in_use = self.fleet.published.lock().len() + more;
        usize::try_from(self.fleet.max_volumes_per_node).is_ok_and(|limit| limit > 0 && in_use > limit)
    }

    /// Attaches each volume once that is to be attached now and then: its first use may take up storage for as long as it is there, which is
    /// no leak.
    async fn use_once(&self, callers: &[Caller]) -> CheckResult {
        let unused = Mutex::new(std::mem::take(&mut *self.fleet.attachable.lock()));
        let uses = callers.iter().map(|caller| async {
            loop {
                let held = unused.lock().pop();
                match held {
                    Some(held) if self.judge.is_dead() => self.fleet.give_back(held),
                    Some(held) => self.attach(caller, held).await?,
                    None => return Ok(()),
                }
            }
        });
        join_all(uses).await.into_iter().collect()
    }

    /// Makes a few life cycles of each kind one after another, and returns the shortest time of each RPC, in milliseconds.
    async fn time_calls(&self) -> CheckResult<BTreeMap<&'static str, f64>> {
        let recorder = Arc::new(Recorder::default());
        recorder.begin("timed", None, None);
        let mut caller = Caller::new(&self.cx, 0, &recorder);
        let until = Instant::now() + TIMED_MAX;
        for _ in 0..TIMED_TIMES {
            // Lists are timed with all their pages.
            for cycle in self.workload.mix.keys().filter(|cycle| **cycle != Cycle::List) {
                if Instant::now() < until && !self.judge.is_dead() {
                    self.live(&mut caller, *cycle).await?;
                }
            }
        }
        let stages = recorder.stages();
        let timed = stages.iter().flat_map(|stage| &stage.rpcs).filter(|(_, series)| series.done > 0);
        Ok(timed.map(|(rpc, series)| (*rpc, milliseconds(series.percentile(0.0)))).collect())
    }

    /// Publishes each published volume once more, at the same paths, and looks at its contents.
    pub(crate) async fn publish_all_again(&self, caller: &Caller) -> CheckResult {
        let published = self.fleet.published.lock().clone();
        for mut held in published {
            self.publish_again(caller, &mut held).await?;
        }
        Ok(())
    }

    /// Asks for each volume, while the load rests.
    pub(crate) async fn inspect(&self, callers: &[Caller]) -> CheckResult {
        if self.cx.target().capabilities().has(Capability::ListVolumes) && !self.judge.is_dead() {
            self.find_lost(&callers[0], &self.fleet.ids()).await?;
        }
        let places = [&self.fleet.idle, &self.fleet.attachable, &self.fleet.published];
        let all: Vec<Held> = places.into_iter().flat_map(|place| place.lock().clone()).collect();
        let next = AtomicUsize::new(0);
        let looks = callers.iter().map(|caller| async {
            while !self.judge.is_dead()
                && let Some(held) = all.get(next.fetch_add(1, Ordering::Relaxed))
            {
                self.validate(caller, &mut held.clone()).await;
            }
        });
        join_all(looks).await;
        Ok(())
    }

    /// Deletes the volumes. What cannot be undone here stays in the ledger, which undoes it at the end.
    pub(crate) async fn clear(&self, callers: &[Caller]) -> CheckResult {
        let published = std::mem::take(&mut *self.fleet.published.lock());
        let mut idle = std::mem::take(&mut *self.fleet.idle.lock());
        idle.append(&mut self.fleet.attachable.lock());
        self.fleet.ids.lock().clear();
        let all: Vec<(Held, bool)> = published
            .into_iter()
            .map(|held| (held, true))
            .chain(idle.into_iter().map(|held| (held, false)))
            .collect();
        let next = AtomicUsize::new(0);
        let clears = callers.iter().map(|caller| async {
            while !self.judge.is_dead()
                && let Some((held, is_published)) = all.get(next.fetch_add(1, Ordering::Relaxed))
            {
                let mut held = held.clone();
                self.cx.stage("volume deleted", next.load(Ordering::Relaxed) as u64, Some(all.len() as u64));
                if !held.is_doubtful && (!is_published || self.unpublish(caller, &mut held).await?) {
                    self.operate(caller, &mut held, Operation::DeleteVolume).await?;
                }
            }
            Ok(())
        });
        join_all(clears).await.into_iter().collect()
    }
}

/// Numbers of volumes at which creation pauses, so that lists can be timed.
fn goals(volumes: u32) -> Vec<u32> {
    let mut goals: Vec<u32> =
        (0..32).map(|halved| volumes >> halved).take_while(|goal| *goal >= LISTED_MIN).collect();
    if goals.is_empty() {
        goals.push(volumes);
    }
    goals.reverse();
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_timed_whenever_the_number_has_doubled() {
        assert_eq!(goals(100), [25, 50, 100]);
        assert_eq!((goals(5), goals(0)), (vec![5], vec![0]));
        assert_eq!(goals(10_000).first(), Some(&19));
    }
}
