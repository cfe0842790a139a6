//! Checks a back end that nothing else uses: everything that was made must go, down to the entry of a list, the byte of
//! the capacity, and the file in the driver's directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::mounts;
use csi_harness::resources::usage::entries_below;
use csi_ops::operation::Operation::*;

use super::cycle::Cycle;
use crate::rules::{GROWTH_001, GROWTH_002, GROWTH_003};

/// Rounds of each kind that are compared, after one that is not: what is made once may stay.
const ROUNDS: usize = 3;
/// Ids that are listed.
const LISTED_MAX: usize = 5;

check! {
    /// Storage that is unknown to all callers still costs money, and fills the back end: the snapshot through
    /// which a clone was made, the volume of a rejected call or of a call that was given up, or the storage
    /// of a volume that is not listed.
    pub(super) BACK_END {
        id: "growth/back-end",
        title: "an exclusive back end is unchanged after calls were made and undone, rejected or given up",
        spec: [GROWTH_001, GROWTH_002, GROWTH_003],
        needs: [
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::ListVolumes, Capability::ListSnapshots, Capability::GetCapacity]),
        ],
        refuted_by: [
            "create-volume-leaves-snapshot-of-source",
            "create-volume-leaks-on-error",
            "delete-volume-keeps-storage",
            "create-volume-from-volume-leaves-file",
            "create-volume-refused-copy-leaves-file",
            "controller-expand-leaves-file",
        ],
        runs: Serial,
        varies: true,
    }
    async |cx| {
        if !cx.target().is_owned() {
            return Err(Stop::skip("others may use the back end; --exclusive states that no one else does"));
        }
        let is_alone = cx.target().ownership() != Ownership::WhatIsNamed;
        let counts = counts_capacity(cx).await?;
        let mut directory = cx.driver_directory().await;
        let mut rng = cx.rng();
        'cycles: for cycle in cycles(cx) {
            let scope = cx.scope();
            let mut scene = cycle.begin(&scope).await?;
            // These rounds show which requests the driver accepts although it must reject them, so that the rounds that count leave those out.
            let mut is_ready = false;
            while !is_ready {
                is_ready = match cycle.round(&scope, &mut scene, &mut rng).await {
                    Err(Stop::Skip(_)) => continue 'cycles,
                    ended => ended?,
                };
            }
            let before = Holdings::take(&scope, counts).await?;
            if before.files.is_none()
                && let Some(dir) = directory.take()
            {
                cx.note(format!("{} has too many files to see which ones the driver leaves there", dir.display()));
            }
            for _ in 0..ROUNDS {
                cycle.round(&scope, &mut scene, &mut rng).await?;
            }
            let left = before.left(&scope, counts).await?;
            scope.undo_best_effort().await;
            let Some(left) = left else { continue };
            let violation = Violation::new(format!("something remains in the back end after {}", cycle.description()))
                .of(cycle.rule())
                .expected("the same lists, the same capacity and no new files in the driver's directory")
                .actual(left)
                .damage(Damage::Leak);
            if is_alone {
                return Err(violation.into());
            }
            // The driver had objects before the run, so another program may use it.
            cx.warn(violation);
        }
        Ok(())
    }
}

/// The cycles of calls that this driver supports and that may leave something behind.
fn cycles(cx: &Cx) -> Vec<Cycle> {
    let has = |capability| cx.target().capabilities().has(capability);
    let copies = has(Capability::CloneVolume) || has(Capability::CreateDeleteSnapshot);
    let needs = [
        (Cycle::DoAndUndo(CreateVolume), true),
        (Cycle::Expansions, has(Capability::ExpandVolume)),
        (Cycle::Clones, has(Capability::CloneVolume)),
        (Cycle::DoAndUndo(CreateSnapshot), has(Capability::CreateDeleteSnapshot)),
        (Cycle::Copies, has(Capability::CreateDeleteSnapshot)),
        (Cycle::DoAndUndo(CreateVolumeGroupSnapshot), has(Capability::CreateDeleteGetVolumeGroupSnapshot)),
        (Cycle::Reject(&[CreateVolume, DeleteVolume]), true),
        (Cycle::RejectCopies, copies),
        (Cycle::GivenUp, true),
    ];
    needs.into_iter().filter(|(_, is_there)| *is_there).map(|(cycle, _)| cycle).collect()
}

