//! ControllerGetVolume returns the current state of one volume.

use csi_harness::prelude::*;

use super::common::{expand_request, must_become_unknown, publishable, unknown_id};

fn request(volume_id: &str) -> v1::ControllerGetVolumeRequest {
    v1::ControllerGetVolumeRequest { volume_id: volume_id.to_owned() }
}

check! {
    /// A request without an id can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/controller-get-volume/no-volume-id",
        title: "ControllerGetVolume without volume_id is rejected",
        spec: [req::CTRL_GETVOL_006, req::GEN_ERR_004],
        needs: [GET_VOLUME],
        refuted_by: ["controller-get-volume-empty-id-as-not-found", "invalid-argument-as-ok"],
    }
    async |cx| {
        let reply = cx.call(request("")).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Health monitors know their volumes by id alone.
    FINDS {
        id: "controller/controller-get-volume/finds",
        title: "ControllerGetVolume returns the requested volume",
        spec: [req::CTRL_GETVOL_002, req::CTRL_GETVOL_011],
        needs: [GET_VOLUME, VOLUME],
        refuted_by: [
            "controller-get-volume-unimplemented",
            "controller-get-volume-other-id",
            "controller-get-volume-without-volume",
        ],
        plain: ["ControllerGetVolume"],
        access: Each,
    }
    async |cx| {
        let asked = cx.node_volume().await?;
        let response = cx.call(request(&asked.id)).await.must("find a volume that exists")?;
        let found = response.volume.map(|volume| volume.volume_id);
        ensure!(
            found.as_ref() == Some(&asked.id),
            "the answer is not about the requested volume";
            of: &req::CTRL_GETVOL_011,
            expected: format!("volume_id {:?}", asked.id),
            actual: found.map_or("no volume".to_owned(), |id| format!("volume_id {id:?}"))
        );
        Ok(())
    }
}

