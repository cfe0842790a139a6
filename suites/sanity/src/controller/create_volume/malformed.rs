//! Sends CreateVolume requests with one error each.

use csi_harness::client::reply::Refusal;
use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

/// Sends a request that is correct except for one error.
async fn refused(
    cx: &Cx,
    what: &str,
    spoil: impl FnOnce(&mut v1::CreateVolumeRequest),
    refusal: Refusal,
) -> CheckResult {
    let mut request = cx.create_volume_request();
    spoil(&mut request);
    cx.create_volume(request).await.must_be_refused(what, refusal)?;
    Ok(())
}

fn invalid() -> Refusal {
    refused_with(Code::InvalidArgument)
}

/// Returns the permitted error for a range that no caller may send. The specification does not define the driver's
/// reaction, so a wrong code is as bad as OK: both break only the rule of the check.
fn invalid_size() -> Refusal {
    invalid().or(Code::OutOfRange, "the code for sizes")
}

fn invalid_id() -> Refusal {
    invalid().or_warn(Code::NotFound, "an empty id is a missing field, not an unknown object")
}

fn spoil_capability(request: &mut v1::CreateVolumeRequest, spoil: impl Fn(&mut v1::VolumeCapability)) {
    request.volume_capabilities.iter_mut().for_each(spoil);
}

check! {
    /// The name makes a repeated request idempotent.
    NO_NAME {
        id: "controller/create-volume/no-name",
        title: "CreateVolume without a name is rejected",
        spec: [req::CTRL_CREATEVOL_010, req::GEN_ERR_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-empty-name", "invalid-argument-as-internal"],
        replaces: ["Controller Service [Controller Server] CreateVolume should fail when no name is provided"],
        runs: LosesData,
    }
    async |cx| {
        refused(cx, "without a name", |request| request.name.clear(), missing_field()).await
    }
}

check! {
    /// Without them the purpose of the volume is unknown.
    NO_CAPABILITIES {
        id: "controller/create-volume/no-capabilities",
        title: "CreateVolume without volume_capabilities is rejected",
        spec: [req::CTRL_CREATEVOL_022, req::GEN_ERR_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-missing-capabilities"],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should fail when no volume capabilities are provided",
        ],
    }
    async |cx| {
        refused(cx, "without volume_capabilities", |request| request.volume_capabilities.clear(), missing_field()).await
    }
}

check! {
    /// A capability that is neither block nor mount describes no use.
    NO_ACCESS_TYPE {
        id: "controller/create-volume/no-access-type",
        title: "CreateVolume for a capability that is neither block nor mount is rejected",
        spec: [req::MSG_VOLCAP_012],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-missing-access-type"],
    }
    async |cx| {
        let spoil = |request: &mut _| spoil_capability(request, |capability| capability.access_type = None);
        refused(cx, "for a capability without access type", spoil, invalid()).await
    }
}

check! {
    /// The mode limits how many nodes may write.
    NO_ACCESS_MODE {
        id: "controller/create-volume/no-access-mode",
        title: "CreateVolume for a capability without access_mode is rejected",
        spec: [req::MSG_VOLCAP_013],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-missing-access-mode"],
        duplicate_of: "controller/create-volume/no-access-type",
    }
    async |cx| {
        let spoil = |request: &mut _| spoil_capability(request, |capability| capability.access_mode = None);
        refused(cx, "for a capability without access_mode", spoil, invalid()).await
    }
}

check! {
    /// A caller sends UNKNOWN if it forgot to choose, and an undefined number if it is broken.
    WRONG_ACCESS_MODE {
        id: "controller/create-volume/wrong-access-mode",
        title: "CreateVolume with access mode UNKNOWN or an undefined access mode is rejected",
        spec: [req::MSG_VOLCAP_010, req::GEN_ERR_005],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-unknown-access-mode"],
        duplicate_of: "controller/create-volume/no-access-mode",
    }
    async |cx| {
        use v1::volume_capability::AccessMode;
        for (what, mode) in [("with access mode UNKNOWN", 0), ("with the undefined access mode 999", 999)] {
            let mode = AccessMode { mode };
            let spoil = |request: &mut _| {
                spoil_capability(request, |capability| capability.access_mode = Some(mode));
            };
            refused(cx, what, spoil, invalid()).await?;
        }
        Ok(())
    }
}

check! {
    /// A range without limits contains less information than no range.
    EMPTY_RANGE {
        id: "controller/create-volume/empty-capacity-range",
        title: "CreateVolume with a capacity_range that has neither bound is rejected",
        spec: [req::MSG_CAPRANGE_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-empty-range"],
    }
    async |cx| {
        let spoil = |request: &mut v1::CreateVolumeRequest| request.capacity_range = Some(Default::default());
        refused(cx, "with an empty capacity_range", spoil, invalid_size()).await
    }
}

check! {
    /// A negative size becomes a huge one in a driver that converts it to an unsigned number.
    NEGATIVE_SIZE {
        id: "controller/create-volume/negative-size",
        title: "CreateVolume with a negative bound in capacity_range is rejected",
        spec: [req::MSG_CAPRANGE_007],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-negative-size", "create-volume-internal-on-negative-size"],
        runs: CrashProne,
    }
    async |cx| {
        for (what, required_bytes, limit_bytes) in
            [("with required_bytes -1", -1, 0), ("with limit_bytes -1", 0, -1)]
        {
            let range = v1::CapacityRange { required_bytes, limit_bytes };
            let spoil = |request: &mut v1::CreateVolumeRequest| request.capacity_range = Some(range);
            refused(cx, what, spoil, invalid_size()).await?;
        }
        Ok(())
    }
}

check! {
    /// No size satisfies a required size above the limit.
    CROSSED_RANGE {
        id: "controller/create-volume/crossed-capacity-range",
        title: "CreateVolume with required_bytes above limit_bytes is rejected",
        spec: [req::CTRL_CREATEVOL_047, req::CTRL_CREATEVOL_018],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-accepts-crossed-range"],
    }
    async |cx| {
        let size = cx.volume_size_bytes();
        let range = v1::CapacityRange { required_bytes: size, limit_bytes: size - 1 };
        let request = v1::CreateVolumeRequest { capacity_range: Some(range), ..cx.create_volume_request() };
        let refusal = refused_with(Code::OutOfRange)
            .or(Code::InvalidArgument, "a range that contains no size is a malformed field as well");
        cx.new_volume().await?;
        let reply = cx.create_volume(request).await;
        let Answer::Ok(volume) = reply.answer() else {
            reply.must_be_refused("with required_bytes above limit_bytes", refusal)?;
            return Ok(());
        };
        let made = Violation::new("CreateVolume with required_bytes above limit_bytes must be rejected, but succeeded")
            .of(&req::CTRL_CREATEVOL_018)
            .expected(refusal)
            .actual(format!("OK with capacity_bytes {}", sized(volume.capacity_bytes).of_field()));
        // Storage without quotas reports the size 0, for unknown, which cannot violate the range.
        if volume.capacity_bytes == 0 { cx.warn(made) } else { return Err(made.into()) }
        Ok(())
    }
}

check! {
    /// An empty volume in place of a copy would lose the requested data.
    EMPTY_SOURCE {
        id: "controller/create-volume/empty-content-source",
        title: "CreateVolume with a volume_content_source that is neither snapshot nor volume is rejected",
        spec: [req::MSG_VOLSOURCE_002],
        needs: [CREATE_DELETE_VOLUME, SOURCES],
        refuted_by: ["create-volume-accepts-empty-source"],
    }
    async |cx| {
        let spoil =
            |request: &mut v1::CreateVolumeRequest| request.volume_content_source = Some(Default::default());
        refused(cx, "with an empty volume_content_source", spoil, invalid()).await
    }
}

/// The driver supports at least one kind of content source.
const SOURCES: Need = any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]);

