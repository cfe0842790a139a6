//! NodeGetVolumeHealth returns the problems of one volume, as a node sees them.

use csi_harness::prelude::*;

use super::{PATH_BYTES_LONG, PATH_BYTES_MAX, attached, gone, published, published_at_path_of};
use crate::volume_health::{is_about, is_well, problems};

fn of(volume_id: &str) -> v1::NodeGetVolumeHealthRequest {
    v1::NodeGetVolumeHealthRequest { volume_id: volume_id.to_owned(), ..Default::default() }
}

check! {
    /// A request without an id can only be a mistake.
    NO_VOLUME_ID {
        id: "node/node-get-volume-health/no-volume-id",
        title: "NodeGetVolumeHealth without volume_id is rejected",
        spec: [req::NODE_HEALTH_002, req::GEN_ERR_004],
        needs: [NODE, NODE_GET_VOLUME_HEALTH],
        refuted_by: ["node-get-volume-health-empty-id-as-not-found", "invalid-argument-as-ok"],
    }
    async |cx| {
        cx.call(of("")).await.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Kubelet sends both paths for file systems, and other callers send none: each path is optional.
    FINDS {
        id: "node/node-get-volume-health/finds",
        title: "NodeGetVolumeHealth reports on a published volume, whichever paths are given",
        spec: [
            req::NODE_HEALTH_010,
            req::NODE_HEALTH_011,
            req::NODE_HEALTH_001,
            req::NODE_HEALTH_003,
            req::NODE_HEALTH_004,
        ],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, VOLUME],
        refuted_by: [
            "node-get-volume-health-unimplemented",
            "node-get-volume-health-without-health",
            "node-get-volume-health-other-id",
            "node-get-volume-health-demands-paths",
            "node-get-volume-health-refuses-staging-path",
        ],
        plain: ["NodeGetVolumeHealth"],
        access: Each,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let id = &staged.attached.volume.id;
        let both = cx.health_request(&staged, &target_path);
        let publish_alone = v1::NodeGetVolumeHealthRequest { staging_target_path: String::new(), ..both.clone() };
        let staging_alone = v1::NodeGetVolumeHealthRequest { volume_publish_path: String::new(), ..both.clone() };
        for (request, form, rule) in [
            (of(id), "without paths", &req::NODE_HEALTH_003),
            (publish_alone, "with volume_publish_path alone", &req::NODE_HEALTH_004),
            (both, "with all paths", &req::NODE_HEALTH_004),
            // If the driver does not stage volumes, this request has no path.
            (staging_alone, "without volume_publish_path", &req::NODE_HEALTH_004),
        ] {
            let reply = cx.call(request).await;
            let rule = if reply.code()? == Code::Unimplemented { &req::NODE_HEALTH_001 } else { rule };
            let response =
                reply.must(&format!("report on a published volume {form}")).map_err(|stop| stop.of(rule))?;
            is_about(response.volume_health, id, &req::NODE_HEALTH_010, &req::NODE_HEALTH_011)?;
        }
        Ok(())
    }
}

check! {
    /// A volume that this node uses is not inaccessible from it.
    USED_VOLUME {
        id: "node/node-get-volume-health/used-volume",
        title: "no problem is reported for a volume that was just published",
        spec: [req::NODE_HEALTH_012],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, VOLUME],
        refuted_by: ["node-get-volume-health-inaccessible-when-used"],
        access: Each,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let response = cx.call(cx.health_request(&staged, &target_path)).setup("the health of a volume").await?;
        let problems = problems(&response.volume_health.unwrap_or_default().health_statuses);
        is_well(cx, &problems, &req::NODE_HEALTH_012, "a newly published volume")
    }
}

check! {
    /// The paths in a request may be those of a failed attempt, so the driver has to answer even if the volume is not
    /// there.
    FAILED_STAGE {
        id: "node/node-get-volume-health/failed-stage",
        title: "NodeGetVolumeHealth answers for a volume whose staging has failed",
        spec: [req::NODE_HEALTH_013],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, STAGE_UNSTAGE_VOLUME, MOUNT_ACCESS, VOLUME],
        refuted_by: ["node-get-volume-health-refuses-unused"],
    }
    async |cx| {
        let attached = attached(cx).await?;
        let staging_path = cx.staging_path().await?;
        let mut stage = cx.stage_request(&attached, &staging_path);
        stage.volume_capability = Some(csi_ops::malformed::unknown_fs_type(cx));
        if cx.node_stage(stage).await.any_answer()?.is_ok() {
            return Err(Stop::skip("the driver stages a volume with a file system that does not exist"));
        }
        let failed = Staged { attached, staging_path };
        let reply = cx.call(cx.health_request(&failed, "")).await;
        if reply.code()? != Code::NotFound {
            reply.must("answer for a volume whose staging has failed")?;
        }
        Ok(())
    }
}

