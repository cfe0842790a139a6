//! NodeStageVolume prepares a volume on a node, once for all its users there.

use csi_harness::prelude::*;

use super::{
    PATH_BYTES_LONG, PATH_BYTES_MAX, attached, gone, incomplete, refused_or_stateless, unsupported_access,
};

async fn request(cx: &Cx) -> CheckResult<v1::NodeStageVolumeRequest> {
    let attached = attached(cx).await?;
    Ok(cx.stage_request(&attached, &cx.staging_path().await?))
}

check! {
    /// All other calls on the node depend on it.
    WORKS {
        id: "node/node-stage-volume/works",
        title: "NodeStageVolume stages a volume",
        spec: [req::NODE_STAGE_001],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-volume-unimplemented"],
        plain: ["NodeStageVolume"],
        access: Each,
    }
    async |cx| {
        cx.node_stage(request(cx).await?).await.must("stage a volume that is on the node")?;
        Ok(())
    }
}

check! {
    /// Kubelet repeats the call after each restart and before each new pod.
    REPEATED {
        id: "node/node-stage-volume/repeated",
        title: "NodeStageVolume of a volume that is staged already is OK",
        spec: [req::NODE_STAGE_006],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-refuses-repeats"],
        replaces: ["Node Service should be idempotent"],
        access: Each,
    }
    async |cx| {
        let request = request(cx).await?;
        let path = request.staging_target_path.clone();
        cx.node_stage(request.clone()).setup("a staged volume").await?;
        let mounted = cx.mounts_at(&path);
        cx.node_stage(request).await.must("answer OK to the same request again")?;
        ensure!(
            cx.mounts_at(&path) <= mounted,
            "a repeated NodeStageVolume has mounted the volume again, over the first mount";
            expected: format!("{mounted} in the mount table at {path}, as before"),
            actual: cx.mounts_at(&path)
        );
        Ok(())
    }
}

check! {
    /// The error must distinguish a mistake of the caller from a volume that was deleted.
    NO_VOLUME_ID {
        id: "node/node-stage-volume/no-volume-id",
        title: "NodeStageVolume without volume_id is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_STAGE_009, req::GEN_ERR_004],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["Node Service NodeStageVolume should fail when no volume id is provided"],
    }
    async |cx| {
        let request = v1::NodeStageVolumeRequest { volume_id: String::new(), ..request(cx).await? };
        cx.node_stage(request).await.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty path must not become the root or the working directory of the driver.
    NO_STAGING_PATH {
        id: "node/node-stage-volume/no-staging-target-path",
        title: "NodeStageVolume without staging_target_path is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_STAGE_013, req::GEN_ERR_004],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-accepts-missing-path"],
        replaces: ["Node Service NodeStageVolume should fail when no staging target path is provided"],
    }
    async |cx| {
        let request = cx.stage_request(&attached(cx).await?, "");
        let refusal = missing_field();
        cx.node_stage(request).await.must_be_refused("without staging_target_path", refusal)?;
        Ok(())
    }
}

check! {
    /// A driver that guesses the use of a volume may format a block volume.
    NO_CAPABILITY {
        id: "node/node-stage-volume/no-volume-capability",
        title: "NodeStageVolume without volume_capability is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_STAGE_017, req::GEN_ERR_004],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-accepts-missing-capability"],
        replaces: ["Node Service NodeStageVolume should fail when no volume capability is provided"],
    }
    async |cx| {
        let request = v1::NodeStageVolumeRequest { volume_capability: None, ..request(cx).await? };
        let refusal = missing_field();
        cx.node_stage(request).await.must_be_refused("without volume_capability", refusal)?;
        Ok(())
    }
}

check! {
    /// A driver needs both halves of a capability.
    INCOMPLETE_CAPABILITY {
        id: "node/node-stage-volume/incomplete-volume-capability",
        title: "NodeStageVolume with an incomplete volume_capability is rejected as INVALID_ARGUMENT",
        spec: [req::MSG_VOLCAP_012, req::MSG_VOLCAP_013, req::MSG_VOLCAP_010],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-accepts-incomplete-capability"],
    }
    async |cx| {
        let valid = request(cx).await?;
        for (what, capability, rule) in incomplete(&cx.capability()) {
            let request = v1::NodeStageVolumeRequest { volume_capability: Some(capability), ..valid.clone() };
            let reply = cx.node_stage(request).await;
            if !matches!(reply.code()?, Code::Ok | Code::InvalidArgument) {
                // Otherwise the error might have another cause.
                cx.node_stage(valid.clone()).setup("a staged volume").await?;
            }
            reply.must_be_refused(what, refused_with(Code::InvalidArgument)).map_err(|stop| stop.of(rule))?;
        }
        Ok(())
    }
}

