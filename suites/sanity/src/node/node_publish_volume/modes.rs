//! Publishes a volume at several paths of the node, which the access mode permits or forbids.

use csi_harness::prelude::*;

use crate::node::{published, staged_for};

/// Publishes the volume at one more path.
async fn at_new_path(
    cx: &Cx,
    staged: &Staged,
    mode: Mode,
    readonly: bool,
) -> CheckResult<v1::NodePublishVolumeRequest> {
    let request = cx.publish_request(staged, &cx.target_path().await?);
    Ok(v1::NodePublishVolumeRequest {
        volume_capability: Some(cx.capability_with_mode(mode)),
        readonly: readonly || request.readonly,
        ..request
    })
}

check! {
    /// Callers that do not know the newer modes must still be able to use the old one.
    WRITER_STILL_ACCEPTED {
        id: "node/node-publish-volume/single-node-writer-still-accepted",
        title: "a driver with the newer single-node modes still publishes with SINGLE_NODE_WRITER",
        spec: [req::NODE_PUBLISH_017],
        needs: [NODE, NODE_SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["node-publish-refuses-single-node-writer"],
        duplicate_of: "node/node-publish-volume/works",
    }
    async |cx| {
        let staged = staged_for(cx, Mode::SingleNodeWriter).await?;
        let reply = cx.node_publish(at_new_path(cx, &staged, Mode::SingleNodeWriter, false).await?).await;
        reply.must("publish with SINGLE_NODE_WRITER").map_err(Stop::of_a_plain_call)?;
        Ok(())
    }
}

check! {
    /// Real callers rely on OK, so many drivers permit it.
    SINGLE_NODE_SECOND_PATH {
        id: "node/node-publish-volume/single-node-second-path",
        title: "NodePublishVolume of a SINGLE_NODE_WRITER volume at a second path is rejected as FAILED_PRECONDITION",
        spec: [req::NODE_PUBLISH_013, req::NODE_PUBLISH_016],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-ignores-access-mode", "node-publish-second-path-as-internal"],
    }
    async |cx| {
        let rule = match cx.target().capabilities().has(Capability::NodeSingleNodeMultiWriter) {
            true => &req::NODE_PUBLISH_016,
            false => &req::NODE_PUBLISH_013,
        };
        let staged = published(cx).await?.staged;
        let reply = cx.node_publish(at_new_path(cx, &staged, Mode::SingleNodeWriter, false).await?).await;
        let refusal = refused_with(Code::FailedPrecondition);
        let what = "at a second path in a single-node mode";
        reply.must_be_refused(what, refusal).map_err(|stop| stop.of(rule))?;
        Ok(())
    }
}

check! {
    /// ReadWriteOncePod of Kubernetes depends on it.
    SINGLE_WRITER_SECOND_PATH {
        id: "node/node-publish-volume/single-writer-second-path",
        title: "NodePublishVolume of a SINGLE_NODE_SINGLE_WRITER volume at a second path is rejected as FAILED_PRECONDITION",
        spec: [req::NODE_PUBLISH_014],
        needs: [NODE, NODE_SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["node-publish-ignores-access-mode", "node-publish-second-path-as-internal"],
        replaces: ["Node Service NodePublishVolume with single node multi writer capability should fail when volume with single node single writer access mode is already mounted at a different target path"],
    }
    async |cx| {
        let staged = staged_for(cx, Mode::SingleNodeSingleWriter).await?;
        let first = at_new_path(cx, &staged, Mode::SingleNodeSingleWriter, false).await?;
        cx.node_publish(first).setup("a published volume").await?;
        let second = cx.node_publish(at_new_path(cx, &staged, Mode::SingleNodeSingleWriter, false).await?).await;
        second.must_be_refused("at a second path in a mode of one writer", refused_with(Code::FailedPrecondition))?;
        Ok(())
    }
}

async fn shared_on_the_node(cx: &Cx, mode: Mode) -> CheckResult {
    let staged = staged_for(cx, mode).await?;
    cx.node_publish(at_new_path(cx, &staged, mode, false).await?).setup("a published volume").await?;
    cx.node_publish(at_new_path(cx, &staged, mode, false).await?).await.must("publish at a second path")?;
    cx.node_publish(at_new_path(cx, &staged, mode, true).await?)
        .await
        .must("publish at another path with readonly")?;
    Ok(())
}

check! {
    /// Two pods of one node use one volume.
    MULTI_WRITER_SECOND_PATH {
        id: "node/node-publish-volume/multi-writer-second-path",
        title: "NodePublishVolume of a SINGLE_NODE_MULTI_WRITER volume at a second path is OK",
        spec: [req::NODE_PUBLISH_015],
        needs: [NODE, NODE_SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["node-publish-refuses-second-path"],
    }
    async |cx| { shared_on_the_node(cx, Mode::SingleNodeMultiWriter).await }
}

check! {
    /// Two pods of one node use one volume that other nodes use as well.
    MULTI_NODE_SECOND_PATH {
        id: "node/node-publish-volume/multi-node-second-path",
        title: "NodePublishVolume of a MULTI_NODE_MULTI_WRITER volume at a second path is OK",
        spec: [req::NODE_PUBLISH_012],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-publish-refuses-second-path"],
    }
    async |cx| { shared_on_the_node(cx, Mode::MultiNodeMultiWriter).await }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WRITER_STILL_ACCEPTED,
    &SINGLE_NODE_SECOND_PATH,
    &SINGLE_WRITER_SECOND_PATH,
    &MULTI_WRITER_SECOND_PATH,
    &MULTI_NODE_SECOND_PATH,
];
