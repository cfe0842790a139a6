//! ControllerGetVolumeHealth returns the problems of one volume.

use csi_harness::prelude::*;

use super::common::unknown_id;
use crate::node::published;
use crate::volume_health::{get, is_about, is_well, problems};

check! {
    /// A request without an id can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/controller-get-volume-health/no-volume-id",
        title: "ControllerGetVolumeHealth without volume_id is rejected",
        spec: [req::CTRL_GETHEALTH_002, req::GEN_ERR_004],
        needs: [GET_VOLUME_HEALTH],
        refuted_by: ["controller-get-volume-health-empty-id-as-not-found", "invalid-argument-as-ok"],
    }
    async |cx| {
        get(cx, "").await.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Callers take an answer without volume_health, or about another volume, for health.
    FINDS {
        id: "controller/controller-get-volume-health/finds",
        title: "ControllerGetVolumeHealth reports on the requested volume, published or not",
        spec: [
            req::CTRL_GETHEALTH_003,
            req::CTRL_GETHEALTH_004,
            req::CTRL_GETHEALTH_001,
            req::CTRL_GETHEALTH_008,
        ],
        needs: [GET_VOLUME_HEALTH, VOLUME],
        refuted_by: [
            "controller-get-volume-health-unimplemented",
            "controller-get-volume-health-without-health",
            "controller-get-volume-health-other-id",
            "controller-get-volume-health-refuses-unpublished",
        ],
        plain: ["ControllerGetVolumeHealth"],
        access: Each,
    }
    async |cx| {
        let mut volumes = vec![cx.node_volume().await?];
        if cx.target().capabilities().has(Capability::CreateDeleteVolume) {
            volumes.push(cx.node_volume().await?);
        }
        for volume in volumes.iter().chain(&volumes) {
            let reply = get(cx, &volume.id).await;
            let rule = match reply.code()? {
                Code::NotFound => &req::CTRL_GETHEALTH_008,
                _ => &req::CTRL_GETHEALTH_001,
            };
            let response = reply.must("report on a volume that exists").map_err(|stop| stop.of(rule))?;
            is_about(
                response.volume_health,
                &volume.id,
                &req::CTRL_GETHEALTH_003,
                &req::CTRL_GETHEALTH_004,
            )?;
        }
        Ok(())
    }
}

check! {
    /// A new volume may have no replicas yet, but it has lost no data.
    NEW_VOLUME {
        id: "controller/controller-get-volume-health/new-volume",
        title: "no problem is reported for a new volume",
        spec: [req::CTRL_GETHEALTH_005],
        needs: [GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-get-volume-health-warns-of-new"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let response = get(cx, &volume.volume_id).setup("the health of a volume").await?;
        let problems = problems(&response.volume_health.unwrap_or_default().health_statuses);
        is_well(cx, &problems, &req::CTRL_GETHEALTH_005, "a newly created volume")
    }
}

check! {
    /// If a controller reports INACCESSIBLE, no node can use the volume.
    USED_VOLUME {
        id: "controller/controller-get-volume-health/used-volume",
        title: "a volume that a node can use is not reported as inaccessible",
        spec: [req::CTRL_GETHEALTH_014],
        needs: [GET_VOLUME_HEALTH, NODE, VOLUME],
        refuted_by: ["controller-get-volume-health-inaccessible-when-used"],
    }
    async |cx| {
        let published = published(cx).await?;
        let response = get(cx, &published.staged.attached.volume.id).setup("the health of a volume").await?;
        let problems = problems(&response.volume_health.unwrap_or_default().health_statuses);
        is_well(cx, &problems, &req::CTRL_GETHEALTH_014, "a newly published volume")
    }
}

check! {
    /// A deleted volume is not healthy. The driver may report it as inaccessible instead.
    DELETED_VOLUME {
        id: "controller/controller-get-volume-health/deleted-volume",
        title: "ControllerGetVolumeHealth of a deleted volume is NOT_FOUND",
        spec: [req::CTRL_GETHEALTH_006],
        needs: [GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-get-volume-health-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        let gone = cx.eventually(Settles::VolumeGone, || async {
            let reply = get(cx, &id).once().await;
            Ok(match reply.any_answer()? {
                Ok(response) => {
                    let problems = response.volume_health.unwrap_or_default().health_statuses;
                    (!problems.is_empty()).then_some(None)
                }
                Err(refused) if [Code::Aborted, Code::Unavailable].contains(&refused.code) => None,
                Err(refused) => Some(Some(refused)),
            })
        });
        match gone.await? {
            Some(None) => Ok(()),
            Some(Some(refused)) if refused.code == Code::NotFound => Ok(()),
            ended => Err(Violation::new("ControllerGetVolumeHealth of a deleted volume is not NOT_FOUND")
                .expected("NOT_FOUND")
                .actual(ended.flatten().map_or_else(|| "OK, and no problem reported".to_owned(), |refused| refused.to_string()))
                .into()),
        }
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted volume.
    UNKNOWN_VOLUME {
        id: "controller/controller-get-volume-health/unknown-volume",
        title: "ControllerGetVolumeHealth of an unknown volume is NOT_FOUND",
        spec: [req::CTRL_GETHEALTH_006],
        needs: [GET_VOLUME_HEALTH],
        refuted_by: ["controller-get-volume-health-unknown-ok", "not-found-as-internal"],
        duplicate_of: "controller/controller-get-volume-health/deleted-volume",
    }
    async |cx| {
        get(cx, &cx.unknown_volume_id()).await.must_be_refused("of an unknown volume", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&NO_VOLUME_ID, &FINDS, &NEW_VOLUME, &USED_VOLUME, &DELETED_VOLUME, &UNKNOWN_VOLUME];
