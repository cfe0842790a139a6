//! Sends parameters, mutable_parameters and volume_capabilities that are not all supported.

use csi_harness::prelude::*;
use csi_ops::malformed::unknown_fs_type;

/// A key that no driver knows.
const UNKNOWN_KEY: &str = "csi-sanity-no-such-parameter";

fn refusal() -> csi_harness::client::reply::Refusal {
    refused_with(Code::InvalidArgument)
}

check! {
    /// A misspelt parameter in a storage class should cause an error; drivers that pass parameters on may ignore it.
    UNKNOWN_PARAMETER {
        id: "controller/create-volume/unknown-parameter",
        title: "CreateVolume with an unknown parameter is rejected as invalid, or ignores it",
        spec: [req::GEN_ERR_005],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["invalid-argument-as-internal", "invalid-argument-as-unknown"],
    }
    async |cx| {
        cx.new_volume().await?;
        let mut request = cx.create_volume_request();
        request.parameters.insert(UNKNOWN_KEY.to_owned(), "1".to_owned());
        cx.create_volume(request).await.may_be_refused("with an unknown parameter", refusal())?;
        Ok(())
    }
}

check! {
    /// A volume can get its class of service when it is made.
    MUTABLE_PARAMETERS {
        id: "controller/create-volume/mutable-parameters",
        title: "CreateVolume takes the configured mutable_parameters",
        spec: [req::CTRL_CREATEVOL_030],
        needs: [CREATE_DELETE_VOLUME, MODIFY_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["create-volume-refuses-mutable-parameters"],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should create volume with a volume attribute class",
        ],
    }
    async |cx| {
        let with = cx.create_volume_request();
        let without = v1::CreateVolumeRequest {
            name: cx.unique_name(),
            mutable_parameters: Default::default(),
            ..with.clone()
        };
        cx.create_volume(without).setup("a volume without mutable_parameters").await?;
        cx.create_volume(with).await.must("accept the configured mutable_parameters")?;
        Ok(())
    }
}

check! {
    /// The driver must not promise a class of service that it does not have.
    UNKNOWN_MUTABLE_PARAMETER {
        id: "controller/create-volume/unknown-mutable-parameter",
        title: "CreateVolume with an unknown mutable parameter is rejected",
        spec: [req::GEN_ERR_005, req::CTRL_CREATEVOL_030],
        needs: [CREATE_DELETE_VOLUME, MODIFY_VOLUME],
        refuted_by: ["create-volume-ignores-unknown-mutable-parameters", "invalid-argument-as-internal"],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should not create volume with an invalid volume attribute class",
        ],
    }
    async |cx| {
        cx.new_volume().await?;
        let mut request = cx.create_volume_request();
        request.mutable_parameters.insert(UNKNOWN_KEY.to_owned(), "1".to_owned());
        let reply = cx.create_volume(request).await;
        let made = reply.may_be_refused("with an unknown mutable parameter", refusal())?;
        ensure!(
            made.is_none(),
            "a volume is made with a mutable parameter that no driver knows";
            of: &req::CTRL_CREATEVOL_030,
            expected: "INVALID_ARGUMENT, since the driver has to validate mutable_parameters",
            actual: "OK"
        );
        Ok(())
    }
}

check! {
    /// The fields are optional, and a storage class without a file system leaves the choice to the driver.
    NO_FS_TYPE {
        id: "controller/create-volume/no-fs-type",
        title: "CreateVolume takes mount access without fs_type, mount_flags and volume_mount_group",
        spec: [req::MSG_VOLCAP_014],
        needs: [CREATE_DELETE_VOLUME, MOUNT_ACCESS],
        refuted_by: ["create-volume-demands-fs-type"],
        duplicate_of: "controller/create-volume/works",
    }
    async |cx| {
        let reply = cx.create_volume(on_file_system(cx, "")).await;
        if let Answer::Refused(refused) = reply.answer()
            && !is_taken_with_a_file_system(cx).await?
        {
            return Err(Stop::broken(format!("CreateVolume also rejects a named file system: {refused}")));
        }
        let made = reply.must("choose a file system if none is named");
        made.map_err(Stop::of_a_plain_call)?;
        Ok(())
    }
}

/// Returns a request for a file system of this type without other optional fields.
fn on_file_system(cx: &Cx, fs_type: &str) -> v1::CreateVolumeRequest {
    use v1::volume_capability::{AccessType as Kind, MountVolume};
    let mount = MountVolume { fs_type: fs_type.to_owned(), ..Default::default() };
    let capability = v1::VolumeCapability { access_type: Some(Kind::Mount(mount)), ..cx.capability() };
    v1::CreateVolumeRequest { volume_capabilities: vec![capability], ..cx.create_volume_request() }
}

/// Returns whether the driver demands the name of a file system, and not some unknown parameter.
async fn is_taken_with_a_file_system(cx: &Cx) -> Result<bool, Stop> {
    let configured = cx.config().fs_type.as_str();
    for fs_type in [configured, "ext4", "xfs"].into_iter().filter(|fs_type| !fs_type.is_empty()) {
        if cx.create_volume(on_file_system(cx, fs_type)).await.code()? == Code::Ok {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns capabilities that many drivers do not all support.
fn candidates(cx: &Cx) -> Vec<v1::VolumeCapability> {
    let block = cx.capability_for(AccessType::Block, Mode::SingleNodeWriter);
    let many = [Mode::MultiNodeMultiWriter, Mode::MultiNodeSingleWriter, Mode::MultiNodeReaderOnly];
    let mut all = vec![unknown_fs_type(cx), block];
    all.extend(many.map(|mode| cx.capability_with_mode(mode)));
    all
}

/// The codes for an unsupported request, if the text names none; other codes may mean a temporary failure.
const UNSUPPORTED: &[Code] =
    &[Code::InvalidArgument, Code::FailedPrecondition, Code::Unimplemented, Code::OutOfRange];

check! {
    /// A volume has to satisfy every listed capability, even if the unsupported one comes last.
    ONE_UNSUPPORTED {
        id: "controller/create-volume/one-unsupported-capability",
        title: "CreateVolume with a supported and an unsupported capability is rejected",
        spec: [req::CTRL_CREATEVOL_021],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-checks-first-capability-only"],
    }
    async |cx| {
        cx.new_volume().await?;
        for unsupported in candidates(cx) {
            let alone = vec![unsupported.clone()];
            let request = v1::CreateVolumeRequest { volume_capabilities: alone, ..cx.create_volume_request() };
            let alone = cx.create_volume(request).await.code()?;
            if !UNSUPPORTED.contains(&alone) {
                continue;
            }
            let both = vec![cx.capability(), unsupported];
            let request = v1::CreateVolumeRequest { volume_capabilities: both, ..cx.create_volume_request() };
            let refusal = refusal()
                .or(Code::FailedPrecondition, "the specification names no code")
                .or(Code::Unimplemented, "the specification names no code")
                .or(Code::OutOfRange, "the specification names no code")
                .or_warn(Code::Internal, "INVALID_ARGUMENT tells the caller what is wrong")
                .or_warn(Code::Unknown, "INVALID_ARGUMENT tells the caller what is wrong");
            let what = "with a supported capability and one that is rejected alone";
            cx.create_volume(request).await.must_be_refused(what, refusal)?;
            return Ok(());
        }
        Err(Stop::skip("every capability tried is supported"))
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&UNKNOWN_PARAMETER, &MUTABLE_PARAMETERS, &UNKNOWN_MUTABLE_PARAMETER, &NO_FS_TYPE, &ONE_UNSUPPORTED];
