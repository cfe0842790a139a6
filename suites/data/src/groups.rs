//! Group snapshots hold all of their volumes at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use csi_harness::prelude::*;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::workload::{self, play};
use futures_util::future::join;

use crate::copies::{copy, of_snapshot, read};
use crate::used::{PLACE, Used};

/// Rounds of writes beside the call; a group snapshot that takes longer is taken of what is there by then.
const WRITES_MAX: u32 = 100_000;
/// Writes before the call, so that there is something in both volumes.
const WRITES_BEFORE: u32 = 2;

check! {
    /// What a database writes to its log before its data has to be in the snapshot of the log if the data is in the other one.
    /// A workload writes a number to the first volume, waits until that is durable, then the next one to the second, and so on
    /// while the group snapshot is taken.
    ONE_MOMENT {
        id: "data/group-snapshots/one-moment",
        title: "the members of a group snapshot hold their volumes as they were at one moment",
        spec: [req::GROUP_CREATE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT, ROOT],
        refuted_by: ["hostpath/groups-over-time", "hostpath/mixes-up-members"],
        access: Each,
        varies: true,
    }
    async |cx| {
        let volumes = [cx.node_volume().await?, cx.node_volume().await?];
        let used = [Used::begin(cx, &volumes[0]).await?, Used::begin(cx, &volumes[1]).await?];
        let request = cx.create_group_snapshot_request(&[&volumes[0].id, &volumes[1].id]);
        let taken = beside_writes(&used, async { cx.create_group_snapshot(request.clone()).await.any_answer() });
        let Ok(group) = taken.await? else {
            return Err(Stop::skip("the driver makes no group snapshot of volumes that are written to"));
        };
        ready(cx, &request).await?;
        // What is taken only now is told from what was taken in time.
        used[0].write(2 * WRITES_MAX).await?;
        used[1].write(2 * WRITES_MAX + 3).await?;
        for used in used {
            used.end().await?;
        }
        let mut found = [Found::Empty, Found::Empty];
        for (volume, found) in volumes.iter().zip(&mut found) {
            let member = group.snapshots.iter().find(|member| member.source_volume_id == volume.id);
            let member = member.ok_or_else(|| Stop::broken("a volume of the group has no member"))?;
            let restored = copy(cx, of_snapshot(&member.snapshot_id), volume.size_bytes).await?;
            *found = read(cx, &restored).await?;
        }
        let [first, second] = [&found[0], &found[1]].map(|found| found.number().unwrap_or_default());
        ensure!(
            first >= 2 * WRITES_BEFORE && first.is_multiple_of(2) && first.abs_diff(second) == 1,
            "the members of a group snapshot do not hold their volumes as they were at one moment";
            of: &req::GROUP_CREATE_002,
            expected: "an even number in the first, and the number before or after it in the second: they were written in turn",
            actual: format!("in the first {}, in the second {}", found[0], found[1])
        );
        Ok(())
    }
}

/// Writes to one volume and then to the other, again and again while something else is done.
async fn beside_writes<T>(used: &[Used; 2], work: impl Future<Output = CheckResult<T>>) -> CheckResult<T> {
    for stamp in 1..=WRITES_BEFORE {
        used[0].write(2 * stamp).await?;
        used[1].write(2 * stamp + 1).await?;
    }
    let goes_on = Arc::new(AtomicBool::new(true));
    let (volumes, until) =
        (used.each_ref().map(|used| (used.path().to_owned(), used.stamp(0))), goes_on.clone());
    let writing = play(move || {
        let stamps = WRITES_BEFORE + 1..WRITES_MAX;
        stamps.take_while(|_| until.load(Ordering::Relaxed)).try_for_each(|stamp| {
            volumes.iter().zip(2 * stamp..).try_for_each(|((path, stamp), number)| {
                workload::write(path, PLACE, &Stamp { number, ..stamp.clone() })
            })
        })
    });
    let working = async {
        let done = work.await;
        goes_on.store(false, Ordering::Relaxed);
        done
    };
    let (written, done) = join(writing, working).await;
    written?.map_err(|error| {
        Stop::broken(format!("failed to write beside CreateVolumeGroupSnapshot: {error}"))
    })?;
    done
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
