//! Volumes in use while the driver is replaced.

use csi_harness::prelude::*;
use csi_harness::resources::workload::is_fuse;
use csi_ops::operation::Operation;
use csi_suite_in_use::beside::{Action, InUse, beside};
use csi_suite_in_use::restarts::of_restart;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_007};

use crate::rules::{UPGRADE_001, UPGRADE_002, UPGRADE_006};
use crate::{NEXT_VERSION, begin, upgrade};

const UPDATE: Action = Action { name: "the replacement of the driver by its next version", rpcs: &[] };
const AGAIN: Action =
    Action { name: "a repeated NodeStageVolume and NodePublishVolume to the next version", rpcs: &[] };

check! {
    /// Pods run on while the driver of their volumes is updated. The next version finds their mounts, and has to leave them as they are; when
    /// a pod is restarted, kubelet stages and publishes once more.
    pub(super) IN_USE {
        id: "upgrade/volumes-in-use",
        title: "a workload goes on while the driver is replaced by its next version, and its mounts stay as they are",
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
        let mut volume = user.volume().clone();
        let paths = [volume.staging_path.clone(), volume.target_path.clone()];
        let mounts = || paths.each_ref().map(|path| cx.mounts_at(path));
        let mounted = mounts();
        beside(UPDATE, [&user], upgrade(cx)).await.map_err(of_restart)?;
        // The mounts of a process that serves them may have ended with it.
        let is_served = is_fuse(user.path());
        ensure!(
            is_served || mounts() == mounted,
            "the mounts of a volume in use are others after the driver was replaced by its next version";
            of: &UPGRADE_002,
            expected: format!("{mounted:?} mounts at the staging path and at the target path"),
            actual: format!("{:?}", mounts())
        );
        let repeated = async {
            for step in [Operation::NodeStageVolume, Operation::NodePublishVolume] {
                if step.is_offered(cx) {
                    let request = volume.request(cx, step).await?;
                    let what = "stage and publish again what the version before has published";
                    request.send(cx).await.must(what).map_err(|stop| stop.of(&UPGRADE_006).of_a_plain_call())?;
                }
            }
            Ok(())
        };
        beside(AGAIN, [&user], repeated).await?;
        user.end(UPDATE).await.map_err(of_restart)
    }
}
