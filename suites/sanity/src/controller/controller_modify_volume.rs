//! ControllerModifyVolume changes the mutable parameters of a volume.

use csi_harness::prelude::*;

use super::common::{must_become_unknown, unknown_id};

/// A key that no driver has.
const UNKNOWN_KEY: &str = "csi-sanity-no-such-parameter";

/// Returns a request with the configured mutable parameters.
fn request(cx: &Cx, volume_id: &str) -> v1::ControllerModifyVolumeRequest {
    v1::ControllerModifyVolumeRequest {
        volume_id: volume_id.to_owned(),
        mutable_parameters: cx.config().mutable_parameters.clone(),
        ..Default::default()
    }
}

/// Returns a request with the configured mutable parameters and a key that no driver has.
fn request_with_unknown_key(cx: &Cx, volume_id: &str) -> v1::ControllerModifyVolumeRequest {
    let mut request = request(cx, volume_id);
    request.mutable_parameters.insert(UNKNOWN_KEY.to_owned(), "x".to_owned());
    request
}

/// Returns a volume without mutable parameters.
async fn plain_volume(cx: &Cx) -> CheckResult<v1::Volume> {
    let request =
        v1::CreateVolumeRequest { mutable_parameters: Default::default(), ..cx.create_volume_request() };
    cx.create_volume(request).setup("a volume without mutable parameters").await
}

async fn must_refuse_unknown_key(cx: &Cx, volume: &v1::Volume) -> CheckResult {
    let unknown_only = v1::ControllerModifyVolumeRequest {
        mutable_parameters: [(UNKNOWN_KEY.to_owned(), "x".to_owned())].into(),
        ..request(cx, &volume.volume_id)
    };
    for (what, request) in [
        ("with an unknown key", unknown_only),
        ("with an unknown key among known ones", request_with_unknown_key(cx, &volume.volume_id)),
    ] {
        let refusal = refused_with(Code::InvalidArgument);
        let done = cx.call(request).await.may_be_refused(what, refusal)?;
        ensure!(
            done.is_none(),
            "ControllerModifyVolume {what} succeeded";
            of: &req::CTRL_MODIFYVOL_006,
            expected: "INVALID_ARGUMENT, since the driver has to validate mutable_parameters",
            actual: "OK"
        );
    }
    Ok(())
}

check! {
    /// A request without an id can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/controller-modify-volume/no-volume-id",
        title: "ControllerModifyVolume without volume_id is rejected",
        spec: [req::CTRL_MODIFYVOL_004, req::GEN_ERR_004],
        needs: [MODIFY_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: ["ModifyVolume [Controller Server] should fail if no volume id is given"],
    }
    async |cx| {
        let reply = cx.call(request(cx, "")).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// A request without parameters can only be a mistake.
    NO_PARAMETERS {
        id: "controller/controller-modify-volume/no-mutable-parameters",
        title: "ControllerModifyVolume without mutable_parameters is rejected",
        spec: [req::CTRL_MODIFYVOL_005, req::GEN_ERR_004],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-modify-accepts-missing-parameters"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let request = v1::ControllerModifyVolumeRequest {
            mutable_parameters: Default::default(),
            ..request(cx, &volume.volume_id)
        };
        let reply = cx.call(request).await;
        reply.must_be_refused("without mutable_parameters", missing_field())?;
        Ok(())
    }
}

check! {
    /// A volume gets its first VolumeAttributesClass.
    MODIFIES {
        id: "controller/controller-modify-volume/modifies",
        title: "ControllerModifyVolume changes a volume made without mutable parameters",
        spec: [req::CTRL_MODIFYVOL_001],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-volume-unimplemented"],
        replaces: [
            "ModifyVolume [Controller Server] should modify a volume created without a volume attribute class",
        ],
        plain: ["ControllerModifyVolume"],
        access: Each,
    }
    async |cx| {
        let volume = plain_volume(cx).await?;
        let reply = cx.call(request(cx, &volume.volume_id)).await;
        reply.must("modify a volume made without mutable parameters")?;
        Ok(())
    }
}

