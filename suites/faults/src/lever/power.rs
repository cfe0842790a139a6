//! The power is lost: what a driver has written into its directory and not made durable (fsync) is lost, all of it or some, renames survive
//! their contents, and the last write is torn. Mounts and loop devices are gone, as after any reboot, and the driver is started again.
//!
//! The directory is one that the driver was seen to keep files in; a file system of ours lies over it meanwhile.

mod disk;
mod journal;
mod serve;
mod store;
mod tree;
mod way;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_harness::resources::mounts;
use csi_proto::lock::Mutex;
use tokio::process::Command;
use tonic::async_trait;

use super::supervised::Supervised;
use super::{Injected, Lever, Traits};
use crate::fault::Fault;
use crate::left::Places;
use crate::life::Step;
use crate::rules::FAULT_HEAL_001;
use disk::{Disk, Loss};
use journal::Kind;
use store::Point;
use way::Way;

/// The name in stored faults.
pub(crate) const NAME: &str = "power";
/// The place behind all changes.
const ANSWER: &str = "answer";
/// The place before a change, with its number.
const CHANGE: &str = "change";
/// What it costs not to have it.
const COSTS: &str = "what a driver has not made durable (fsync) when the power is lost";
/// How long loop devices may take to go.
const DETACHED_IN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Power<'a> {
    seen: Supervised<'a>,
    /// Where the tests have volumes mounted.
    mounts: Vec<PathBuf>,
    directory: PathBuf,
    disk: Mutex<Disk>,
    points: BTreeMap<Step, Vec<Point>>,
    /// What is not durable when a step is answered.
    at_answer: BTreeMap<Step, Vec<Kind>>,
}

/// Whether there can be a disk of ours.
///
/// # Errors
/// Skip if not, with the reason.
pub(crate) fn try_it() -> CheckResult {
    Disk::try_it().map_err(|error| {
        lacks(format!(
            "power can be lost only of a file system of our own (FUSE), which root can mount: {error}"
        ))
    })
}

/// The directory that the driver keeps its files in.
fn directory_of(seen: &Supervised<'_>, places: &Places, mounts: &[PathBuf]) -> CheckResult<PathBuf> {
    let named = seen.cx.config().state_dir.as_ref().and_then(|dir| dir.canonicalize().ok());
    let directory = named.or_else(|| places.own_directory(seen.written())).ok_or_else(|| {
        let unseen =
            "the driver was seen to write no file into a directory of its own, and --state-dir names none";
        lacks(unseen.to_owned())
    })?;
    let told = directory.display();
    if mounts.iter().any(|own| own.starts_with(&directory)) {
        return Err(lacks(format!("the tests have their paths in {told}, where the driver keeps its files")));
    }
    let is_below = |path: &Path| path != directory && path.starts_with(&directory);
    let is_in_use = mounts::points().iter().any(|point| is_below(point))
        || mounts::loops().values().any(|file| is_below(Path::new(file)));
    match is_in_use {
        true => Err(lacks(format!("volumes in {told}, where the driver keeps its files, are in use"))),
        false => Ok(directory),
    }
}

/// Lays a disk over a directory, and starts the driver on it.
async fn lay_over(seen: &Supervised<'_>, directory: &Path) -> CheckResult<Disk> {
    let (cx, told) = (seen.cx, directory.display());
    let killed = seen.driver().kill().await;
    killed.map_err(|error| Stop::broken(format!("failed to end the driver: {error}")))?;
    cx.will_mount(directory);
    let failed = |why: String| {
        cx.has_unmounted(directory);
        lacks(why)
    };
    let disk = Disk::over(directory).map_err(|error| {
        failed(format!("no file system of our own (FUSE) can be mounted over {told}: {error}"))
    })?;
    match cx.target().bring_back().await {
        Ok(_) => Ok(disk),
        Err(away) => {
            drop(disk);
            Err(failed(format!("the driver does not start with a file system of ours over {told}: {away}")))
        }
    }
}

fn lacks(why: String) -> Stop {
    Stop::skip(format!("{why}. Without it, nothing is known of {COSTS}"))
}

