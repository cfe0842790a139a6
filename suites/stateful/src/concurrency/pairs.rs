//! Two parallel calls for one volume, repeatedly along the life of the volume. Each of the two is a valid step at that
//! point, so that no order of them asks a driver for something that an orchestrator never asks for.

use std::time::Instant;

use csi_harness::prelude::*;
use csi_model::call::{Call, CreateSpec, List, Size, SnapshotCall, VolumeCall};
use csi_model::names::{Id, Name};
use fastrand::Rng;

use super::{Lane, in_lanes};
use crate::lifecycle::VolumeLifecycle;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;

/// One volume, used by two callers.
#[derive(Clone, Debug)]
struct SharedVolume {
    lane: Lane,
    /// The time after which no more pairs are begun.
    until: Instant,
}

/// Uses several volumes in parallel, each with this many pairs of calls. No pair is begun after a time.
pub(super) async fn run(
    recorder: &Recorder,
    probed: &ProbedDriver,
    lanes: u16,
    pairs: u32,
    seed: u64,
    until: Instant,
) -> CheckResult {
    let use_volume = |lane: Lane| {
        let rng = Rng::with_seed(seed.wrapping_add(lane.number.into()));
        async move { SharedVolume { lane, until }.walk(rng, pairs).await }
    };
    in_lanes(recorder, probed, lanes, use_volume).await
}

impl SharedVolume {
    fn name(&self) -> Name {
        Name::volume(self.lane.number)
    }

    /// Does and undoes steps at random, with a pair of calls after each.
    async fn walk(&self, mut rng: Rng, pairs: u32) -> CheckResult {
        let steps = self.lifecycle(self.name().id(0)).steps().len();
        let mut done = 0;
        for _ in 0..pairs {
            if Instant::now() >= self.until {
                break;
            }
            let Some(calls) = self.pair(done, &mut rng) else { continue };
            self.lane.recorder.at_once(self.lane.worker(), calls).await?;
            // Whichever came first, from here on it is certain where the volume is.
            done = if done == 0 || (done < steps && rng.bool()) { done + 1 } else { done - 1 };
            if !self.reach(done).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The steps of a volume, which has an id once it is made.
    fn lifecycle(&self, volume: Id) -> VolumeLifecycle {
        VolumeLifecycle::new(&self.lane.profile, self.lane.usage, volume)
    }

    /// Undoes the steps behind the first `count`, and does those that are missing among them. `false` if the driver does not let it.
    async fn reach(&self, count: usize) -> CheckResult<bool> {
        if let Some(volume) = self.volume() {
            for (_, undo) in self.lifecycle(volume).steps().into_iter().skip(count).rev() {
                if !self.insist(undo).await? {
                    return Ok(false);
                }
            }
        }
        for step in 0..count {
            let volume = match (step, self.volume()) {
                (0, _) => self.name().id(0),
                (_, Some(volume)) => volume,
                (_, None) => return Ok(false),
            };
            let Some((call, _)) = self.lifecycle(volume).steps().into_iter().nth(step) else { break };
            if !self.insist(call).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn volume(&self) -> Option<Id> {
        self.lane.recorder.orchestrator().ids(self.name()).last().copied()
    }

    async fn insist(&self, call: Call) -> CheckResult<bool> {
        self.lane.recorder.make_until_definite(self.lane.worker(), call, Some(self.until)).await
    }

    fn create(&self, bytes: i64) -> Call {
        let wanted = CreateSpec::of(Size::at_least(bytes), self.lane.usage);
        VolumeCall::CreateVolume { name: self.name(), wanted }.into()
    }

    /// Two calls that may be made when this many steps are done.
    fn pair(&self, done: usize, rng: &mut Rng) -> Option<[Call; 2]> {
        let Some(volume) = self.volume().filter(|_| done > 0) else {
            let bytes =
                [self.lane.profile.size_bytes, self.lane.profile.size_bytes, self.lane.profile.larger_bytes];
            return Some([self.create(bytes[0]), self.create(rng.choice(bytes).unwrap_or(bytes[0]))]);
        };
        let steps = self.lifecycle(volume).steps();
        let (again, undo) = steps[done - 1].clone();
        let next = steps.get(done).map(|(call, _)| call.clone());
        let mut calls = vec![again, undo.clone()];
        calls.extend(next.clone());
        if done == 1 {
            calls.extend(self.of_the_volume(volume));
        }
        let one = rng.choice(&calls)?.clone();
        // On a node, the next step and the call that undoes the last one are never made in parallel.
        let is_on_node =
            |call: &Call| !matches!(call, Call::Volume(VolumeCall::ControllerPublishVolume { .. }));
        let goes_on = |call: &Call| next.as_ref().is_some_and(|next| is_on_node(next) && call == next);
        let fits = |other: &&Call| !((one == undo && goes_on(other)) || (goes_on(&one) && **other == undo));
        let others: Vec<&Call> = calls.iter().filter(fits).collect();
        let other = (*rng.choice(&others)?).clone();
        Some([one, other])
    }

    /// The calls of the controller for a volume that is not attached.
    fn of_the_volume(&self, volume: Id) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.lane.profile.has(Capability::CreateDeleteSnapshot) {
            let name = Name::snapshot(self.lane.number);
            calls.push(SnapshotCall::CreateSnapshot { name, volume }.into());
        }
        if self.lane.profile.has(Capability::ExpandVolume) {
            let expand = |size| VolumeCall::ControllerExpandVolume { volume, size };
            calls.extend(self.lane.profile.expansions().map(expand).map(Call::from));
        }
        if self.lane.profile.has(Capability::ListVolumes) {
            calls.push(Call::List(List::Volumes));
        }
        calls
    }
}