check! {
    /// The class of a volume is applied again, for example after a restart of the orchestrator.
    MODIFIES_TO_THE_SAME {
        id: "controller/controller-modify-volume/as-made",
        title: "ControllerModifyVolume to the values that the volume was made with is OK",
        spec: [req::CTRL_MODIFYVOL_002, req::CTRL_MODIFYVOL_001],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-refuses-repeats"],
        replaces: [
            "ModifyVolume [Controller Server] should modify a volume created with a volume attribute class",
        ],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let reply = cx.call(request(cx, &volume.volume_id)).await;
        reply.must("accept the values that the volume was created with")?;
        Ok(())
    }
}

check! {
    /// Resizers repeat the call until it is answered.
    REPEATED {
        id: "controller/controller-modify-volume/repeated",
        title: "a repeated modification is OK",
        spec: [req::CTRL_MODIFYVOL_002],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-refuses-repeats"],
    }
    async |cx| {
        let volume = plain_volume(cx).await?;
        cx.call(request(cx, &volume.volume_id)).setup("a modified volume").await?;
        cx.call(request(cx, &volume.volume_id)).await.must("answer a repeated modification with OK")?;
        Ok(())
    }
}

check! {
    /// A class with one more parameter follows the first class. A back end may reject a second change so soon
    /// with a suitable code, but valid parameters stay valid, and the volume still exists.
    ONE_MORE_KEY {
        id: "controller/controller-modify-volume/one-more-key",
        title: "a second ControllerModifyVolume with one more of the configured keys is treated as an update",
        spec: [req::CTRL_MODIFYVOL_003],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-refuses-updates"],
    }
    async |cx| {
        let all = &cx.config().mutable_parameters;
        let Some((last, _)) = all.last_key_value().filter(|_| all.len() > 1) else {
            return Err(Stop::skip("fewer than two mutable parameters are configured"));
        };
        let volume = plain_volume(cx).await?;
        let mut fewer = request(cx, &volume.volume_id);
        fewer.mutable_parameters.remove(last);
        cx.call(fewer).await.or_skip("one of the parameters cannot be left out")?;
        let reply = cx.call(request(cx, &volume.volume_id)).await;
        if matches!(
            reply.code()?,
            Code::AlreadyExists | Code::InvalidArgument | Code::NotFound | Code::Unimplemented
        ) {
            let never_modified = plain_volume(cx).await?;
            let whole = cx.call(request(cx, &never_modified.volume_id)).await;
            whole.or_skip("all configured parameters at once are rejected as well")?;
            reply.must("accept another modification of a modified volume")?;
        }
        Ok(())
    }
}

check! {
    /// Without an error, a mistyped key would look as if it had been applied.
    UNKNOWN_KEY_OF_PLAIN {
        id: "controller/controller-modify-volume/unknown-key",
        title: "ControllerModifyVolume with an unknown key is rejected",
        spec: [req::CTRL_MODIFYVOL_009, req::CTRL_MODIFYVOL_006],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-modify-accepts-unknown-keys", "invalid-argument-as-internal"],
        replaces: [
            "ModifyVolume [Controller Server] should fail if specified mutable parameters are not supported by the volume",
        ],
    }
    async |cx| {
        let volume = plain_volume(cx).await?;
        must_refuse_unknown_key(cx, &volume).await
    }
}

check! {
    /// A mistyped key must cause an error even if the volume already has mutable parameters.
    UNKNOWN_KEY_OF_MODIFIED {
        id: "controller/controller-modify-volume/unknown-key-later",
        title: "ControllerModifyVolume with an unknown key is rejected for a volume made with mutable parameters",
        spec: [req::CTRL_MODIFYVOL_009, req::CTRL_MODIFYVOL_006],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-accepts-unknown-keys"],
        replaces: [
            "ModifyVolume [Controller Server] should fail to modify a volume created with a volume attribute class if new mutable parameters are not supported by volume",
        ],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        must_refuse_unknown_key(cx, &volume).await
    }
}

