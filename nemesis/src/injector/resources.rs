//! Resources of its machine that a driver may lack: it is frozen for longer than its callers wait, it cannot write any
//! more, or only read, or it cannot open any file. A lack of memory is not injected: it kills the driver, as crash
//! points do, or makes it slow.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use csi_harness::driver::{CallFault, Frozen, Meant};
use csi_harness::prelude::*;
use csi_harness::text::message::error_chain;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::time::Instant;
use tonic::async_trait;

use super::seen_calls::SeenCalls;
use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::step::Step;

/// The name in stored faults.
pub const NAME: &str = "resources";
/// The place of what is broken for the driver as a whole.
const DRIVER: &str = "driver";
/// The place of what is broken for all files.
const FILES: &str = "files";
const FROZEN: &str = "frozen";
const NO_DESCRIPTORS: &str = "no-descriptors";
/// The knowledge that is missing without this injector.
const COSTS: &str = "a driver that is frozen, whose disk is full or read-only, or that can open no file";

/// A way, what it means, the error that calls fail with, and which of them.
const OF_FILES: &[(&str, &str, i32, &[&str])] = &[
    (
        "full",
        "there is no room on any disk",
        28,
        &["create", "write", "truncate", "fallocate", "mkdir", "rename", "link", "symlink"],
    ),
    (
        "read-only",
        "every file system is read-only",
        30,
        &["create", "truncate", "fallocate", "mkdir", "rename", "link", "symlink", "unlink", "rmdir"],
    ),
];

/// A driver must open and close nothing for this time before its descriptors are taken.
const RESTS: Duration = Duration::from_millis(20);
/// The descriptors are taken after this time even if the driver never rests.
const RESTS_IN: Duration = Duration::from_millis(500);
/// Pause between two looks at its descriptors.
const RESTS_LOOK: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct Resources<'a> {
    seen: SeenCalls<'a>,
    steps: BTreeSet<Step>,
}

