//! Uses staging paths and long paths. The volume has not grown, so the answer is OK at once.

use csi_harness::prelude::*;

use super::{expand, request};
use crate::node::{PATH_BYTES_LONG, PATH_BYTES_MAX, published_at_path_of, staged, staged_at_path_of};

/// Returns the current size of the volume.
fn present_bytes(cx: &Cx, staged: &Staged) -> i64 {
    match staged.attached.volume.size_bytes {
        known @ 1.. => known,
        _ => cx.volume_size_bytes(),
    }
}

check! {
    /// The volume grows while no pod on the node uses it.
    STAGING_PATH {
        id: "node/node-expand-volume/staging-path",
        title: "NodeExpandVolume of a volume that is staged and not published is OK at its staging path",
        spec: [req::NODE_EXPAND_006],
        needs: [NODE, NODE_EXPAND_VOLUME, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-staging-path"],
    }
    async |cx| {
        let staged = staged(cx).await?;
        let request = request(cx, &staged, &staged.staging_path, present_bytes(cx, &staged));
        expand(cx, request).await?.must("expand a volume at its staging path")?;
        Ok(())
    }
}

async fn takes_volume_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Published { staged, target_path } = published_at_path_of(cx, bytes).await?;
    let reply = expand(cx, request(cx, &staged, &target_path, present_bytes(cx, &staged))).await?;
    reply.must(&format!("accept a volume_path of {bytes} bytes"))?;
    Ok(())
}

async fn takes_staging_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Published { staged, target_path } = cx.published(staged_at_path_of(cx, bytes).await?).await?;
    let reply = expand(cx, request(cx, &staged, &target_path, present_bytes(cx, &staged))).await?;
    reply.must(&format!("accept a staging_target_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    PATH_LENGTH {
        id: "node/node-expand-volume/path-of-128-bytes",
        title: "NodeExpandVolume takes a volume_path of 128 bytes",
        spec: [req::NODE_EXPAND_013],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_volume_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A volume that was published at a long path has to be expanded there.
    LONG_PATH {
        id: "node/node-expand-volume/long-path",
        title: "NodeExpandVolume takes a volume_path of more than 128 bytes",
        spec: [req::NODE_EXPAND_012],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-long-paths"],
    }
    async |cx| { takes_volume_path_of(cx, PATH_BYTES_LONG).await }
}

check! {
    /// The general limit on strings permits this length.
    STAGING_LENGTH {
        id: "node/node-expand-volume/staging-path-of-128-bytes",
        title: "NodeExpandVolume takes a staging_target_path of 128 bytes",
        spec: [req::NODE_EXPAND_017],
        needs: [NODE, NODE_EXPAND_VOLUME, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_staging_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A request may name a long path at which the volume was staged.
    LONG_STAGING {
        id: "node/node-expand-volume/long-staging-path",
        title: "NodeExpandVolume takes a staging_target_path of more than 128 bytes",
        spec: [req::NODE_EXPAND_016],
        needs: [NODE, NODE_EXPAND_VOLUME, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-long-paths"],
    }
    async |cx| { takes_staging_path_of(cx, PATH_BYTES_LONG).await }
}

pub(crate) static CHECKS: &[&Check] =
    &[&STAGING_PATH, &PATH_LENGTH, &LONG_PATH, &STAGING_LENGTH, &LONG_STAGING];
