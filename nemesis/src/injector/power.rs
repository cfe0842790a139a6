//! A loss of power: data that a driver has written into its directory and not made durable (fsync) are lost, all or
//! some of them, renames survive their contents, and the last write is torn. Mounts and loop devices are gone, as after
//! any reboot, and the driver is started again.
//!
//! The directory is one that the driver was seen to keep files in; the program first mounts its own file
//! system over it, and then, if device-mapper is available, file systems of the kernel.

mod device;
mod disk;
mod helper;
mod journal;
mod machine;
pub mod on_device;
mod serve;
mod store;
mod tree;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use csi_harness::prelude::*;
use csi_proto::lock::Mutex;
use tonic::async_trait;

use super::{FaultEffects, Injected, Injector};
use crate::fault::Fault;
use crate::step::Step;
pub use device::{FILE_SYSTEMS, FileSystem};
use disk::{Disk, Loss};
use journal::Pending;
pub use machine::{Machine, NO_POWER_START};
pub use on_device::OnDevice;
use store::Point;
use way::Way;

/// The name in stored faults.
pub const NAME: &str = "power";
/// Faults that the seed adds to the plain ones in a default run.
pub const MORE: u32 = 16;
/// The place behind all changes.
const ANSWER: &str = "answer";
/// The place before a change, with its number.
const CHANGE: &str = "change";
/// The knowledge that is missing without this injector.
const COSTS: &str = "what a driver has not made durable (fsync) when the power is lost";
/// The disk, in words.
const OURS: &str = "file system of our own (FUSE)";

#[derive(Debug)]
pub struct Power<'a> {
    machine: &'a Machine<'a>,
    disk: Mutex<Disk>,
    points: BTreeMap<Step, Vec<Point>>,
    /// The changes that are not durable when a step is answered.
    at_answer: BTreeMap<Step, Pending>,
}

/// Checks that our file system can be mounted here.
///
/// # Errors
/// Skip if not, with the reason.
pub fn try_it() -> CheckResult {
    Disk::try_it().map_err(|error| {
        lacks(format!(
            "power can be lost only of a file system of our own (FUSE), which root can mount: {error}"
        ))
    })
}

fn lacks(why: String) -> Stop {
    Stop::skip(format!("{why}. Without it, nothing is known of {COSTS}"))
}

impl<'a> Power<'a> {
    /// Returns true if a fault is one of our file system, and not of one of the kernel's.
    pub fn is_of(fault: &Fault) -> bool {
        !FILE_SYSTEMS.iter().any(|file_system| OnDevice::is_of(fault, file_system))
    }

