//! Two calls for one volume at the same moment, again and again along the life of the volume. Each of the two may be made
//! by itself at that point, so that no order of them asks a driver for what an orchestrator never asks for.

use std::sync::Arc;
use std::time::Instant;

use csi_harness::prelude::*;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::model::answer::Answer;
use crate::model::call::{Call, List, Size, SnapshotCall, Usage, VolumeCall, Wanted};
use crate::model::call_context::DriverProfile;
use crate::model::names::{Id, Name, Node, Target};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;

/// Times that a call is made until it is done; a driver that says "not now" each time is left alone.
const TRIES_MAX: u32 = 20;

/// One volume, used by two callers.
#[derive(Clone, Debug)]
struct Lane {
    number: u16,
    profile: DriverProfile,
    usage: Usage,
    recorder: Recorder,
    /// When no more pairs are begun.
    until: Instant,
}

/// Several volumes in parallel, each with so many pairs of calls, of which none is begun after a time.
///
/// # Errors
/// Broken if a path cannot be made.
pub(super) async fn run(
    recorder: &Recorder,
    probed: &Arc<ProbedDriver>,
    lanes: u16,
    pairs: u32,
    seed: u64,
    until: Instant,
) -> CheckResult {
    let mut running = JoinSet::new();
    for number in 0..lanes {
        let (profile, usage) = (probed.profile.clone(), probed.usage);
        let lane = Lane { number, profile, usage, recorder: recorder.clone(), until };
        let rng = Rng::with_seed(seed.wrapping_add(number.into()));
        running.spawn(async move { lane.walk(rng, pairs).await });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| Stop::broken(format!("a caller failed: {panic}")))??;
    }
    Ok(())
}

/// How far a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Nothing,
    Made,
    Attached,
    Staged,
    Published,
}

impl Lane {
    fn name(&self) -> Name {
        Name::volume(self.number)
    }

    fn worker(&self) -> u16 {
        2 * self.number
    }

    /// Goes forth and back at random, with a pair of calls at each point.
    async fn walk(&self, mut rng: Rng, pairs: u32) -> CheckResult {
        let points = self.points();
        let mut at = 0;
        for _ in 0..pairs {
            if Instant::now() >= self.until {
                break;
            }
            let Some(calls) = self.pair(points[at], &mut rng) else { continue };
            self.recorder.at_once(self.worker(), calls).await?;
            // Whichever came first, from here on it is certain where the volume is.
            at = if at == 0 || (at + 1 < points.len() && rng.bool()) { at + 1 } else { at - 1 };
            if !self.reach(&points[..=at]).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The points that this driver has.
    fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::Nothing, Point::Made];
        if self.profile.nodes > 0 {
            if self.profile.has(Capability::PublishUnpublishVolume) {
                points.push(Point::Attached);
            }
            if self.profile.has(Capability::StageUnstageVolume) {
                points.push(Point::Staged);
            }
            points.push(Point::Published);
        }
        points
    }

    /// Undoes what is beyond the last of these points, and does what is missing up to it. `false` if the driver does not
    /// let it.
    async fn reach(&self, points: &[Point]) -> CheckResult<bool> {
        if let Some(volume) = self.volume() {
            let beyond: Vec<Point> = self.points().split_off(points.len());
            for point in beyond.into_iter().rev() {
                if !self.insist(self.undo(point, volume)).await? {
                    return Ok(false);
                }
            }
        }
        for point in &points[1..] {
            let call = match (point, self.volume()) {
                (Point::Made, _) => self.create(self.profile.size_bytes),
                (point, Some(volume)) => self.forth(*point, volume),
                (_, None) => return Ok(false),
            };
            if !self.insist(call).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The newest id of the volume.
    fn volume(&self) -> Option<Id> {
        self.recorder.orchestrator().ids(self.name()).last().copied()
    }

    async fn insist(&self, call: Call) -> CheckResult<bool> {
        for _ in 0..TRIES_MAX {
            if Instant::now() >= self.until {
                break;
            }
            match self.recorder.make(self.worker(), call.clone()).await?.map(|made| made.answer) {
                Some(Answer::Done(_)) => return Ok(true),
                Some(answer) if answer.leaves_open() => self.recorder.pause().await,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn create(&self, bytes: i64) -> Call {
        let wanted = Wanted::of(Size::at_least(bytes), self.usage);
        VolumeCall::CreateVolume { name: self.name(), wanted }.into()
    }

    fn forth(&self, point: Point, volume: Id) -> Call {
        let (node, target, usage, readonly) = (Node(0), Target(0), self.usage, false);
        match point {
            Point::Nothing | Point::Made => self.create(self.profile.size_bytes),
            Point::Attached => VolumeCall::ControllerPublishVolume { volume, node, usage, readonly }.into(),
            Point::Staged => VolumeCall::NodeStageVolume { volume, node, usage }.into(),
            Point::Published => {
                VolumeCall::NodePublishVolume { volume, node, target, usage, readonly }.into()
            }
        }
    }

    fn undo(&self, point: Point, volume: Id) -> Call {
        let (node, target) = (Node(0), Target(0));
        match point {
            Point::Nothing | Point::Made => VolumeCall::DeleteVolume { volume }.into(),
            Point::Attached => VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) }.into(),
            Point::Staged => VolumeCall::NodeUnstageVolume { volume, node }.into(),
            Point::Published => VolumeCall::NodeUnpublishVolume { volume, node, target }.into(),
        }
    }

    /// Two calls that may be made at a point.
    fn pair(&self, at: Point, rng: &mut Rng) -> Option<[Call; 2]> {
        let Some(volume) = self.volume().filter(|_| at != Point::Nothing) else {
            let bytes = [self.profile.size_bytes, self.profile.size_bytes, self.profile.larger_bytes];
            return Some([self.create(bytes[0]), self.create(rng.choice(bytes).unwrap_or(bytes[0]))]);
        };
        let mut calls = vec![self.forth(at, volume), self.undo(at, volume)];
        let points = self.points();
        let next = points.iter().position(|point| *point == at).and_then(|at| points.get(at + 1));
        calls.extend(next.map(|next| self.forth(*next, volume)));
        if at == Point::Made {
            calls.extend(self.of_the_volume(volume));
        }
        let one = rng.choice(&calls)?.clone();
        // On a node, what goes on from here and what undoes this are never asked for together.
        let is_undone = |call: &Call| *call == self.undo(at, volume);
        let goes_on = |call: &Call| {
            next.is_some_and(|next| *next != Point::Attached && *call == self.forth(*next, volume))
        };
        let fits =
            |other: &&Call| !((is_undone(&one) && goes_on(other)) || (goes_on(&one) && is_undone(other)));
        let others: Vec<&Call> = calls.iter().filter(fits).collect();
        let other = (*rng.choice(&others)?).clone();
        Some([one, other])
    }

    /// What the controller can do with a volume that is not attached.
    fn of_the_volume(&self, volume: Id) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.profile.has(Capability::CreateDeleteSnapshot) {
            let name = Name::snapshot(self.number);
            calls.push(SnapshotCall::CreateSnapshot { name, volume }.into());
        }
        if self.profile.has(Capability::ExpandVolume) {
            let expand = |size| VolumeCall::ControllerExpandVolume { volume, size };
            calls.extend(self.profile.expansions().map(expand).map(Call::from));
        }
        if self.profile.has(Capability::ListVolumes) {
            calls.push(Call::List(List::Volumes));
        }
        calls
    }
}