check! {
    /// An empty id must not result in an empty volume.
    EMPTY_SNAPSHOT_ID {
        id: "controller/create-volume/empty-source-snapshot-id",
        title: "CreateVolume from a snapshot without snapshot_id is rejected",
        spec: [req::MSG_VOLSOURCE_003],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["create-volume-accepts-empty-snapshot-id"],
    }
    async |cx| {
        let spoil =
            |request: &mut v1::CreateVolumeRequest| request.volume_content_source = Some(Source::snapshot(""));
        refused(cx, "from a snapshot with an empty snapshot_id", spoil, invalid_id()).await
    }
}

check! {
    /// An empty id must not result in an empty volume.
    EMPTY_SOURCE_VOLUME_ID {
        id: "controller/create-volume/empty-source-volume-id",
        title: "CreateVolume from a volume without volume_id is rejected",
        spec: [req::MSG_VOLSOURCE_005],
        needs: [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        refuted_by: ["create-volume-accepts-empty-source-volume-id"],
    }
    async |cx| {
        let spoil =
            |request: &mut v1::CreateVolumeRequest| request.volume_content_source = Some(Source::volume(""));
        refused(cx, "from a volume with an empty volume_id", spoil, invalid_id()).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_NAME,
    &NO_CAPABILITIES,
    &NO_ACCESS_TYPE,
    &NO_ACCESS_MODE,
    &WRONG_ACCESS_MODE,
    &EMPTY_RANGE,
    &NEGATIVE_SIZE,
    &CROSSED_RANGE,
    &EMPTY_SOURCE,
    &EMPTY_SNAPSHOT_ID,
    &EMPTY_SOURCE_VOLUME_ID,
];
