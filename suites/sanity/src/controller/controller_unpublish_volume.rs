//! ControllerUnpublishVolume detaches a volume from a node.

use csi_harness::client::reply::Refusal;
use csi_harness::prelude::*;

use super::common::publishable;

async fn published(cx: &Cx) -> CheckResult<(NodeVolume, String)> {
    let (volume, node_id) = publishable(cx).await?;
    let request = cx.controller_publish_request(&volume, &node_id);
    cx.controller_publish(request).setup("a published volume").await?;
    Ok((volume, node_id))
}

/// Returns the permitted errors for an unknown object, which a driver may also treat as detached.
fn unknown() -> Refusal {
    refused_with(Code::NotFound)
        .or(Code::InvalidArgument, "the id is made up and may not have the driver's format")
}

check! {
    /// A request without a volume can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/controller-unpublish-volume/no-volume-id",
        title: "ControllerUnpublishVolume without volume_id is rejected",
        spec: [req::CTRL_UNPUBLISH_008, req::GEN_ERR_004],
        needs: [PUBLISH_UNPUBLISH_VOLUME, NODE],
        refuted_by: ["controller-unpublish-accepts-empty-id"],
        replaces: [
            "Controller Service [Controller Server] ControllerUnpublishVolume should fail when no volume id is provided",
        ],
        runs: LosesData,
    }
    async |cx| {
        let node_id = cx.node_id().await?;
        let reply = cx.controller_unpublish("", &node_id).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Attachers repeat the call until the answer is OK, so an error keeps the volume on its node forever.
    REPEATED {
        id: "controller/controller-unpublish-volume/repeated",
        title: "ControllerUnpublishVolume of a volume that was unpublished is OK",
        spec: [req::CTRL_UNPUBLISH_005],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: ["controller-unpublish-refuses-repeats", "controller-unpublish-repeat-as-not-found"],
    }
    async |cx| {
        let (volume, node_id) = published(cx).await?;
        cx.controller_unpublish(&volume.id, &node_id).setup("a volume that was unpublished").await?;
        let again = cx.controller_unpublish(&volume.id, &node_id).await;
        again.must("answer the repeated call with OK")?;
        Ok(())
    }
}

check! {
    /// After a crash the orchestrator may have recorded a call that it never sent.
    NEVER_PUBLISHED {
        id: "controller/controller-unpublish-volume/never-published",
        title: "ControllerUnpublishVolume of a volume that was never published is OK",
        spec: [req::CTRL_UNPUBLISH_005],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: ["controller-unpublish-refuses-repeats", "controller-unpublish-repeat-as-not-found"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let reply = cx.controller_unpublish(&volume.id, &node_id).await;
        reply.must("return OK for a volume that is not attached to the node")?;
        Ok(())
    }
}

check! {
    /// A detached volume can be attached elsewhere or deleted.
    DELETABLE {
        id: "controller/controller-unpublish-volume/deletable",
        title: "a volume that was unpublished can be deleted",
        spec: [req::CTRL_UNPUBLISH_003],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["controller-unpublish-keeps-attachment"],
    }
    async |cx| {
        let (volume, node_id) = published(cx).await?;
        cx.controller_unpublish(&volume.id, &node_id).setup("a volume that was unpublished").await?;
        cx.delete_volume(&volume.id).await.must("delete a volume that was unpublished")?;
        Ok(())
    }
}

check! {
    /// The id of a node that was removed may be unknown.
    NO_NODE_ID {
        id: "controller/controller-unpublish-volume/no-node-id",
        title: "ControllerUnpublishVolume without node_id detaches the volume everywhere",
        spec: [req::CTRL_UNPUBLISH_011],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["controller-unpublish-demands-node", "controller-unpublish-ignores-missing-node"],
    }
    async |cx| {
        let (volume, _) = published(cx).await?;
        let reply = cx.controller_unpublish(&volume.id, "").await;
        reply.must("detach the volume from all nodes when no node_id is given")?;
        let reply = cx.delete_volume(&volume.id).await;
        reply.must("delete a volume that was unpublished from all nodes")?;
        Ok(())
    }
}

check! {
    /// The attacher decides by the answer whether to repeat the call.
    UNKNOWN_VOLUME {
        id: "controller/controller-unpublish-volume/unknown-volume",
        title: "ControllerUnpublishVolume of an unknown volume is OK or NOT_FOUND",
        spec: [req::CTRL_UNPUBLISH_015],
        needs: [PUBLISH_UNPUBLISH_VOLUME, NODE],
        refuted_by: ["controller-unpublish-unknown-as-internal"],
    }
    async |cx| {
        let node_id = cx.node_id().await?;
        let reply = cx.controller_unpublish(&cx.unknown_volume_id(), &node_id).await;
        reply.may_be_refused("of an unknown volume", unknown())?;
        Ok(())
    }
}

check! {
    /// A node that was removed holds no volumes.
    UNKNOWN_NODE {
        id: "controller/controller-unpublish-volume/unknown-node",
        title: "ControllerUnpublishVolume from an unknown node is OK or NOT_FOUND",
        spec: [req::CTRL_UNPUBLISH_016],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME],
        refuted_by: ["controller-unpublish-refuses-repeats"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let reply = cx.controller_unpublish(&volume.id, &cx.unknown_node_id()).await;
        reply.may_be_refused("from an unknown node", unknown())?;
        Ok(())
    }
}

check! {
    /// The attacher of Kubernetes repeats the call forever if a deleted volume is an error.
    DELETED_VOLUME {
        id: "controller/controller-unpublish-volume/deleted-volume",
        title: "ControllerUnpublishVolume of a volume that was unpublished and deleted is OK",
        spec: [req::CTRL_UNPUBLISH_006, req::CTRL_UNPUBLISH_015],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["controller-unpublish-unknown-as-internal"],
    }
    async |cx| {
        let (volume, node_id) = published(cx).await?;
        cx.controller_unpublish(&volume.id, &node_id).setup("a volume that was unpublished").await?;
        cx.delete_volume(&volume.id).setup("a volume that is deleted").await?;
        let reply = cx.controller_unpublish(&volume.id, &node_id).await;
        reply.must("treat a deleted volume as detached")?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &REPEATED,
    &NEVER_PUBLISHED,
    &DELETABLE,
    &NO_NODE_ID,
    &UNKNOWN_VOLUME,
    &UNKNOWN_NODE,
    &DELETED_VOLUME,
];
