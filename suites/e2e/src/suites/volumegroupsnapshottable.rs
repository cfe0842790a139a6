use std::collections::BTreeMap;

use csi_driver_definitions::Capability;
use csi_workload::beside::judge_group;

use crate::cluster::{Done, Feature, GroupSnapshot, GroupSnapshotOrigin, ReclaimPolicy, Snapshot};
use crate::pattern::{self, SnapshotType};
use crate::scene::{CREATE_GROUP, InUse, Scene, Volume, end_all, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volumegroupsnapshottable",
    tags: &["Feature:volumegroupsnapshot"],
    context: "VolumeGroupSnapshottable",
    patterns: &[
        &pattern::GROUP_DELETE,
        &pattern::GROUP_RETAIN,
        &pattern::PREPROVISIONED_GROUP_DELETE,
        &pattern::PREPROVISIONED_GROUP_RETAIN,
    ],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Can(Capability::GroupSnapshot),
        Need::GroupSnapshotClass,
        Need::Offers(Feature::GroupSnapshots),
    ],
    tests: &[&RESTORES],
    ..Suite::PLAIN
};

/// The number of pods in the set.
const REPLICAS: u32 = 3;

test! {
    /// Snapshots of three volumes are taken together. Volumes made from them have the data of each, and in the end
    /// the group is deleted or retained as its class says.
    RESTORES {
        name: "should create snapshots for StatefulSet volumes and verify data consistency after restore",
    }
    async |scene| {
        let class = scene.class().await?;
        let replicas = scene.replicas(&class, REPLICAS).await?;
        let users = scene.workloads_of(&replicas).await;
        let writing: Vec<&InUse<'_>> = users.iter().collect();
        let (taken, evidence) = scene.beside(CREATE_GROUP, &writing, taken(scene)).await?;
        end_all(users, CREATE_GROUP).await;

        let mut volumes = Vec::new();
        for member in &taken.members {
            let spec = scene.restored_spec(&class, member);
            volumes.push(scene.claim(&spec, &class).await?);
        }
        let pod = scene.pod(&volumes.iter().collect::<Vec<&Volume>>());
        let pod = scene.run_within(pod, scene.timeouts().pod_start_slow).await?;
        let mut moments = Vec::new();
        for (index, member) in taken.members.iter().enumerate() {
            let of = taken.claims.get(member.handle.as_deref().unwrap_or_default());
            let Some(nth) = replicas.iter().position(|replica| Some(&replica.claim) == of) else {
                return Err(failed("a group has a snapshot of another volume", "one of the set", &member.spec.name));
            };
            let path = path_of(index);
            pod.holds(&path, false, &replicas[nth].content).await?;
            if let Some(evidence) = &evidence[nth] {
                moments.extend(scene.judge_copy(evidence, &pod, &path, false, "a member of a group snapshot").await);
            }
        }
        scene.beside_test(judge_group(&moments));
        pod.delete().await?;

        scene.delete_group_snapshot(&taken.group).await?;
        if scene.retains_snapshots() {
            let deleting = scene.group_snapshot_class_that(ReclaimPolicy::Delete).await?;
            let again = scene.group_snapshot_of(handles(&taken.group, &taken.members), &deleting).await?;
            // An object that is not imported yet would be lost instead of deleted.
            members(scene, &again).await?;
            scene.delete_group_snapshot(&again).await?;
        }
        for replica in replicas {
            replica.pod.delete().await?;
        }
        Ok(())
    }
}

/// A taken group snapshot.
struct Taken {
    group: GroupSnapshot,
    members: Vec<Snapshot>,
    /// The claims of the members, by snapshot_id.
    claims: BTreeMap<String, String>,
}

/// Makes a group snapshot of the set as the pattern says. For a pre-provisioned one, the driver takes it, and its
/// first objects are deleted without it.
async fn taken(scene: &Scene) -> Done<Taken> {
    let is_there_before = scene.pattern.snapshot == Some(SnapshotType::PreProvisionedGroup);
    let first_class = match is_there_before {
        true => scene.group_snapshot_class_that(ReclaimPolicy::Retain).await?,
        false => scene.group_snapshot_class().await?,
    };
    let mut group = scene.group_snapshot(&first_class).await?;
    let mut members = members(scene, &group).await?;
    let of = |(member, (_, claim)): (&Snapshot, &(String, String))| {
        (member.handle.clone().unwrap_or_default(), claim.clone())
    };
    let claims = members.iter().zip(&group.members).map(of).collect();
    if is_there_before {
        let handles = handles(&group, &members);
        scene.delete_group_snapshot(&group).await?;
        group = scene.group_snapshot_of(handles, &scene.group_snapshot_class().await?).await?;
        members = self::members(scene, &group).await?;
    }
    Ok(Taken { group, members, claims })
}

/// Returns the snapshots of a group, one for each volume of the set.
async fn members(scene: &Scene, group: &GroupSnapshot) -> Done<Vec<Snapshot>> {
    let expected = REPLICAS as usize;
    scene.members(group, expected).await
}

/// Returns the ids from which objects for a group can be created.
fn handles(group: &GroupSnapshot, members: &[Snapshot]) -> GroupSnapshotOrigin {
    GroupSnapshotOrigin::Handles {
        group: group.handle.clone().unwrap_or_default(),
        snapshots: members.iter().filter_map(|member| member.handle.clone()).collect(),
    }
}
