//! A driver whose system calls are looked at: it is started so, and started anew without when the check ends.

use std::collections::BTreeMap;
use std::path::PathBuf;

use csi_harness::driver::{Driver, Supervisor, SystemCall};
use csi_harness::prelude::*;

use crate::life::Step;

/// What was seen of a driver's system calls, step by step.
pub(crate) struct Supervised<'a> {
    pub(crate) cx: &'a Cx,
    driver: &'a Driver,
    pub(crate) calls: Supervisor,
    pub(crate) seen: BTreeMap<Step, Vec<SystemCall>>,
}

impl<'a> Supervised<'a> {
    /// Starts the driver anew, so that its system calls are looked at.
    ///
    /// # Errors
    /// Skip where that cannot be had, with the reason; `costs` says what it costs.
    pub(crate) async fn begin(cx: &'a Cx, costs: &str) -> CheckResult<Supervised<'a>> {
        let lacks = |why: String| Stop::skip(format!("{why}. Without it, nothing is known of {costs}"));
        let unseen = || {
            lacks(
                "csi-sanity can break system calls only of a driver that it starts; use --driver-command"
                    .to_owned(),
            )
        };
        let driver = cx.target().driver().ok_or_else(unseen)?;
        Supervisor::try_it().await.map_err(|error| {
            lacks(format!("the kernel does not let these tests look at system calls (seccomp): {error}"))
        })?;
        let calls = Supervisor::default();
        if !driver.supervise(Some(calls.clone())) {
            return Err(unseen());
        }
        let supervised = Supervised { cx, driver, calls, seen: BTreeMap::new() };
        supervised.start_anew().await?;
        Ok(supervised)
    }

    /// Lets the driver run without anybody who looks.
    ///
    /// # Errors
    /// It does not come back.
    pub(crate) async fn end(&self) -> CheckResult {
        self.calls.heal();
        self.driver.supervise(None);
        self.start_anew().await
    }

    async fn start_anew(&self) -> CheckResult {
        let failed = |what: String| Stop::broken(format!("failed to restart the driver: {what}"));
        self.driver.kill().await.map_err(|error| failed(error.to_string()))?;
        let told = |away| format!("{away}; it printed last: {}", self.driver.last_lines().join("; "));
        self.cx.target().bring_back().await.map(drop).map_err(|away| failed(told(away)))
    }

    pub(crate) fn driver(&self) -> &Driver {
        self.driver
    }

    /// Files that were made, replaced, made durable or removed.
    pub(crate) fn written(&self) -> impl Iterator<Item = PathBuf> {
        let keeps = ["create", "rename", "fsync", "truncate", "link", "unlink"];
        let calls = self.seen.values().flatten().filter(move |call| keeps.contains(&call.name));
        calls.map(|call| call.path.clone())
    }

    pub(crate) fn begin_step(&self) {
        self.calls.take();
    }

    pub(crate) fn end_step(&mut self, step: Step) {
        self.seen.insert(step, self.calls.take());
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.seen.values().flatten().map(|call| call.path.clone()).collect()
    }
}

impl Drop for Supervised<'_> {
    fn drop(&mut self) {
        self.calls.heal();
        self.driver.supervise(None);
    }
}
