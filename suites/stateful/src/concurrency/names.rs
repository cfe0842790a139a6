//! Two parallel calls that cannot both succeed: two creations with one name and different contents, and a copy of a snapshot that is deleted
//! at the same time. Every run makes the same calls in the same order. What the driver puts off is asked for again when both calls of a pair have
//! ended, so that the faults which are found do not depend on whether they overlapped.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_model::call::{Call, CreateSpec, Size, SnapshotCall, VolumeCall};
use csi_model::names::{Id, Name};

use super::{Lane, in_lanes};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;

/// Sets of names that are used in parallel.
const LANES: u16 = 4;
/// Each lane uses two volumes and two copies.
const VOLUMES: u16 = 4;
/// Each lane uses one name for the snapshots of both volumes, and another one for the snapshot that is copied: a fault of one object hides
/// those of the objects made from it.
const SNAPSHOTS: u16 = 2;

/// Lets several lanes make each pair of calls once.
pub(super) async fn run(recorder: &Recorder, probed: &ProbedDriver, round: u32) -> CheckResult {
    let compete = |lane: Lane| {
        let stagger = stagger(round, lane.number);
        async move { Competition { lane, stagger }.run().await }
    };
    in_lanes(recorder, probed, LANES, compete).await?;
    for list in probed.profile.lists() {
        recorder.make(0, Call::List(list)).await?;
    }
    Ok(())
}

/// The time from the first call of a pair to the second: none in the first round, so that both look whether the name is free before either
/// takes it, and 1 to 128 ms in later ones, so that the second call meets the first one in the middle of its work.
fn stagger(round: u32, lane: u16) -> Duration {
    let step = (round * u32::from(LANES) + u32::from(lane)).checked_sub(u32::from(LANES));
    step.map_or(Duration::ZERO, |step| Duration::from_millis(1 << (step % 8)))
}

/// The pairs of calls of a lane.
#[derive(Clone, Debug)]
struct Competition {
    lane: Lane,
    stagger: Duration,
}

impl Competition {
    async fn run(&self) -> CheckResult {
        let [first, second, copy, late] =
            [0, 1, 2, 3].map(|nth| Name::volume(VOLUMES * self.lane.number + nth));
        let has = |capability| self.lane.profile.has(capability);
        let [smaller, larger] = [self.lane.profile.size_bytes, self.lane.profile.larger_bytes];
        self.pair(self.create(first, smaller, None), self.create(first, larger, None)).await?;
        let (Some(one), Some(other)) = (self.made(first).await?, self.made(second).await?) else {
            return Ok(());
        };
        if has(Capability::CreateDeleteSnapshot) {
            self.snapshots([one, other]).await?;
            self.copies_of_a_deleted_snapshot(one, copy, late).await?;
        }
        if has(Capability::CloneVolume) {
            let [of_one, of_other] = [one, other].map(|source| self.create(copy, larger, Some(source)));
            self.pair(of_one, of_other).await?;
            self.delete_volumes(copy).await?;
        }
        self.delete_volumes(first).await?;
        self.delete_volumes(second).await
    }

    /// One name for snapshots of two volumes.
    async fn snapshots(&self, volumes: [Id; 2]) -> CheckResult {
        let name = Name::snapshot(SNAPSHOTS * self.lane.number);
        let [one, other] = volumes.map(|volume| Call::from(SnapshotCall::CreateSnapshot { name, volume }));
        self.pair(one, other).await?;
        self.delete_snapshots(name).await
    }

    /// Copies a snapshot while it is deleted, and copies it once more after its deletion.
    async fn copies_of_a_deleted_snapshot(&self, volume: Id, copy: Name, late: Name) -> CheckResult {
        let name = Name::snapshot(SNAPSHOTS * self.lane.number + 1);
        if !self.insist(SnapshotCall::CreateSnapshot { name, volume }.into()).await? {
            return Ok(());
        }
        // The driver gives the copies ids before they are deleted, so that they can be looked at where ids are made of names.
        for name in [copy, late] {
            if self.made(name).await?.is_some() {
                self.delete_volumes(name).await?;
            }
        }
        if let Some(snapshot) = self.newest(name) {
            let restore = |name| self.create(name, self.lane.profile.larger_bytes, Some(snapshot));
            self.pair(restore(copy), SnapshotCall::DeleteSnapshot { snapshot }.into()).await?;
            self.look_at(copy).await?;
            // An empty volume can only have this name if no copy has it.
            self.insist(self.create(copy, self.lane.profile.size_bytes, None)).await?;
            self.delete_volumes(copy).await?;
            self.insist(restore(late)).await?;
            self.look_at(late).await?;
            self.delete_volumes(late).await?;
        }
        self.delete_snapshots(name).await
    }

    /// Makes the second call while the first one is under way, and again what the driver has put off.
    async fn pair(&self, first: Call, second: Call) -> CheckResult {
        let again = [first.clone(), second.clone()];
        let later = async {
            tokio::time::sleep(self.stagger).await;
            self.lane.recorder.make(self.lane.worker() + 1, second).await
        };
        let (first, second) = tokio::join!(self.lane.recorder.make(self.lane.worker(), first), later);
        for (made, call) in [first?, second?].into_iter().zip(again) {
            if made.is_some_and(|made| made.answer.leaves_open()) {
                self.insist(call).await?;
            }
        }
        Ok(())
    }

    /// Asks for the newest volume of this name.
    async fn look_at(&self, name: Name) -> CheckResult {
        if let Some(volume) = self.newest(name) {
            let look = VolumeCall::ValidateVolumeCapabilities { volume, usage: self.lane.usage };
            self.lane.recorder.make(self.lane.worker(), look).await?;
        }
        Ok(())
    }

    fn create(&self, name: Name, bytes: i64, source: Option<Id>) -> Call {
        let wanted = CreateSpec { source, ..CreateSpec::of(Size::at_least(bytes), self.lane.usage) };
        VolumeCall::CreateVolume { name, wanted }.into()
    }

    /// The volume of this name, which is made if there is none.
    async fn made(&self, name: Name) -> CheckResult<Option<Id>> {
        if self.newest(name).is_none() {
            self.insist(self.create(name, self.lane.profile.size_bytes, None)).await?;
        }
        Ok(self.newest(name))
    }

    async fn delete_volumes(&self, name: Name) -> CheckResult {
        for volume in self.lane.recorder.orchestrator().ids(name) {
            self.insist(VolumeCall::DeleteVolume { volume }.into()).await?;
        }
        Ok(())
    }

    async fn delete_snapshots(&self, name: Name) -> CheckResult {
        for snapshot in self.lane.recorder.orchestrator().ids(name) {
            self.insist(SnapshotCall::DeleteSnapshot { snapshot }.into()).await?;
        }
        Ok(())
    }

    fn newest(&self, name: Name) -> Option<Id> {
        self.lane.recorder.orchestrator().ids(name).last().copied()
    }

    async fn insist(&self, call: Call) -> CheckResult<bool> {
        self.lane.recorder.make_until_definite(self.lane.worker(), call, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rounds_have_each_of_eight_delays() {
        let all = |round| (0..LANES).map(move |lane| stagger(round, lane).as_millis());
        assert!(all(0).all(|delay_ms| delay_ms == 0));
        assert_eq!(all(1).chain(all(2)).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128]);
    }
}
