//! Group snapshots hold all of their volumes at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use csi_harness::prelude::*;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::workload::{self, play};
use futures_util::future::join;

use crate::copies::{copy, read};
use crate::used::{PLACE, Used};

/// Pairs of writes beside one call; a group snapshot that takes longer is taken of what is there by then.
const WRITES_MAX: u32 = 100_000;
/// Bytes that each volume holds besides: a driver that copies one volume after the other then takes so long that the
/// workload writes in between, also on a busy machine.
const FILL_BYTES: u64 = 16 << 20;
/// Pairs of writes before each call, so that there is something in both volumes.
const WRITES_BEFORE: u32 = 2;
/// The number of pairs of writes during a call after which it counts as made between writes. A busy machine may keep
/// the workload from writing, and then any driver gets it right.
const WRITES_BESIDE: u32 = 2;
/// Group snapshots of that kind that have to be right.
const STRADDLED: u32 = 3;
/// The number of group snapshots after which the check ends.
const TRIES_MAX: u32 = 8;

check! {
    /// A database writes to its log before it writes its data: if the snapshot of the data contains a write,
    /// the snapshot of the log has to contain it as well. A workload writes a number to the first volume,
    /// waits until it is durable, writes the next number to the second volume, and so on while the group
    /// snapshot is taken.
    ONE_MOMENT {
        id: "data/group-snapshots/one-moment",
        title: "the members of a group snapshot hold their volumes as they were at one moment",
        spec: [req::GROUP_CREATE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, ROOT],
        refuted_by: ["hostpath/groups-over-time", "hostpath/mixes-up-members"],
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        let volumes = [cx.node_volume().await?, cx.node_volume().await?];
        for volume in &volumes {
            fill(cx, volume).await?;
        }
        let (mut straddled, mut tries, mut stamp) = (0, 0, 1);
        while straddled < STRADDLED && tries < TRIES_MAX {
            cx.stage("group snapshot", u64::from(tries) + 1, None);
            let beside = taken_at_one_moment(cx, &volumes, &mut stamp).await?;
            straddled += u32::from(beside >= WRITES_BESIDE);
            tries += 1;
        }
        if straddled == 0 {
            cx.note(format!("none of {tries} group snapshots took long enough for a workload to write at the same time"));
        }
        Ok(())
    }
}

/// Fills a part of a file system. A driver that copies a device copies all of it anyway.
async fn fill(cx: &Cx, volume: &NodeVolume) -> CheckResult {
    if cx.access() == AccessType::Block {
        return Ok(());
    }
    let used = Used::begin(cx, volume).await?;
    used.fill(FILL_BYTES.min(used.measured_bytes().await? / 4)).await?;
    used.end().await
}

/// Takes a group snapshot beside writes and looks into its members. Returns the number of pairs of writes that were
/// done meanwhile.
async fn taken_at_one_moment(cx: &Cx, volumes: &[NodeVolume; 2], stamp: &mut u32) -> CheckResult<u32> {
    let cx = &cx.scope();
    let used = [Used::begin(cx, &volumes[0]).await?, Used::begin(cx, &volumes[1]).await?];
    let request = cx.create_group_snapshot_request(&[&volumes[0].id, &volumes[1].id]);
    let taken = async { cx.create_group_snapshot(request.clone()).await.any_answer() };
    let (taken, first_stamp, beside) = beside_writes(&used, stamp, taken).await?;
    let group = taken.map_err(|refused| {
        Stop::skip(format!(
            "CreateVolumeGroupSnapshot was rejected while the volumes were written to: {refused}"
        ))
    })?;
    ready(cx, &request).await?;
    // These writes show in a member that is taken only now.
    used[0].write(2 * *stamp).await?;
    used[1].write(2 * *stamp + 3).await?;
    *stamp += 2;
    for used in used {
        used.end().await?;
    }
    let mut found = [Found::Empty, Found::Empty];
    for (volume, found) in volumes.iter().zip(&mut found) {
        let member = group.snapshots.iter().find(|member| member.source_volume_id == volume.id);
        let member = member.ok_or_else(|| Stop::broken("the group snapshot has no member for a volume"))?;
        let source = v1::VolumeContentSource::snapshot(&member.snapshot_id);
        let restored = copy(cx, source, volume.size_bytes).await?;
        *found = read(cx, &restored).await?;
    }
    let [first, second] = [&found[0], &found[1]].map(|found| found.number().unwrap_or_default());
    ensure!(
        first >= 2 * first_stamp && first.is_multiple_of(2) && first.abs_diff(second) == 1,
        "the members of a group snapshot do not hold their volumes as they were at one moment";
        of: &req::GROUP_CREATE_002,
        expected: "an even number in the first, and the number before or after it in the second: they were written in turn",
        actual: format!("in the first {}, in the second {}", found[0], found[1])
    );
    cx.undo().await?;
    Ok(beside)
}

/// Writes to one volume and then to the other, again and again while something else is done. Returns the result of that, the number of
/// the last pair that was written before, and the number of pairs that were written beside it.
async fn beside_writes<T>(
    used: &[Used; 2],
    stamp: &mut u32,
    work: impl Future<Output = CheckResult<T>>,
) -> CheckResult<(T, u32, u32)> {
    for _ in 0..WRITES_BEFORE {
        used[0].write(2 * *stamp).await?;
        used[1].write(2 * *stamp + 1).await?;
        *stamp += 1;
    }
    let before = *stamp - 1;
    let goes_on = Arc::new(AtomicBool::new(true));
    let (volumes, until) =
        (used.each_ref().map(|used| (used.path().to_owned(), used.stamp(0))), goes_on.clone());
    let stamps = *stamp..*stamp + WRITES_MAX;
    let writing = play(move || {
        let mut written = 0;
        for stamp in stamps.take_while(|_| until.load(Ordering::Relaxed)) {
            for ((path, stamp), number) in volumes.iter().zip(2 * stamp..) {
                workload::write(path, PLACE, &Stamp { number, ..stamp.clone() })?;
            }
            written += 1;
        }
        Ok::<u32, std::io::Error>(written)
    });
    let working = async {
        let done = work.await;
        goes_on.store(false, Ordering::Relaxed);
        done
    };
    let (written, done) = join(writing, working).await;
    let written = written?.map_err(|error| {
        Stop::broken(format!("failed to write during CreateVolumeGroupSnapshot: {error}"))
    })?;
    *stamp += written;
    Ok((done?, before, written))
}

/// Waits until all members can be used.
async fn ready(cx: &Cx, request: &v1::CreateVolumeGroupSnapshotRequest) -> CheckResult {
    let is_ready = || async {
        let group = cx.create_group_snapshot(request.clone()).setup("a group snapshot").await?;
        Ok(group.ready_to_use.then_some(()))
    };
    let ready = cx.eventually(Settles::SnapshotReady, is_ready).await?;
    ready.ok_or_else(|| Stop::broken("needs a group snapshot, but the new one does not become ready_to_use"))
}

pub(crate) static CHECKS: &[&Check] = &[&ONE_MOMENT];
