//! The system calls of a driver in each step of a volume's life.

use std::collections::BTreeMap;
use std::path::PathBuf;

use csi_harness::driver::{CallFault, Meant, Supervisor, SystemCall};
use csi_harness::prelude::*;

use super::Injected;
use crate::step::Step;
use crate::watched_driver::WatchedDriver;

/// A watched driver, and the system calls that it has made in a life without faults.
#[derive(Debug)]
pub struct SeenCalls<'a> {
    pub(crate) watched: WatchedDriver<'a>,
    steps: BTreeMap<Step, Vec<SystemCall>>,
}

impl<'a> SeenCalls<'a> {
    /// Starts the driver again with its system calls watched.
    ///
    /// # Errors
    /// Skip if they cannot be, with the reason and with `unknown`, which remains untested then; broken if the driver does not come back.
    pub(crate) async fn begin(cx: &'a Cx, unknown: &str) -> CheckResult<SeenCalls<'a>> {
        let lacks = |stop| match stop {
            Stop::Skip(why) => Stop::skip(format!("{why}. Without it, nothing is known of {unknown}")),
            stop => stop,
        };
        let watched = WatchedDriver::start(cx).await.map_err(lacks)?;
        Ok(SeenCalls { watched, steps: BTreeMap::new() })
    }

    /// Starts the driver without watching it.
    ///
    /// # Errors
    /// A violation if it does not come back.
    pub async fn end(&self) -> CheckResult {
        self.watched.end().await
    }

    /// Breaks calls until the returned value is dropped.
    pub(crate) fn arm(&self, meant: Meant, fault: CallFault) -> ArmedCalls {
        self.watched.calls.arm(meant, fault);
        ArmedCalls(self.watched.calls.clone())
    }

    pub(crate) fn begin_step(&self) {
        self.watched.calls.take();
    }

    pub(crate) fn end_step(&mut self, step: Step) {
        self.steps.insert(step, self.watched.calls.take());
    }

    /// The calls of a step, in their order.
    pub(crate) fn of(&self, step: Step) -> &[SystemCall] {
        self.steps.get(&step).map(Vec::as_slice).unwrap_or_default()
    }

    /// The steps that were seen, with their calls.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (Step, &[SystemCall])> {
        self.steps.iter().map(|(step, calls)| (*step, calls.as_slice()))
    }

    fn all(&self) -> impl Iterator<Item = &SystemCall> {
        self.steps.values().flatten()
    }

    /// The paths of all calls.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.all().map(|call| call.path.clone()).collect()
    }

    /// Files that were made, replaced, made durable or removed.
    pub fn written(&self) -> impl Iterator<Item = PathBuf> {
        let keeps = ["create", "rename", "fsync", "truncate", "link", "unlink"];
        self.all().filter(move |call| keeps.contains(&call.name)).map(|call| call.path.clone())
    }
}

pub(crate) struct ArmedCalls(Supervisor);

impl Injected for ArmedCalls {
    fn was_triggered(&self) -> bool {
        self.0.met().is_some()
    }
}

impl Drop for ArmedCalls {
    fn drop(&mut self) {
        self.0.heal();
    }
}
