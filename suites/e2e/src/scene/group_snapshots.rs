//! Takes snapshots of several volumes together.

use csi_harness::prelude::Stop;
use csi_proto::{Call as _, v1};
use csi_workload::beside::Action;
use futures_util::future::join_all;

use super::{Content, InUse, RunningPod, Scene, Seen, Volume, all, failed};
use crate::cluster::{
    Done, GroupSnapshot, GroupSnapshotOrigin, GroupSnapshotSpec, Pairs, PvcSpec, ReclaimPolicy, Snapshot,
    SnapshotClass, StorageClass,
};

/// As upstream, a group snapshot may take this multiple of one snapshot's time.
const GROUP_FACTOR: u32 = 10;

/// The path of the volumes in the pods of a set.
const REPLICA_PATH: &str = "/mnt/data";

/// A pod of a set, each with a volume that has data. It replaces one of a StatefulSet.
#[derive(Debug)]
pub(crate) struct Replica<'a> {
    pub(crate) claim: String,
    pub(crate) pod: RunningPod<'a>,
    pub(crate) content: Content,
}

pub(crate) const CREATE_GROUP: Action =
    Action { name: "CreateVolumeGroupSnapshot", rpcs: &[v1::CreateVolumeGroupSnapshotRequest::RPC] };

/// The label that selects the claims of the group.
pub(crate) fn group_labels() -> Pairs {
    Pairs::from([("group".to_owned(), "test-group".to_owned())])
}

impl Scene {
    /// Starts a set of pods. Upstream's volumes have 1Mi even if the driver's smallest ones are larger; these are not
    /// smaller.
    pub(crate) async fn replicas(&self, class: &StorageClass, count: u32) -> Done<Vec<Replica<'_>>> {
        let replica = async |_| {
            let (claim, volume) = self.labelled_claim(class).await?;
            let pod = self.run(self.pod_at(&[(&volume, REPLICA_PATH.to_owned())])).await?;
            let content = self.content();
            pod.write(REPLICA_PATH, volume.block, &content).await?;
            Ok(Replica { claim, pod, content })
        };
        all((0..count).map(replica)).await
    }

    /// Starts a workload in each pod of a set.
    pub(crate) async fn workloads_of<'a>(&self, replicas: &[Replica<'a>]) -> Vec<InUse<'a>> {
        join_all(replicas.iter().map(|replica| replica.pod.start_workload(REPLICA_PATH))).await
    }

    /// Makes a claim of the group, and its volume.
    pub(crate) async fn labelled_claim(&self, class: &StorageClass) -> Done<(String, Volume)> {
        let spec = PvcSpec { labels: group_labels(), ..self.claim_spec(class) };
        let volume = self.claim(&spec, class).await?;
        Ok((spec.name, volume))
    }

    /// Creates a group snapshot class for the pattern. Upstream adds the parameter `deletionPolicy`, which no driver
    /// has; it is left out here.
    pub(crate) async fn group_snapshot_class(&self) -> Done<SnapshotClass> {
        self.group_snapshot_class_that(self.pattern.deletion).await
    }

    /// Creates a group snapshot class with another policy.
    pub(crate) async fn group_snapshot_class_that(&self, deletion: ReclaimPolicy) -> Done<SnapshotClass> {
        let defined = self.definition.group_snapshot.as_ref();
        let defined = defined.ok_or_else(|| Stop::skip("the definition has no GroupSnapshotClass"))?;
        let class = SnapshotClass {
            name: self.name("group-snapshot-class"),
            deletion_policy: deletion,
            ..defined.clone()
        };
        self.cluster().create_group_snapshot_class(&class).await?;
        Ok(class)
    }

    /// Takes a group snapshot of all claims of the group, and waits until it is ready.
    pub(crate) async fn group_snapshot(&self, class: &SnapshotClass) -> Done<GroupSnapshot> {
        self.group_snapshot_of(GroupSnapshotOrigin::Labels(group_labels()), class).await
    }

    /// Creates a group snapshot and waits until it is ready.
    pub(crate) async fn group_snapshot_of(
        &self,
        origin: GroupSnapshotOrigin,
        class: &SnapshotClass,
    ) -> Done<GroupSnapshot> {
        let spec = GroupSnapshotSpec { name: self.name("group"), class: class.name.clone(), origin };
        self.cluster().create_group_snapshot(&spec).await?;
        let name = &spec.name;
        let limit = self.timeouts().snapshot_create.saturating_mul(GROUP_FACTOR);
        let what = format!("group snapshot {name} is ready");
        let group = self.until(&what, limit, || async {
            let found = self.cluster().group_snapshot(name).await?;
            let found = found.ok_or_else(|| Stop::broken(format!("group snapshot {name} is gone")))?;
            Ok(match (&found.given_up, &found.error) {
                (Some(why), _) => Seen::Never(why.clone()),
                _ if found.ready => Seen::There(found),
                (None, Some(error)) => Seen::NotYet(error.clone()),
                (None, None) => Seen::NotYet("it is not ready to use".to_owned()),
            })
        });
        let group = group.await?;
        match group.handle.as_deref() {
            None | Some("") => {
                Err(failed("a group snapshot that is ready has no id", "a group_snapshot_id", "none"))
            }
            Some(_) => Ok(group),
        }
    }

    /// Returns the snapshots of a group in its order; there has to be one for each of these volumes.
    pub(crate) async fn members(&self, group: &GroupSnapshot, volumes: usize) -> Done<Vec<Snapshot>> {
        csi_harness::ensure!(
            group.members.len() == volumes,
            "the number of members of a group snapshot is not that of its volumes";
            expected: volumes,
            actual: group.members.len(),
        );
        all(group.members.iter().map(|(name, _)| self.ready_snapshot(name))).await
    }

    /// Deletes a group snapshot and waits until it is gone, with its content unless that is retained.
    pub(crate) async fn delete_group_snapshot(&self, group: &GroupSnapshot) -> Done {
        let name = &group.spec.name;
        self.cluster().delete_group_snapshot(name).await?;
        let limit = self.timeouts().snapshot_delete.saturating_mul(GROUP_FACTOR);
        self.until(&format!("group snapshot {name} is gone"), limit, || async {
            Ok(match self.cluster().group_snapshot(name).await? {
                None => Seen::There(()),
                Some(left) => Seen::NotYet(left.error.unwrap_or_else(|| "it still exists".to_owned())),
            })
        })
        .await
    }
}
