//! Volumes and snapshots of the version before, given back to the next version.

use csi_harness::prelude::*;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;

use crate::rules::{UPGRADE_001, UPGRADE_005};
use crate::{NEXT_VERSION, begin, upgrade};

check! {
    /// Pods go while the driver is updated. kubelet and the attacher give their volumes back to a version that has not published them, and
    /// the provisioner deletes them.
    pub(super) GIVEN_BACK {
        id: "upgrade/objects-given-back",
        title: "the next version takes volumes and snapshots back that the version before has published, attached and made",
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
    async |cx| {
        begin(cx).await?;
        let mut volume = TrackedVolume::new(cx, cx.node_volume().await?);
        volume.reach(cx, Operation::NodeUnpublishVolume).await?;
        let snapshot = match Operation::CreateSnapshot.is_offered(cx) {
            true => Some(cx.new_snapshot(&volume.volume.id).await?),
            false => None,
        };
        let sees_mounts = cx.shares_files_with_driver().await;
        upgrade(cx).await?;
        if let Some(snapshot) = &snapshot {
            let what = "delete a snapshot of the version before";
            cx.delete_snapshot(&snapshot.snapshot_id).await.must(what).map_err(of_old)?;
        }
        for step in Lifecycle::of(cx).teardown() {
            let request = volume.request(cx, step).await?;
            request.send(cx).await.must("take a volume back that the version before has handed out").map_err(of_old)?;
            let path = match step {
                Operation::NodeUnpublishVolume => &volume.target_path,
                Operation::NodeUnstageVolume => &volume.staging_path,
                _ => continue,
            };
            ensure!(
                !sees_mounts || !cx.is_mount_point(path),
                "{} of the next version answers OK, and a volume of the version before stays mounted", step.method();
                of: &UPGRADE_005,
                expected: "no mount",
                actual: format!("{path} is a mount point still")
            );
        }
        is_gone(cx, &volume.volume.id).await
    }
}

fn of_old(stop: Stop) -> Stop {
    stop.of(&UPGRADE_005).of_a_plain_call()
}

/// Judges whether a volume is gone that was deleted.
async fn is_gone(cx: &Cx, id: &str) -> CheckResult {
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
        "DeleteVolume of the next version answers OK, and a volume of the version before is listed still";
        of: &UPGRADE_005,
        expected: "a list without the volume",
        actual: format!("volume {id}")
    );
    Ok(())
}
