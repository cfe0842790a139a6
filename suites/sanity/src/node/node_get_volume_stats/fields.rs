//! Sends requests without a field, or about missing objects.

use csi_harness::prelude::*;

use super::{STATS, gone, published};

check! {
    /// The error must distinguish a mistake of the caller from a volume that was deleted.
    NO_VOLUME_ID {
        id: "node/node-get-volume-stats/no-volume-id",
        title: "NodeGetVolumeStats without volume_id is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_STATS_004, req::GEN_ERR_004],
        needs: [NODE, STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["Node Service NodeGetVolumeStats should fail when no volume id is provided"],
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let request =
            v1::NodeGetVolumeStatsRequest { volume_id: String::new(), ..cx.stats_request(&staged, &target_path) };
        cx.call(request).await.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty path must not mean the driver's working directory.
    NO_VOLUME_PATH {
        id: "node/node-get-volume-stats/no-volume-path",
        title: "NodeGetVolumeStats without volume_path is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_STATS_007, req::GEN_ERR_004],
        needs: [NODE, STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-missing-path-as-not-found", "invalid-argument-as-ok"],
        replaces: ["Node Service NodeGetVolumeStats should fail when no volume path is provided"],
    }
    async |cx| {
        let staged = published(cx).await?.staged;
        let reply = cx.call(cx.stats_request(&staged, "")).await;
        reply.must_be_refused("without volume_path", missing_field())?;
        Ok(())
    }
}

check! {
    /// Neither the volume nor the path exists, so every driver can notice that.
    UNKNOWN_VOLUME {
        id: "node/node-get-volume-stats/unknown-volume",
        title: "NodeGetVolumeStats of a volume that does not exist is rejected as NOT_FOUND",
        spec: [req::NODE_STATS_017],
        needs: [NODE, STATS],
        refuted_by: ["node-get-volume-stats-unknown-ok"],
        replaces: ["Node Service NodeGetVolumeStats should fail when volume is not found"],
    }
    async |cx| {
        let staged = Staged { attached: gone(cx).await?, staging_path: String::new() };
        let mut refusal = refused_with(Code::NotFound);
        if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
            refusal = refusal.or(Code::InvalidArgument, "the id is made up");
        }
        let reply = cx.call(cx.stats_request(&staged, &cx.target_path().await?)).await;
        reply.must_be_refused("of a volume that does not exist", refusal)?;
        Ok(())
    }
}

check! {
    /// Otherwise the caller gets the statistics of another file system.
    WRONG_PATH {
        id: "node/node-get-volume-stats/wrong-path",
        title: "NodeGetVolumeStats at a path that does not exist is rejected as NOT_FOUND",
        spec: [req::NODE_STATS_017],
        needs: [NODE, STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-wrong-path-as-internal", "node-get-volume-stats-ignores-path"],
        replaces: ["Node Service NodeGetVolumeStats should fail when volume does not exist on the specified path"],
    }
    async |cx| {
        let staged = published(cx).await?.staged;
        let reply = cx.call(cx.stats_request(&staged, &cx.target_path().await?)).await;
        reply.must_be_refused("at a path that does not exist", refused_with(Code::NotFound))?;
        Ok(())
    }
}

check! {
    /// Kubelet may call it while the pod is being removed.
    AFTER_UNPUBLISH {
        id: "node/node-get-volume-stats/after-unpublish",
        title: "NodeGetVolumeStats at a path that was unpublished is rejected as NOT_FOUND",
        spec: [req::NODE_STATS_017],
        needs: [NODE, STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-wrong-path-as-internal", "node-get-volume-stats-ignores-path"],
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        cx.node_unpublish(&staged.attached.volume.id, &target_path).setup("an unpublished volume").await?;
        let reply = cx.call(cx.stats_request(&staged, &target_path)).await;
        reply.must_be_refused("at a path that was unpublished", refused_with(Code::NotFound))?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&NO_VOLUME_ID, &NO_VOLUME_PATH, &UNKNOWN_VOLUME, &WRONG_PATH, &AFTER_UNPUBLISH];