    /// Mounts our file system over the directory in which the driver was seen to keep files.
    ///
    /// # Errors
    /// Skip if this is impossible here, with the reason.
    pub async fn begin(machine: &'a Machine<'a>) -> CheckResult<Power<'a>> {
        let laid = machine.lay(OURS, async { Disk::over(&machine.directory) }).await;
        let disk = laid.map_err(|stop| if let Stop::Skip(why) = stop { lacks(why) } else { stop })?;
        let (points, at_answer) = (BTreeMap::new(), BTreeMap::new());
        let power = Power { machine, disk: Mutex::new(disk), points, at_answer };
        power.look_for_sync();
        Ok(power)
    }

    /// Unmounts our file system.
    ///
    /// # Errors
    /// It stays, or the driver does not come back.
    pub async fn end(&self) -> CheckResult {
        self.machine.clear(OURS, async { self.disk.lock().remove() }).await
    }

    /// Says why there is nothing to break.
    pub fn nothing() -> Stop {
        Stop::skip("the driver made every change durable at once, so there is nothing to lose")
    }

    async fn lose(&self, way: &Way) -> CheckResult {
        self.machine.kill().await?;
        self.disk.lock().store().lose_power();
        self.machine.take_mounts_away().await?;
        let failed = |error: std::io::Error| {
            Stop::broken(format!("failed to lose what is not durable in {}: {error}", self.directory()))
        };
        let loss = self.disk.lock().lose(way).map_err(failed)?;
        self.look_for_sync();
        match self.machine.start().await? {
            None => Ok(()),
            Some(violation) => {
                self.restore(loss).await?;
                Err(violation.into())
            }
        }
    }

    fn directory(&self) -> std::path::Display<'_> {
        self.machine.directory.display()
    }

    /// A driver that does not start any more gets back what it has lost, so that others can be tried.
    async fn restore(&self, loss: Loss) -> CheckResult {
        self.machine.kill().await?;
        let restored = self.disk.lock().restore(loss);
        restored.map_err(|error| {
            Stop::broken(format!("failed to restore the lost changes in {}: {error}", self.directory()))
        })?;
        self.look_for_sync();
        // The trial of the next fault finds out if the driver is there.
        let _ = self.machine.cx().target().bring_back().await;
        Ok(())
    }

    /// Watches sync(2), which makes everything durable without a call of the file system.
    fn look_for_sync(&self) {
        let store = self.disk.lock().shared();
        self.machine.seen.watched.calls.when_synced(move || store.lock().sync_all());
    }

    fn pending(&self, fault: &Fault) -> Option<(String, usize)> {
        match fault.counted_place() {
            Some((CHANGE, nth)) => {
                let points = self.points.get(&fault.step)?;
                let point = points.get(nth as usize - 1)?;
                Some((format!("before {}", point.what), point.pending.kinds.len()))
            }
            _ => Some(("right after the answer".to_owned(), self.at_answer.get(&fault.step)?.kinds.len())),
        }
    }
}

#[async_trait]
impl Injector for Power<'_> {
    fn knows(&self, fault: &Fault) -> bool {
        Power::is_of(fault)
    }

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
        let mut faults = Vec::new();
        for (step, points) in &self.points {
            // Before its answer, a call has promised nothing: faults that leave equal remains are equal.
            let mut known = BTreeSet::new();
            for (point, nth) in points.iter().zip(1..) {
                let ways = Way::all(&point.pending.kinds).into_iter();
                let others = ways.filter(|way| known.insert(point.pending.after(way)));
                faults.extend(others.map(|way| Fault::new(NAME, *step, format!("{CHANGE}:{nth}"), way.id())));
            }
        }
        for (step, pending) in &self.at_answer {
            let ways = Way::all(&pending.kinds).into_iter();
            faults.extend(ways.map(|way| Fault::new(NAME, *step, ANSWER, way.id())));
        }
        faults
    }

    /// Right after each answer, with as little left as any file system leaves.
    fn is_plain(&self, fault: &Fault) -> bool {
        fault.place == ANSWER && !matches!(Way::parse(&fault.way), None | Some(Way::These(_)))
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.machine.seen.paths()
    }

    fn describe(&self, fault: &Fault) -> String {
        let way = Way::parse(&fault.way).map_or_else(|| fault.way.clone(), |way| way.described());
        let (place, changes) = self.pending(fault).unwrap_or((fault.place.clone(), 0));
        format!(
            "the power is lost {place}, and {way}; in a life without faults, {changes} changes are not durable there"
        )
    }

    fn traits(&self, _fault: &Fault) -> FaultEffects {
        FaultEffects { kills: true, loses_power: true, ..FaultEffects::default() }
    }

    /// Makes all earlier changes durable, so that a volume deleted before does not come back in a trial of another
    /// fault.
    fn begin_trial(&self) {
        self.disk.lock().store().sync_all();
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
    fn was_triggered(&self) -> bool {
        self.after_answer || self.power.disk.lock().store().is_dead()
    }

    async fn heal(self: Box<Self>) -> CheckResult {
        let met = self.was_triggered();
        self.power.disk.lock().store().arm(None);
        if met { self.power.lose(&self.way).await } else { Ok(()) }
    }
}
