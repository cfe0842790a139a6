//! Sends requests without a field.

use csi_harness::prelude::*;

use super::{expand, grown};

check! {
    /// The error must distinguish a mistake of the caller from a volume that was deleted.
    NO_VOLUME_ID {
        id: "node/node-expand-volume/no-volume-id",
        title: "NodeExpandVolume without volume_id is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_EXPAND_010, req::GEN_ERR_004],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["Node Service NodeExpandVolume should fail when no volume id is provided"],
    }
    async |cx| {
        let request = grown(cx).await?.request(cx);
        let request = v1::NodeExpandVolumeRequest { volume_id: String::new(), ..request };
        cx.call(request).await.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty path must not mean the driver's working directory.
    NO_VOLUME_PATH {
        id: "node/node-expand-volume/no-volume-path",
        title: "NodeExpandVolume without volume_path is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_EXPAND_011, req::GEN_ERR_004],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-missing-path-as-not-found", "invalid-argument-as-ok"],
        replaces: ["Node Service NodeExpandVolume should fail when no volume path is provided"],
    }
    async |cx| {
        let request = grown(cx).await?.request(cx);
        let request = v1::NodeExpandVolumeRequest { volume_path: String::new(), ..request };
        cx.call(request).await.must_be_refused("without volume_path", missing_field())?;
        Ok(())
    }
}

check! {
    /// Older callers do not know the field.
    NO_STAGING_FIELD {
        id: "node/node-expand-volume/no-staging-target-path",
        title: "NodeExpandVolume of a published volume works without staging_target_path",
        spec: [req::NODE_EXPAND_025],
        needs: [NODE, NODE_EXPAND_VOLUME, STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-demands-staging-path"],
    }
    async |cx| {
        let request = grown(cx).await?.request(cx);
        let request = v1::NodeExpandVolumeRequest { staging_target_path: String::new(), ..request };
        expand(cx, request).await?.must("work without staging_target_path, which is optional")?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&NO_VOLUME_ID, &NO_VOLUME_PATH, &NO_STAGING_FIELD];
