//! Watches the system calls of a driver: a fault can come before one of the changes that it makes to files and mounts
//! during a call. Such a point is equal in every run, while a moment depends on the speed of the machine.

use std::num::NonZeroU32;

use csi_harness::driver::{CallFault, Driver, Meant, Supervisor, SystemCall};
use csi_harness::prelude::*;

use crate::restart::{driver, failed, kill_and_start};

/// A driver that was started with its system calls watched.
#[derive(Debug)]
pub struct WatchedDriver<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) driver: &'a Driver,
    pub(crate) calls: Supervisor,
}

impl<'a> WatchedDriver<'a> {
    /// Returns true if the system calls of the driver can be watched: the run starts it, and the kernel permits it.
    pub async fn is_possible(cx: &Cx) -> bool {
        WatchedDriver::try_it(cx).await.is_ok()
    }

    async fn try_it(cx: &Cx) -> CheckResult {
        if !cx.target().driver().is_some_and(Driver::can_be_supervised) {
            return Err(Stop::skip(
                "csi-sanity can watch the system calls only of a driver that it starts; use --driver-command",
            ));
        }
        Supervisor::try_it().await.map_err(|error| {
            Stop::skip(format!("the kernel does not let csi-sanity watch system calls (seccomp): {error}"))
        })
    }

    /// Starts the driver again with its system calls watched, until this is dropped and the driver is started once more.
    ///
    /// # Errors
    /// Skip if the system calls of the driver cannot be watched; broken if it does not come back.
    pub async fn start(cx: &'a Cx) -> CheckResult<WatchedDriver<'a>> {
        WatchedDriver::try_it(cx).await?;
        let (driver, calls) = (driver(cx)?, Supervisor::default());
        driver.supervise(Some(calls.clone()));
        let watched = WatchedDriver { cx, driver, calls };
        driver.kill().await.map_err(failed)?;
        match cx.target().bring_back().await {
            Ok(_) => Ok(watched),
            // A driver that only starts unwatched is not at fault.
            Err(away) => Err(Stop::broken(format!(
                "failed to restart the driver with its system calls watched: {away}; it printed last: {}",
                driver.last_lines().join("; ")
            ))),
        }
    }

    /// Replaces the change with this number, counted from now and from 1, by a fault.
    pub fn arm(&self, nth: u32, fault: CallFault) {
        self.calls.take();
        self.calls.arm(Meant { names: Vec::new(), nth, lasts: false }, fault);
    }

    /// The first change since the last call of [`WatchedDriver::arm`] that met the fault.
    pub fn broken(&self) -> Option<SystemCall> {
        self.calls.met()
    }

    /// Removes the fault. Returns the changes since the last call of [`WatchedDriver::arm`].
    pub fn heal(&self) -> Vec<SystemCall> {
        self.calls.heal();
        self.calls.take()
    }

    /// The numbers of the changes before which a driver is killed, counted from 1. The first write to a file that was made or emptied just
    /// before is none of them: a driver that cannot read an empty record does not start again, which the crash points of the suite `faults`
    /// find, and then nothing would be seen of its volumes.
    pub fn kill_points(changes: &[SystemCall]) -> Vec<NonZeroU32> {
        let is_point = |nth: usize| {
            let before = changes[..nth].iter().rev().find(|before| before.path == changes[nth].path);
            changes[nth].name != "write" || before.is_none_or(|before| before.name == "write")
        };
        let points = (0..changes.len()).filter(|nth| is_point(*nth));
        points.filter_map(|nth| u32::try_from(nth + 1).ok().and_then(NonZeroU32::new)).collect()
    }

    /// Kills the driver, unless it was killed before that, and starts it without being watched.
    ///
    /// # Errors
    /// A violation if it does not come back.
    pub async fn end(&self) -> CheckResult {
        self.calls.heal();
        self.driver.supervise(None);
        kill_and_start(self.cx).await
    }
}

impl Drop for WatchedDriver<'_> {
    fn drop(&mut self) {
        self.calls.heal();
        self.driver.supervise(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_record_is_no_point_for_a_kill() {
        let change = |name, path: &str| SystemCall { name, path: path.into() };
        let (record, data) = ("/state/volumes.json", "/state/v1/image");
        let changes = [
            change("mkdir", "/state/v1"),
            change("create", data),
            change("write", data),
            change("write", data),
            change("truncate", record),
            change("write", record),
            change("rename", "/state/v1"),
        ];
        let points: Vec<u32> =
            WatchedDriver::kill_points(&changes).into_iter().map(NonZeroU32::get).collect();
        assert_eq!(points, [1, 2, 4, 5, 7]);
    }
}
