//! Injectors of faults, one for each kind of thing that can be broken. An injector knows the faults that a driver can meet, from
//! what it was seen to do in a life without any; it breaks and heals them.

pub mod backend_network;
pub mod commands;
pub mod crash_points;
pub mod hooks;
pub mod power;
pub mod resources;
pub mod seen_calls;
pub mod system_calls;

use std::path::PathBuf;

use csi_harness::prelude::*;
use tonic::async_trait;

use crate::fault::Fault;
use crate::step::Step;

/// An injector at hand.
#[async_trait]
pub trait Injector: Send + Sync {
    /// Returns true for a fault of its own among those with its name, since several injectors may share a name.
    fn knows(&self, _fault: &Fault) -> bool {
        true
    }

    /// Begins a step: later actions of the driver belong to it.
    ///
    /// # Errors
    /// The driver cannot be watched any more.
    fn begin_step(&self) -> CheckResult {
        Ok(())
    }

    /// Records what the driver has done in a step.
    ///
    /// # Errors
    /// The driver cannot be watched any more.
    fn end_step(&mut self, _step: Step) -> CheckResult {
        Ok(())
    }

    /// The faults that it can meet, by what was seen.
    fn faults(&self) -> Vec<Fault>;

    /// True for a fault that every run tries, whatever its seed and budget. The others are further calls of one command, other errors of one
    /// system call, and the like.
    fn is_plain(&self, _fault: &Fault) -> bool {
        true
    }

    /// Paths that the driver was seen to work with.
    fn paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// A fault in words, which read after "while".
    fn describe(&self, fault: &Fault) -> String;

    /// True if each of its faults kills the driver while other volumes are mounted.
    fn kills(&self) -> bool {
        false
    }

    /// The effects of a fault on the driver.
    fn traits(&self, fault: &Fault) -> FaultEffects;

    /// Discards what the trial before has left over.
    fn begin_trial(&self) {}

    /// Breaks it.
    ///
    /// # Errors
    /// It cannot be, or there is no such fault.
    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>>;

    /// Starts a driver that does not start any more with the state from before all faults. Returns true if that worked.
    ///
    /// # Errors
    /// Nothing can be tried any more.
    async fn start_over(&self) -> CheckResult<bool> {
        Ok(false)
    }
}

/// The effects of a fault on a driver, whichever injector it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultEffects {
    /// The call may take until it is healed.
    pub hangs: bool,
    /// The driver is killed by it.
    pub kills: bool,
    /// Resources that other calls need may be away, too.
    pub isolates: bool,
    /// The whole driver stands still and answers no call.
    pub freezes: bool,
    /// The machine reboots and loses all mounts and loop devices.
    pub loses_power: bool,
    /// The effect of a call that is answered with OK all the same may be in its memory alone.
    pub may_forget: bool,
}

/// A fault while it is there. Dropped, it is healed as well.
#[async_trait]
pub trait Injected: Send + Sync {
    /// Returns true if the driver has met it. What is broken as a whole is met at once.
    fn was_triggered(&self) -> bool {
        true
    }

    /// Heals it, where dropping it is not enough.
    ///
    /// # Errors
    /// It cannot be.
    async fn heal(self: Box<Self>) -> CheckResult {
        Ok(())
    }
}
