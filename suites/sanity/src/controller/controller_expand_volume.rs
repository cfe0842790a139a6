//! ControllerExpandVolume: making a volume larger.

use csi_harness::prelude::*;

use super::common::{
    expand_request, must_become_unknown, refused_capability, too_large, unknown_id, unsupported_size,
};
use crate::node::published;

/// No storage has this size, and rounding it up does not overflow.
const HUGE_BYTES: i64 = 1 << 62;

fn range(required_bytes: i64, limit_bytes: i64) -> Option<v1::CapacityRange> {
    Some(v1::CapacityRange { required_bytes, limit_bytes })
}

fn between(least: i64, most: i64) -> String {
    match least == most {
        true => format!("capacity_bytes {}", sized(least).of_field()),
        false => {
            format!("capacity_bytes from {} to {}", sized(least).of_field(), sized(most).of_field())
        }
    }
}

/// Returns a request with another range.
fn expand_to(
    cx: &Cx,
    volume_id: &str,
    range: Option<v1::CapacityRange>,
) -> v1::ControllerExpandVolumeRequest {
    v1::ControllerExpandVolumeRequest { capacity_range: range, ..expand_request(cx, volume_id) }
}

/// Makes a volume that the driver can expand.
pub(super) async fn expandable(cx: &Cx) -> CheckResult<NodeVolume> {
    if !cx.target().capabilities().expands_only_online() {
        return Ok(cx.new_volume().await?.into());
    }
    if let Some(reason) = NODE.unmet(cx.target(), cx.access()) {
        return Err(Stop::skip(format!("the driver expands volumes that are in use, and {reason}")));
    }
    Ok(published(cx).await?.staged.attached.volume)
}

