//! Sends requests without a field.

use csi_harness::prelude::*;

use super::request;
use crate::node::{incomplete, staged};

check! {
    /// The error must distinguish a mistake of the caller from a volume that was deleted.
    NO_VOLUME_ID {
        id: "node/node-publish-volume/no-volume-id",
        title: "NodePublishVolume without volume_id is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_PUBLISH_018, req::GEN_ERR_004],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["Node Service NodePublishVolume should fail when no volume id is provided"],
    }
    async |cx| {
        let request = v1::NodePublishVolumeRequest { volume_id: String::new(), ..request(cx).await? };
        let refusal = missing_field();
        cx.node_publish(request).await.must_be_refused("without volume_id", refusal)?;
        Ok(())
    }
}

check! {
    /// An empty path must not become the root or the working directory of the driver.
    NO_TARGET_PATH {
        id: "node/node-publish-volume/no-target-path",
        title: "NodePublishVolume without target_path is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_PUBLISH_029, req::GEN_ERR_004],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-accepts-missing-path"],
        replaces: ["Node Service NodePublishVolume should fail when no target path is provided"],
    }
    async |cx| {
        let request = cx.publish_request(&staged(cx).await?, "");
        let refusal = missing_field();
        cx.node_publish(request).await.must_be_refused("without target_path", refusal)?;
        Ok(())
    }
}

check! {
    /// A driver that guesses the use of a volume may format a block volume.
    NO_CAPABILITY {
        id: "node/node-publish-volume/no-volume-capability",
        title: "NodePublishVolume without volume_capability is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_PUBLISH_033, req::GEN_ERR_004],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-accepts-missing-capability"],
        replaces: ["Node Service NodePublishVolume should fail when no volume capability is provided"],
    }
    async |cx| {
        let request = v1::NodePublishVolumeRequest { volume_capability: None, ..request(cx).await? };
        let refusal = missing_field();
        cx.node_publish(request).await.must_be_refused("without volume_capability", refusal)?;
        Ok(())
    }
}

check! {
    /// A driver needs both halves of a capability.
    INCOMPLETE_CAPABILITY {
        id: "node/node-publish-volume/incomplete-volume-capability",
        title: "NodePublishVolume with an incomplete volume_capability is rejected as INVALID_ARGUMENT",
        spec: [req::MSG_VOLCAP_012, req::MSG_VOLCAP_013, req::MSG_VOLCAP_010],
        needs: [NODE, VOLUME],
        refuted_by: ["node-publish-accepts-incomplete-capability"],
    }
    async |cx| {
        let valid = request(cx).await?;
        for (what, capability, rule) in incomplete(&cx.capability()) {
            let request = v1::NodePublishVolumeRequest { volume_capability: Some(capability), ..valid.clone() };
            let reply = cx.node_publish(request).await;
            if !matches!(reply.code()?, Code::Ok | Code::InvalidArgument) {
                // Otherwise the error might have another cause.
                cx.node_publish(valid.clone()).setup("a published volume").await?;
            }
            reply.must_be_refused(what, refused_with(Code::InvalidArgument)).map_err(|stop| stop.of(rule))?;
        }
        Ok(())
    }
}

check! {
    /// The code is not INVALID_ARGUMENT, because the field is missing as a result of a step that the caller left out.
    /// The general table still requires that code for a missing REQUIRED field, and neither says which takes
    /// precedence.
    NO_STAGING_PATH {
        id: "node/node-publish-volume/no-staging-target-path",
        title: "NodePublishVolume without the staging_target_path that the driver needs is rejected as FAILED_PRECONDITION",
        spec: [req::NODE_PUBLISH_042],
        needs: [NODE, STAGE_UNSTAGE_VOLUME, VOLUME],
        refuted_by: ["node-publish-missing-staging-as-invalid-argument", "node-publish-accepts-missing-staging"],
    }
    async |cx| {
        let request = v1::NodePublishVolumeRequest { staging_target_path: String::new(), ..request(cx).await? };
        let refusal = refused_with(Code::FailedPrecondition).or_warn(
            Code::InvalidArgument,
            "which fits a missing field, but the RPC has a code of its own for this one",
        );
        cx.node_publish(request).await.must_be_refused("without staging_target_path", refusal)?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&NO_VOLUME_ID, &NO_TARGET_PATH, &NO_CAPABILITY, &INCOMPLETE_CAPABILITY, &NO_STAGING_PATH];
