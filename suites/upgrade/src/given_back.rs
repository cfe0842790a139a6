//! Volumes and snapshots of one version, given back to the other one.

use csi_harness::prelude::*;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;

use crate::rules::{UPGRADE_001, UPGRADE_005, UPGRADE_010};
use crate::{DOWNGRADE, NEXT_VERSION, Replacement};

check! {
    /// Pods end while the driver is updated. kubelet and the attacher release their volumes, which the new
    /// version has not published, and the provisioner deletes them.
    pub(super) GIVEN_BACK {
        id: "upgrade/objects-given-back",
        title: "the next version can unpublish, detach and delete objects of the version before",
        spec: [UPGRADE_005, UPGRADE_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION],
        refuted_by: [
            "hostpath/upgrade-forgets-publications",
            "hostpath/upgrade-forgets-stagings",
            "hostpath/upgrade-keeps-old-attachments",
            "hostpath/upgrade-deletes-nothing-old",
        ],
        duplicate_of: "upgrade/objects-known",
        runs: KillsUnderLoad,
        access: Each,
    }
    async |cx| { given_back(cx, Replacement::Upgrade).await }
}

check! {
    /// After an update was rolled back, pods end that were started under the next version.
    pub(super) DOWNGRADE_GIVEN_BACK {
        id: "upgrade/downgrade-given-back",
        title: "the version before can unpublish, detach and delete objects of the next version",
        spec: [UPGRADE_010, UPGRADE_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION, DOWNGRADE],
        refuted_by: ["hostpath/downgrade-deletes-nothing-new"],
        duplicate_of: "upgrade/downgrade",
        runs: KillsUnderLoad,
        access: Each,
    }
    async |cx| { given_back(cx, Replacement::Downgrade).await }
}

/// Publishes a volume and takes a snapshot of it with one version, and gives both back to the other one.
async fn given_back(cx: &Cx, by: Replacement) -> CheckResult {
    let rule = by.rule(&UPGRADE_005);
    let of_old = |stop: Stop| stop.of(rule).of_a_plain_call();
    by.begin(cx).await?;
    let mut volume = TrackedVolume::new(cx, cx.node_volume().await?);
    volume.reach(cx, Operation::NodeUnpublishVolume).await?;
    let snapshot = match Operation::CreateSnapshot.is_offered(cx) {
        true => Some(cx.new_snapshot(&volume.volume.id).await?),
        false => None,
    };
    let sees_mounts = cx.shares_files_with_driver().await;
    by.replace(cx).await?;
    if let Some(snapshot) = &snapshot {
        let what = format!("delete a snapshot of {}", by.maker());
        cx.delete_snapshot(&snapshot.snapshot_id).await.must(&what).map_err(of_old)?;
    }
    let what = format!("release a volume that {} has published", by.maker());
    for step in Lifecycle::of(cx).teardown() {
        let request = volume.request(cx, step).await?;
        request.send(cx).await.must(&what).map_err(of_old)?;
        let path = match step {
            Operation::NodeUnpublishVolume => &volume.target_path,
            Operation::NodeUnstageVolume => &volume.staging_path,
            _ => continue,
        };
        ensure!(
            !sees_mounts || !cx.is_mount_point(path),
            "{} of {} answers OK, but a volume of {} stays mounted", step.method(), by.judged(), by.maker();
            of: rule,
            expected: "no mount",
            actual: format!("{path} is still a mount point")
        );
    }
    is_gone(cx, &volume.volume.id, by).await
}

/// Judges whether a volume is gone that was deleted.
async fn is_gone(cx: &Cx, id: &str, by: Replacement) -> CheckResult {
    if !cx.target().capabilities().has(Capability::ListVolumes) {
        return Ok(());
    }
    let gone = cx.eventually(Settles::VolumeUnlisted, || async {
        let listed = cx.list_volumes().await?;
        let is_it = |entry: &v1::list_volumes_response::Entry| {
            entry.volume.as_ref().is_some_and(|volume| volume.volume_id == id)
        };
        Ok((!listed.iter().any(is_it)).then_some(()))
    });
    ensure!(
        gone.await?.is_some(),
        "DeleteVolume of {} answers OK, but a volume of {} is still listed", by.judged(), by.maker();
        of: by.rule(&UPGRADE_005),
        expected: "a list without the volume",
        actual: format!("volume {id}")
    );
    Ok(())
}