impl<'a> Resources<'a> {
    /// # Errors
    /// Skip if this is impossible here, with the reason.
    pub async fn begin(cx: &'a Cx) -> CheckResult<Resources<'a>> {
        Ok(Resources { seen: SeenCalls::begin(cx, COSTS).await?, steps: BTreeSet::new() })
    }

    pub async fn end(&self) -> CheckResult {
        self.seen.end().await
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip("the driver uses none of these resources in a run without faults")
    }

    /// Lets the driver open nothing more, by a limit below which all numbers are used.
    async fn take_descriptors(&self) -> CheckResult<NoDescriptors> {
        let failed =
            |why: String| Stop::broken(format!("failed to limit the files that the driver can open: {why}"));
        let process = self.seen.watched.cx.driver_process().await;
        let process = process.and_then(|process| i32::try_from(process).ok()).and_then(Pid::from_raw);
        let process = process.ok_or_else(|| failed("its process is not known".to_owned()))?;
        let open = at_rest(|| open_files(process)).await.map_err(|error| failed(error.to_string()))?;
        let free = (0..).find(|number| !open.contains(number)).unwrap_or_default();
        let before = getrlimit(Resource::Nofile);
        let limit = Rlimit { current: Some(free), maximum: before.maximum };
        let before = prlimit(Some(process), Resource::Nofile, limit);
        Ok(NoDescriptors { process, before: before.map_err(|error| failed(error.to_string()))? })
    }

    async fn freeze(&self) -> CheckResult<Frozen> {
        let failed = |why: String| Stop::broken(format!("failed to freeze the driver: {why}"));
        let frozen = self.seen.watched.driver.freeze().await.map_err(|error| failed(error_chain(&error)))?;
        frozen.ok_or_else(|| failed("the run has not started it".to_owned()))
    }
}

/// The numbers of the files that a process has open.
fn open_files(process: Pid) -> io::Result<BTreeSet<u64>> {
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()))?;
    Ok(open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Looks until the process has had an unchanged set of files open for `RESTS`, or until `RESTS_IN` has passed. A file
/// that is still being closed after the call before would leave a free number, and the call that is to fail would get
/// further in some runs than in others.
async fn at_rest(mut look: impl FnMut() -> io::Result<BTreeSet<u64>>) -> io::Result<BTreeSet<u64>> {
    let begun = Instant::now();
    let mut open = look()?;
    let mut since = begun;
    while since.elapsed() < RESTS && begun.elapsed() < RESTS_IN {
        tokio::time::sleep(RESTS_LOOK).await;
        let now_open = look()?;
        if now_open != open {
            (open, since) = (now_open, Instant::now());
        }
    }
    Ok(open)
}

#[async_trait]
impl Injector for Resources<'_> {
    fn begin_step(&self) -> CheckResult {
        self.seen.begin_step();
        Ok(())
    }

    fn end_step(&mut self, step: Step) -> CheckResult {
        self.steps.insert(step);
        self.seen.end_step(step);
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let of_step = |step: &Step| {
            // A step that makes none of the calls does not meet it.
            let calls = self.seen.of(*step);
            let makes = |names: &[&str]| calls.iter().any(|call| names.contains(&call.name));
            let files = OF_FILES.iter().filter(|row| makes(row.3));
            let files = files.map(|row| Fault::new(NAME, *step, FILES, row.0));
            [FROZEN, NO_DESCRIPTORS]
                .map(|way| Fault::new(NAME, *step, DRIVER, way))
                .into_iter()
                .chain(files)
                .collect::<Vec<_>>()
        };
        self.steps.iter().flat_map(of_step).collect()
    }

    fn paths(&self) -> Vec<std::path::PathBuf> {
        self.seen.paths()
    }

    fn describe(&self, fault: &Fault) -> String {
        if fault.way == NO_DESCRIPTORS {
            return "the driver can open no more files (EMFILE)".to_owned();
        }
        let of_files = OF_FILES.iter().find(|row| row.0 == fault.way);
        of_files.map_or("the driver is frozen for longer than its caller waits", |row| row.1).to_owned()
    }

    fn traits(&self, fault: &Fault) -> FaultEffects {
        let freezes = fault.way == FROZEN;
        FaultEffects { hangs: freezes, freezes, may_forget: !freezes, ..FaultEffects::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        if fault.way == FROZEN {
            return Ok(Box::new(FrozenDriver(self.freeze().await?)));
        }
        if fault.way == NO_DESCRIPTORS {
            return Ok(Box::new(self.take_descriptors().await?));
        }
        let row = OF_FILES.iter().find(|row| row.0 == fault.way);
        let row = row.ok_or_else(|| Stop::broken(format!("there is no fault {fault}")))?;
        let meant = Meant { names: row.3.to_vec(), nth: 1, lasts: true };
        Ok(Box::new(self.seen.arm(meant, CallFault::Fails(row.2))))
    }
}

/// A driver that is frozen until this is healed or dropped.
struct FrozenDriver(Frozen);

#[async_trait]
impl Injected for FrozenDriver {
    async fn heal(self: Box<Self>) -> CheckResult {
        let thawed = self.0.thaw().await;
        thawed.map_err(|error| Stop::broken(format!("failed to thaw the driver: {}", error_chain(&error))))
    }
}

/// A driver that can open nothing until this is dropped.
struct NoDescriptors {
    process: Pid,
    before: Rlimit,
}

impl Injected for NoDescriptors {}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        // The process may have ended, and its limit with it.
        let _ = prlimit(Some(self.process), Resource::Nofile, self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn descriptors_that_are_being_closed_are_not_counted() {
        let mut looks = [3, 2, 1].into_iter();
        let open = at_rest(|| Ok((0..looks.next().unwrap_or(1)).collect())).await;
        assert_eq!(open.unwrap(), BTreeSet::from([0]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_never_rests_is_not_waited_for() {
        let mut looks = 0_u32;
        let open = at_rest(|| {
            looks += 1;
            Ok(BTreeSet::from([looks.into()]))
        });
        assert!(open.await.is_ok());
        assert!(RESTS_LOOK * looks <= RESTS_IN + 2 * RESTS_LOOK, "{looks} looks");
    }
}
