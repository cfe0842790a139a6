//! parameters, mutable_parameters and volume_capabilities that are not all fit.

use csi_harness::prelude::*;

use super::super::common::unknown_fs_type;

/// A key that no driver knows.
const UNKNOWN_KEY: &str = "csi-sanity-no-such-parameter";

fn refusal() -> csi_harness::reply::Refusal {
    refused_with(Code::InvalidArgument)
}

check! {
    /// A misspelt parameter in a storage class should not go unnoticed; drivers that pass parameters on may ignore it.
    UNKNOWN_PARAMETER {
        id: "controller/create-volume/unknown-parameter",
        title: "CreateVolume with an unknown parameter is refused as invalid, or ignores it",
        spec: [req::CTRL_CREATEVOL_023],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["invalid-argument-as-internal", "invalid-argument-as-unknown"],
    }
    async |cx| {
        let mut request = cx.create_volume_request();
        request.parameters.insert(UNKNOWN_KEY.to_owned(), "1".to_owned());
        cx.create_volume(request).await.may_be_refused("with an unknown parameter", refusal())?;
        Ok(())
    }
}

check! {
    /// A class of service given at creation.
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
        cx.create_volume(with).await.must("take the configured mutable_parameters")?;
        Ok(())
    }
}

check! {
    /// A class of service that cannot be had must not be promised.
    UNKNOWN_MUTABLE_PARAMETER {
        id: "controller/create-volume/unknown-mutable-parameter",
        title: "CreateVolume with an unknown mutable parameter is refused",
        spec: [req::CTRL_CREATEVOL_030],
        needs: [CREATE_DELETE_VOLUME, MODIFY_VOLUME],
        refuted_by: ["create-volume-ignores-unknown-mutable-parameters", "invalid-argument-as-internal"],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should not create volume with an invalid volume attribute class",
        ],
    }
    async |cx| {
        let mut request = cx.create_volume_request();
        request.mutable_parameters.insert(UNKNOWN_KEY.to_owned(), "1".to_owned());
        cx.create_volume(request).await.must_be_refused("with an unknown mutable parameter", refusal())?;
        Ok(())
    }
}

check! {
    /// The class of service chosen for this volume beats what its storage class says for all.
    MUTABLE_WINS {
        id: "controller/create-volume/mutable-parameters-win",
        title: "a key in both parameters and mutable_parameters has the mutable value",
        spec: [req::CTRL_CREATEVOL_006, req::CTRL_CREATEVOL_031],
        needs: [CREATE_DELETE_VOLUME, MODIFY_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["create-volume-parameters-beat-mutable-ones"],
    }
    async |cx| {
        let request = cx.create_volume_request();
        let both: Vec<_> = request
            .mutable_parameters
            .iter()
            .filter_map(|(key, wins)| Some((key, wins, request.parameters.get(key)?)))
            .filter(|(_, wins, loses)| wins != loses)
            .collect();
        if both.is_empty() {
            return Err(Stop::skip("no key has different values in parameters and mutable-parameters"));
        }
        let volume = cx.create_volume(request.clone()).setup("a volume").await?;
        for (key, wins, loses) in both {
            let seen = volume.volume_context.get(key);
            ensure!(
                seen != Some(loses),
                "{key} is given in parameters and in mutable_parameters, and the volume has the former";
                expected: format!("{key} {wins:?}"),
                actual: format!("{key} {loses:?} in volume_context")
            );
        }
        Ok(())
    }
}

/// Capabilities of which many a driver supports not all.
fn candidates(cx: &Cx) -> Vec<v1::VolumeCapability> {
    let block = cx.capability_for(AccessType::Block, Mode::SingleNodeWriter);
    let many = [Mode::MultiNodeMultiWriter, Mode::MultiNodeSingleWriter, Mode::MultiNodeReaderOnly];
    let mut all = vec![unknown_fs_type(cx), block];
    all.extend(many.map(|mode| cx.capability_with_mode(mode)));
    all
}

check! {
    /// A volume has to satisfy every capability listed; the unsupported one must not hide behind another.
    ONE_UNSUPPORTED {
        id: "controller/create-volume/one-unsupported-capability",
        title: "CreateVolume with a supported and an unsupported capability is refused",
        spec: [req::CTRL_CREATEVOL_021, req::CTRL_CREATEVOL_019],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-checks-first-capability-only"],
    }
    async |cx| {
        for unsupported in candidates(cx) {
            let alone = vec![unsupported.clone()];
            let request = v1::CreateVolumeRequest { volume_capabilities: alone, ..cx.create_volume_request() };
            if cx.create_volume(request).await.any_answer()?.is_ok() {
                continue;
            }
            let both = vec![cx.capability(), unsupported];
            let request = v1::CreateVolumeRequest { volume_capabilities: both, ..cx.create_volume_request() };
            let refusal = refusal()
                .or(Code::FailedPrecondition, "the text names no code")
                .or(Code::Unimplemented, "the text names no code")
                .or(Code::OutOfRange, "the text names no code")
                .or_warn(Code::Internal, "INVALID_ARGUMENT tells the caller what is wrong")
                .or_warn(Code::Unknown, "INVALID_ARGUMENT tells the caller what is wrong");
            let what = "with a capability that is refused when it stands alone, next to a supported one";
            cx.create_volume(request).await.must_be_refused(what, refusal)?;
            return Ok(());
        }
        Err(Stop::skip("every capability tried is supported"))
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&UNKNOWN_PARAMETER, &MUTABLE_PARAMETERS, &UNKNOWN_MUTABLE_PARAMETER, &MUTABLE_WINS, &ONE_UNSUPPORTED];
