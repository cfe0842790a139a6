//! CreateVolume with the name of an existing volume returns that volume if it is compatible, and otherwise
//! ALREADY_EXISTS.

use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

use super::super::common::validate_request;
use super::recognised;

fn with_range(
    request: &v1::CreateVolumeRequest,
    required_bytes: i64,
    limit_bytes: i64,
) -> v1::CreateVolumeRequest {
    let capacity_range = Some(v1::CapacityRange { required_bytes, limit_bytes });
    v1::CreateVolumeRequest { capacity_range, ..request.clone() }
}

/// Makes a volume of known size, and returns the request that made it.
async fn sized_volume(cx: &Cx, bytes: i64) -> CheckResult<(v1::CreateVolumeRequest, i64)> {
    let request = with_range(&cx.create_volume_request(), bytes, 0);
    let volume = recognised(cx, &request).await?;
    match volume.capacity_bytes {
        0 => Err(Stop::skip("the driver does not report the size of its volumes")),
        size => Ok((request, size)),
    }
}

check! {
    /// A range that includes the volume's size is no conflict.
    COMPATIBLE_SIZE {
        id: "controller/create-volume/compatible-size",
        title: "CreateVolume with a name used before and a range that the volume satisfies returns the volume",
        spec: [req::CTRL_CREATEVOL_003],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-refuses-compatible-size"],
    }
    async |cx| {
        let request = cx.create_volume_request();
        let first = recognised(cx, &request).await?;
        if first.capacity_bytes < 2 {
            return Err(Stop::skip("the driver does not report the size of its volumes"));
        }
        let wider = with_range(&request, first.capacity_bytes / 2, first.capacity_bytes.saturating_mul(2));
        match cx.create_volume(wider).await.any_answer()? {
            Ok(again) => ensure!(
                again.volume_id == first.volume_id,
                "a name already in use returned a different volume";
                of: &req::CTRL_CREATEVOL_002,
                expected: format!("volume_id {:?}", first.volume_id),
                actual: format!("volume_id {:?}", again.volume_id)
            ),
            Err(refused) if refused.code == Code::AlreadyExists => {
                return Err(Violation::new("a volume is rejected as incompatible with a capacity_range that includes its size")
                    .expected(format!("OK and the volume, which has {}", sized(first.capacity_bytes)))
                    .actual(refused)
                    .into());
            }
            // Another code may reject the range itself, which the driver need not support.
            Err(refused) => cx.warn(
                Violation::new("a repeated request is rejected although the volume has a size that it allows")
                    .expected("OK and the same volume")
                    .actual(refused),
            ),
        }
        Ok(())
    }
}

check! {
    /// A workload would get a volume too small for it.
    LARGER {
        id: "controller/create-volume/taken-by-a-smaller-volume",
        title: "CreateVolume with the name of a smaller volume is rejected",
        spec: [req::CTRL_CREATEVOL_041],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-ignores-size-conflict",
            "create-volume-conflict-as-internal",
            "create-volume-conflict-as-invalid-argument",
        ],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should fail when requesting to create a volume with already existing name and different capacity",
        ],
    }
    async |cx| {
        let (request, small) = sized_volume(cx, cx.volume_size_bytes()).await?;
        let large = larger_size(cx, small)?;
        let other_name = with_range(&cx.create_volume_request(), large, 0);
        cx.create_volume(other_name).await.or_skip("no volume of --expand-size-bytes can be created")?;
        let again = with_range(&request, large, 0);
        let reply = cx.create_volume(again).await;
        reply.must_be_refused("with the name of a smaller volume", refused_with(Code::AlreadyExists))?;
        Ok(())
    }
}

check! {
    /// The caller would pay for a volume above its limit.
    SMALLER {
        id: "controller/create-volume/taken-by-a-larger-volume",
        title: "CreateVolume with the name of a volume above the limit is rejected",
        spec: [req::CTRL_CREATEVOL_041],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-ignores-size-conflict",
            "create-volume-conflict-as-internal",
            "create-volume-conflict-as-invalid-argument",
        ],
    }
    async |cx| {
        let (small_request, small) = sized_volume(cx, cx.volume_size_bytes()).await?;
        let (request, large) = sized_volume(cx, larger_size(cx, small)?).await?;
        let required = small_request.capacity_range.unwrap_or_default().required_bytes;
        let again = with_range(&request, required, large - 1);
        let other_name = with_range(&cx.create_volume_request(), required, large - 1);
        cx.create_volume(other_name).await.or_skip("no volume below that limit can be created")?;
        let reply = cx.create_volume(again).await;
        reply.must_be_refused("with the name of a larger volume", refused_with(Code::AlreadyExists))?;
        Ok(())
    }
}

