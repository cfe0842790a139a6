use csi_driver_definitions::Capability;
use csi_proto::{Call as _, v1};
use csi_workload::beside::Action;
use futures_util::future::join_all;

use crate::cluster::Feature;
use crate::pattern;
use crate::scene::{InUse, all, distinct, end_all, path_of, positive};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "snapshottable-stress",
    tags: &["Feature:VolumeSnapshotDataSource"],
    patterns: &[&pattern::SNAPSHOT_DELETE, &pattern::SNAPSHOT_RETAIN],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Says(
            |definition| definition.driver_info.volume_snapshot_stress_test_options.is_some(),
            "the definition has no VolumeSnapshotStressTestOptions",
        ),
        Need::Can(Capability::SnapshotDataSource),
        Need::SnapshotClass,
        Need::Offers(Feature::Snapshots),
    ],
    tests: &[&REPEATEDLY],
    ..Suite::PLAIN
};

/// Pods with a workload. More of them would slow the test down.
const WORKLOADS: usize = 2;
const CREATION: Action = Action { name: "CreateSnapshot", rpcs: &[v1::CreateSnapshotRequest::RPC] };
const DELETION: Action = Action { name: "DeleteSnapshot", rpcs: &[v1::DeleteSnapshotRequest::RPC] };

test! {
    /// Several snapshots of each volume are taken concurrently while pods use the volumes. All become ready, and
    /// their ids differ.
    REPEATEDLY {
        name: "should support snapshotting of many volumes repeatedly",
        tags: ["Slow", "Serial"],
    }
    async |scene| {
        let options = scene.driver().driver_info.volume_snapshot_stress_test_options.clone().unwrap_or_default();
        let pods = positive("VolumeSnapshotStressTestOptions.NumPods", options.num_pods)?;
        let snapshots = positive("VolumeSnapshotStressTestOptions.NumSnapshots", options.num_snapshots)?;

        let class = scene.class().await?;
        let in_use = all((0..pods).map(async |_| {
            let volume = scene.volume_of(&class).await?;
            Ok((volume.claim().to_owned(), scene.run(scene.pod(&[&volume])).await?))
        }));
        let in_use = in_use.await?;
        let snapshot_class = scene.snapshot_class().await?;
        let path = path_of(0);
        let users = join_all(in_use.iter().take(WORKLOADS).map(|(_, pod)| pod.start_workload(&path))).await;
        let writing: Vec<&InUse<'_>> = users.iter().collect();
        let claims = in_use.iter().flat_map(|(claim, _)| (0..snapshots).map(move |_| claim));
        let taken = all(claims.map(|claim| scene.snapshot(claim, &snapshot_class)));
        let (taken, _) = scene.beside(CREATION, &writing, taken).await?;
        distinct("snapshot_id", taken.iter().filter_map(|snapshot| snapshot.handle.as_deref()))?;

        let deleted = all(taken.iter().map(|snapshot| scene.delete_snapshot(snapshot)));
        scene.beside(DELETION, &writing, deleted).await?;
        end_all(users, DELETION).await;
        if scene.retains_snapshots() {
            all(taken.iter().map(|snapshot| scene.is_retained(snapshot))).await?;
        }
        scene.release(in_use).await
    }
}