check! {
    /// A caller assumes that a rejected modification had no effect.
    REFUSED_CHANGES_NOTHING {
        id: "controller/controller-modify-volume/refused-changes-nothing",
        title: "a modification that was rejected leaves the volume as it was",
        spec: [req::CTRL_MODIFYVOL_010],
        needs: [MODIFY_VOLUME, GET_VOLUME, CREATE_DELETE_VOLUME],
        refuted_by: ["controller-modify-changes-refused-volume"],
    }
    async |cx| {
        let made = plain_volume(cx).await?;
        let get = || cx.call(v1::ControllerGetVolumeRequest { volume_id: made.volume_id.clone() });
        let before = get().setup("the current state of the volume").await?.volume;
        let reply = cx.call(request_with_unknown_key(cx, &made.volume_id)).await;
        if reply.code()? != Code::InvalidArgument {
            return Err(Stop::skip("the driver does not reject unknown keys with INVALID_ARGUMENT"));
        }
        let after = get().setup("the volume after the rejection").await?.volume;
        ensure!(
            before == after,
            "a rejected modification has changed the volume";
            expected: wires(&before),
            actual: wires(&after)
        );
        Ok(())
    }
}

check! {
    /// Orchestrators store the context of a volume once, when it is made.
    KEEPS_CONTEXT {
        id: "controller/controller-modify-volume/keeps-context",
        title: "a modification does not change volume_context",
        spec: [req::MSG_VOLUME_008, req::MSG_VOLUME_011],
        needs: [MODIFY_VOLUME, GET_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-changes-context"],
    }
    async |cx| {
        let made = plain_volume(cx).await?;
        cx.call(request(cx, &made.volume_id)).setup("a modified volume").await?;
        let get = v1::ControllerGetVolumeRequest { volume_id: made.volume_id.clone() };
        let now = cx.call(get).setup("the current state of the volume").await?.volume.unwrap_or_default();
        ensure!(
            now.volume_context.is_empty() || now.volume_context == made.volume_context,
            "the modification has changed volume_context";
            expected: format!("{:?}", made.volume_context),
            actual: format!("{:?}", now.volume_context)
        );
        Ok(())
    }
}

check! {
    /// A claim may outlive its volume.
    DELETED_VOLUME {
        id: "controller/controller-modify-volume/deleted-volume",
        title: "ControllerModifyVolume of a deleted volume is NOT_FOUND",
        spec: [req::CTRL_MODIFYVOL_011],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-unknown-ok", "not-found-as-internal"],
    }
    async |cx| {
        let id = cx.deleted_volume_id().await?;
        must_become_unknown(cx, Settles::VolumeGone, "of a deleted volume", || cx.call(request(cx, &id))).await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted volume.
    UNKNOWN_VOLUME {
        id: "controller/controller-modify-volume/unknown-volume",
        title: "ControllerModifyVolume of an unknown volume is NOT_FOUND",
        spec: [req::CTRL_MODIFYVOL_011],
        needs: [MODIFY_VOLUME, Need::Configured(Setting::MutableParameters)],
        refuted_by: ["controller-modify-unknown-ok", "not-found-as-internal"],
        replaces: ["ModifyVolume [Controller Server] should fail if volume does not exist"],
        duplicate_of: "controller/controller-modify-volume/deleted-volume",
    }
    async |cx| {
        let reply = cx.call(request(cx, &cx.unknown_volume_id())).await;
        reply.must_be_refused("of an unknown volume", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &NO_PARAMETERS,
    &MODIFIES,
    &MODIFIES_TO_THE_SAME,
    &REPEATED,
    &ONE_MORE_KEY,
    &UNKNOWN_KEY_OF_PLAIN,
    &UNKNOWN_KEY_OF_MODIFIED,
    &REFUSED_CHANGES_NOTHING,
    &KEEPS_CONTEXT,
    &DELETED_VOLUME,
    &UNKNOWN_VOLUME,
];
