//! Publishes volumes at long paths.

use csi_harness::prelude::*;

use crate::node::{PATH_BYTES_LONG, PATH_BYTES_MAX, staged, staged_at_path_of};

async fn takes_target_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let target_path = cx.target_path_of_length(bytes).await?;
    let staged = staged(cx).await?;
    let reply = cx.node_publish(cx.publish_request(&staged, &target_path)).await;
    if reply.code()? != Code::Ok {
        short_path_works(cx, &staged).await?;
    }
    reply.must(&format!("accept a target_path of {bytes} bytes"))?;
    Ok(())
}

/// Checks that a short path works; if none does, long paths show nothing.
async fn short_path_works(cx: &Cx, staged: &Staged) -> CheckResult {
    let request = cx.publish_request(staged, &cx.target_path().await?);
    cx.node_publish(request).setup("a volume published at a short path").await?;
    Ok(())
}

async fn takes_staging_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let staged = staged_at_path_of(cx, bytes).await?;
    let request = cx.publish_request(&staged, &cx.target_path().await?);
    let reply = cx.node_publish(request).await;
    if reply.code()? != Code::Ok {
        let volume_id = staged.attached.volume.id.clone();
        cx.node_unstage(&volume_id, &staged.staging_path).setup("a volume that is unstaged").await?;
        short_path_works(cx, &cx.staged(staged.attached).await?).await?;
    }
    reply.must(&format!("accept a staging_target_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    TARGET_LENGTH {
        id: "node/node-publish-volume/path-of-128-bytes",
        title: "NodePublishVolume takes a target_path of 128 bytes",
        spec: [req::NODE_PUBLISH_031],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_target_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// Kubelet's target paths contain the pod's id and the volume's name, so they often exceed 128 bytes.
    LONG_TARGET {
        id: "node/node-publish-volume/long-path",
        title: "NodePublishVolume takes a target_path of more than 128 bytes",
        spec: [req::NODE_PUBLISH_030],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-refuses-long-paths"],
    }
    async |cx| { takes_target_path_of(cx, PATH_BYTES_LONG).await }
}

check! {
    /// The general limit on strings permits this length.
    STAGING_LENGTH {
        id: "node/node-publish-volume/staging-path-of-128-bytes",
        title: "NodePublishVolume takes a staging_target_path of 128 bytes",
        spec: [req::NODE_PUBLISH_023],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-publish-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_staging_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A volume that was staged at a long path has to be published from there.
    LONG_STAGING {
        id: "node/node-publish-volume/long-staging-path",
        title: "NodePublishVolume takes a staging_target_path of more than 128 bytes",
        spec: [req::NODE_PUBLISH_022],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-publish-refuses-long-paths"],
    }
    async |cx| { takes_staging_path_of(cx, PATH_BYTES_LONG).await }
}

pub(crate) static CHECKS: &[&Check] = &[&TARGET_LENGTH, &LONG_TARGET, &STAGING_LENGTH, &LONG_STAGING];
