//! NodeUnpublishVolume undoes NodePublishVolume.

use csi_harness::prelude::*;

use super::{PATH_BYTES_LONG, PATH_BYTES_MAX, gone, gone_refusal, published, published_at_path_of, staged};

check! {
    /// A pod never ends if its volume cannot be unpublished.
    WORKS {
        id: "node/node-unpublish-volume/works",
        title: "NodeUnpublishVolume unpublishes a volume",
        spec: [req::NODE_UNPUBLISH_001],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-volume-unimplemented", "node-unpublish-fails-on-block"],
        plain: ["NodeUnpublishVolume"],
        access: Each,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let reply = cx.node_unpublish(&staged.attached.volume.id, &target_path).await;
        reply.must("unpublish a published volume")?;
        Ok(())
    }
}

check! {
    /// The driver has to remove what it made; the orchestrator only removes the parent directory.
    REMOVES_TARGET {
        id: "node/node-unpublish-volume/removes-target",
        title: "NodeUnpublishVolume removes the target path",
        spec: [req::NODE_UNPUBLISH_010, req::NODE_UNPUBLISH_002],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-leaves-target"],
        replaces: ["Node Service NodeUnpublishVolume should remove target path"],
        access: Each,
    }
    async |cx| {
        cx.need_path_kind()?;
        let Published { staged, target_path } = published(cx).await?;
        if cx.path_kind(&target_path).await? == PathKind::NotFound {
            return Err(Stop::broken(format!("needs a target path, but nothing is at {target_path}")));
        }
        cx.node_unpublish(&staged.attached.volume.id, &target_path).setup("an unpublished volume").await?;
        ensure!(
            !cx.is_mount_point(&target_path),
            "NodeUnpublishVolume returned OK, but the volume is still mounted at the target path {target_path}";
            of: &req::NODE_UNPUBLISH_002,
            expected: "no mount, and nothing at the path",
            actual: "a mount point"
        );
        let kind = cx.path_kind(&target_path).await?;
        ensure!(
            kind == PathKind::NotFound,
            "NodeUnpublishVolume returned OK, but the target path {target_path} still exists";
            expected: "nothing at the path: the driver created it, and has to remove it",
            actual: kind
        );
        Ok(())
    }
}

check! {
    /// The pod is moved away and comes back. The volume is still staged, so publishing has to work.
    PUBLISH_AGAIN {
        id: "node/node-unpublish-volume/publish-again",
        title: "a volume that was unpublished can be published again",
        spec: [req::NODE_UNPUBLISH_002],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-unstages"],
        access: Each,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        cx.node_unpublish(&staged.attached.volume.id, &target_path).setup("an unpublished volume").await?;
        let again = cx.node_publish(cx.publish_request(&staged, &target_path)).await;
        again.must("publish a volume that was unpublished, and is still staged")?;
        Ok(())
    }
}

check! {
    /// A caller without an answer repeats the call.
    REPEATED {
        id: "node/node-unpublish-volume/repeated",
        title: "NodeUnpublishVolume of a volume that is unpublished already is OK",
        spec: [req::NODE_UNPUBLISH_006],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-refuses-repeats"],
        access: Each,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let id = &staged.attached.volume.id;
        cx.node_unpublish(id, &target_path).setup("an unpublished volume").await?;
        cx.node_unpublish(id, &target_path).await.must("answer OK to the same request again")?;
        Ok(())
    }
}

check! {
    /// The error must distinguish a mistake of the caller from a volume that was deleted.
    NO_VOLUME_ID {
        id: "node/node-unpublish-volume/no-volume-id",
        title: "NodeUnpublishVolume without volume_id is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_UNPUBLISH_008, req::GEN_ERR_004],
        needs: [NODE],
        refuted_by: ["node-unpublish-accepts-empty-id"],
        replaces: ["Node Service NodeUnpublishVolume should fail when no volume id is provided"],
        runs: LosesData,
    }
    async |cx| {
        let reply = cx.node_unpublish("", &cx.target_path().await?).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty path must not become the root or the working directory of the driver.
    NO_TARGET_PATH {
        id: "node/node-unpublish-volume/no-target-path",
        title: "NodeUnpublishVolume without target_path is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_UNPUBLISH_011, req::GEN_ERR_004],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-accepts-missing-path"],
        replaces: ["Node Service NodeUnpublishVolume should fail when no target path is provided"],
        runs: LosesData,
    }
    async |cx| {
        let staged = staged(cx).await?;
        let reply = cx.node_unpublish(&staged.attached.volume.id, "").await;
        reply.must_be_refused("without target_path", missing_field())?;
        Ok(())
    }
}

check! {
    /// With any other code the orchestrator repeats the call forever.
    UNKNOWN_VOLUME {
        id: "node/node-unpublish-volume/unknown-volume",
        title: "NodeUnpublishVolume of a volume that does not exist is OK or NOT_FOUND",
        spec: [req::NODE_UNPUBLISH_016],
        needs: [NODE],
        refuted_by: ["node-unpublish-unknown-as-internal"],
    }
    async |cx| {
        let gone = gone(cx).await?;
        let reply = cx.node_unpublish(&gone.volume.id, &cx.target_path().await?).await;
        reply.may_be_refused("of a volume that does not exist", gone_refusal(cx))?;
        Ok(())
    }
}

async fn takes_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Published { staged, target_path } = published_at_path_of(cx, bytes).await?;
    let reply = cx.node_unpublish(&staged.attached.volume.id, &target_path).await;
    reply.must(&format!("accept a target_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    PATH_LENGTH {
        id: "node/node-unpublish-volume/path-of-128-bytes",
        title: "NodeUnpublishVolume takes a target_path of 128 bytes",
        spec: [req::NODE_UNPUBLISH_013],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A volume that was published at a long path has to be unpublished there.
    LONG_PATH {
        id: "node/node-unpublish-volume/long-path",
        title: "NodeUnpublishVolume takes a target_path of more than 128 bytes",
        spec: [req::NODE_UNPUBLISH_012],
        needs: [NODE, VOLUME],
        refuted_by: ["node-unpublish-refuses-long-paths"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_LONG).await }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &REMOVES_TARGET,
    &PUBLISH_AGAIN,
    &REPEATED,
    &NO_VOLUME_ID,
    &NO_TARGET_PATH,
    &UNKNOWN_VOLUME,
    &PATH_LENGTH,
    &LONG_PATH,
];
