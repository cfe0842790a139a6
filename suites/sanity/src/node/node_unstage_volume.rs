//! NodeUnstageVolume undoes NodeStageVolume.

use csi_harness::prelude::*;

use super::{
    PATH_BYTES_LONG, PATH_BYTES_MAX, attached, gone, gone_refusal, staged, staged_at_path_of,
    unsupported_access,
};

check! {
    /// Remains of the staging keep the volume on the node forever.
    WORKS {
        id: "node/node-unstage-volume/works",
        title: "NodeUnstageVolume unstages a volume, which can then be staged again",
        spec: [req::NODE_UNSTAGE_001, req::NODE_UNSTAGE_002],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-unstage-volume-unimplemented"],
        plain: ["NodeUnstageVolume"],
        access: Each,
    }
    async |cx| {
        let Staged { attached, staging_path } = staged(cx).await?;
        cx.node_unstage(&attached.volume.id, &staging_path).await.must("unstage a staged volume")?;
        let again = cx.node_stage(cx.stage_request(&attached, &staging_path)).await;
        again.must("stage a volume that was unstaged").map_err(|stop| stop.of(&req::NODE_UNSTAGE_002))?;
        Ok(())
    }
}

check! {
    /// Remains of the staging disturb the next user of the path or the volume.
    UNDOES_STAGING {
        id: "node/node-unstage-volume/undoes-staging",
        title: "NodeUnstageVolume undoes what NodeStageVolume did",
        spec: [req::NODE_UNSTAGE_002],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-unstage-keeps-staging"],
        access: Each,
    }
    async |cx| {
        let Staged { attached, staging_path } = staged(cx).await?;
        cx.node_unstage(&attached.volume.id, &staging_path).setup("an unstaged volume").await?;
        ensure!(
            !cx.is_mount_point(&staging_path),
            "NodeUnstageVolume returned OK, but something is still mounted at the staging path {staging_path}";
            expected: "no mount",
            actual: "a mount point"
        );
        let again = stage_otherwise(cx, &attached, &staging_path).await?;
        // A volume that was never staged shows the driver's answer to the access type itself.
        let never_staged = super::attached(cx).await?;
        let at_first = stage_otherwise(cx, &never_staged, &cx.staging_path().await?).await?;
        ensure!(
            again != Code::AlreadyExists || at_first == Code::AlreadyExists,
            "an unstaged volume is treated as staged";
            expected: "the volume is staged with another access type, or rejected for that alone",
            actual: "ALREADY_EXISTS"
        );
        Ok(())
    }
}

/// Returns the code of NodeStageVolume for the other access type.
async fn stage_otherwise(cx: &Cx, attached: &Attached, staging_path: &str) -> CheckResult<Code> {
    let request = v1::NodeStageVolumeRequest {
        volume_capability: Some(cx.capability_for(cx.access().other(), Mode::SingleNodeWriter)),
        ..cx.stage_request(attached, staging_path)
    };
    cx.node_stage(request).await.code()
}

check! {
    /// A caller without an answer repeats the call.
    REPEATED {
        id: "node/node-unstage-volume/repeated",
        title: "NodeUnstageVolume of a volume that is unstaged already is OK",
        spec: [req::NODE_UNSTAGE_006],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-unstage-refuses-repeats"],
        access: Each,
    }
    async |cx| {
        let Staged { attached, staging_path } = staged(cx).await?;
        cx.node_unstage(&attached.volume.id, &staging_path).setup("an unstaged volume").await?;
        let again = cx.node_unstage(&attached.volume.id, &staging_path).await;
        again.must("answer OK to the same request again")?;
        Ok(())
    }
}

check! {
    /// Orchestrators also unstage if they do not know whether staging began.
    NEVER_STAGED {
        id: "node/node-unstage-volume/never-staged",
        title: "NodeUnstageVolume of a volume that was never staged is OK",
        spec: [req::NODE_UNSTAGE_006],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-unstage-refuses-repeats"],
    }
    async |cx| {
        let attached = attached(cx).await?;
        let path = cx.staging_path().await?;
        cx.node_unstage(&attached.volume.id, &path).await.must("answer OK where nothing is staged")?;
        Ok(())
    }
}