check! {
    /// The status shows where the volume is attached and its condition.
    STATUS {
        id: "controller/controller-get-volume/status",
        title: "ControllerGetVolume answers with a status",
        spec: [req::CTRL_GETVOL_012, req::GEN_FIELD_002],
        needs: [GET_VOLUME, VOLUME],
        refuted_by: ["controller-get-volume-omits-status"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let response = cx.call(request(&volume.id)).setup("the current state of the volume").await?;
        ensure!(
            response.status.is_some(),
            "the answer has no status";
            expected: "status, empty if there is nothing to report",
            actual: "no status"
        );
        Ok(())
    }
}

check! {
    /// An operator would treat a volume without a condition as healthy.
    CONDITION {
        id: "controller/controller-get-volume/condition",
        title: "a driver with VOLUME_CONDITION reports the condition of a volume",
        spec: [req::CTRL_GETVOL_010, req::CTRL_GETVOL_003],
        needs: [GET_VOLUME, VOLUME_CONDITION, VOLUME],
        refuted_by: ["controller-get-volume-omits-condition", "controller-get-volume-omits-status"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let status = cx.call(request(&volume.id)).setup("the current state of the volume").await?.status;
        let rule = if status.is_some() { &req::CTRL_GETVOL_003 } else { &req::CTRL_GETVOL_010 };
        let condition = status.and_then(|status| status.volume_condition);
        ensure!(
            condition.is_some(),
            "VOLUME_CONDITION is advertised, but the answer has no volume_condition";
            of: rule,
            expected: "status.volume_condition",
            actual: "none"
        );
        Ok(())
    }
}

check! {
    /// The context determines how a volume is published, so another context means another volume.
    SAME_CONTEXT {
        id: "controller/controller-get-volume/same-context",
        title: "ControllerGetVolume returns the volume_context that CreateVolume returned",
        spec: [req::MSG_VOLUME_011, req::CTRL_GETVOL_011],
        needs: [GET_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-get-volume-drops-context"],
    }
    async |cx| {
        let made = cx.new_volume().await?;
        let response = cx.call(request(&made.volume_id)).setup("the current state of the volume").await?;
        let context = response.volume.unwrap_or_default().volume_context;
        if context == made.volume_context {
            return Ok(());
        }
        let differs = Violation::new("volume_context is not the one that CreateVolume returned")
            .expected(format!("{:?}", made.volume_context))
            .actual(format!("{context:?}"));
        // It is arguable whether the optional map may be left out here.
        if context.is_empty() {
            cx.warn(differs);
            return Ok(());
        }
        Err(differs.into())
    }
}

check! {
    /// Attachers compare this list with their own records. Additional nodes in it are legal.
    PUBLISHED_NODES {
        id: "controller/controller-get-volume/published-nodes",
        title: "published_node_ids names the node that a volume is published to",
        spec: [req::CTRL_GETVOL_007],
        needs: [GET_VOLUME, LIST_VOLUMES_PUBLISHED_NODES, PUBLISH_UNPUBLISH_VOLUME, VOLUME, NODE],
        refuted_by: ["controller-get-volume-omits-published-nodes", "controller-publish-not-recorded"],
    }
    async |cx| {
        let (volume, node_id) = publishable(cx).await?;
        let publish = cx.controller_publish_request(&volume, &node_id);
        cx.controller_publish(publish).setup("a published volume").await?;
        let status = cx.call(request(&volume.id)).setup("the current state of the volume").await?.status;
        let nodes = status.unwrap_or_default().published_node_ids;
        ensure!(
            nodes.contains(&node_id),
            "published_node_ids lacks the node that the volume is published to";
            expected: format!("{node_id:?} in published_node_ids"),
            actual: format!("{nodes:?}")
        );
        Ok(())
    }
}

check! {
    /// A caller needs the current size, not the first one.
    CURRENT_SIZE {
        id: "controller/controller-get-volume/current-size",
        title: "ControllerGetVolume returns the new size after an expansion",
        spec: [req::CTRL_GETVOL_004],
        needs: [GET_VOLUME, EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-get-volume-stale-capacity", "controller-expand-changes-nothing"],
    }
    async |cx| {
        let made = super::controller_expand_volume::expandable(cx).await?;
        let grown = cx.call(expand_request(cx, &made.id)).setup("an expanded volume").await?;
        let response = cx.call(request(&made.id)).setup("the current state of the volume").await?;
        let size = response.volume.unwrap_or_default().capacity_bytes;
        ensure!(
            size == 0 || size == grown.capacity_bytes,
            "ControllerGetVolume does not return the size that ControllerExpandVolume returned";
            expected: format!("capacity_bytes {}, or 0 for unknown", sized(grown.capacity_bytes).of_field()),
            actual: format!("capacity_bytes {}", sized(size).of_field())
        );
        Ok(())
    }
}

check! {
    /// A health monitor learns only in this way that a volume was deleted by others.
    DELETED_VOLUME {
        id: "controller/controller-get-volume/deleted-volume",
        title: "ControllerGetVolume of a deleted volume is NOT_FOUND",
        spec: [req::CTRL_GETVOL_015],
        needs: [GET_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-get-volume-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        must_become_unknown(cx, Settles::VolumeGone, "of a deleted volume", || cx.call(request(&id))).await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted volume.
    UNKNOWN_VOLUME {
        id: "controller/controller-get-volume/unknown-volume",
        title: "ControllerGetVolume of an unknown volume is NOT_FOUND",
        spec: [req::CTRL_GETVOL_015],
        needs: [GET_VOLUME],
        refuted_by: ["controller-get-volume-unknown-ok", "not-found-as-internal"],
        duplicate_of: "controller/controller-get-volume/deleted-volume",
    }
    async |cx| {
        let reply = cx.call(request(&cx.unknown_volume_id())).await;
        reply.must_be_refused("of an unknown volume", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &FINDS,
    &STATUS,
    &CONDITION,
    &SAME_CONTEXT,
    &PUBLISHED_NODES,
    &CURRENT_SIZE,
    &DELETED_VOLUME,
    &UNKNOWN_VOLUME,
];
