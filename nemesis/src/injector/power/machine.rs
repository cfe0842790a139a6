//! The parts of a machine that go with the power whatever the disk is: the driver, the mounts of the tests, and the
//! loop devices of its files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::mounts;
use csi_harness::spec::requirements::Requirement;
use rustix::fs::{Mode, OFlags};
use tokio::process::Command;

use super::lacks;
use crate::injector::seen_calls::SeenCalls;

/// The time in which loop devices have to disappear.
const DETACHED_IN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// The driver does not start with what a loss of power has left: it says why, or does not even do that.
pub const NO_POWER_START: [&str; 2] = [
    "the driver refuses to start after the power was lost",
    "the driver does not answer after the power was lost",
];

#[derive(Debug)]
pub struct Machine<'a> {
    pub(super) seen: &'a SeenCalls<'a>,
    /// The directories below which the tests have volumes mounted.
    mounts: Vec<PathBuf>,
    /// The driver keeps its files in it.
    pub(super) directory: PathBuf,
    /// The rule that is broken by a driver that does not start and gives a reason.
    starts: &'static Requirement,
}

impl<'a> Machine<'a> {
    /// The machine of a driver whose files were found in `own`; a directory that the user names has precedence. The tests mount volumes below
    /// `mounts`. `starts` is the rule that is broken by a driver that does not start after a loss of power and gives a reason.
    ///
    /// # Errors
    /// Skip if there is no such directory, or if no disk can be laid over it.
    pub fn of(
        seen: &'a SeenCalls<'a>,
        own: Option<PathBuf>,
        mounts: Vec<PathBuf>,
        starts: &'static Requirement,
    ) -> CheckResult<Machine<'a>> {
        let cx = seen.watched.cx;
        let directory = directory_of(cx, own, &mounts)?;
        cx.target().keeps_files_in(&directory);
        cx.note(format!("the directory whose writes are lost with the power: {}", directory.display()));
        Ok(Machine { seen, mounts, directory, starts })
    }

    pub(super) fn cx(&self) -> &'a Cx {
        self.seen.watched.cx
    }

    /// Mounts a disk over the directory, and starts the driver on it. `what` names the disk.
    ///
    /// # Errors
    /// Skip if this is impossible here, with the reason; the driver is then started without the disk.
    pub(super) async fn lay<D>(
        &self,
        what: &str,
        laid: impl Future<Output = io::Result<D>>,
    ) -> CheckResult<D> {
        let (cx, directory) = (self.cx(), self.directory.display());
        self.kill().await?;
        cx.will_mount(&self.directory);
        let why = match laid.await {
            Err(error) => format!("no {what} can be mounted over {directory}: {error}"),
            Ok(disk) => match cx.target().bring_back().await {
                Ok(_) => return Ok(disk),
                Err(away) => {
                    self.kill().await?;
                    drop(disk);
                    format!("the driver does not start with {what} over {directory}: {away}")
                }
            },
        };
        cx.has_unmounted(&self.directory);
        self.start_without().await?;
        Err(Stop::skip(why))
    }

    /// Removes a disk, and starts the driver without it.
    ///
    /// # Errors
    /// The disk stays, or the driver does not come back.
    pub(super) async fn clear(
        &self,
        what: &str,
        removed: impl Future<Output = io::Result<()>>,
    ) -> CheckResult {
        self.kill().await?;
        self.take_mounts_away().await?;
        removed.await.map_err(|error| {
            Stop::broken(format!("failed to take {what} away from {}: {error}", self.directory.display()))
        })?;
        self.cx().has_unmounted(&self.directory);
        self.start_without().await
    }

    async fn start_without(&self) -> CheckResult {
        let started = self.cx().target().bring_back().await;
        started.map(drop).map_err(|away| Stop::broken(format!("failed to restart the driver: {away}")))
    }

    pub(super) async fn kill(&self) -> CheckResult {
        let killed = self.seen.watched.driver.kill().await;
        killed.map(drop).map_err(|error| Stop::broken(format!("failed to end the driver: {error}")))
    }

    /// The mounts of volumes, the latest first.
    fn mounted(&self) -> impl Iterator<Item = PathBuf> {
        let is_theirs = |point: &PathBuf| {
            self.mounts.iter().any(|own| point != own && point.starts_with(own))
                || *point != self.directory && point.starts_with(&self.directory)
        };
        mounts::points().into_iter().rev().filter(is_theirs)
    }

    /// Makes everything durable that is written by now, so that it is the next call alone that has something to lose.
    pub(super) fn sync(&self) -> io::Result<()> {
        for place in self.mounted().chain([self.directory.clone()]) {
            // A place that cannot be opened for reading has nothing to lose.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            if let Ok(place) = rustix::fs::open(place, flags, Mode::empty()) {
                rustix::fs::syncfs(place)?;
            }
        }
        Ok(())
    }

    /// No mount and no loop device outlives a loss of power.
    pub(super) async fn take_mounts_away(&self) -> CheckResult {
        for point in self.mounted() {
            // The mount may have gone with one that contained it.
            let _ = mounts::unmount_below(&point);
        }
        let begun = Instant::now();
        loop {
            let loops = mounts::loops();
            let devices: Vec<&str> = loops
                .iter()
                .filter(|(_, file)| Path::new(file).starts_with(&self.directory))
                .map(|(device, _)| device.as_str())
                .collect();
            if devices.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > DETACHED_IN {
                return Err(Stop::broken(format!("failed to detach {}", devices.join(", "))));
            }
            for device in devices {
                let detached = Command::new("losetup").args(["--detach", device]).output().await;
                detached.map_err(|error| Stop::broken(format!("losetup: {error}")))?;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Starts the driver when the power is back: what is to be said of one that does not start.
    ///
    /// # Errors
    /// Broken if it may only be too slow.
    pub(super) async fn start(&self) -> CheckResult<Option<Violation>> {
        self.cx().expect_no_answer();
        let Err(away) = self.cx().target().bring_back().await else { return Ok(None) };
        if !away.is_fault() {
            return Err(Stop::broken(format!("after the power was lost: {away}")));
        }
        let driver = self.seen.watched.driver;
        let (printed, ended) = (driver.last_lines(), driver.end_of_process());
        let refuses = ended.is_some() && !printed.is_empty();
        let rule = if refuses { self.starts } else { &req::GEN_ERR_001 };
        let message = match refuses {
            true => NO_POWER_START[0],
            false => NO_POWER_START[1],
        };
        let violation = Violation::new(message)
            .of(rule)
            .expected("a driver that starts from any state that it has not made durable (fsync) itself");
        Ok(Some(violation.actual(away).printed(printed)))
    }
}

/// The directory that the driver keeps its files in.
fn directory_of(cx: &Cx, own: Option<PathBuf>, mounts: &[PathBuf]) -> CheckResult<PathBuf> {
    let named = cx.config().state_dir.as_ref().and_then(|dir| dir.canonicalize().ok());
    let directory = named.or(own).ok_or_else(|| {
        let unseen =
            "the driver was seen to write no file into a directory of its own, and --state-dir names none";
        lacks(unseen.to_owned())
    })?;
    let shown = directory.display();
    if mounts.iter().any(|own| own.starts_with(&directory)) {
        return Err(lacks(format!(
            "the tests have their paths in {shown}, where the driver keeps its files"
        )));
    }
    let is_below = |path: &Path| path != directory && path.starts_with(&directory);
    let is_in_use = mounts::points().iter().any(|point| is_below(point))
        || mounts::loops().values().any(|file| is_below(Path::new(file)));
    match is_in_use {
        true => Err(lacks(format!("volumes in {shown}, where the driver keeps its files, are in use"))),
        false => Ok(directory),
    }
}