check! {
    /// The error must distinguish a mistake of the caller from a volume that was deleted.
    NO_VOLUME_ID {
        id: "node/node-unstage-volume/no-volume-id",
        title: "NodeUnstageVolume without volume_id is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_UNSTAGE_010, req::GEN_ERR_004],
        needs: [NODE, STAGE_UNSTAGE_VOLUME],
        refuted_by: ["node-unstage-accepts-empty-id"],
        replaces: ["Node Service NodeUnstageVolume should fail when no volume id is provided"],
        runs: LosesData,
    }
    async |cx| {
        let reply = cx.node_unstage("", &cx.staging_path().await?).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty path must not become the root or the working directory of the driver.
    NO_STAGING_PATH {
        id: "node/node-unstage-volume/no-staging-target-path",
        title: "NodeUnstageVolume without staging_target_path is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_UNSTAGE_011, req::GEN_ERR_004],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-unstage-accepts-missing-path"],
        replaces: ["Node Service NodeUnstageVolume should fail when no staging target path is provided"],
        runs: LosesData,
    }
    async |cx| {
        let attached = attached(cx).await?;
        let reply = cx.node_unstage(&attached.volume.id, "").await;
        reply.must_be_refused("without staging_target_path", missing_field())?;
        Ok(())
    }
}

check! {
    /// With any other code the orchestrator repeats the call forever.
    UNKNOWN_VOLUME {
        id: "node/node-unstage-volume/unknown-volume",
        title: "NodeUnstageVolume of a volume that does not exist is OK or NOT_FOUND",
        spec: [req::NODE_UNSTAGE_017],
        needs: [NODE, STAGE_UNSTAGE_VOLUME],
        refuted_by: ["node-unstage-unknown-as-internal"],
    }
    async |cx| {
        let gone = gone(cx).await?;
        let reply = cx.node_unstage(&gone.volume.id, &cx.staging_path().await?).await;
        reply.may_be_refused("of a volume that does not exist", gone_refusal(cx))?;
        Ok(())
    }
}

async fn takes_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Staged { attached, staging_path } = staged_at_path_of(cx, bytes).await?;
    let reply = cx.node_unstage(&attached.volume.id, &staging_path).await;
    reply.must(&format!("accept a staging_target_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    PATH_LENGTH {
        id: "node/node-unstage-volume/path-of-128-bytes",
        title: "NodeUnstageVolume takes a staging_target_path of 128 bytes",
        spec: [req::NODE_UNSTAGE_014],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-unstage-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A volume that was staged at a long path has to be unstaged there.
    LONG_PATH {
        id: "node/node-unstage-volume/long-path",
        title: "NodeUnstageVolume takes a staging_target_path of more than 128 bytes",
        spec: [req::NODE_UNSTAGE_013],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-unstage-refuses-long-paths"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_LONG).await }
}

check! {
    /// After an error, or without an answer, a caller unstages the volume before it tries again.
    AFTER_REFUSAL {
        id: "node/node-unstage-volume/after-refused-staging",
        title: "NodeUnstageVolume after a NodeStageVolume that was rejected is OK",
        spec: [req::NODE_UNSTAGE_008],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["lock-never-released-after-error"],
        duplicate_of: "node/node-unstage-volume/never-staged",
        access: Each,
    }
    async |cx| {
        let attached = attached(cx).await?;
        let capability = unsupported_access(cx, &attached.volume).await?;
        let staging_path = cx.staging_path().await?;
        let stage = v1::NodeStageVolumeRequest {
            volume_capability: Some(capability),
            ..cx.stage_request(&attached, &staging_path)
        };
        if cx.node_stage(stage).await.any_answer()?.is_ok() {
            return Err(Stop::skip("the driver stages a volume with any access type"));
        }
        let reply = cx.node_unstage(&attached.volume.id, &staging_path).await;
        reply.must("answer OK where staging was rejected, and so nothing is staged")?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &UNDOES_STAGING,
    &REPEATED,
    &NEVER_STAGED,
    &NO_VOLUME_ID,
    &NO_STAGING_PATH,
    &UNKNOWN_VOLUME,
    &PATH_LENGTH,
    &LONG_PATH,
    &AFTER_REFUSAL,
];
