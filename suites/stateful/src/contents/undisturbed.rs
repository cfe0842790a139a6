//! Measures once how long an undisturbed copy takes, and how many changes of files and mounts the driver makes for it. Copies are then
//! disrupted at fractions of these, so that a fast driver is met in the middle of its work as well as a slow one.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_model::call::SnapshotCall;
use csi_model::generate::CopySize;
use csi_nemesis::watched_driver::WatchedDriver;

use super::script::{ScriptContext, s, v};
use crate::case_runner::CaseRunner;
use crate::how::CallMode;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::sequence::{Pace, Sequence};

/// A guess for copies that could not be measured.
const UNKNOWN: Duration = Duration::from_millis(20);

/// The time that each kind of copy takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undisturbed {
    pub(super) snapshot: Duration,
    pub(super) restore: Duration,
    pub(super) clone: Duration,
}

impl Default for Undisturbed {
    fn default() -> Undisturbed {
        Undisturbed { snapshot: UNKNOWN, restore: UNKNOWN, clone: UNKNOWN }
    }
}

impl Undisturbed {
    /// Measures it, unless another check has done so. Whether the copies are right, the checks judge.
    pub(super) async fn measured(cx: &Cx, probed: &Arc<ProbedDriver>) -> CheckResult<Arc<Undisturbed>> {
        let measuring: BoxFuture<'_, CheckResult<Undisturbed>> = Box::pin(measure(cx, probed));
        cx.learn(measuring).await
    }

    /// Any moment until a while after the longest of them.
    pub(super) fn any(&self, rng: &mut fastrand::Rng) -> Duration {
        (self.snapshot.max(self.restore).max(self.clone) * 2).mul_f64(rng.f64())
    }
}

/// The changes of files and mounts that the driver makes for each kind of copy and before which it can be killed, by their numbers from 1; none
/// where they cannot be seen.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) snapshot: Vec<NonZeroU32>,
    pub(super) restore: Vec<NonZeroU32>,
    pub(super) clone: Vec<NonZeroU32>,
}

pub(super) static NO_CHANGES: Changes =
    Changes { snapshot: Vec::new(), restore: Vec::new(), clone: Vec::new() };

impl Changes {
    /// Counts them: each copy is made by a driver of which the system calls are watched, and which is killed once it
    /// has answered. Fails with a violation if it does not come back.
    pub(super) async fn counted(cx: &Cx, probed: &Arc<ProbedDriver>) -> CheckResult<Changes> {
        if !WatchedDriver::is_possible(cx).await {
            return Ok(Changes::default());
        }
        let played = copied(cx, probed, CallMode::KilledAtChange(NonZeroU32::MAX)).await?;
        let of = |name| {
            let made = played.links.iter().find(|link| link.doing.call.makes() == Some(name));
            made.map_or_else(Vec::new, |link| WatchedDriver::kill_points(&link.changes))
        };
        Ok(Changes { snapshot: of(s(0).name), restore: of(v(1).name), clone: of(v(2).name) })
    }

    /// Any change of the copy that needs most of them.
    pub(super) fn any(&self, rng: &mut fastrand::Rng) -> Option<NonZeroU32> {
        let most = [&self.snapshot, &self.restore, &self.clone].into_iter().max_by_key(|all| all.len())?;
        (!most.is_empty()).then(|| most[rng.usize(..most.len())])
    }
}

/// So many moments, evenly spread over what takes that long.
pub(super) fn spread(took: Duration, number: u32) -> Vec<Duration> {
    (1..=number).map(|nth| took * nth / (number + 1)).collect()
}

async fn measure(cx: &Cx, probed: &Arc<ProbedDriver>) -> CheckResult<Undisturbed> {
    // A fault that shows here shows in the sequences of the checks as well.
    let Ok(played) = copied(cx, probed, CallMode::Once).await else {
        return Ok(Undisturbed::default());
    };
    let took = |name| {
        let made = played.steps.iter().find(|step| step.call.makes() == Some(name));
        made.map_or(UNKNOWN, |step| Duration::from_micros(step.to_us.saturating_sub(step.from_us)))
    };
    Ok(Undisturbed { snapshot: took(s(0).name), restore: took(v(1).name), clone: took(v(2).name) })
}

/// Makes a copy of each kind that the driver advertises.
async fn copied(cx: &Cx, probed: &Arc<ProbedDriver>, how: CallMode) -> CheckResult<Sequence> {
    let context = ScriptContext::new(probed, Undisturbed::default());
    let mut script = context.script().written(v(0)).unused(v(0));
    if context.has(Capability::CreateDeleteSnapshot) {
        let snapshot = SnapshotCall::CreateSnapshot { name: s(0).name, volume: v(0) };
        script = script.how(snapshot, how).copy_with(v(1), s(0), CopySize::AsSource, how);
    }
    if context.has(Capability::CloneVolume) {
        script = script.copy_with(v(2), v(0), CopySize::AsSource, how);
    }
    let until = Instant::now() + cx.remaining() / 2;
    let pace = Pace { until, insists: cx.settle_limit(), settles: Duration::ZERO };
    CaseRunner::new(cx, probed, 0).attempt(pace, &script.done()).await
}