check! {
    /// A request without a volume can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/controller-expand-volume/no-volume-id",
        title: "ControllerExpandVolume without volume_id is rejected",
        spec: [req::CTRL_EXPAND_008, req::GEN_ERR_004],
        needs: [EXPAND_VOLUME],
        refuted_by: ["controller-expand-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["ExpandVolume [Controller Server] should fail if no volume id is given"],
    }
    async |cx| {
        let reply = cx.call(expand_request(cx, "")).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// Without a size the driver has nothing to do.
    NO_CAPACITY_RANGE {
        id: "controller/controller-expand-volume/no-capacity-range",
        title: "ControllerExpandVolume without capacity_range is rejected",
        spec: [req::CTRL_EXPAND_009, req::GEN_ERR_004],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-accepts-missing-range"],
        replaces: ["ExpandVolume [Controller Server] should fail if no capacity range is given"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let reply = cx.call(expand_to(cx, &volume.id, None)).await;
        reply.must_be_refused("without capacity_range", missing_field())?;
        Ok(())
    }
}

check! {
    /// A range has to have a bound.
    EMPTY_RANGE {
        id: "controller/controller-expand-volume/empty-range",
        title: "ControllerExpandVolume with neither required_bytes nor limit_bytes is rejected",
        spec: [req::MSG_CAPRANGE_004],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-accepts-empty-range"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let reply = cx.call(expand_to(cx, &volume.id, range(0, 0))).await;
        reply.must_be_refused("with an empty capacity_range", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

check! {
    /// Sizes that wrap around shrink volumes.
    NEGATIVE_SIZE {
        id: "controller/controller-expand-volume/negative-size",
        title: "ControllerExpandVolume to a negative size is rejected",
        spec: [req::MSG_CAPRANGE_007],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-accepts-negative-size"],
        runs: CrashProne,
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let size = cx.expand_size_bytes();
        for (what, range) in [
            ("with negative required_bytes", range(-1, 0)),
            ("with negative limit_bytes", range(size, -1)),
        ] {
            let refusal = refused_with(Code::InvalidArgument)
                .or(Code::OutOfRange, "a size below zero is also one that no volume has");
            cx.call(expand_to(cx, &volume.id, range)).await.must_be_refused(what, refusal)?;
        }
        Ok(())
    }
}

check! {
    /// A workload relies on the size in the answer.
    EXPANDS {
        id: "controller/controller-expand-volume/expands",
        title: "ControllerExpandVolume makes a volume larger and returns its size",
        spec: [req::CTRL_EXPAND_001, req::CTRL_EXPAND_011],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: [
            "controller-expand-volume-unimplemented",
            "controller-expand-answers-old-size",
            "controller-expand-answers-zero",
        ],
        replaces: ["ExpandVolume [Controller Server] should work"],
        plain: ["ControllerExpandVolume"],
        access: Each,
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let wanted = cx.expand_size_bytes();
        let reply = cx.call(expand_request(cx, &volume.id)).await;
        let capacity = reply.must("expand a volume")?.capacity_bytes;
        ensure!(
            capacity >= wanted,
            "the volume is smaller than what it was expanded to";
            of: &req::CTRL_EXPAND_011,
            expected: format!("capacity_bytes of at least {}", sized(wanted).of_field()),
            actual: format!("capacity_bytes {}", sized(capacity).of_field())
        );
        Ok(())
    }
}

check! {
    /// A user who sets a limit would pay for a larger volume.
    LIMIT {
        id: "controller/controller-expand-volume/limit",
        title: "ControllerExpandVolume stays within limit_bytes",
        spec: [req::CTRL_EXPAND_011, req::CTRL_EXPAND_017],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-exceeds-limit"],
        duplicate_of: "controller/controller-expand-volume/crossed-range",
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let wanted = cx.expand_size_bytes().max(volume.size_bytes);
        // A driver with whole GiB has the first size, and rounds the second one up beyond its limit.
        let odd = (wanted.saturating_add(1), wanted.saturating_add(1 << 20));
        let fits = odd.1 <= cx.config().size_max_bytes.unwrap_or(i64::MAX);
        let mut is_any_done = false;
        for (least, most) in [Some((wanted, wanted)), fits.then_some(odd)].into_iter().flatten() {
            let request = expand_to(cx, &volume.id, range(least, most));
            let answer = cx.call(request).await.may_be_refused("to a narrow range of sizes", unsupported_size());
            let Some(response) = answer.map_err(|stop| stop.of(&req::CTRL_EXPAND_017))? else { continue };
            is_any_done = true;
            ensure!(
                (least..=most).contains(&response.capacity_bytes),
                "the size of the expanded volume is outside the requested range";
                expected: format!("{}, or OUT_OF_RANGE", between(least, most)),
                actual: format!("capacity_bytes {}", sized(response.capacity_bytes).of_field())
            );
        }
        if !is_any_done {
            return Err(Stop::skip("the driver supports neither that exact size nor one just above it"));
        }
        Ok(())
    }
}

check! {
    /// Resizers repeat the call until it is answered.
    REPEATED {
        id: "controller/controller-expand-volume/repeated",
        title: "a repeated expansion is OK and returns the same size",
        spec: [req::CTRL_EXPAND_002, req::CTRL_EXPAND_003],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-refuses-repeats"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let request = expand_request(cx, &volume.id);
        let first = cx.call(request.clone()).setup("an expanded volume").await?;
        let again = cx.call(request).await.must("answer a repeated expansion with OK")?;
        ensure!(
            first.capacity_bytes == again.capacity_bytes,
            "a repeated expansion returns another size";
            expected: format!("capacity_bytes {}", sized(first.capacity_bytes).of_field()),
            actual: format!("capacity_bytes {}", sized(again.capacity_bytes).of_field())
        );
        Ok(())
    }
}

check! {
    /// A volume that shrinks loses data.
    LARGE_ENOUGH {
        id: "controller/controller-expand-volume/large-enough",
        title: "ControllerExpandVolume to a smaller size is OK and does not change the size of the volume",
        spec: [req::CTRL_EXPAND_003, req::CTRL_EXPAND_011],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-refuses-repeats", "controller-expand-shrinks"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let large = cx.call(expand_request(cx, &volume.id)).setup("an expanded volume").await?;
        let smaller = expand_to(cx, &volume.id, range(large.capacity_bytes / 2 + 1, 0));
        let now = cx.call(smaller).await.must("return OK for a volume that is large enough")?;
        // A driver that keeps no sizes can only repeat what is asked for.
        ensure!(
            now.capacity_bytes >= large.capacity_bytes || volume.size_bytes == 0,
            "the volume is reported as smaller than before";
            of: &req::CTRL_EXPAND_011,
            expected: format!("capacity_bytes of at least {}", sized(large.capacity_bytes).of_field()),
            actual: format!("capacity_bytes {}", sized(now.capacity_bytes).of_field())
        );
        Ok(())
    }
}

check! {
    /// The field is optional.
    NO_CAPABILITY {
        id: "controller/controller-expand-volume/no-volume-capability",
        title: "ControllerExpandVolume works without volume_capability",
        spec: [req::CTRL_EXPAND_018],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-demands-capability"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let request = v1::ControllerExpandVolumeRequest {
            volume_capability: None,
            ..expand_request(cx, &volume.id)
        };
        cx.call(request).await.must("expand a volume without volume_capability")?;
        Ok(())
    }
}

check! {
    /// The way a volume grows may depend on its use, and an impossible use is a mistake of the caller.
    OTHER_CAPABILITY {
        id: "controller/controller-expand-volume/unsupported-capability",
        title: "ControllerExpandVolume with a capability that CreateVolume rejects is rejected",
        spec: [req::CTRL_EXPAND_014],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-ignores-capability"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let Some(capability) = refused_capability(cx).await? else {
            return Err(Stop::skip("the driver rejects none of the capabilities tried"));
        };
        let request = v1::ControllerExpandVolumeRequest {
            volume_capability: Some(capability),
            ..expand_request(cx, &volume.id)
        };
        // Many drivers ignore the optional field.
        let refusal = refused_with(Code::InvalidArgument);
        cx.call(request).await.should_be_refused("with an unsupported capability", refusal)
    }
}

check! {
    /// ONLINE promises growth while a node uses the volume.
    ONLINE {
        id: "controller/controller-expand-volume/online",
        title: "a driver with ONLINE expands a volume that is in use on a node",
        spec: [req::ID_PCAPS_012],
        needs: [EXPAND_VOLUME, Need::Has(Capability::OnlineExpansion), CREATE_DELETE_VOLUME, NODE],
        refuted_by: ["controller-expand-refuses-online"],
    }
    async |cx| {
        let published = published(cx).await?;
        let reply = cx.call(expand_request(cx, &published.staged.attached.volume.id)).await;
        if reply.code()? != Code::Ok && !cx.target().capabilities().expands_only_online() {
            // A driver that cannot expand an unused volume either shows nothing about volumes in use.
            let unused = cx.new_volume().await?;
            cx.call(expand_request(cx, &unused.volume_id)).setup("an expanded volume that is not in use").await?;
        }
        reply.must("expand a volume that is in use on a node, since ONLINE is advertised")?;
        Ok(())
    }
}

check! {
    /// A file system that cannot grow while it is mounted would be damaged, or the returned size would be
    /// wrong.
    IN_USE {
        id: "controller/controller-expand-volume/in-use",
        title: "a driver with OFFLINE and without ONLINE does not expand a volume that is in use on a node",
        spec: [req::ID_PCAPS_014, req::CTRL_EXPAND_016],
        needs: [
            EXPAND_VOLUME,
            Need::Has(Capability::OfflineExpansion),
            lacks(Capability::OnlineExpansion),
            // Without it the controller does not know which node uses a volume.
            PUBLISH_UNPUBLISH_VOLUME,
            CREATE_DELETE_VOLUME,
            NODE,
        ],
        refuted_by: ["controller-expand-ignores-use", "controller-expand-in-use-as-internal"],
    }
    async |cx| {
        let published = published(cx).await?;
        let reply = cx.call(expand_request(cx, &published.staged.attached.volume.id)).await;
        let refusal = refused_with(Code::FailedPrecondition).named_by(&req::CTRL_EXPAND_016);
        reply.must_be_refused("of a volume that is in use on a node, without ONLINE,", refusal)?;
        Ok(())
    }
}

check! {
    /// A request that cannot succeed must not be repeated forever.
    TOO_LARGE {
        id: "controller/controller-expand-volume/too-large",
        title: "ControllerExpandVolume to more than the largest possible size is OUT_OF_RANGE",
        spec: [req::CTRL_EXPAND_017],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-out-of-range-as-internal"],
        runs: CrashProne,
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let reply = cx.call(expand_to(cx, &volume.id, range(HUGE_BYTES, 0))).await;
        if let Some(response) = reply.may_be_refused("to 4 EiB", too_large())? {
            ensure!(
                response.capacity_bytes >= HUGE_BYTES,
                "the expansion was neither rejected nor carried out";
                expected: format!("OUT_OF_RANGE, or capacity_bytes of at least {}", sized(HUGE_BYTES).of_field()),
                actual: format!("OK with capacity_bytes {}", sized(response.capacity_bytes).of_field())
            );
        }
        Ok(())
    }
}

check! {
    /// No size satisfies a required size above the limit.
    CROSSED_RANGE {
        id: "controller/controller-expand-volume/crossed-range",
        title: "ControllerExpandVolume with required_bytes above limit_bytes is rejected",
        spec: [req::CTRL_EXPAND_017],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-accepts-crossed-range"],
    }
    async |cx| {
        let volume = expandable(cx).await?;
        let required = cx.expand_size_bytes().max(volume.size_bytes).saturating_add(1 << 30);
        let reply = cx.call(expand_to(cx, &volume.id, range(required, required - 1))).await;
        let refusal = refused_with(Code::OutOfRange)
            .or(Code::InvalidArgument, "the range contradicts itself");
        reply.must_be_refused("with required_bytes above limit_bytes", refusal)?;
        Ok(())
    }
}

check! {
    /// A claim may outlive its volume.
    DELETED_VOLUME {
        id: "controller/controller-expand-volume/deleted-volume",
        title: "ControllerExpandVolume of a deleted volume is NOT_FOUND",
        spec: [req::CTRL_EXPAND_015],
        needs: [EXPAND_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-expand-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        must_become_unknown(cx, Settles::VolumeGone, "of a deleted volume", || cx.call(expand_request(cx, &id))).await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted volume.
    UNKNOWN_VOLUME {
        id: "controller/controller-expand-volume/unknown-volume",
        title: "ControllerExpandVolume of an unknown volume is NOT_FOUND",
        spec: [req::CTRL_EXPAND_015],
        needs: [EXPAND_VOLUME],
        refuted_by: ["controller-expand-unknown-ok", "not-found-as-internal"],
        duplicate_of: "controller/controller-expand-volume/deleted-volume",
    }
    async |cx| {
        let reply = cx.call(expand_request(cx, &cx.unknown_volume_id())).await;
        reply.must_be_refused("of an unknown volume", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &NO_CAPACITY_RANGE,
    &EMPTY_RANGE,
    &NEGATIVE_SIZE,
    &EXPANDS,
    &LIMIT,
    &REPEATED,
    &LARGE_ENOUGH,
    &NO_CAPABILITY,
    &OTHER_CAPABILITY,
    &ONLINE,
    &IN_USE,
    &TOO_LARGE,
    &CROSSED_RANGE,
    &DELETED_VOLUME,
    &UNKNOWN_VOLUME,
];
