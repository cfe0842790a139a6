//! The driver is killed before each system call by which it changes something, and right after its answer; then it is started, and asked
//! again.

use csi_harness::driver::{CallFault, Supervisor, SystemCall};
use csi_harness::prelude::*;
use tonic::async_trait;

use super::seen_calls::SeenCalls;
use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::restart::kill_and_start;
use crate::step::Step;

/// The name in stored faults.
pub const NAME: &str = "crash-points";
/// The place behind all calls.
const ANSWER: &str = "answer";
/// The place before a call, with its number.
const CALL: &str = "call";
const KILLED: &str = "killed";
/// Number of faults that the seed adds to the plain ones in a default run.
pub const MORE: u32 = 40;
/// The knowledge that is missing without this injector.
const COSTS: &str = "what a driver makes of its state when it is killed between two changes of it";

#[derive(Debug)]
pub struct CrashPoints<'a>(SeenCalls<'a>);

impl<'a> CrashPoints<'a> {
    /// # Errors
    /// Skip if this is impossible here, with the reason.
    pub async fn begin(cx: &'a Cx) -> CheckResult<CrashPoints<'a>> {
        Ok(CrashPoints(SeenCalls::begin(cx, COSTS).await?))
    }

    pub async fn end(&self) -> CheckResult {
        self.0.end().await
    }

    /// The driver whose changes were seen, for others to break.
    pub fn into_seen(self) -> SeenCalls<'a> {
        self.0
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip("the driver was not seen to change anything")
    }
}

#[async_trait]
impl Injector for CrashPoints<'_> {
    fn begin_step(&self) -> CheckResult {
        self.0.begin_step();
        Ok(())
    }

    fn end_step(&mut self, step: Step) -> CheckResult {
        self.0.end_step(step);
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let of_step = |(step, calls): (Step, &[SystemCall])| {
            let before = (1..=calls.len()).map(|nth| format!("{CALL}:{nth}"));
            let places = before.chain([ANSWER.to_owned()]);
            places.map(|place| Fault::new(NAME, step, place, KILLED)).collect::<Vec<_>>()
        };
        self.0.steps().flat_map(of_step).collect()
    }

    /// Before the first call of each name in each step, and after each answer.
    fn is_plain(&self, fault: &Fault) -> bool {
        let Some((_, nth)) = fault.counted_place() else { return true };
        let calls = self.0.of(fault.step);
        let (before, rest) = calls.split_at((nth as usize).saturating_sub(1).min(calls.len()));
        rest.first().is_some_and(|call| !before.iter().any(|earlier| earlier.name == call.name))
    }

    fn paths(&self) -> Vec<std::path::PathBuf> {
        self.0.paths()
    }

    fn describe(&self, fault: &Fault) -> String {
        let Some((_, nth)) = fault.counted_place() else {
            return "the driver is killed right after its answer".to_owned();
        };
        let calls = self.0.of(fault.step);
        let call = calls.get(nth as usize - 1).map_or_else(String::new, |call| {
            format!(", which was {} of {} in a life without faults", call.name, call.path.display())
        });
        format!("the driver is killed before change {nth} of {}{call}", calls.len())
    }

    fn kills(&self) -> bool {
        true
    }

    fn traits(&self, _fault: &Fault) -> FaultEffects {
        FaultEffects { kills: true, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        let nth = match fault.counted_place() {
            Some((CALL, nth)) if nth > 0 => Some(nth),
            None if fault.place == ANSWER => None,
            _ => return Err(Stop::broken(format!("there is no fault {fault}"))),
        };
        if let Some(nth) = nth {
            self.0.watched.arm(nth, CallFault::Kills);
        }
        Ok(Box::new(Killed {
            cx: self.0.watched.cx,
            calls: self.0.watched.calls.clone(),
            after_answer: nth.is_none(),
        }))
    }
}

/// A driver that is killed at a point.
struct Killed<'a> {
    cx: &'a Cx,
    calls: Supervisor,
    after_answer: bool,
}

#[async_trait]
impl Injected for Killed<'_> {
    fn was_triggered(&self) -> bool {
        self.after_answer || self.calls.met().is_some()
    }

    async fn heal(self: Box<Self>) -> CheckResult {
        let met = self.was_triggered();
        self.calls.heal();
        if met { kill_and_start(self.cx).await } else { Ok(()) }
    }
}
