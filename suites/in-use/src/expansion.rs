//! Expansion and modification of volumes in use.

use std::io;

use csi_harness::prelude::*;
use csi_harness::resources::contents::Stamp;
use csi_harness::resources::workload::{self, play, size_bytes};
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::part::{Part, free_bytes, take_room};
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};
use futures_util::future::join;

use crate::beside::{Action, InUse, beside, call, has_own_file_system, judge_copy, published};
use crate::make::{CLONE, Source, copy_of, snapshot};

const EXPAND: Action = Action {
    name: "ControllerExpandVolume and NodeExpandVolume",
    rpcs: &[v1::ControllerExpandVolumeRequest::RPC, v1::NodeExpandVolumeRequest::RPC],
};
const EXPAND_COPY: Action = Action { name: "ControllerExpandVolume of a copy", rpcs: &[] };
const MODIFY: Action =
    Action { name: "ControllerModifyVolume", rpcs: &[v1::ControllerModifyVolumeRequest::RPC] };
/// Most of a new part is written to, and at most this much of it.
const NEW_PART_BYTES_MAX: u64 = 64 << 20;
/// The size of a file in the old part.
const OLD_PART_BYTES_MAX: u64 = 8 << 20;
/// The free room of the old part that is not taken, so that the workload can go on.
const ROOM_BYTES: u64 = 32 << 20;

/// The names of the parts in messages.
const OLD: &str = "the old part";
const NEW: &str = "the new part";

check! {
    /// A file system or a mapping that grows while it is written to moves the data at its end.
    EXPANSION {
        id: "in-use/expansion",
        title: "expanding a volume in use does not harm the workload, and both its old and new part hold written data",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, EXPAND_VOLUME, ROOT],
        refuted_by: [
            "hostpath/expansion-wipes",
            "hostpath/expansion-freezes-writer",
            "hostpath/expansion-damages-old-part",
            "hostpath/node-expansion-breaks-writer",
            "hostpath/new-part-is-initialised-late",
            "hostpath/file-system-is-larger-than-device",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let mut volume = larger(user.volume());
        let old_part = old_part(cx, &user).await?;
        beside(EXPAND, [&user], expand(cx, &mut volume)).await?;
        parts_hold([(&user, &volume)], [old_part]).await?;
        user.end(EXPAND).await
    }
}

/// The volume with the wish for twice its size.
pub fn larger(volume: &TrackedVolume) -> TrackedVolume {
    let twice = volume.volume.size_bytes.saturating_mul(2);
    TrackedVolume { expand_to_bytes: volume.expand_to_bytes.max(twice), ..volume.clone() }
}

/// Expands a volume in use, on the node as well if the controller asks for that.
async fn expand(cx: &Cx, volume: &mut TrackedVolume) -> CheckResult {
    call(cx, volume, Operation::ControllerExpandVolume).await?;
    let is_required = volume.expanded.as_ref().is_some_and(|answer| answer.node_expansion_required);
    if is_required && Operation::NodeExpandVolume.is_offered(cx) {
        call(cx, volume, Operation::NodeExpandVolume).await?;
    }
    Ok(())
}

/// The old part of a volume before it is expanded.
struct OldPart {
    /// The size of the volume.
    bytes: u64,
    /// A file that stays in it; a device has the records of the workload all over it.
    file: Option<Part>,
}

/// Measures the volume. A file system gets a file that has to stay as it is, and most of its free room is taken, so that what is written after
/// the expansion has to be in the new part. There is no old part if the volume is a directory of something larger.
async fn old_part(cx: &Cx, user: &InUse) -> CheckResult<Option<OldPart>> {
    if !has_own_file_system(cx, user.volume()).await? {
        return Ok(None);
    }
    let (path, stamp) = (user.path().to_owned(), stamp(user, OLD));
    let measured = play(move || {
        let bytes = size_bytes(&path)?;
        if !path.is_dir() {
            return Ok(OldPart { bytes, file: None });
        }
        let mut file = Part::of_file_system(&path, "old-part", OLD_PART_BYTES_MAX.min(bytes / 8), stamp);
        file.write()?;
        take_room(&path, ROOM_BYTES)?;
        Ok(OldPart { bytes, file: Some(file) })
    });
    let measured = measured.await?;
    let failed = |error| Stop::broken(format!("failed to write to the volume before its expansion: {error}"));
    measured.map(Some).map_err(failed)
}

