//! A second call for the path at which the volume is published already.

use csi_harness::prelude::*;

use super::request;

check! {
    /// kubelet publishes again after a restart, and all the time for drivers that ask for it.
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
    /// A workload that was promised a read-only volume must not get a writable one. The capability stays the same: what
    /// another one would mean is not clear. OK is right where readonly makes no difference, as on a driver that mounts
    /// everything read-only; where nobody can look, it is only remarked on.
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
        let done = Violation::new(format!("NodePublishVolume {what} was done"))
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
