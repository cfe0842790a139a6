use csi_harness::prelude::Stop;

use super::{Scene, Seen, failed};
use crate::cluster::{
    DataSource, Done, PvcSpec, ReclaimPolicy, Snapshot, SnapshotClass, SnapshotOrigin, SnapshotSpec,
    StorageClass,
};
use crate::pattern::SnapshotType;

impl Scene {
    /// Creates a snapshot class for the pattern.
    pub(crate) async fn snapshot_class(&self) -> Done<SnapshotClass> {
        self.snapshot_class_that(self.pattern.deletion).await
    }

    /// Creates a snapshot class with another policy.
    pub(crate) async fn snapshot_class_that(&self, deletion: ReclaimPolicy) -> Done<SnapshotClass> {
        let defined = self.definition.snapshot.as_ref();
        let defined = defined.ok_or_else(|| Stop::skip("the definition has no SnapshotClass"))?;
        let class =
            SnapshotClass { name: self.name("snapshot-class"), deletion_policy: deletion, ..defined.clone() };
        self.cluster().create_snapshot_class(&class).await?;
        Ok(class)
    }

    /// Takes a snapshot of a claim and waits until it is ready.
    pub(crate) async fn snapshot(&self, claim: &str, class: &SnapshotClass) -> Done<Snapshot> {
        self.snapshot_of(SnapshotOrigin::Claim(claim.to_owned()), class).await
    }

    /// Makes a snapshot of a claim as the pattern says. For a pre-provisioned one, the driver takes it, and its first
    /// objects are deleted without it.
    pub(crate) async fn pattern_snapshot(&self, claim: &str) -> Done<Snapshot> {
        let class = self.snapshot_class().await?;
        if self.pattern.snapshot != Some(SnapshotType::PreProvisioned) {
            return self.snapshot(claim, &class).await;
        }
        let retaining = self.snapshot_class_that(ReclaimPolicy::Retain).await?;
        let taken = self.snapshot(claim, &retaining).await?;
        self.delete_snapshot(&taken).await?;
        self.snapshot_of(SnapshotOrigin::Handle(taken.handle.unwrap_or_default()), &class).await
    }

    /// Checks that the driver still has a snapshot whose objects were deleted without it: new objects can be created
    /// for it, and it is deleted with these.
    pub(crate) async fn is_retained(&self, snapshot: &Snapshot) -> Done {
        let deleting = self.snapshot_class_that(ReclaimPolicy::Delete).await?;
        let handle = snapshot.handle.clone().unwrap_or_default();
        let again = self.snapshot_of(SnapshotOrigin::Handle(handle), &deleting).await?;
        self.delete_snapshot(&again).await
    }

    /// Describes a claim that is restored from a snapshot: as large as other claims, or as the snapshot demands.
    pub(crate) fn restored_spec(&self, class: &StorageClass, snapshot: &Snapshot) -> PvcSpec {
        let spec = self.copy_spec(class, DataSource::Snapshot(snapshot.spec.name.clone()));
        PvcSpec { request_bytes: spec.request_bytes.max(snapshot.restore_size_bytes), ..spec }
    }

    /// Creates a snapshot and waits until it is ready.
    pub(crate) async fn snapshot_of(&self, origin: SnapshotOrigin, class: &SnapshotClass) -> Done<Snapshot> {
        let spec = SnapshotSpec { name: self.name("snapshot"), class: class.name.clone(), origin };
        self.cluster().create_snapshot(&spec).await?;
        self.ready_snapshot(&spec.name).await
    }

    /// Waits until a snapshot is ready.
    pub(crate) async fn ready_snapshot(&self, name: &str) -> Done<Snapshot> {
        let what = format!("snapshot {name} is ready");
        let snapshot = self.until(&what, self.timeouts().snapshot_create, || async {
            let found = self.cluster().snapshot(name).await?;
            let found = found.ok_or_else(|| Stop::broken(format!("snapshot {name} is gone")))?;
            Ok(match (&found.given_up, &found.error) {
                (Some(why), _) => Seen::Never(why.clone()),
                _ if found.ready => Seen::There(found),
                (None, Some(error)) => Seen::NotYet(error.clone()),
                (None, None) => Seen::NotYet("it is not ready to use".to_owned()),
            })
        });
        let snapshot = snapshot.await?;
        match snapshot.handle.as_deref() {
            None | Some("") => Err(failed("a snapshot that is ready has no id", "a snapshot_id", "none")),
            Some(_) => Ok(snapshot),
        }
    }

    /// Deletes a snapshot and waits until it is gone, with its content unless that is retained.
    pub(crate) async fn delete_snapshot(&self, snapshot: &Snapshot) -> Done {
        let name = &snapshot.spec.name;
        self.cluster().delete_snapshot(name).await?;
        self.until(&format!("snapshot {name} is gone"), self.timeouts().snapshot_delete, || async {
            Ok(match self.cluster().snapshot(name).await? {
                None => Seen::There(()),
                Some(left) => Seen::NotYet(left.error.unwrap_or_else(|| "it still exists".to_owned())),
            })
        })
        .await
    }

    /// Returns whether deleting a snapshot of the pattern retains its content.
    pub(crate) fn retains_snapshots(&self) -> bool {
        self.pattern.deletion == ReclaimPolicy::Retain
    }
}