/// Writes to the new part of an expanded volume. There is none if the volume is not larger, which other checks judge.
async fn new_part(
    user: &InUse,
    volume: &TrackedVolume,
    old: &OldPart,
    bytes_max: u64,
) -> CheckResult<Option<Part>> {
    let promised = volume.expanded.as_ref().map_or(0, |answer| answer.capacity_bytes);
    let promised = u64::try_from(promised).unwrap_or_default();
    let (path, stamp, old_bytes) = (user.path().to_owned(), stamp(user, NEW), old.bytes);
    let written = play(move || {
        let bytes = size_bytes(&path)?;
        let mut part = match path.is_dir() {
            true => {
                let room = free_bytes(&path)?.min(bytes.saturating_sub(old_bytes));
                Part::of_file_system(&path, "new-part", (room / 4 * 3).min(bytes_max), stamp)
            }
            false if bytes < promised => return Ok(None),
            false => Part::of_device(&path, old_bytes, promised, bytes_max, stamp),
        };
        if part.is_empty() {
            return Ok(None);
        }
        part.write()?;
        Ok(Some(part))
    });
    written.await?.map_err(|error| failed_part(NEW, &error))
}

/// Judges whether a part holds what was written to it.
async fn holds(noun: &str, part: Option<Part>) -> CheckResult {
    let Some(part) = part else { return Ok(()) };
    let expected = part.stamp().clone();
    let read = play(move || part.read()).await?;
    match read.map_err(|error| failed_part(noun, &error))? {
        None => Ok(()),
        Some(wrong) => {
            Err(Violation::new(format!("{noun} of an expanded volume does not hold what was written to it"))
                .of(&IN_USE_001)
                .expected(expected)
                .actual(format!("{}, after {} MiB of it", wrong.found, wrong.after_bytes >> 20))
                .damage(Damage::DataLoss)
                .into())
        }
    }
}

fn failed_part(noun: &str, error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::TimedOut => {
            Stop::broken(format!("{noun} of an expanded volume cannot be judged: {error}"))
        }
        _ => Violation::new(format!("a workload gets an error in {noun} of an expanded volume"))
            .of(&IN_USE_001)
            .expected("writes and reads that succeed")
            .actual(error)
            .into(),
    }
}

fn stamp(user: &InUse, noun: &str) -> Stamp {
    Stamp { run: workload::new_run(), volume: user.id().to_owned(), number: if noun == OLD { 1 } else { 2 } }
}

/// Judges the old and the new parts of expanded volumes, all of which are written before the first one is read: the volumes may share them.
async fn parts_hold<const N: usize>(
    users: [(&InUse, &TrackedVolume); N],
    old_parts: [Option<OldPart>; N],
) -> CheckResult {
    let mut parts = Vec::new();
    for ((user, volume), old) in users.into_iter().zip(old_parts) {
        if let Some(old) = old {
            let new = new_part(user, volume, &old, NEW_PART_BYTES_MAX / N as u64).await?;
            parts.push((old.file, new));
        }
    }
    for (old, new) in parts {
        holds(NEW, new).await?;
        holds(OLD, old).await?;
    }
    Ok(())
}

