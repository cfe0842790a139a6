//! ControllerPublishVolume attaches a volume to a node.

use csi_harness::prelude::*;

use super::common::{must_become_unknown, publishable, unknown_id, unknown_volume};

/// The limit of the protocol on a string map, counting only keys and values.
const MAP_BYTES_MAX: usize = 4 << 10;
/// The number of volumes that are attached to reach the limit of a node without `--attach-limit`.
const UNASKED_VOLUMES_MAX: i64 = 16;
/// The number of times that an idempotent call is sent.
const REPEATS: usize = 3;

fn publish<'a>(
    cx: &'a Cx,
    volume: &NodeVolume,
    node_id: &str,
) -> PendingCall<'a, v1::ControllerPublishVolumeResponse> {
    cx.controller_publish(cx.controller_publish_request(volume, node_id))
}

check! {
    /// A request without a volume can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/controller-publish-volume/no-volume-id",
        title: "ControllerPublishVolume without volume_id is rejected",
        spec: [req::CTRL_PUBLISH_007, req::GEN_ERR_004],
        needs: [PUBLISH_UNPUBLISH_VOLUME, NODE],
        refuted_by: ["controller-publish-empty-volume-id-as-not-found", "invalid-argument-as-ok"],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when no volume id is provided",
        ],
    }
    async |cx| {
        let node_id = cx.node_id().await?;
        let reply = publish(cx, &NodeVolume::default(), &node_id).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// A request without a node can only be a mistake.
    NO_NODE_ID {
        id: "controller/controller-publish-volume/no-node-id",
        title: "ControllerPublishVolume without node_id is rejected",
        spec: [req::CTRL_PUBLISH_008, req::GEN_ERR_004],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME],
        refuted_by: ["controller-publish-empty-node-id-as-not-found", "invalid-argument-as-ok"],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when no node id is provided",
        ],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let reply = publish(cx, &volume, "").await;
        reply.must_be_refused("without node_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// The way to attach a volume depends on its intended use.
    NO_VOLUME_CAPABILITY {
        id: "controller/controller-publish-volume/no-volume-capability",
        title: "ControllerPublishVolume without volume_capability is rejected",
        spec: [req::CTRL_PUBLISH_011, req::GEN_ERR_004, req::GEN_ERR_001],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: [
            "controller-publish-accepts-missing-capability",
            "controller-publish-panics-without-capability",
        ],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when no volume capability is provided",
        ],
        access: Each,
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let request = v1::ControllerPublishVolumeRequest {
            volume_capability: None,
            ..cx.controller_publish_request(&volume, &node_id)
        };
        let reply = cx.controller_publish(request).await;
        reply.must_be_refused("without volume_capability", missing_field())?;
        Ok(())
    }
}

check! {
    /// The controller does this with every volume.
    LIFECYCLE {
        id: "controller/controller-publish-volume/lifecycle",
        title: "a volume is made, published, unpublished and deleted",
        spec: [req::CTRL_PUBLISH_001, req::CTRL_UNPUBLISH_001],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: [
            "controller-publish-volume-unimplemented",
            "controller-unpublish-volume-unimplemented",
            "controller-unpublish-keeps-attachment",
        ],
        replaces: ["Controller Service [Controller Server] volume lifecycle should work"],
        plain: ["ControllerPublishVolume", "ControllerUnpublishVolume"],
        access: Each,
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        publish(cx, &volume, &node_id).await.must("publish a new volume to its own node")?;
        let unpublish = cx.controller_unpublish(&volume.id, &node_id).await;
        unpublish.must("unpublish a published volume").map_err(|stop| stop.of(&req::CTRL_UNPUBLISH_001))?;
        let delete = cx.delete_volume(&volume.id).await;
        delete.must("delete a volume that was unpublished").map_err(|stop| stop.of(&req::CTRL_UNPUBLISH_001))?;
        Ok(())
    }
}

