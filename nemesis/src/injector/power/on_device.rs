//! The power is lost of a file system of the kernel's, which decides itself what is left: before each change that the driver was seen to make
//! in its directory, and right after its answers.

use std::path::PathBuf;

use csi_harness::driver::{CallFault, SystemCall};
use csi_harness::prelude::*;
use tonic::async_trait;

use super::device::{Device, FileSystem};
use super::machine::Machine;
use super::{ANSWER, NAME};
use crate::fault::Fault;
use crate::injector::{FaultEffects, Injected, Injector};
use crate::step::Step;

/// The place before a system call, with its number, as that of a crash point.
const CALL: &str = "call";
/// Faults that the seed adds to the plain ones in a default run.
pub const MORE: u32 = 6;

#[derive(Debug)]
pub struct OnDevice<'a> {
    machine: &'a Machine<'a>,
    file_system: &'static FileSystem,
    device: Device,
}

impl<'a> OnDevice<'a> {
    /// Returns true if a fault is one of this file system.
    pub fn is_of(fault: &Fault, file_system: &FileSystem) -> bool {
        fault.way == file_system.id
    }

    /// Checks that such a device can be made here.
    ///
    /// # Errors
    /// It cannot, with the reason.
    pub async fn try_it(file_system: &FileSystem) -> Result<(), String> {
        Device::try_it(file_system).await.map_err(|error| error.to_string())
    }

    /// Mounts a device over the directory of the driver.
    ///
    /// # Errors
    /// Skip if this is impossible here, with the reason.
    pub async fn begin(
        machine: &'a Machine<'a>,
        file_system: &'static FileSystem,
    ) -> CheckResult<OnDevice<'a>> {
        let over = Device::over(&machine.directory, file_system);
        let device = machine.lay(&what(file_system), over).await?;
        machine.cx().note(format!("the power is lost of {}", what(file_system)));
        Ok(OnDevice { machine, file_system, device })
    }

    /// Removes the device, with all its data.
    ///
    /// # Errors
    /// It stays, or the driver does not come back.
    pub async fn end(&mut self) -> CheckResult {
        self.machine.clear(&what(self.file_system), self.device.remove()).await
    }

    async fn lose(&self) -> CheckResult {
        let failed = |error| {
            let what = what(self.file_system);
            Stop::broken(format!("failed to lose the power of {what}: {error}"))
        };
        self.machine.kill().await?;
        self.device.cut().await.map_err(failed)?;
        self.machine.take_mounts_away().await?;
        self.device.turn_on().await.map_err(failed)?;
        match self.machine.start().await? {
            None => Ok(()),
            Some(violation) => {
                self.machine.kill().await?;
                Err(violation.into())
            }
        }
    }

    fn calls(&self, step: Step) -> &[SystemCall] {
        self.machine.seen.of(step)
    }
}

fn what(file_system: &FileSystem) -> String {
    format!("{} on a device of the device-mapper (dm-flakey)", file_system.id)
}

#[async_trait]
impl Injector for OnDevice<'_> {
    fn knows(&self, fault: &Fault) -> bool {
        Self::is_of(fault, self.file_system)
    }

    fn faults(&self) -> Vec<Fault> {
        let is_there = |call: &SystemCall| call.path.starts_with(&self.machine.directory);
        let at = |step: Step, place: String| Fault::new(NAME, step, place, self.file_system.id);
        let mut faults = Vec::new();
        for (step, calls) in self.machine.seen.steps() {
            let before = calls.iter().zip(1..).filter(|(call, _)| is_there(call));
            faults.extend(before.map(|(_, nth): (_, u32)| at(step, format!("{CALL}:{nth}"))));
            faults.push(at(step, ANSWER.to_owned()));
        }
        faults
    }

    fn is_plain(&self, fault: &Fault) -> bool {
        fault.place == ANSWER
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.machine.seen.paths()
    }

    fn describe(&self, fault: &Fault) -> String {
        let place = match fault.counted_place() {
            Some((CALL, nth)) => {
                let call = self.calls(fault.step).get((nth as usize).saturating_sub(1));
                let known = call.map_or_else(String::new, |call| {
                    format!(", which was {} of {} in a life without faults", call.name, call.path.display())
                });
                format!("before change {nth}{known}")
            }
            _ => "right after the answer".to_owned(),
        };
        format!(
            "the power is lost {place}, and {} on a device has kept what it has written",
            self.file_system.id
        )
    }

    fn traits(&self, _fault: &Fault) -> FaultEffects {
        FaultEffects { kills: true, loses_power: true, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        // A sync of another process would otherwise make these changes durable in some runs.
        self.machine.sync().map_err(|error| Stop::broken(format!("syncfs: {error}")))?;
        let after_answer = match fault.counted_place() {
            Some((CALL, nth)) if nth > 0 => {
                self.machine.seen.watched.arm(nth, CallFault::Kills);
                false
            }
            None if fault.place == ANSWER => true,
            _ => return Err(Stop::broken(format!("there is no fault {fault}"))),
        };
        Ok(Box::new(Lost { injector: self, after_answer }))
    }

    async fn start_over(&self) -> CheckResult<bool> {
        self.machine.kill().await?;
        self.machine.take_mounts_away().await?;
        let made = self.device.make_anew().await;
        made.map_err(|error| Stop::broken(format!("{}: {error}", what(self.file_system))))?;
        Ok(self.machine.cx().target().bring_back().await.is_ok())
    }
}

/// A power that is about to be lost.
struct Lost<'a> {
    injector: &'a OnDevice<'a>,
    after_answer: bool,
}

#[async_trait]
impl Injected for Lost<'_> {
    fn was_triggered(&self) -> bool {
        self.after_answer || self.injector.machine.seen.watched.calls.met().is_some()
    }

    async fn heal(self: Box<Self>) -> CheckResult {
        let met = self.was_triggered();
        self.injector.machine.seen.watched.calls.heal();
        if met { self.injector.lose().await } else { Ok(()) }
    }
}
