//! NodeExpandVolume grows the file system of a volume that has grown.

pub(crate) mod fields;
pub(crate) mod paths;
pub(crate) mod refusals;

use csi_harness::client::unmet::grows_in_use;
use csi_harness::prelude::*;

use super::{attached, published};

/// A volume that the controller expanded, and the node has yet to expand.
struct Grown {
    published: Published,
    size_bytes: i64,
}

impl Grown {
    /// Returns the request that an orchestrator sends now.
    fn request(&self, cx: &Cx) -> v1::NodeExpandVolumeRequest {
        request(cx, &self.published.staged, &self.published.target_path, self.size_bytes)
    }
}

/// Returns the request for a volume at a path, with everything that an orchestrator sends.
fn request(cx: &Cx, staged: &Staged, volume_path: &str, required_bytes: i64) -> v1::NodeExpandVolumeRequest {
    v1::NodeExpandVolumeRequest {
        volume_id: staged.attached.volume.id.clone(),
        volume_path: volume_path.to_owned(),
        capacity_range: Some(v1::CapacityRange { required_bytes, limit_bytes: 0 }),
        staging_target_path: staged.staging_path.clone(),
        volume_capability: Some(cx.capability()),
        ..Default::default()
    }
}

/// Expands the volume on the controller if necessary; returns the size for the node.
async fn expand_on_controller(cx: &Cx, volume_id: &str) -> CheckResult<i64> {
    let wanted = cx.expand_size_bytes();
    if !cx.target().capabilities().has(Capability::ExpandVolume) {
        return Ok(wanted);
    }
    let request = v1::ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range: Some(v1::CapacityRange { required_bytes: wanted, limit_bytes: 0 }),
        volume_capability: Some(cx.capability()),
        ..Default::default()
    };
    let expanded = cx.call(request).setup("a volume expanded on the controller").await?;
    Ok(expanded.capacity_bytes.max(wanted))
}

/// Sends the request; skips if the file system cannot grow while it is in use, which is legal.
async fn expand(
    cx: &Cx,
    request: v1::NodeExpandVolumeRequest,
) -> CheckResult<Reply<v1::NodeExpandVolumeResponse>> {
    let reply = cx.call(request).await;
    grows_in_use(reply.code()?)?;
    Ok(reply)
}

/// Expands a volume on the controller before or after it is published, as the driver demands.
async fn grown(cx: &Cx) -> CheckResult<Grown> {
    if cx.target().capabilities().expands_only_online() {
        let published = published(cx).await?;
        let size_bytes = expand_on_controller(cx, &published.staged.attached.volume.id).await?;
        return Ok(Grown { published, size_bytes });
    }
    let volume = cx.node_volume().await?;
    let size_bytes = expand_on_controller(cx, &volume.id).await?;
    let staged = cx.staged(cx.attached(volume).await?).await?;
    Ok(Grown { published: cx.published(staged).await?, size_bytes })
}

check! {
    /// Otherwise the workload cannot use the additional space.
    WORKS {
        id: "node/node-expand-volume/works",
        title: "NodeExpandVolume of a published volume that has grown is OK",
        spec: [req::NODE_EXPAND_001, req::NODE_EXPAND_024],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-volume-unimplemented", "node-expand-answers-wrong-size", "node-expand-fails-on-devices"],
        replaces: ["Node Service NodeExpandVolume should work if node-expand is called after node-publish"],
        plain: ["NodeExpandVolume"],
        access: Each,
    }
    async |cx| {
        let grown = grown(cx).await?;
        let expanded = expand(cx, grown.request(cx)).await?.must("expand a published volume that has grown")?;
        if expanded.capacity_bytes != 0 && expanded.capacity_bytes < grown.size_bytes {
            // The growth is not observable here, and only the number may be wrong.
            cx.warn(
                Violation::new("NodeExpandVolume returned OK, but reports less than was requested")
                    .of(&req::NODE_EXPAND_024)
                    .expected(format!("at least {}, or 0 for unknown", sized(grown.size_bytes)))
                    .actual(sized(expanded.capacity_bytes)),
            );
        }
        Ok(())
    }
}

check! {
    /// A caller without an answer repeats the call.
    REPEATED {
        id: "node/node-expand-volume/repeated",
        title: "NodeExpandVolume of a volume that is expanded already is OK",
        spec: [req::NODE_EXPAND_002, req::NODE_EXPAND_003],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-repeats"],
        access: Each,
    }
    async |cx| {
        let request = grown(cx).await?.request(cx);
        expand(cx, request.clone()).await?.must("expand a published volume that has grown")?;
        cx.call(request).await.must("answer OK to the same request again")?;
        Ok(())
    }
}

check! {
    /// The driver has nothing to do, which is no error.
    LARGE_ENOUGH {
        id: "node/node-expand-volume/large-enough",
        title: "NodeExpandVolume of a volume that is large enough is OK",
        spec: [req::NODE_EXPAND_003],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-refuses-small-sizes"],
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let size_bytes = staged.attached.volume.size_bytes;
        if size_bytes == 0 {
            return Err(Stop::skip("the driver does not report the size of its volumes"));
        }
        let reply = expand(cx, request(cx, &staged, &target_path, size_bytes)).await?;
        reply.must("return OK for a volume that is large enough")?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&WORKS, &REPEATED, &LARGE_ENOUGH];
