//! The driver is killed before one of the changes that it makes to files and mounts during a call. Such a point is the same in every run,
//! while a moment depends on the speed of the machine.

use csi_harness::driver::{CallFault, Driver, Meant, Supervisor, SystemCall};
use csi_harness::prelude::*;

use super::KILLED;
use super::ending::{driver, failed};

/// A kill that is prepared: the driver runs with its system calls watched.
#[derive(Debug)]
pub(crate) struct KillAtChange<'a> {
    cx: &'a Cx,
    driver: &'a Driver,
    calls: Supervisor,
}

impl<'a> KillAtChange<'a> {
    /// True if the system calls of the driver can be watched: the run starts it, and the kernel permits it.
    pub(crate) async fn is_possible(cx: &Cx) -> bool {
        cx.target().driver().is_some_and(Driver::can_be_supervised) && Supervisor::try_it().await.is_ok()
    }

    /// Starts the driver again with its system calls watched, and has it killed before the change with this number, from 1.
    ///
    /// # Errors
    /// Skip if the system calls of the driver cannot be watched; a violation if it does not come back.
    pub(crate) async fn arm(cx: &'a Cx, nth: u32) -> CheckResult<KillAtChange<'a>> {
        if !KillAtChange::is_possible(cx).await {
            return Err(Stop::skip(
                "to kill the driver before a change, csi-sanity has to start it (--driver-command), and the kernel has to let it watch \
                 the driver's system calls (seccomp)",
            ));
        }
        let (driver, calls) = (driver(cx)?, Supervisor::default());
        driver.supervise(Some(calls.clone()));
        let kill = KillAtChange { cx, driver, calls };
        KILLED.inject_and_heal(cx).await?;
        kill.calls.take();
        kill.calls.arm(Meant { names: Vec::new(), nth, lasts: false }, CallFault::Kills);
        Ok(kill)
    }

    /// Kills the driver now if it did not get as far as that change, and starts it without being watched. Returns the changes that it
    /// has made or begun since it was started.
    ///
    /// # Errors
    /// A violation if it does not come back.
    pub(crate) async fn finish(self) -> CheckResult<Vec<SystemCall>> {
        self.calls.heal();
        let changes = self.calls.take();
        self.driver.supervise(None);
        // The call that the kill has left without an answer is no sign of a crash.
        self.cx.answers_for_silence();
        self.driver.kill().await.map_err(failed)?;
        KILLED.heal(self.cx).await?;
        Ok(changes)
    }
}

impl Drop for KillAtChange<'_> {
    fn drop(&mut self) {
        self.calls.heal();
        self.driver.supervise(None);
    }
}
