use csi_driver_definitions::Capability;
use csi_proto::{Call as _, v1};
use csi_workload::beside::Action;

use crate::cluster::Feature;
use crate::pattern;
use crate::scene::{CREATE_GROUP, InUse, all, distinct, end_all, positive};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volumegroupsnapshottable-stress",
    tags: &["Feature:volumegroupsnapshot"],
    patterns: &[&pattern::GROUP_DELETE],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Says(
            |definition| definition.driver_info.volume_group_snapshot_stress_test_options.is_some(),
            "the definition has no VolumeGroupSnapshotStressTestOptions",
        ),
        Need::Can(Capability::GroupSnapshot),
        Need::GroupSnapshotClass,
        Need::Offers(Feature::GroupSnapshots),
    ],
    tests: &[&REPEATEDLY],
    ..Suite::PLAIN
};

/// Volumes of the set with a workload. More of them would slow the test down.
const WORKLOADS: usize = 2;
const DELETE_GROUP: Action =
    Action { name: "DeleteVolumeGroupSnapshot", rpcs: &[v1::DeleteVolumeGroupSnapshotRequest::RPC] };

test! {
    /// Several group snapshots of one set of volumes are taken concurrently. Each has a member for each volume, and
    /// their ids differ.
    REPEATEDLY {
        name: "should support volume group snapshotting of StatefulSet volumes repeatedly",
        tags: ["Slow", "Serial"],
    }
    async |scene| {
        let options = scene.driver().driver_info.volume_group_snapshot_stress_test_options.clone().unwrap_or_default();
        let pods = positive("VolumeGroupSnapshotStressTestOptions.NumPods", options.num_pods)?;
        let snapshots = positive("VolumeGroupSnapshotStressTestOptions.NumSnapshots", options.num_snapshots)?;

        let replicas = scene.replicas(&scene.class().await?, pods).await?;
        let class = scene.group_snapshot_class().await?;
        let users = scene.workloads_of(&replicas[..WORKLOADS.min(replicas.len())]).await;
        let writing: Vec<&InUse<'_>> = users.iter().collect();
        let taken = all((0..snapshots).map(async |_| {
            let group = scene.group_snapshot(&class).await?;
            scene.members(&group, replicas.len()).await?;
            Ok(group)
        }));
        let (taken, _) = scene.beside(CREATE_GROUP, &writing, taken).await?;
        distinct("group_snapshot_id", taken.iter().filter_map(|group| group.handle.as_deref()))?;
        let deleted = all(taken.iter().map(|group| scene.delete_group_snapshot(group)));
        scene.beside(DELETE_GROUP, &writing, deleted).await?;
        end_all(users, DELETE_GROUP).await;
        all(replicas.into_iter().map(|replica| replica.pod.delete())).await?;
        Ok(())
    }
}
