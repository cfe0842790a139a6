//! Measures once how long an undisturbed copy takes. Copies are then disrupted at fractions of that time, so that a fast driver is met in the
//! middle of its work as well as a slow one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;

use super::script::{ScriptContext, s, v};
use crate::case_runner::CaseRunner;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::sequence::Pace;

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

/// So many moments, evenly spread over what takes that long.
pub(super) fn spread(took: Duration, number: u32) -> Vec<Duration> {
    (1..=number).map(|nth| took * nth / (number + 1)).collect()
}

async fn measure(cx: &Cx, probed: &Arc<ProbedDriver>) -> CheckResult<Undisturbed> {
    let context = ScriptContext::new(probed, Undisturbed::default());
    let mut script = context.script().written(v(0)).unused(v(0));
    if context.has(Capability::CreateDeleteSnapshot) {
        script = script.snapshot(s(0), v(0)).copy(v(1), s(0));
    }
    if context.has(Capability::CloneVolume) {
        script = script.copy(v(2), v(0));
    }
    let until = Instant::now() + cx.remaining() / 2;
    let pace = Pace { until, insists: cx.settle_limit(), settles: Duration::ZERO };
    // A fault that shows here shows in the sequences of the checks as well.
    let Ok(played) = CaseRunner::new(cx, probed, 0).attempt(pace, &script.done()).await else {
        return Ok(Undisturbed::default());
    };
    let took = |name| {
        let made = played.steps.iter().find(|step| step.call.makes() == Some(name));
        made.map_or(UNKNOWN, |step| Duration::from_micros(step.to_us.saturating_sub(step.from_us)))
    };
    Ok(Undisturbed { snapshot: took(s(0).name), restore: took(v(1).name), clone: took(v(2).name) })
}