impl<'a> Power<'a> {
    /// Lays a disk over the directory in which the driver was seen to keep files.
    ///
    /// # Errors
    /// Skip where it cannot be had, with the reason.
    pub(crate) async fn begin(seen: Supervised<'a>, places: &Places) -> CheckResult<Power<'a>> {
        let mounts: Vec<PathBuf> = places.mounts().map(Path::to_owned).collect();
        let laid = match directory_of(&seen, places, &mounts) {
            Ok(directory) => lay_over(&seen, &directory).await.map(|disk| (directory, disk)),
            Err(stop) => Err(stop),
        };
        let (directory, disk) = match laid {
            Ok(laid) => laid,
            Err(stop) => {
                seen.end().await?;
                return Err(stop);
            }
        };
        seen.cx.note(format!("the directory whose writes are lost with the power: {}", directory.display()));
        let (points, at_answer) = (BTreeMap::new(), BTreeMap::new());
        let power = Power { seen, mounts, directory, disk: Mutex::new(disk), points, at_answer };
        power.look_for_sync();
        Ok(power)
    }

    /// Takes the disk away.
    ///
    /// # Errors
    /// It stays, or the driver does not come back.
    pub(crate) async fn end(&self) -> CheckResult {
        self.kill().await?;
        self.take_mounts_away().await?;
        let removed = self.disk.lock().remove();
        removed.map_err(|error| {
            Stop::broken(format!(
                "failed to take the file system of ours away from {}: {error}",
                self.directory.display()
            ))
        })?;
        self.seen.cx.has_unmounted(&self.directory);
        self.seen.end().await
    }

    /// Says why there is nothing to break.
    pub(crate) fn nothing() -> Stop {
        Stop::skip("the driver was seen to have nothing that is not durable at any time")
    }

    async fn kill(&self) -> CheckResult {
        let killed = self.seen.driver().kill().await;
        killed.map(drop).map_err(|error| Stop::broken(format!("failed to end the driver: {error}")))
    }

    /// No mount and no loop device outlives a loss of power.
    async fn take_mounts_away(&self) -> CheckResult {
        let is_theirs = |point: &PathBuf| {
            self.mounts.iter().any(|own| point != own && point.starts_with(own))
                || *point != self.directory && point.starts_with(&self.directory)
        };
        for point in mounts::points().into_iter().rev().filter(is_theirs) {
            // It may have gone with one that it was in.
            let _ = mounts::unmount_below(&point);
        }
        let begun = Instant::now();
        loop {
            let loops = mounts::loops();
            let devices: Vec<&String> = loops
                .iter()
                .filter(|(_, file)| Path::new(file).starts_with(&self.directory))
                .map(|(device, _)| device)
                .collect();
            if devices.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > DETACHED_IN {
                return Err(Stop::broken(format!("loop devices cannot be detached: {devices:?}")));
            }
            for device in devices {
                let detached = Command::new("losetup").args(["--detach", device]).output().await;
                detached.map_err(|error| Stop::broken(format!("losetup: {error}")))?;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn lose(&self, way: &Way) -> CheckResult {
        let cx = self.seen.cx;
        self.kill().await?;
        self.disk.lock().store().lose_power();
        self.take_mounts_away().await?;
        let failed = |error: std::io::Error| {
            Stop::broken(format!(
                "failed to lose what is not durable in {}: {error}",
                self.directory.display()
            ))
        };
        let loss = self.disk.lock().lose(way).map_err(failed)?;
        self.look_for_sync();
        cx.answers_for_silence();
        let Err(away) = cx.target().bring_back().await else { return Ok(()) };
        if !away.is_fault() {
            return Err(Stop::broken(format!("after the power was lost: {away}")));
        }
        let driver = self.seen.driver();
        let (printed, ended) = (driver.last_lines(), driver.end_of_process());
        self.restore(loss).await?;
        let refuses = ended.is_some() && !printed.is_empty();
        let rule = if refuses { &FAULT_HEAL_001 } else { &req::GEN_ERR_001 };
        let message = match refuses {
            true => "the driver refuses to start after the power was lost",
            false => "the driver does not answer after the power was lost",
        };
        Err(Violation::new(message)
            .of(rule)
            .expected("a driver that starts from any state that it has not made durable (fsync) itself")
            .actual(away)
            .printed(printed)
            .into())
    }

    /// A driver that does not start any more gets back what it has lost, so that others can be tried.
    async fn restore(&self, loss: Loss) -> CheckResult {
        self.kill().await?;
        let restored = self.disk.lock().restore(loss);
        restored.map_err(|error| {
            Stop::broken(format!(
                "failed to have back what was lost in {}: {error}",
                self.directory.display()
            ))
        })?;
        self.look_for_sync();
        // Whoever tries the next fault sees whether it is there.
        let _ = self.seen.cx.target().bring_back().await;
        Ok(())
    }

    /// sync(2) makes everything durable, and no file system is told of it.
    fn look_for_sync(&self) {
        let store = self.disk.lock().shared();
        self.seen.calls.when_synced(move || store.lock().sync_all());
    }

    fn pending(&self, fault: &Fault) -> Option<(String, usize)> {
        match fault.counted_place() {
            Some((CHANGE, nth)) => {
                let points = self.points.get(&fault.step)?;
                let point = points.get(nth as usize - 1)?;
                Some((format!("before {}", point.what), point.pending.len()))
            }
            _ => Some(("right after the answer".to_owned(), self.at_answer.get(&fault.step)?.len())),
        }
    }
}

#[async_trait]
impl Lever for Power<'_> {
    fn begin_step(&self) -> CheckResult {
        self.disk.lock().store().take_points();
        Ok(())
    }

    fn end_step(&mut self, step: Step) -> CheckResult {
        let disk = self.disk.lock();
        self.points.insert(step, disk.store().take_points());
        self.at_answer.insert(step, disk.store().pending());
        Ok(())
    }

    fn faults(&self) -> Vec<Fault> {
        let at = |step: Step, place: &str, pending: &[Kind]| {
            let ways = Way::all(pending).into_iter();
            ways.map(|way| Fault::new(NAME, step, place, way.id())).collect::<Vec<_>>()
        };
        let mut faults = Vec::new();
        for (step, points) in &self.points {
            for (point, nth) in points.iter().zip(1..) {
                faults.extend(at(*step, &format!("{CHANGE}:{nth}"), &point.pending));
            }
        }
        for (step, pending) in &self.at_answer {
            faults.extend(at(*step, ANSWER, pending));
        }
        faults
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.seen.paths()
    }

    fn tell(&self, fault: &Fault) -> String {
        let way = Way::parse(&fault.way).map_or_else(|| fault.way.clone(), |way| way.told());
        let (place, changes) = self.pending(fault).unwrap_or((fault.place.clone(), 0));
        format!(
            "the power is lost {place}, and {way}; in a life without faults, {changes} changes are not durable there"
        )
    }

    fn traits(&self, _fault: &Fault) -> Traits {
        Traits { kills: true, loses_power: true, ..Traits::default() }
    }

    async fn inject(&self, fault: &Fault) -> CheckResult<Box<dyn Injected + '_>> {
        let unknown = || Stop::broken(format!("there is no fault {fault}"));
        let way = Way::parse(&fault.way).ok_or_else(unknown)?;
        let nth = match fault.counted_place() {
            Some((CHANGE, nth)) if nth > 0 => Some(nth as usize),
            None if fault.place == ANSWER => None,
            _ => return Err(unknown()),
        };
        self.disk.lock().store().arm(nth);
        Ok(Box::new(Lost { power: self, way, after_answer: nth.is_none() }))
    }
}

/// A power that is about to be lost.
struct Lost<'a> {
    power: &'a Power<'a>,
    way: Way,
    after_answer: bool,
}

#[async_trait]
impl Injected for Lost<'_> {
    fn was_met(&self) -> bool {
        self.after_answer || self.power.disk.lock().store().is_dead()
    }

    async fn heal(self: Box<Self>) -> CheckResult {
        let met = self.was_met();
        self.power.disk.lock().store().arm(None);
        if met { self.power.lose(&self.way).await } else { Ok(()) }
    }
}