/// Returns a size above that of the volume.
fn larger_size(cx: &Cx, bytes: i64) -> CheckResult<i64> {
    let large = cx.expand_size_bytes();
    if large > bytes {
        Ok(large)
    } else {
        Err(Stop::skip(format!(
            "--expand-size-bytes {} is not above the {} of a small volume",
            sized(large).short(),
            sized(bytes)
        )))
    }
}

check! {
    /// If the volume does not support the access, the workload fails later, far from the cause.
    OTHER_ACCESS {
        id: "controller/create-volume/taken-by-another-access",
        title: "CreateVolume with a name used before and another access type is rejected, or the volume serves both",
        spec: [req::CTRL_CREATEVOL_042],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-ignores-capability-conflict"],
    }
    async |cx| {
        let other = cx.capability_for(cx.access().other(), Mode::SingleNodeWriter);
        let fresh = cx.create_volume_request();
        let fresh = v1::CreateVolumeRequest { volume_capabilities: vec![other.clone()], ..fresh };
        cx.create_volume(fresh).await.or_skip("the driver supports only one access type")?;

        let request = cx.create_volume_request();
        let volume = recognised(cx, &request).await?;
        let again = v1::CreateVolumeRequest { volume_capabilities: vec![other.clone()], ..request };
        let reply = cx.create_volume(again).await;
        let refusal = refused_with(Code::AlreadyExists);
        if reply.may_be_refused("with a name used before and another access type", refusal)?.is_none() {
            return Ok(());
        }
        let validate = v1::ValidateVolumeCapabilitiesRequest {
            volume_capabilities: vec![other],
            ..validate_request(cx, &volume.into())
        };
        let confirmed = cx.call(validate).setup("validated capabilities").await?.confirmed.is_some();
        ensure!(
            confirmed,
            "a name used before is accepted with another access type, which the volume does not support";
            expected: "ALREADY_EXISTS, or a volume that ValidateVolumeCapabilities confirms for both",
            actual: "OK, and ValidateVolumeCapabilities does not confirm it"
        );
        Ok(())
    }
}

check! {
    /// Parameters define the kind of the volume, and only the driver knows which of them matter.
    OTHER_PARAMETERS {
        id: "controller/create-volume/taken-with-other-parameters",
        title: "CreateVolume with a name used before and other parameters is rejected",
        spec: [req::CTRL_CREATEVOL_043],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-ignores-parameter-conflict"],
    }
    async |cx| {
        let request = cx.create_volume_request();
        if request.parameters.is_empty() {
            return Err(Stop::skip("needs parameters to be configured"));
        }
        recognised(cx, &request).await?;
        let again = v1::CreateVolumeRequest { parameters: Default::default(), ..request };
        warn_if_done(cx, again, "parameters").await
    }
}

