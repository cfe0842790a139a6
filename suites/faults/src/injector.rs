//! Injectors of faults, one for each kind of thing that can be broken. An injector knows the faults that a driver can meet, from what it was seen to do in a life
//! without any; it breaks and heals them.

pub(crate) mod backend_network;
pub(crate) mod commands;
pub(crate) mod crash_points;
pub(crate) mod hooks;
pub(crate) mod power;
pub(crate) mod resources;
mod supervised;
pub(crate) mod system_calls;

use std::path::PathBuf;

use csi_harness::prelude::*;
use tonic::async_trait;

use crate::fault::Fault;
use crate::life::Step;

/// An injector at hand.
#[async_trait]
pub(crate) trait Injector: Send + Sync {
    /// Returns true for a fault of its own among those with its name, since several injectors may share a name.
    fn knows(&self, _fault: &Fault) -> bool {
        true
    }

    /// What a driver does from now on is part of the next step.
    ///
    /// # Errors
    /// It cannot be seen any more.
    fn begin_step(&self) -> CheckResult;

    /// Takes note of what the driver has done in a step.
    ///
    /// # Errors
    /// The same.
    fn end_step(&mut self, step: Step) -> CheckResult;

    /// The faults that it can meet, by what was seen.
    fn faults(&self) -> Vec<Fault>;

    /// True for a fault that every run tries, whatever its seed and budget. The others are further calls of one command, other errors of one
    /// system call, and the like.
    fn is_plain(&self, fault: &Fault) -> bool;

    /// Paths that the driver was seen to work with.
    fn paths(&self) -> Vec<PathBuf>;

    /// A fault in words, which read after "while".
    fn describe(&self, fault: &Fault) -> String;

    /// True if each of its faults kills the driver while other volumes are mounted.
    fn kills(&self) -> bool {
        false
    }

    /// What it asks of a driver.
    fn traits(&self, fault: &Fault) -> FaultEffects;

    /// What was left over by the trial before is none of the next one's.
    fn begin_trial(&self) {}

    /// Breaks it.
    ///
    /// # Errors
    /// It cannot be, or there is no such fault.
    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>>;

    /// Has a driver that does not start any more begin again with what it had before all faults: whether it could.
    ///
    /// # Errors
    /// Nothing can be tried any more.
    async fn start_over(&self) -> CheckResult<bool> {
        Ok(false)
    }
}

/// The effects of a fault on a driver, whichever injector it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultEffects {
    /// The call may take until it is healed.
    pub(crate) hangs: bool,
    /// The driver is killed by it.
    pub(crate) kills: bool,
    /// What other calls need may be away, too.
    pub(crate) isolates: bool,
    /// The whole driver stands still, so that nobody is answered.
    pub(crate) freezes: bool,
    /// The machine starts anew, without mounts and loop devices.
    pub(crate) loses_power: bool,
    /// What is answered with OK all the same may be in its memory alone.
    pub(crate) may_forget: bool,
}

/// A fault while it is there. Dropped, it is healed as well.
#[async_trait]
pub(crate) trait Injected: Send + Sync {
    /// Whether the driver has met it.
    fn was_triggered(&self) -> bool;

    /// Heals it.
    ///
    /// # Errors
    /// It cannot be.
    async fn heal(self: Box<Self>) -> CheckResult;
}

/// The driver does not start with what a kill has left.
pub(crate) const NO_START: &str = "the driver does not answer after it was killed and started again";

/// Kills the driver, or what is left of it, and starts it.
///
/// # Errors
/// A violation if it does not come back, broken if it may only be too slow.
pub(crate) async fn come_back(cx: &Cx) -> CheckResult {
    let Some(driver) = cx.target().driver() else { return Ok(()) };
    cx.expect_no_answer();
    let killed = driver.kill().await;
    killed.map_err(|error| Stop::broken(format!("failed to end the driver: {error}")))?;
    let away = match cx.target().bring_back().await {
        Ok(_) => return Ok(()),
        Err(away) => away,
    };
    let printed = driver.last_lines();
    if !away.is_fault() {
        return Err(Stop::broken(format!("after the driver was killed and started again: {away}")));
    }
    Err(Violation::new(NO_START)
        .of(&req::GEN_ERR_001)
        .expected("a driver that starts from any state that a kill can leave")
        .actual(away)
        .damage(Damage::Crash)
        .printed(printed)
        .into())
}
