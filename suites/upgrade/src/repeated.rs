//! Calls to the version before that are repeated to the next version.

use csi_harness::prelude::*;
use csi_ops::operation::{Operation, Response};
use csi_ops::volume::TrackedVolume;

use crate::rules::{UPGRADE_001, UPGRADE_006};
use crate::{NEXT_VERSION, begin, upgrade};

check! {
    /// A sidecar that is updated with the driver does not know which of its calls were answered, and repeats
    /// them with the names, ids and contexts that the version before has returned.
    pub(super) REPEATED {
        id: "upgrade/calls-repeated",
        title: "the next version answers repeated calls as the version before did",
        spec: [UPGRADE_006, UPGRADE_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION],
        refuted_by: [
            "hostpath/upgrade-forgets-names",
            "hostpath/upgrade-renames-attachments",
            "hostpath/upgrade-changes-contexts",
        ],
        duplicate_of: "upgrade/objects-known",
        runs: KillsUnderLoad,
        access: Each,
    }
    async |cx| {
        begin(cx).await?;
        let mut calls = Vec::new();
        let mut volume = TrackedVolume::new(cx, NodeVolume::default());
        for operation in OPERATIONS {
            if operation.is_offered(cx) {
                let request = volume.request(cx, operation).await?;
                let response = request.send(cx).setup(operation.product()).await?;
                volume.record(response.clone());
                calls.push((operation, request, response));
            }
        }
        let mounts = |path: &str| cx.mounts_at(path);
        let paths = [volume.staging_path.as_str(), volume.target_path.as_str()];
        let mounted = paths.map(mounts);
        upgrade(cx).await?;
        for (operation, request, before) in &calls {
            let what = "repeat what the version before has done";
            let now = request.send(cx).await.must(what).map_err(|stop| stop.of(&UPGRADE_006).of_a_plain_call())?;
            judge(*operation, before, &now)?;
        }
        ensure!(
            paths.map(mounts) == mounted,
            "the repeated calls change the mounts at the paths of a volume of the version before";
            of: &UPGRADE_006,
            expected: format!("{mounted:?} mounts at the staging path and at the target path"),
            actual: format!("{:?}", paths.map(mounts))
        );
        Ok(())
    }
}

/// In the order of a volume's life.
const OPERATIONS: [Operation; 5] = [
    Operation::CreateVolume,
    Operation::CreateSnapshot,
    Operation::ControllerPublishVolume,
    Operation::NodeStageVolume,
    Operation::NodePublishVolume,
];

/// Compares the parts of two answers on which callers rely.
fn judge(operation: Operation, before: &Response, now: &Response) -> CheckResult {
    let (expected, actual) = match (before, now) {
        (Response::Volume(before), Response::Volume(now)) => (described(before), described(now)),
        (Response::Snapshot(before), Response::Snapshot(now)) => (
            format!("snapshot_id {:?} of volume {:?}", before.snapshot_id, before.source_volume_id),
            format!("snapshot_id {:?} of volume {:?}", now.snapshot_id, now.source_volume_id),
        ),
        (Response::Attached(before), Response::Attached(now)) => (
            format!("publish_context {:?}", before.publish_context),
            format!("publish_context {:?}", now.publish_context),
        ),
        _ => return Ok(()),
    };
    ensure!(
        expected == actual,
        "{} is repeated to the next version, and is answered differently", operation.method();
        of: &UPGRADE_006,
        expected: expected,
        actual: actual
    );
    Ok(())
}

fn described(volume: &v1::Volume) -> String {
    format!("volume_id {:?} with volume_context {:?}", volume.volume_id, volume.volume_context)
}