check! {
    /// A driver that identifies a device by its size may confuse two volumes that are expanded to the same
    /// size at the same time.
    TWO_AT_ONCE {
        id: "in-use/expand-two-at-once",
        title: "two volumes in use that are expanded to the same size at the same time both keep their data",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, EXPAND_VOLUME, ROOT],
        refuted_by: ["hostpath/expansions-to-one-size-collide", "hostpath/new-parts-of-one-size-collide"],
        duplicate_of: "in-use/expansion",
        access: Each,
        varies: true,
    }
    async |cx| {
        let [first, second] = InUse::begin_two(cx).await?;
        let (mut one, mut other) = (larger(first.volume()), larger(second.volume()));
        let bytes = one.expand_to_bytes.max(other.expand_to_bytes);
        (one.expand_to_bytes, other.expand_to_bytes) = (bytes, bytes);
        let old_parts = [old_part(cx, &first).await?, old_part(cx, &second).await?];
        let expanded = async {
            let (one, other) = join(expand(cx, &mut one), expand(cx, &mut other)).await;
            one.and(other)
        };
        beside(EXPAND, [&first, &second], expanded).await?;
        parts_hold([(&first, &one), (&second, &other)], old_parts).await?;
        let (ended, also) = join(first.end(EXPAND), second.end(EXPAND)).await;
        ended.and(also)
    }
}

check! {
    /// A claim that requests a larger size than its data source is expanded as soon as it exists, while a
    /// driver may still be copying.
    FRESH_COPY {
        id: "in-use/fresh-copy-expanded",
        title: "a copy of a volume in use that is expanded immediately holds its data",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
            EXPAND_VOLUME,
            ROOT,
        ],
        refuted_by: [
            "hostpath/expansion-of-a-fresh-copy-empties-it",
            "hostpath/expansion-of-a-copy-breaks-source",
        ],
        duplicate_of: "in-use/clone",
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let bytes = user.volume().volume.size_bytes;
        let copied = async {
            let source = match cx.target().capabilities().has(Capability::CloneVolume) {
                true => Source::volume(user.id()),
                false => Source::snapshot(&snapshot(cx, user.id()).await?.snapshot_id),
            };
            copy_of(cx, source, bytes).await
        };
        let (copy, [evidence]) = beside(CLONE, [&user], copied).await?;
        let mut expanded = larger(&TrackedVolume::new(cx, copy.clone()));
        let controller = call(cx, &mut expanded, Operation::ControllerExpandVolume);
        let rejected = match beside(EXPAND_COPY, [&user], controller).await {
            // A driver may reject an expansion while it copies, or one of a volume that is not in use.
            Err(Stop::Skip(why)) => Some(why),
            done => done.map(|_| None)?,
        };
        user.end(EXPAND_COPY).await?;
        if let Some(why) = rejected {
            return Err(Stop::skip(why));
        }
        let on_node = expanded.expanded.as_ref().is_some_and(|answer| answer.node_expansion_required);
        if on_node && Operation::NodeExpandVolume.is_offered(cx) {
            let used = cx.scope();
            let mut volume = TrackedVolume { expanded: expanded.expanded, ..published(&used, copy.clone()).await? };
            volume.expand_to_bytes = expanded.expand_to_bytes;
            call(&used, &mut volume, Operation::NodeExpandVolume).await?;
            used.undo().await?;
        }
        judge_copy(cx, &evidence, copy, "a copy that was expanded at once").await.map(drop)
    }
}

check! {
    /// A change of the performance class may move the volume to other disks.
    MODIFY_IN_USE {
        id: "in-use/modify",
        title: "the modification of a volume in use does not harm the workload",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, MODIFY_VOLUME, Need::Configured(Setting::MutableParameters), ROOT],
        refuted_by: [
            "hostpath/modification-breaks-writer",
            "hostpath/modification-freezes-writer",
            "hostpath/modification-loses-writes",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let mut volume = user.volume().clone();
        beside(MODIFY, [&user], call(cx, &mut volume, Operation::ControllerModifyVolume)).await?;
        user.end(MODIFY).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&EXPANSION, &TWO_AT_ONCE, &FRESH_COPY, &MODIFY_IN_USE];
