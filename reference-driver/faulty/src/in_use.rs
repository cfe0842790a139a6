//! Defects that hurt the workload of a volume in use.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use csi_proto::lock::Mutex;

use crate::contents::Contents;
use crate::data::change;
use crate::node::{is_device, refuse_writes};
use crate::{Defect, Faults, Seen};

/// The time for which a file system stays frozen. It is limited, so that tests end.
const FROZEN: Duration = Duration::from_secs(3);

/// Targets of the driver that breaks volumes when it starts.
static TARGETS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// Calls of CreateSnapshot in progress, by the driver that has trouble with more than one.
static SNAPSHOTS: AtomicUsize = AtomicUsize::new(0);

/// A call of CreateSnapshot in progress.
pub(crate) struct InProgress {
    overlaps: bool,
}

impl InProgress {
    pub(crate) fn begin() -> InProgress {
        InProgress { overlaps: SNAPSHOTS.fetch_add(1, Ordering::SeqCst) > 0 }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        SNAPSHOTS.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Faults {
    /// Makes writes to a volume fail if the driver has the defect.
    pub(crate) fn breaks(&self, defect: Defect, seen: &Seen, id: &str) {
        if self.has(defect)
            && let Some(target) = seen.target_of(id)
        {
            break_writes(&target);
        }
    }

    /// Freezes the file system of a volume for a while if the driver has the defect.
    pub(crate) fn freezes(&self, defect: Defect, seen: &Seen, id: &str) {
        if self.has(defect)
            && let Some(target) = seen.target_of(id)
        {
            freeze(target);
        }
    }

    /// Freezes the volume of the second one of two snapshots that are taken at the same time.
    pub(crate) fn freezes_overlapping(&self, one: &InProgress, seen: &Seen, id: &str) {
        if one.overlaps {
            self.freezes(Defect::OverlappingSnapshotsStayFrozen, seen, id);
        }
    }

    /// Damages a volume in use whose size another one gets.
    pub(crate) fn collides(&self, seen: &Seen, id: &str, bytes: i64) {
        let mut others = seen.data.grown.iter().filter(|(other, size)| *other != id && **size == bytes);
        if self.has(Defect::ExpansionsCollide)
            && let Some(target) = others.find_map(|(other, _)| seen.target_of(other))
        {
            change(&target, Contents::damaged);
        }
    }

    /// Empties the copies of a snapshot that were not used yet.
    pub(crate) fn forgets_copies_of(&self, seen: &mut Seen, snapshot: &str) {
        let is_unused_copy = |id: &&String| {
            let origin = seen.data.origins.get(*id);
            origin.is_some_and(|origin| origin.snapshot.as_deref() == Some(snapshot))
        };
        let copies: Vec<String> = seen.data.unused.iter().filter(is_unused_copy).cloned().collect();
        if self.has(Defect::CopiesNeedSnapshot) {
            copies.iter().for_each(|copy| self.empty(seen, copy));
        }
    }

    /// Empties a copy that was not used yet.
    pub(crate) fn forgets_fresh_copy(&self, seen: &mut Seen, id: &str) {
        let is_fresh = seen.data.unused.contains(id) && seen.data.origins.contains_key(id);
        if is_fresh && self.has(Defect::ExpansionEmptiesFreshCopy) {
            self.empty(seen, id);
        }
    }

    pub(crate) fn remember_target(&self, target: &str) {
        if self.has(Defect::StartBreaksUsed) {
            TARGETS.lock().insert(target.to_owned());
        }
    }

    pub(crate) fn break_at_start(&self) {
        if self.has(Defect::StartBreaksUsed) {
            std::mem::take(&mut *TARGETS.lock()).iter().for_each(|target| break_writes(target));
        }
    }
}

/// Ends a file system as a device does that goes away, or makes a device refuse writes. Nothing happens where nothing is mounted.
pub(crate) fn break_writes(target: &str) {
    if is_device(target) {
        refuse_writes(target, true);
    } else if Path::new(target).is_dir() {
        run("xfs_io", &["-x", "-c", "shutdown", target]);
    }
}

fn freeze(target: String) {
    if !Path::new(&target).is_dir() {
        return;
    }
    run("fsfreeze", &["--freeze", &target]);
    std::thread::spawn(move || {
        std::thread::sleep(FROZEN);
        run("fsfreeze", &["--unfreeze", &target]);
    });
}

/// Runs a command that may fail, since the volume may be gone.
fn run(program: &str, arguments: &[&str]) {
    let _ = Command::new(program).args(arguments).output().unwrap();
}