check! {
    /// A node plugin without state cannot know, so OK is only a remark.
    UNKNOWN_VOLUME {
        id: "node/node-stage-volume/unknown-volume",
        title: "NodeStageVolume of a volume that does not exist is rejected",
        spec: [req::NODE_STAGE_021],
        needs: [NODE, STAGE_UNSTAGE_VOLUME],
        refuted_by: ["node-stage-unknown-volume-ok"],
    }
    async |cx| {
        let request = cx.stage_request(&gone(cx).await?, &cx.staging_path().await?);
        let reply = cx.node_stage(request).await;
        refused_or_stateless(cx, reply, "NodeStageVolume of a volume that does not exist")
    }
}

check! {
    /// Staging that does nothing accepts every capability, so OK is only a remark.
    OTHER_CAPABILITY {
        id: "node/node-stage-volume/other-access-type",
        title: "NodeStageVolume of a volume staged with another access type is rejected as ALREADY_EXISTS",
        spec: [req::NODE_STAGE_022],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-ignores-capability-conflict", "node-stage-conflict-as-internal"],
    }
    async |cx| {
        let request = request(cx).await?;
        cx.node_stage(request.clone()).setup("a staged volume").await?;
        let capability = cx.capability_for(cx.access().other(), Mode::SingleNodeWriter);
        let request = v1::NodeStageVolumeRequest { volume_capability: Some(capability), ..request };
        let refusal = refused_with(Code::AlreadyExists)
            .or(Code::FailedPrecondition, "the volume may lack that access type")
            .or(Code::InvalidArgument, "the driver may not know that access type");
        let reply = cx.node_stage(request.clone()).await;
        let code = reply.code()?;
        let permitted = [Code::Ok, Code::AlreadyExists, Code::FailedPrecondition, Code::InvalidArgument];
        if !permitted.contains(&code) {
            let alone = cx.stage_request(&attached(cx).await?, &cx.staging_path().await?);
            let alone = v1::NodeStageVolumeRequest { volume_capability: request.volume_capability, ..alone };
            if cx.node_stage(alone).await.code()? == code {
                return Err(Stop::skip("the driver rejects the other access type with this code even if the volume is not staged"));
            }
        }
        reply.should_be_refused("of a staged volume with another access type", refusal)
    }
}

async fn takes_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let path = cx.staging_path_of_length(bytes).await?;
    let attached = attached(cx).await?;
    let reply = cx.node_stage(cx.stage_request(&attached, &path)).await;
    if reply.code()? != Code::Ok {
        // A driver that stages at no path shows nothing about long paths.
        let request = cx.stage_request(&attached, &cx.staging_path().await?);
        cx.node_stage(request).setup("a volume staged at a short path").await?;
    }
    reply.must(&format!("accept a staging_target_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    PATH_LENGTH {
        id: "node/node-stage-volume/path-of-128-bytes",
        title: "NodeStageVolume takes a staging_target_path of 128 bytes",
        spec: [req::NODE_STAGE_015],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// Kubelet's staging paths exceed 128 bytes if the driver's name is long.
    LONG_PATH {
        id: "node/node-stage-volume/long-path",
        title: "NodeStageVolume takes a staging_target_path of more than 128 bytes",
        spec: [req::NODE_STAGE_014],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-stage-refuses-long-paths"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_LONG).await }
}

check! {
    /// A driver may stage anything and reject the use at publication. If it does neither, the volume may still be
    /// usable that way, so this is only a remark.
    BEYOND_VOLUME {
        id: "node/node-stage-volume/unsupported-access-type",
        title: "a volume is not staged and published with an access type that it lacks",
        spec: [req::NODE_STAGE_023],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-stage-accepts-any-capability"],
        duplicate_of: "node/node-publish-volume/unsupported-access-type",
    }
    async |cx| {
        let attached = attached(cx).await?;
        let capability = unsupported_access(cx, &attached.volume).await?;
        let staging_path = cx.staging_path().await?;
        let stage = v1::NodeStageVolumeRequest {
            volume_capability: Some(capability.clone()),
            ..cx.stage_request(&attached, &staging_path)
        };
        if cx.node_stage(stage).await.any_answer()?.is_err() {
            return Ok(());
        }
        let staged = Staged { attached, staging_path };
        let publish = v1::NodePublishVolumeRequest {
            volume_capability: Some(capability),
            ..cx.publish_request(&staged, &cx.target_path().await?)
        };
        if cx.node_publish(publish).await.any_answer()?.is_ok() {
            cx.warn(
                Violation::new("a volume was staged and published with an access type that it lacks")
                    .expected("FAILED_PRECONDITION from one of the two, as ValidateVolumeCapabilities does not confirm it")
                    .actual("OK from both"),
            );
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &REPEATED,
    &NO_VOLUME_ID,
    &NO_STAGING_PATH,
    &NO_CAPABILITY,
    &INCOMPLETE_CAPABILITY,
    &UNKNOWN_VOLUME,
    &OTHER_CAPABILITY,
    &PATH_LENGTH,
    &LONG_PATH,
    &BEYOND_VOLUME,
];
