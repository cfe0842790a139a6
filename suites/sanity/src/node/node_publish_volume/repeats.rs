//! A second call for the path at which the volume is published already.

use csi_harness::prelude::*;

use super::request;

check! {
    /// kubelet publishes again after a restart, and all the time for drivers that ask for it.
    REPEATED {
        id: "node/node-publish-volume/repeated",
        title: "NodePublishVolume of a volume that is published there already is OK",
        spec: [req::NODE_PUBLISH_004, req::NODE_PUBLISH_010],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-refuses-repeats"],
        access: Each,
    }
    async |cx| {
        let request = request(cx).await?;
        cx.node_publish(request.clone()).setup("a published volume").await?;
        cx.node_publish(request).await.must("answer OK to the same request again")?;
        Ok(())
    }
}

check! {
    /// A workload that was promised a read-only volume must not get a writable one. The capability stays the same:
    /// what another one would mean is not clear.
    OTHER_READONLY {
        id: "node/node-publish-volume/other-readonly",
        title: "NodePublishVolume at the same path with another readonly is refused as ALREADY_EXISTS",
        spec: [req::NODE_PUBLISH_040, req::NODE_PUBLISH_011],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-ignores-readonly-conflict", "node-publish-conflict-as-internal"],
    }
    async |cx| {
        let request = request(cx).await?;
        cx.node_publish(request.clone()).setup("a published volume").await?;
        let request = v1::NodePublishVolumeRequest { readonly: true, ..request };
        let refusal = refused_with(Code::AlreadyExists);
        let what = "with readonly at the path where the volume is published writable";
        cx.node_publish(request).await.must_be_refused(what, refusal)?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&REPEATED, &OTHER_READONLY];