check! {
    /// If the call mounted or created the examined path, it would hide the problem.
    NO_TRACES {
        id: "node/node-get-volume-health/no-traces",
        title: "NodeGetVolumeHealth creates nothing at a path that does not exist",
        spec: [req::NODE_HEALTH_019],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, VOLUME],
        refuted_by: ["node-get-volume-health-makes-paths"],
    }
    async |cx| {
        cx.need_path_kind()?;
        let attached = attached(cx).await?;
        let path = cx.target_path().await?;
        let before = cx.path_kind(&path).await?;
        let asked = v1::NodeGetVolumeHealthRequest { volume_publish_path: path.clone(), ..of(&attached.volume.id) };
        cx.call(asked).await.any_answer()?.ok();
        let after = cx.path_kind(&path).await?;
        ensure!(
            before == after,
            "NodeGetVolumeHealth has changed what is at volume_publish_path";
            expected: format!("{before:?} at {path:?}, as before"),
            actual: format!("{after:?}")
        );
        Ok(())
    }
}

check! {
    /// If a mount was removed by others, every workload loses its data, and only the node can see that.
    LOST_MOUNT {
        id: "node/node-get-volume-health/lost-mount",
        title: "NodeGetVolumeHealth reports that a volume is missing from its target path",
        spec: [req::NODE_HEALTH_015],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, MOUNT_ACCESS, VOLUME],
        refuted_by: ["node-get-volume-health-ignores-lost-path", "node-get-volume-health-never-ill"],
        runs: Serial,
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        remove_mount(cx, &target_path).await?;
        let reply = cx.call(cx.health_request(&staged, &target_path)).await;
        if let Ok(response) = reply.any_answer()? {
            let problems = problems(&response.volume_health.unwrap_or_default().health_statuses);
            ensure!(
                !problems.is_empty(),
                "a volume is no longer at its target path, and NodeGetVolumeHealth reports nothing";
                expected: "an entry, such as INACCESSIBLE, or an error",
                actual: "OK without health_statuses"
            );
        }
        Ok(())
    }
}

/// Removes a volume from its target path without the driver: unmounts it, or removes the empty directory if the
/// driver has mounted nothing.
async fn remove_mount(cx: &Cx, target_path: &str) -> CheckResult {
    if !cx.shares_files_with_driver().await {
        return Err(Stop::skip(
            "these tests do not see the driver's files, so they cannot unmount the volume",
        ));
    }
    let is_away = match cx.is_mount_point(target_path) {
        true => cx.unmount_below([target_path]).is_ok_and(|unmounted| unmounted > 0),
        false => std::fs::remove_dir(target_path).is_ok(),
    };
    match is_away {
        true => Ok(()),
        false => Err(Stop::skip("these tests cannot unmount the volume from its target path")),
    }
}

check! {
    /// A node service without state cannot know, so a violation is only a remark.
    DELETED_VOLUME {
        id: "node/node-get-volume-health/deleted-volume",
        title: "NodeGetVolumeHealth of a deleted volume is NOT_FOUND",
        spec: [req::NODE_HEALTH_014],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, VOLUME],
        refuted_by: ["node-get-volume-health-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let attached = gone(cx).await?;
        let reply = cx.call(of(&attached.volume.id)).await;
        let refusal = refused_with(Code::NotFound).or(Code::InvalidArgument, "the id may be made up");
        reply.must_be_refused("of a deleted volume", refusal)?;
        Ok(())
    }
}

async fn takes_path_of(cx: &Cx, bytes: usize) -> CheckResult {
    let Published { staged, target_path } = published_at_path_of(cx, bytes).await?;
    let reply = cx.call(cx.health_request(&staged, &target_path)).await;
    reply.must(&format!("accept a volume_publish_path of {bytes} bytes"))?;
    Ok(())
}

check! {
    /// The general limit on strings permits this length.
    PATH_LENGTH {
        id: "node/node-get-volume-health/path-of-128-bytes",
        title: "NodeGetVolumeHealth takes a volume_publish_path of 128 bytes",
        spec: [req::NODE_HEALTH_009],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, VOLUME],
        refuted_by: ["node-get-volume-health-refuses-paths-of-128-bytes"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_MAX).await }
}

check! {
    /// A volume that was published at a long path has to be examined there.
    LONG_PATH {
        id: "node/node-get-volume-health/long-path",
        title: "NodeGetVolumeHealth takes a volume_publish_path of more than 128 bytes",
        spec: [req::NODE_HEALTH_008],
        needs: [NODE, NODE_GET_VOLUME_HEALTH, VOLUME],
        refuted_by: ["node-get-volume-health-refuses-long-paths"],
    }
    async |cx| { takes_path_of(cx, PATH_BYTES_LONG).await }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &FINDS,
    &USED_VOLUME,
    &FAILED_STAGE,
    &NO_TRACES,
    &LOST_MOUNT,
    &DELETED_VOLUME,
    &PATH_LENGTH,
    &LONG_PATH,
];
