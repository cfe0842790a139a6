//! Uses staging paths and long paths.

use csi_harness::prelude::*;

use super::published;
use crate::node::{PATH_BYTES_LONG, PATH_BYTES_MAX, published_at_path_of, staged, staged_at_path_of};

check! {
    /// If staging mounts nothing, there is nothing to measure, so an error is only a remark.
    STAGING_PATH {
        id: "node/node-get-volume-stats/staging-path",
        title: "NodeGetVolumeStats answers for a volume at its staging path",
        spec: [req::NODE_STATS_005],
        needs: [NODE, GET_VOLUME_STATS, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-get-volume-stats-refuses-staging-path"],
    }
    async |cx| {
        let staged = staged(cx).await?;
        let reply = cx.call(cx.stats_request(&staged, &staged.staging_path)).await;
        reply.must("answer for a volume at its staging path")?;
        Ok(())
    }
}

check! {
    /// Older callers do not know the field.
    NO_STAGING_FIELD {
        id: "node/node-get-volume-stats/no-staging-target-path",
        title: "NodeGetVolumeStats of a published volume works without staging_target_path",
        spec: [req::NODE_STATS_018],
        needs: [NODE, GET_VOLUME_STATS, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-get-volume-stats-demands-staging-path"],
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let with = cx.stats_request(&staged, &target_path);
        cx.call(with.clone()).setup("statistics of a published volume").await?;
        let without = v1::NodeGetVolumeStatsRequest { staging_target_path: String::new(), ..with };
        cx.call(without).await.must("work without staging_target_path, which is optional")?;
        Ok(())
    }
}

async fn takes_volume_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Published { staged, target_path } = published_at_path_of(cx, bytes).await?;
    let reply = cx.call(cx.stats_request(&staged, &target_path)).await;
    reply.must(&format!("accept a volume_path of {bytes} bytes"))?;
    Ok(())
}

async fn takes_staging_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Published { staged, target_path } = cx.published(staged_at_path_of(cx, bytes).await?).await?;
    let reply = cx.call(cx.stats_request(&staged, &target_path)).await;
    reply.must(&format!("accept a staging_target_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    PATH_LENGTH {
        id: "node/node-get-volume-stats/path-of-128-bytes",
        title: "NodeGetVolumeStats takes a volume_path of 128 bytes",
        spec: [req::NODE_STATS_009],
        needs: [NODE, GET_VOLUME_STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_volume_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A volume that was published at a long path has to be measured there.
    LONG_PATH {
        id: "node/node-get-volume-stats/long-path",
        title: "NodeGetVolumeStats takes a volume_path of more than 128 bytes",
        spec: [req::NODE_STATS_008],
        needs: [NODE, GET_VOLUME_STATS, VOLUME],
        refuted_by: ["node-get-volume-stats-refuses-long-paths"],
    }
    async |cx| { takes_volume_path_of(cx, PATH_BYTES_LONG).await }
}

check! {
    /// The general limit on strings permits this length.
    STAGING_LENGTH {
        id: "node/node-get-volume-stats/staging-path-of-128-bytes",
        title: "NodeGetVolumeStats takes a staging_target_path of 128 bytes",
        spec: [req::NODE_STATS_012],
        needs: [NODE, GET_VOLUME_STATS, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-get-volume-stats-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_staging_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A request may name a long path at which the volume was staged.
    LONG_STAGING {
        id: "node/node-get-volume-stats/long-staging-path",
        title: "NodeGetVolumeStats takes a staging_target_path of more than 128 bytes",
        spec: [req::NODE_STATS_011],
        needs: [NODE, GET_VOLUME_STATS, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-get-volume-stats-refuses-long-paths"],
    }
    async |cx| { takes_staging_path_of(cx, PATH_BYTES_LONG).await }
}

pub(crate) static CHECKS: &[&Check] =
    &[&STAGING_PATH, &NO_STAGING_FIELD, &PATH_LENGTH, &LONG_PATH, &STAGING_LENGTH, &LONG_STAGING];