check! {
    /// Attachers repeat every call until it is answered, and store the context of the first answer.
    REPEATED {
        id: "controller/controller-publish-volume/repeated",
        title: "ControllerPublishVolume of a published volume is OK, with the same publish_context",
        spec: [req::CTRL_PUBLISH_004, req::CTRL_PUBLISH_018],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: [
            "controller-publish-refuses-repeats",
            "controller-publish-repeat-as-failed-precondition",
            "controller-publish-context-changes",
        ],
        replaces: ["Controller Service [Controller Server] volume lifecycle should be idempotent"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let first = publish(cx, &volume, &node_id).setup("a published volume").await?.publish_context;
        for _ in 1..REPEATS {
            let reply = publish(cx, &volume, &node_id).await;
            let again = reply.must("answer a repeated call like the first one")?.publish_context;
            ensure!(
                first == again,
                "the repeated call returns another publish_context";
                of: &req::CTRL_PUBLISH_018,
                expected: format!("{first:?}"),
                actual: format!("{again:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// NodeGetInfo and the controller must use equal ids for a node.
    OWN_NODE {
        id: "controller/controller-publish-volume/own-node",
        title: "the controller knows the node that NodeGetInfo names",
        spec: [req::CTRL_PUBLISH_030],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: ["controller-publish-forgets-own-node"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        // A controller may learn of a node with some delay.
        let known = cx.eventually(Settles::NodeKnown, || async {
            let code = publish(cx, &volume, &node_id).once().await.code()?;
            Ok((code != Code::NotFound).then_some(()))
        });
        ensure!(
            known.await?.is_some(),
            "the controller does not know the node that NodeGetInfo names";
            expected: format!("a volume can be published to node {node_id:?}"),
            actual: "NOT_FOUND"
        );
        Ok(())
    }
}

check! {
    /// The workload would otherwise wait for a device that never comes.
    DELETED_VOLUME {
        id: "controller/controller-publish-volume/deleted-volume",
        title: "ControllerPublishVolume of a deleted volume is NOT_FOUND",
        spec: [req::CTRL_PUBLISH_024],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["controller-publish-unknown-volume-ok", "controller-publish-not-found-as-internal"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        cx.delete_volume(&volume.id).setup("a volume that is deleted").await?;
        must_become_unknown(cx, Settles::VolumeGone, "of a deleted volume", || publish(cx, &volume, &node_id)).await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted volume.
    UNKNOWN_VOLUME {
        id: "controller/controller-publish-volume/unknown-volume",
        title: "ControllerPublishVolume of an unknown volume is NOT_FOUND",
        spec: [req::CTRL_PUBLISH_024],
        needs: [PUBLISH_UNPUBLISH_VOLUME, NODE],
        refuted_by: ["controller-publish-unknown-volume-ok", "controller-publish-not-found-as-internal"],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when the volume does not exist",
        ],
        duplicate_of: "controller/controller-publish-volume/deleted-volume",
    }
    async |cx| {
        let node_id = cx.node_id().await?;
        let volume = unknown_volume(cx);
        let reply = publish(cx, &volume, &node_id).await;
        reply.must_be_refused("of an unknown volume", unknown_id())?;
        Ok(())
    }
}

check! {
    /// A node that was removed from the cluster must not get volumes.
    UNKNOWN_NODE {
        id: "controller/controller-publish-volume/unknown-node",
        title: "ControllerPublishVolume to an unknown node is NOT_FOUND",
        spec: [req::CTRL_PUBLISH_025],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME],
        refuted_by: ["controller-publish-unknown-node-ok", "controller-publish-not-found-as-internal"],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when the node does not exist",
        ],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let reply = publish(cx, &volume, &cx.unknown_node_id()).await;
        reply.must_be_refused("to an unknown node", unknown_id())?;
        Ok(())
    }
}

check! {
    /// A volume that is attached for writing must not become read-only under its workload, nor the other way round.
    INCOMPATIBLE {
        id: "controller/controller-publish-volume/other-readonly",
        title: "ControllerPublishVolume again with another readonly flag is ALREADY_EXISTS",
        spec: [req::CTRL_PUBLISH_026],
        needs: [PUBLISH_UNPUBLISH_VOLUME, PUBLISH_READONLY, VOLUME, NODE],
        refuted_by: ["controller-publish-ignores-readonly-conflict"],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when the volume is already published but is incompatible",
        ],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        publish(cx, &volume, &node_id).setup("a published volume").await?;
        let readonly = v1::ControllerPublishVolumeRequest {
            readonly: true,
            ..cx.controller_publish_request(&volume, &node_id)
        };
        let reply = cx.controller_publish(readonly).await;
        let what = "of a volume that is published for writing, with readonly,";
        reply.must_be_refused(what, refused_with(Code::AlreadyExists))?;
        Ok(())
    }
}

check! {
    /// The driver has to report a use that it cannot offer before the volume reaches the node.
    UNSUPPORTED_CAPABILITY {
        id: "controller/controller-publish-volume/unsupported-capability",
        title: "ControllerPublishVolume with a capability that CreateVolume rejects is rejected",
        spec: [req::CTRL_PUBLISH_010],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["controller-publish-accepts-any-capability"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let Some(capability) = super::common::refused_capability(cx).await? else {
            return Err(Stop::skip("the driver rejects none of the capabilities tried"));
        };
        let request = v1::ControllerPublishVolumeRequest {
            volume_capability: Some(capability),
            ..cx.controller_publish_request(&volume, &node_id)
        };
        if cx.controller_publish(request).await.any_answer()?.is_ok() {
            // A controller that does not know may leave the decision to the node.
            cx.warn(
                Violation::new("a volume can be published with a capability that CreateVolume rejects")
                    .expected("a suitable error, such as INVALID_ARGUMENT")
                    .actual("OK"),
            );
        }
        Ok(())
    }
}

check! {
    /// The context is stored in plain text, for example in VolumeAttachment objects.
    CONTEXT_WITHOUT_SECRETS {
        id: "controller/controller-publish-volume/no-secrets-in-context",
        title: "publish_context holds no secrets",
        spec: [req::CTRL_PUBLISH_019],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: ["controller-publish-context-holds-secrets"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let mut request = cx.controller_publish_request(&volume, &node_id);
        let secrets = cx.config().secrets_for("ControllerPublishVolume").cloned().unwrap_or_default();
        // A long, random value is not there by coincidence.
        let marker = format!("{}-d41c7f2e9ab35806", cx.unique_name());
        request.secrets = secrets;
        request.secrets.insert("csi-sanity-marker".to_owned(), marker.clone());
        let reply = cx.controller_publish(request).await;
        let context = reply.or_skip("the driver accepts no secrets but its own")?.publish_context;
        let leaking = context.iter().find(|(_, value)| value.contains(&marker));
        ensure!(
            leaking.is_none(),
            "publish_context holds a secret of the request";
            expected: "nothing sensitive in publish_context",
            actual: format!("a secret's value under the key {:?}", leaking.map_or("", |(key, _)| key))
        );
        Ok(())
    }
}

check! {
    /// Orchestrators store the context in fields of the size that the protocol permits.
    CONTEXT_SIZE {
        id: "controller/controller-publish-volume/context-size",
        title: "publish_context takes up at most 4 KiB",
        spec: [req::GEN_SIZE_002],
        needs: [PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: ["controller-publish-context-too-large"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let context = publish(cx, &volume, &node_id).setup("a published volume").await?.publish_context;
        let bytes: usize = context.iter().map(|(key, value)| key.len() + value.len()).sum();
        ensure!(
            bytes <= MAP_BYTES_MAX,
            "publish_context is too large";
            expected: format!("at most {MAP_BYTES_MAX} bytes of keys and values"),
            actual: format!("{bytes} bytes")
        );
        Ok(())
    }
}

check! {
    /// A scheduler relies on the limit, so the node must really be able to use this number of volumes.
    ATTACH_LIMIT {
        id: "controller/controller-publish-volume/attach-limit",
        title: "ControllerPublishVolume works up to max_volumes_per_node, and is RESOURCE_EXHAUSTED beyond it",
        spec: [req::CTRL_PUBLISH_029],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE],
        refuted_by: [
            "controller-publish-ignores-limit",
            "controller-publish-limit-as-internal",
            "controller-publish-limit-comes-early",
            "controller-publish-limit-comes-late",
        ],
        replaces: [
            "Controller Service [Controller Server] ControllerPublishVolume should fail when publishing more volumes than the node max attach limit",
        ],
        runs: Serial,
    }
    async |cx| {
        let node = cx.call(v1::NodeGetInfoRequest::default()).setup("the limit of the node").await?;
        let limit = node.max_volumes_per_node;
        if limit <= 0 {
            return Err(Stop::skip("the node has no volume limit"));
        }
        let (most, flag) = match cx.config().attach_limit {
            true => (i64::from(cx.config().attach_limit_max), "--attach-limit-max"),
            false => (UNASKED_VOLUMES_MAX, "--attach-limit"),
        };
        if limit > most {
            let why = format!("the node takes {limit} volumes; more than {most} are attached with {flag} only");
            return Err(Stop::skip(why));
        }
        let is_empty = is_empty(cx, &node.node_id).await?;
        let refusal = || refused_with(Code::ResourceExhausted);
        for number in 1..=limit {
            let volume = cx.node_volume().await?;
            let reply = publish(cx, &volume, &node.node_id).await;
            if reply.may_be_refused("up to the limit of the node", refusal())?.is_some() {
                continue;
            }
            ensure!(
                !is_empty,
                "a node is full before it has max_volumes_per_node volumes, although nothing else uses it";
                expected: format!("OK for {limit} volumes"),
                actual: format!("RESOURCE_EXHAUSTED for volume {number}")
            );
            // Volumes of other users may use up the limit earlier, but a node that takes no volume at all shows no
            // limit.
            return match number {
                1 => Err(Stop::broken("needs a node with room for a volume, but this one is full")),
                _ => Ok(()),
            };
        }
        let volume = cx.node_volume().await?;
        let reply = publish(cx, &volume, &node.node_id).await;
        reply.must_be_refused("beyond max_volumes_per_node", refusal())?;
        Ok(())
    }
}

/// Returns whether a node has no volumes according to the list, if no other user has the back end.
async fn is_empty(cx: &Cx, node_id: &str) -> CheckResult<bool> {
    let has = |capability| cx.target().capabilities().has(capability);
    let lists_nodes = has(Capability::ListVolumes) && has(Capability::ListVolumesPublishedNodes);
    if !(lists_nodes && cx.config().exclusive) {
        return Ok(false);
    }
    let nodes = cx.list_volumes().await?.into_iter().filter_map(|entry| entry.status);
    Ok(!nodes.flat_map(|status| status.published_node_ids).any(|id| id == node_id))
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &NO_NODE_ID,
    &NO_VOLUME_CAPABILITY,
    &LIFECYCLE,
    &REPEATED,
    &OWN_NODE,
    &DELETED_VOLUME,
    &UNKNOWN_VOLUME,
    &UNKNOWN_NODE,
    &INCOMPATIBLE,
    &UNSUPPORTED_CAPABILITY,
    &CONTEXT_WITHOUT_SECRETS,
    &CONTEXT_SIZE,
    &ATTACH_LIMIT,
];
