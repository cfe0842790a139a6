//! Repeats the call for a path at which the volume is already published.

use csi_harness::prelude::*;

use super::request;

check! {
    /// Kubelet repeats the call after a restart, and periodically for drivers that request it.
    REPEATED {
        id: "node/node-publish-volume/repeated",
        title: "NodePublishVolume of a volume that is published there already is OK",
        spec: [req::NODE_PUBLISH_004],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-refuses-repeats"],
        replaces: ["Node Service should be idempotent"],
        access: Each,
    }
    async |cx| {
        let request = request(cx).await?;
        let path = request.target_path.clone();
        cx.node_publish(request.clone()).setup("a published volume").await?;
        let mounted = cx.mounts_at(&path);
        cx.node_publish(request).await.must("answer OK to the same request again")?;
        ensure!(
            cx.mounts_at(&path) <= mounted,
            "a repeated NodePublishVolume has mounted the volume again, over the first mount";
            expected: format!("{mounted} in the mount table at {path}, as before"),
            actual: cx.mounts_at(&path)
        );
        Ok(())
    }
}

check! {
    /// A workload with a read-only volume must not get a writable one. The capability stays equal, because the
    /// meaning of another one is unclear. OK is right if readonly makes no difference, for example because the driver
    /// mounts everything read-only; if that is not observable, it is only a remark.
    OTHER_READONLY {
        id: "node/node-publish-volume/other-readonly",
        title: "NodePublishVolume at the same path with another readonly is rejected as ALREADY_EXISTS",
        spec: [req::NODE_PUBLISH_040],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-ignores-readonly-conflict", "node-publish-conflict-as-internal"],
    }
    async |cx| {
        let staged = cx.staged(cx.attached(cx.writable_volume().await?).await?).await?;
        let request = cx.publish_request(&staged, &cx.target_path().await?);
        cx.node_publish(request.clone()).setup("a published volume").await?;
        let request = v1::NodePublishVolumeRequest { readonly: true, ..request };
        let target_path = request.target_path.clone();
        let refusal = refused_with(Code::AlreadyExists);
        let what = "with readonly at the path where the volume is published writable";
        if cx.node_publish(request).await.may_be_refused(what, refusal)?.is_none() {
            return Ok(());
        }
        let done = Violation::new(format!("NodePublishVolume {what} succeeded"))
            .expected("ALREADY_EXISTS, unless the volume cannot be written to anyway");
        match cx.is_writable(&target_path) {
            Some(true) => return Err(done.actual("OK, and the volume can be written to").into()),
            Some(false) => {}
            None => cx.warn(done.actual("OK")),
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&REPEATED, &OTHER_READONLY];
