//! NodePublishVolume makes a volume available to a workload at a path.

pub(crate) mod fields;
pub(crate) mod modes;
pub(crate) mod paths;
pub(crate) mod repeats;
pub(crate) mod target;

use csi_harness::prelude::*;

use super::{gone, refused_or_stateless, staged, unsupported_access};

async fn request(cx: &Cx) -> CheckResult<v1::NodePublishVolumeRequest> {
    let staged = staged(cx).await?;
    Ok(cx.publish_request(&staged, &cx.target_path().await?))
}

check! {
    /// No driver can do without this call.
    WORKS {
        id: "node/node-publish-volume/works",
        title: "NodePublishVolume publishes a volume",
        spec: [req::NODE_PUBLISH_001, req::GEN_RPC_007],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-volume-unimplemented", "node-stage-not-recorded"],
        replaces: ["Node Service should work"],
        plain: ["NodePublishVolume"],
        access: Each,
    }
    async |cx| {
        let reply = cx.node_publish(request(cx).await?).await;
        // The node may be the reason of other errors, but not of UNIMPLEMENTED.
        let rule = match reply.code()? {
            Code::Unimplemented => &req::GEN_RPC_007,
            _ => &req::NODE_PUBLISH_001,
        };
        reply.must("publish a volume that is on the node").map_err(|stop| stop.of(rule))?;
        Ok(())
    }
}

check! {
    /// A node plugin without state cannot know, so OK is only a remark.
    UNKNOWN_VOLUME {
        id: "node/node-publish-volume/unknown-volume",
        title: "NodePublishVolume of a volume that does not exist is rejected",
        spec: [req::NODE_PUBLISH_039],
        needs: [NODE],
        refuted_by: ["node-publish-unknown-volume-ok"],
    }
    async |cx| {
        let attached = gone(cx).await?;
        let staging_path = if super::stages(cx) { cx.staging_path().await? } else { String::new() };
        let staged = Staged { attached, staging_path };
        let reply = cx.node_publish(cx.publish_request(&staged, &cx.target_path().await?)).await;
        refused_or_stateless(cx, reply, "NodePublishVolume of a volume that does not exist")
    }
}

check! {
    /// A workload that gets a volume in an unsupported way fails late. OK is only wrong if the volume really does not
    /// support it, which is not visible here, so it is only a remark.
    BEYOND_VOLUME {
        id: "node/node-publish-volume/unsupported-access-type",
        title: "NodePublishVolume with an access type that the volume lacks is rejected as FAILED_PRECONDITION",
        spec: [req::NODE_PUBLISH_041],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-publish-accepts-any-capability"],
    }
    async |cx| {
        let staged = staged(cx).await?;
        let capability = unsupported_access(cx, &staged.attached.volume).await?;
        let request = v1::NodePublishVolumeRequest {
            volume_capability: Some(capability),
            ..cx.publish_request(&staged, &cx.target_path().await?)
        };
        let refusal = refused_with(Code::FailedPrecondition)
            .or(Code::InvalidArgument, "an unsupported value of a field")
            .or(Code::AlreadyExists, "the volume is staged with the other access type");
        let reply = cx.node_publish(request).await;
        reply.should_be_refused("with an access type that the volume lacks", refusal)
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WORKS, &UNKNOWN_VOLUME, &BEYOND_VOLUME];