/// Returns true if a volume takes exactly its size off the capacity. The free space of a file system is less exact.
async fn counts_capacity(cx: &Cx) -> CheckResult<bool> {
    if !cx.target().capabilities().has(Capability::GetCapacity) {
        return Ok(false);
    }
    let scope = cx.scope();
    let Ok(before) = scope.call(scope.capacity_request()).await.any_answer()? else { return Ok(false) };
    let before = before.available_capacity;
    let volume = scope.new_volume().await?;
    let taken = before - available_bytes(&scope).await?;
    scope.undo_best_effort().await;
    Ok(taken > 0 && taken == volume.capacity_bytes)
}

async fn available_bytes(cx: &Cx) -> CheckResult<i64> {
    Ok(cx.call(cx.capacity_request()).setup("capacity").await?.available_capacity)
}

/// Everything that exists in the back end, as the driver reports it and as it is seen from outside.
struct Holdings {
    things: BTreeSet<String>,
    /// The files in the directory of the driver, if that is known and small enough.
    files: Option<BTreeSet<PathBuf>>,
    available_bytes: Option<i64>,
}

impl Holdings {
    async fn take(cx: &Cx, counts: bool) -> CheckResult<Holdings> {
        let has = |capability| cx.target().capabilities().has(capability);
        let mut things = BTreeSet::new();
        if has(Capability::ListVolumes) {
            let volumes = cx.list_volumes().await?.into_iter().filter_map(|entry| entry.volume);
            things.extend(volumes.map(|volume| format!("volume {}", volume.volume_id)));
        }
        if has(Capability::ListSnapshots) {
            let snapshots = cx.list_snapshots(v1::ListSnapshotsRequest::default()).await?;
            things.extend(snapshots.into_iter().map(|snapshot| format!("snapshot {}", snapshot.snapshot_id)));
        }
        let mut files = None;
        if let Some(dir) = &cx.target().driver_directory() {
            let of_driver = mounts::loops().into_iter().filter(|(_, file)| Path::new(file).starts_with(dir));
            things.extend(of_driver.map(|(device, file)| format!("loop device {device} on {file}")));
            files = entries_below(dir);
        }
        let available_bytes = if counts { Some(available_bytes(cx).await?) } else { None };
        Ok(Holdings { things, files, available_bytes })
    }

    /// Describes what exists beyond this, once the driver has had its time to delete.
    async fn left(&self, cx: &Cx, counts: bool) -> CheckResult<Option<String>> {
        let now = || async { Ok(self.compared(&Holdings::take(cx, counts).await?)) };
        let settled =
            cx.eventually(Settles::VolumeUnlisted, || async { Ok(now().await?.is_none().then_some(())) });
        if settled.await?.is_some() { Ok(None) } else { now().await }
    }

    fn compared(&self, now: &Holdings) -> Option<String> {
        let mut new: Vec<String> = now.things.difference(&self.things).cloned().collect();
        let files: Vec<String> = match (&self.files, &now.files) {
            (Some(before), Some(now)) => {
                now.difference(before).map(|file| format!("file {}", file.display())).collect()
            }
            _ => Vec::new(),
        };
        // A database may begin another file of its own.
        if files.len() >= ROUNDS {
            new.extend(files);
        }
        let lost = self.available_bytes.zip(now.available_bytes).map_or(0, |(before, now)| before - now);
        let mut listed = new[..new.len().min(LISTED_MAX)].join(", ");
        if new.len() > LISTED_MAX {
            listed = format!("{listed} and {} more", new.len() - LISTED_MAX);
        }
        let lost = (lost > 0).then(|| format!("{} less in GetCapacity", sized(lost.unsigned_abs())));
        let parts: Vec<String> =
            Some(listed).filter(|listed| !listed.is_empty()).into_iter().chain(lost).collect();
        (!parts.is_empty()).then(|| format!("{} after {ROUNDS} rounds", parts.join("; ")))
    }
}
