//! Sends requests about volumes that cannot be expanded.

use csi_harness::prelude::*;

use super::{attached, grown, published, request};
use crate::node::{gone, not_malformed, unsupported_access};

/// No device has this size.
const HUGE_BYTES: i64 = 1 << 60;

check! {
    /// Neither the volume nor its path exists, so even a node plugin without state can notice that.
    UNKNOWN_VOLUME {
        id: "node/node-expand-volume/unknown-volume",
        title: "NodeExpandVolume of a volume that does not exist is rejected",
        spec: [req::NODE_EXPAND_021],
        needs: [NODE, NODE_EXPAND_VOLUME],
        refuted_by: ["node-expand-unknown-ok", "node-not-found-as-invalid-argument"],
        replaces: ["Node Service NodeExpandVolume should fail when volume is not found"],
    }
    async |cx| {
        let staged = Staged { attached: gone(cx).await?, staging_path: String::new() };
        let path = cx.target_path().await?;
        let reply = cx.call(request(cx, &staged, &path, cx.expand_size_bytes())).await;
        let what = "NodeExpandVolume of a volume that does not exist, at a path that does not exist,";
        match reply.any_answer()? {
            Ok(_) => Err(Violation::new(format!("{what} succeeded")).expected("NOT_FOUND").actual("OK").into()),
            Err(refused) => not_malformed(cx, &refused, what),
        }
    }
}

check! {
    /// A node plugin with nothing to do may answer OK, which is only a remark.
    NOT_THERE {
        id: "node/node-expand-volume/not-published",
        title: "NodeExpandVolume at a path where the volume is neither staged nor published is rejected",
        spec: [req::NODE_EXPAND_004],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-ignores-path"],
    }
    async |cx| {
        let staged = Staged { attached: attached(cx).await?, staging_path: String::new() };
        let path = cx.target_path().await?;
        let present = staged.attached.volume.size_bytes.max(cx.volume_size_bytes());
        let reply = cx.call(request(cx, &staged, &path, present)).await;
        if reply.any_answer()?.is_ok() {
            cx.warn(
                Violation::new("NodeExpandVolume returned OK at a path where the volume is neither staged nor published")
                    .expected("an error, unless there is nothing to do on the node")
                    .actual("OK"),
            );
        }
        Ok(())
    }
}

check! {
    /// Many drivers grow to the size of the device and ignore the request: OK is only a remark.
    OUT_OF_RANGE {
        id: "node/node-expand-volume/out-of-range",
        title: "NodeExpandVolume to more than the largest possible size is rejected as OUT_OF_RANGE",
        spec: [req::NODE_EXPAND_023],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-accepts-any-size", "node-expand-out-of-range-as-internal"],
    }
    async |cx| {
        let Published { staged, target_path } = published(cx).await?;
        let refusal = refused_with(Code::OutOfRange)
            .or(Code::ResourceExhausted, "there may be a limit on the back end")
            .or(Code::FailedPrecondition, "the file system may not grow while published")
            .or(Code::Unavailable, "the device may not have grown yet, as far as the node knows");
        let reply = cx.call(request(cx, &staged, &target_path, HUGE_BYTES)).await;
        reply.should_be_refused("to more than the volume can have", refusal)
    }
}

check! {
    /// The field is optional, so a driver that ignores it only gets a remark.
    WRONG_CAPABILITY {
        id: "node/node-expand-volume/unsupported-access-type",
        title: "NodeExpandVolume with an access type that the volume lacks is rejected as INVALID_ARGUMENT",
        spec: [req::NODE_EXPAND_020],
        needs: [NODE, NODE_EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["node-expand-ignores-capability"],
    }
    async |cx| {
        let grown = grown(cx).await?;
        let capability = unsupported_access(cx, &grown.published.staged.attached.volume).await?;
        let request =
            v1::NodeExpandVolumeRequest { volume_capability: Some(capability), ..grown.request(cx) };
        let seen = match cx.call(request).await.any_answer()? {
            Err(refused) if refused.code == Code::InvalidArgument => return Ok(()),
            Err(refused) => refused.to_string(),
            Ok(_) => "OK".to_owned(),
        };
        cx.warn(
            Violation::new("NodeExpandVolume with an access type that the volume lacks is not rejected as it should be")
                .expected("INVALID_ARGUMENT")
                .actual(seen),
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&UNKNOWN_VOLUME, &NOT_THERE, &OUT_OF_RANGE, &WRONG_CAPABILITY];
