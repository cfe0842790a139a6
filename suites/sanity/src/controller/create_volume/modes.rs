//! Checks the access modes of one node, old and new, and that a volume can be used in its modes.

use csi_harness::prelude::*;
use csi_ops::malformed::unknown_fs_type;

use super::super::common::publish_as_said;

/// Sends CreateVolume for a volume of one access mode.
fn create_with_mode(cx: &Cx, mode: Mode) -> PendingCall<'_, v1::Volume> {
    let request = v1::CreateVolumeRequest {
        volume_capabilities: vec![cx.capability_with_mode(mode)],
        ..cx.create_volume_request()
    };
    cx.create_volume(request)
}

check! {
    /// Workloads with ReadWriteOnce use this mode, even if newer ones exist.
    SINGLE_NODE_WRITER {
        id: "controller/create-volume/single-node-writer",
        title: "a driver with SINGLE_NODE_MULTI_WRITER still takes SINGLE_NODE_WRITER",
        spec: [req::CTRL_CAPS_011],
        needs: [SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["single-node-writer-refused"],
        duplicate_of: "controller/create-volume/works",
    }
    async |cx| {
        if create_with_mode(cx, Mode::SingleNodeSingleWriter).await.code()? != Code::Ok {
            create_with_mode(cx, Mode::SingleNodeMultiWriter).setup("one of the newer single-node modes").await?;
        }
        let reply = create_with_mode(cx, Mode::SingleNodeWriter).await;
        let made = reply.must("create a SINGLE_NODE_WRITER volume although SINGLE_NODE_MULTI_WRITER is advertised");
        made.map_err(Stop::of_a_plain_call)?;
        Ok(())
    }
}

check! {
    /// The capability promises SINGLE_NODE_SINGLE_WRITER, SINGLE_NODE_MULTI_WRITER or both.
    NEWER_MODES {
        id: "controller/create-volume/newer-single-node-modes",
        title: "a driver with SINGLE_NODE_MULTI_WRITER takes one of the newer single-node modes",
        spec: [req::CTRL_CAPS_012],
        needs: [SINGLE_NODE_MULTI_WRITER, CREATE_DELETE_VOLUME],
        refuted_by: ["new-writer-modes-unbacked"],
    }
    async |cx| {
        cx.new_volume().await?;
        let single = create_with_mode(cx, Mode::SingleNodeSingleWriter).await.any_answer()?;
        let Err(single) = single else { return Ok(()) };
        let multi = create_with_mode(cx, Mode::SingleNodeMultiWriter).await.any_answer()?;
        let Err(multi) = multi else { return Ok(()) };
        Err(Violation::new("SINGLE_NODE_MULTI_WRITER is advertised, but neither newer mode is accepted")
            .expected("CreateVolume works with SINGLE_NODE_SINGLE_WRITER, SINGLE_NODE_MULTI_WRITER or both")
            .actual(format!("{single}, and {multi}"))
            .into())
    }
}

/// The modes for several nodes of which at least one writes, because a new volume has to be formatted.
const SHARED_MODES: [Mode; 2] = [Mode::MultiNodeMultiWriter, Mode::MultiNodeSingleWriter];

/// Makes a volume that the node can reach and that has these capabilities, or returns the error.
async fn made_for(
    cx: &Cx,
    volume_capabilities: Vec<v1::VolumeCapability>,
) -> CheckResult<Result<NodeVolume, Refused>> {
    let request = v1::CreateVolumeRequest { volume_capabilities, ..cx.create_node_volume_request().await? };
    Ok(cx.create_volume(request).await.any_answer()?.map(NodeVolume::from))
}

check! {
    /// A capability that the driver did not check fails only when a workload waits for its volume.
    USABLE {
        id: "controller/create-volume/usable-as-made",
        title: "a volume can be published with the capability that it was made for",
        spec: [req::CTRL_CREATEVOL_019],
        needs: [CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["create-volume-accepts-unsupported-capability"],
    }
    async |cx| {
        let mut capabilities = vec![cx.capability_for(cx.access().other(), Mode::SingleNodeWriter)];
        capabilities.extend(SHARED_MODES.map(|mode| cx.capability_with_mode(mode)));
        // It comes last, because nodes may fail it with an unclear error.
        capabilities.push(unknown_fs_type(cx));
        for capability in capabilities {
            let part = cx.scope();
            let Ok(volume) = made_for(&part, vec![capability.clone()]).await? else { continue };
            publish_as_said(&part, &volume, &capability, "CreateVolume made it for").await?;
            part.undo().await?;
        }
        Ok(())
    }
}

check! {
    /// One pod fills the volume and others read it.
    USABLE_AS_ANY {
        id: "controller/create-volume/usable-as-any-of-several",
        title: "a volume can be published with each of the capabilities that it was made for",
        spec: [req::CTRL_CREATEVOL_020],
        needs: [CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["create-volume-keeps-first-capability"],
        duplicate_of: "controller/create-volume/usable-as-made",
    }
    async |cx| {
        for mode in SHARED_MODES {
            let both = [cx.capability(), cx.capability_with_mode(mode)];
            let Ok(volume) = made_for(cx, both.to_vec()).await? else { continue };
            for capability in both {
                let part = cx.scope();
                publish_as_said(&part, &volume, &capability, "CreateVolume made it for").await?;
                part.undo().await?;
            }
            return Ok(());
        }
        Err(Stop::skip("the driver makes no volume for two access modes"))
    }
}

check! {
    /// A file system has a smallest size. If the driver makes smaller volumes, the pod that waits for one fails.
    SMALLEST {
        id: "controller/create-volume/smallest-usable",
        title: "the smallest volume that the driver makes can be staged and published",
        spec: [req::CTRL_CREATEVOL_019],
        needs: [CREATE_DELETE_VOLUME, NODE, MOUNT_ACCESS],
        refuted_by: ["node-stage-fails-on-small-volumes"],
    }
    async |cx| {
        use_plain_volume(cx).await?;
        let small = cx.scope();
        let ended = use_smallest_volume(&small).await;
        // If a plain volume fails as well by now, the size is not the reason.
        if matches!(ended, Err(Stop::Violation(_))) {
            let _ = small.undo_best_effort().await;
            use_plain_volume(cx).await?;
        }
        ended
    }
}

async fn use_plain_volume(cx: &Cx) -> CheckResult {
    let plain = cx.scope();
    plain.published(plain.staged(plain.attached(plain.node_volume().await?).await?).await?).await?;
    plain.undo().await
}

async fn use_smallest_volume(cx: &Cx) -> CheckResult {
    let mut request = cx.create_node_volume_request().await?;
    request.capacity_range = Some(v1::CapacityRange { required_bytes: 1, limit_bytes: 0 });
    let made = cx.create_volume(request).await.or_skip("the driver creates no volume this small")?;
    let attached = cx.attached(made.into()).await?;
    let mut staging_path = String::new();
    if cx.target().capabilities().has(Capability::StageUnstageVolume) {
        staging_path = cx.staging_path().await?;
        let reply = cx.node_stage(cx.stage_request(&attached, &staging_path)).await;
        reply.must("stage the smallest volume that CreateVolume makes, as it does larger ones")?;
    }
    let staged = Staged { attached, staging_path };
    let request = cx.publish_request(&staged, &cx.target_path().await?);
    let reply = cx.node_publish(request).await;
    reply.must("publish the smallest volume that CreateVolume makes, as it does larger ones")?;
    Ok(())
}

pub(crate) static CHECKS: &[&Check] =
    &[&SINGLE_NODE_WRITER, &NEWER_MODES, &USABLE, &USABLE_AS_ANY, &SMALLEST];
