//! A fault before one of the changes that the driver makes to files and mounts during a call. Such a point is the same in every run, while a
//! moment depends on the speed of the machine.

use csi_harness::driver::{CallFault, Driver, Meant, Supervisor, SystemCall};
use csi_harness::prelude::*;

use super::KILLED;
use super::ending::{driver, failed};

/// A driver that was started with its system calls watched.
#[derive(Debug)]
pub struct WatchedDriver<'a> {
    cx: &'a Cx,
    driver: &'a Driver,
    calls: Supervisor,
}

impl<'a> WatchedDriver<'a> {
    /// True if the system calls of the driver can be watched: the run starts it, and the kernel permits it.
    pub(crate) async fn is_possible(cx: &Cx) -> bool {
        cx.target().driver().is_some_and(Driver::can_be_supervised) && Supervisor::try_it().await.is_ok()
    }

    /// Starts the driver again with its system calls watched, until this is dropped and the driver is started once more.
    ///
    /// # Errors
    /// Skip if the system calls of the driver cannot be watched; a violation if it does not come back.
    pub async fn start(cx: &'a Cx) -> CheckResult<WatchedDriver<'a>> {
        if !WatchedDriver::is_possible(cx).await {
            return Err(Stop::skip(
                "for a fault before a change that the driver makes, csi-sanity has to start it (--driver-command), and the kernel has to \
                 let it watch the driver's system calls (seccomp)",
            ));
        }
        let (driver, calls) = (driver(cx)?, Supervisor::default());
        driver.supervise(Some(calls.clone()));
        let watched = WatchedDriver { cx, driver, calls };
        KILLED.inject_and_heal(cx).await?;
        Ok(watched)
    }

    /// Has something happen in place of the change with this number, counted from now and from 1.
    pub fn arm(&self, nth: u32, fault: CallFault) {
        self.calls.take();
        self.calls.arm(Meant { names: Vec::new(), nth, lasts: false }, fault);
    }

    /// Has nothing happen any more. Returns the changes since the last call of [`WatchedDriver::arm`].
    pub fn heal(&self) -> Vec<SystemCall> {
        self.calls.heal();
        self.calls.take()
    }

    /// Kills the driver, unless it was killed before that, and starts it without being watched. Returns the changes that it has made or
    /// begun.
    ///
    /// # Errors
    /// A violation if it does not come back.
    pub(crate) async fn finish(self) -> CheckResult<Vec<SystemCall>> {
        let changes = self.heal();
        self.driver.supervise(None);
        // The call that the kill has left without an answer is no sign of a crash.
        self.cx.expect_no_answer();
        self.driver.kill().await.map_err(failed)?;
        KILLED.heal(self.cx).await?;
        Ok(changes)
    }
}

impl Drop for WatchedDriver<'_> {
    fn drop(&mut self) {
        self.calls.heal();
        self.driver.supervise(None);
    }
}
