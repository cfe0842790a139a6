//! Volumes in use while the driver is replaced.

use csi_harness::prelude::*;
use csi_harness::resources::workload::is_fuse;
use csi_ops::operation::Operation;
use csi_suite_in_use::beside::{Action, InUse, beside};
use csi_suite_in_use::restarts::of_restart;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_007};
use futures_util::future::join;

use crate::rules::{UPGRADE_001, UPGRADE_002, UPGRADE_006, UPGRADE_010};
use crate::{DOWNGRADE, NEXT_VERSION, Replacement, begin};

const REPLACED: Action = Action { name: "the replacement of the driver by its other version", rpcs: &[] };
const AGAIN: Action =
    Action { name: "a repeated NodeStageVolume and NodePublishVolume to the other version", rpcs: &[] };

/// Replaces the driver beside workloads, and then stages and publishes their volumes once more. Fails with a violation
/// if a workload is hurt, if mounts have changed, or if a call is rejected.
async fn replaced_beside<const N: usize>(cx: &Cx, users: [&InUse; N], by: Replacement) -> CheckResult {
    let mounts = || {
        users.map(|user| {
            [&user.volume().staging_path, &user.volume().target_path].map(|path| cx.mounts_at(path))
        })
    };
    let mounted = mounts();
    beside(REPLACED, users, by.replace(cx)).await.map_err(of_restart)?;
    // The mounts of a process that serves them may have ended with it.
    let are_served = users.iter().any(|user| is_fuse(user.path()));
    ensure!(
        are_served || mounts() == mounted,
        "the mounts of volumes in use are others after the driver was replaced by {}", by.judged();
        of: &UPGRADE_002,
        expected: format!("{mounted:?} mounts at the staging path and at the target path of each volume"),
        actual: format!("{:?}", mounts())
    );
    let repeated = async {
        for user in users {
            let mut volume = user.volume().clone();
            for step in [Operation::NodeStageVolume, Operation::NodePublishVolume] {
                if step.is_offered(cx) {
                    let request = volume.request(cx, step).await?;
                    let what = "stage and publish again what the other version has published";
                    let answered = request.send(cx).await.must(what);
                    answered.map_err(|stop| stop.of(by.rule(&UPGRADE_006)).of_a_plain_call())?;
                }
            }
        }
        Ok(())
    };
    beside(AGAIN, users, repeated).await.map(drop)
}

check! {
    /// Pods continue while the driver of their volumes is updated. The next version finds their mounts, and
    /// must not change them; when a pod is restarted, kubelet stages and publishes again.
    pub(super) IN_USE {
        id: "upgrade/volumes-in-use",
        title: "a workload continues while the driver is replaced by its next version, and its mounts do not change",
        spec: [IN_USE_007, IN_USE_001, IN_USE_002, UPGRADE_001, UPGRADE_002, UPGRADE_006],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT, NEXT_VERSION],
        refuted_by: [
            "hostpath/upgrade-mounts-again",
            "hostpath/upgrade-unmounts-used",
            "hostpath/upgrade-breaks-volumes-in-use",
        ],
        duplicate_of: "upgrade/calls-repeated",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        begin(cx).await?;
        let user = InUse::begin(cx).await?;
        replaced_beside(cx, [&user], Replacement::Upgrade).await?;
        user.end(REPLACED).await.map_err(of_restart)
    }
}

check! {
    /// An update that goes wrong is rolled back while pods run, some of which have started since. The version
    /// before does not know the mounts of the next version, and must not change them.
    pub(super) DOWNGRADE_IN_USE {
        id: "upgrade/downgrade-in-use",
        title: "workloads of both versions continue while the version before returns, and their mounts do not change",
        spec: [IN_USE_007, IN_USE_001, IN_USE_002, UPGRADE_010, UPGRADE_001, UPGRADE_002, UPGRADE_006],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT, NEXT_VERSION, DOWNGRADE],
        refuted_by: ["hostpath/downgrade-breaks-volumes-in-use", "hostpath/downgrade-mounts-again"],
        duplicate_of: "upgrade/volumes-in-use",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        begin(cx).await?;
        let old = InUse::begin(cx).await?;
        replaced_beside(cx, [&old], Replacement::Upgrade).await?;
        let new = InUse::begin(cx).await?;
        replaced_beside(cx, [&old, &new], Replacement::Downgrade).await?;
        let (old, new) = join(old.end(REPLACED), new.end(REPLACED)).await;
        old.and(new).map_err(of_restart)
    }
}