check! {
    /// A caller requests a class of service under a name that belongs to a volume of another class. The rule about OK
    /// includes mutable_parameters, and the rule about ALREADY_EXISTS leaves them out, so every violation is a
    /// remark.
    OTHER_MUTABLE_PARAMETERS {
        id: "controller/create-volume/taken-with-other-mutable-parameters",
        title: "CreateVolume with a name used before and other mutable_parameters is rejected",
        spec: [req::CTRL_CREATEVOL_030],
        needs: [CREATE_DELETE_VOLUME, MODIFY_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["create-volume-ignores-mutable-parameter-conflict"],
    }
    async |cx| {
        let request = cx.create_volume_request();
        recognised(cx, &request).await?;
        let again = v1::CreateVolumeRequest { mutable_parameters: Default::default(), ..request };
        match warn_if_done(cx, again, "mutable_parameters").await {
            Err(Stop::Violation(wrong_code)) => {
                cx.warn(*wrong_code);
                Ok(())
            }
            judged => judged,
        }
    }
}

check! {
    /// Only the driver knows which parameters are compatible, but a volume has only one context, by which nodes find
    /// it.
    CONTEXT_STAYS {
        id: "controller/create-volume/taken-keeps-context",
        title: "CreateVolume with a name used before and other parameters does not change volume_context",
        spec: [req::MSG_VOLUME_011, req::MSG_VOLUME_008],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-repeat-takes-context-from-request"],
    }
    async |cx| {
        let request = cx.create_volume_request();
        let first = cx.create_volume(request.clone()).setup("a volume").await?;
        let (mut more, mut none) = (request.clone(), request.clone());
        more.parameters.insert("csi-sanity-no-such-parameter".to_owned(), "1".to_owned());
        none.parameters.clear();
        for other in [more, none].into_iter().filter(|other| other.parameters != request.parameters) {
            let Ok(again) = cx.create_volume(other).await.any_answer()? else { continue };
            let same = again.volume_id != first.volume_id || again.volume_context == first.volume_context;
            ensure!(
                same || again.volume_context.is_empty(),
                "a volume has another volume_context when CreateVolume is repeated with other parameters";
                expected: format!("ALREADY_EXISTS, or volume_context {:?}", first.volume_context),
                actual: format!("OK with volume_context {:?}", again.volume_context)
            );
        }
        Ok(())
    }
}

/// The protocol does not define compatible parameters, so OK is only a warning.
async fn warn_if_done(cx: &Cx, request: v1::CreateVolumeRequest, what: &str) -> CheckResult {
    let refusal = refused_with(Code::AlreadyExists)
        .or(Code::InvalidArgument, "the driver may require the omitted fields")
        .or_warn(Code::Internal, "ALREADY_EXISTS tells the caller what is wrong");
    let reply = cx.create_volume(request).await;
    if reply.may_be_refused(&format!("with a name used before and other {what}"), refusal)?.is_some() {
        cx.warn(
            Violation::new(format!("a name used before is accepted without the {what} of its volume"))
                .expected("ALREADY_EXISTS, unless they make no difference")
                .actual("OK"),
        );
    }
    Ok(())
}

check! {
    /// The caller needs the data of the source, and would get other data or none.
    OTHER_SNAPSHOT {
        id: "controller/create-volume/taken-with-other-snapshot",
        title: "CreateVolume from a snapshot with the name of an empty volume is rejected",
        spec: [req::CTRL_CREATEVOL_045],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["create-volume-ignores-source-conflict"],
    }
    async |cx| {
        let origin = cx.new_volume().await?;
        let snapshot = cx.new_snapshot(&origin.volume_id).await?;
        refuses_source(cx, Source::snapshot(&snapshot.snapshot_id), &origin).await
    }
}

check! {
    /// The caller needs the data of the source, and would get other data or none.
    OTHER_VOLUME {
        id: "controller/create-volume/taken-with-other-source-volume",
        title: "CreateVolume from a volume with the name of an empty volume is rejected",
        spec: [req::CTRL_CREATEVOL_045],
        needs: [CREATE_DELETE_VOLUME, CLONE_VOLUME],
        refuted_by: ["create-volume-ignores-source-conflict"],
        duplicate_of: "controller/create-volume/taken-with-other-snapshot",
    }
    async |cx| {
        let origin = cx.new_volume().await?;
        refuses_source(cx, Source::volume(&origin.volume_id), &origin).await
    }
}

/// Checks that the source can be copied under an unused name, and not under the name of an empty volume.
async fn refuses_source(cx: &Cx, source: v1::VolumeContentSource, origin: &v1::Volume) -> CheckResult {
    let request = || cx.create_volume_request().copy_of(source.clone(), origin.capacity_bytes);
    cx.create_volume(request()).setup("a copy").await?;
    let taken = v1::CreateVolumeRequest { volume_content_source: None, ..request() };
    recognised(cx, &taken).await?;
    let again = v1::CreateVolumeRequest { volume_content_source: Some(source), ..taken };
    let reply = cx.create_volume(again).await;
    let what = "from a source with the name of an empty volume";
    reply.must_be_refused(what, refused_with(Code::AlreadyExists))?;
    Ok(())
}

pub(crate) static CHECKS: &[&Check] = &[
    &COMPATIBLE_SIZE,
    &LARGER,
    &SMALLER,
    &OTHER_ACCESS,
    &OTHER_PARAMETERS,
    &OTHER_MUTABLE_PARAMETERS,
    &CONTEXT_STAYS,
    &OTHER_SNAPSHOT,
    &OTHER_VOLUME,
];
