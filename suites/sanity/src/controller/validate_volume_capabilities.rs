//! ValidateVolumeCapabilities returns whether a volume can be used in a way.

use csi_harness::prelude::*;
use csi_ops::malformed::unknown_fs_type;
use v1::validate_volume_capabilities_response::Confirmed;

use super::common::{must_become_unknown, publish_as_said, unknown_id, unknown_volume, validate_request};

/// Every mode of the protocol.
const MODES: [Mode; 7] = [
    Mode::SingleNodeWriter,
    Mode::SingleNodeReaderOnly,
    Mode::MultiNodeReaderOnly,
    Mode::MultiNodeSingleWriter,
    Mode::MultiNodeMultiWriter,
    Mode::SingleNodeSingleWriter,
    Mode::SingleNodeMultiWriter,
];

/// Returns the confirmation for capabilities of a volume; rejecting them as invalid counts as no confirmation.
async fn confirmed(
    cx: &Cx,
    volume: &NodeVolume,
    volume_capabilities: Vec<v1::VolumeCapability>,
) -> CheckResult<Option<Confirmed>> {
    let request =
        v1::ValidateVolumeCapabilitiesRequest { volume_capabilities, ..validate_request(cx, volume) };
    let refusal = invalid_value()
        .or(Code::Unimplemented, "the access type may not be implemented")
        .or(Code::FailedPrecondition, "the volume may not be in a state that allows it");
    let answer = cx.call(request).await.may_be_refused("with an unsupported capability", refusal)?;
    Ok(answer.and_then(|response| response.confirmed))
}

/// Returns the confirmation for the capability with which the volume was made.
async fn confirmed_as_made(cx: &Cx, volume: &NodeVolume) -> CheckResult<Confirmed> {
    let reply = cx.call(validate_request(cx, volume)).setup("a validation").await?;
    reply.confirmed.ok_or_else(|| Stop::skip("the driver does not confirm the capability"))
}

check! {
    /// A request without a volume can only be a mistake.
    NO_VOLUME_ID {
        id: "controller/validate-volume-capabilities/no-volume-id",
        title: "ValidateVolumeCapabilities without volume_id is rejected",
        spec: [req::CTRL_VALIDATE_007, req::GEN_ERR_004],
        needs: [CONTROLLER],
        refuted_by: ["validate-empty-id-as-not-found", "invalid-argument-as-ok"],
        replaces: [
            "Controller Service [Controller Server] ValidateVolumeCapabilities should fail when no volume id is provided",
        ],
    }
    async |cx| {
        let request = validate_request(cx, &NodeVolume::default());
        let reply = cx.call(request).await;
        reply.must_be_refused("without volume_id", missing_field())?;
        Ok(())
    }
}

check! {
    /// An empty list is a mistake of the caller, and must not be confirmed.
    NO_VOLUME_CAPABILITIES {
        id: "controller/validate-volume-capabilities/no-volume-capabilities",
        title: "ValidateVolumeCapabilities without volume_capabilities is rejected",
        spec: [req::CTRL_VALIDATE_010, req::GEN_ERR_004],
        needs: [CONTROLLER, VOLUME],
        refuted_by: ["validate-accepts-missing-capabilities"],
        replaces: [
            "Controller Service [Controller Server] ValidateVolumeCapabilities should fail when no volume capabilities are provided",
        ],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_capabilities: Vec::new(),
            ..validate_request(cx, &volume)
        };
        let reply = cx.call(request).await;
        reply.must_be_refused("without volume_capabilities", missing_field())?;
        Ok(())
    }
}

check! {
    /// Orchestrators validate volumes that they did not make before workloads use them.
    CONFIRMS {
        id: "controller/validate-volume-capabilities/confirms",
        title: "ValidateVolumeCapabilities confirms what the volume was made for",
        spec: [req::CTRL_VALIDATE_001, req::CTRL_VALIDATE_002],
        needs: [CONTROLLER_SERVICE, VOLUME],
        refuted_by: ["validate-volume-capabilities-unimplemented", "validate-never-confirms"],
        replaces: [
            "Controller Service [Controller Server] ValidateVolumeCapabilities should return appropriate values (no optional values added)",
        ],
        plain: ["ValidateVolumeCapabilities"],
        access: Each,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let response = cx.call(validate_request(cx, &volume)).await.must("validate a volume")?;
        if response.confirmed.is_none() {
            cx.warn(
                // The specification limits confirmations, but does not require any.
                Violation::new("a volume is not confirmed for the capability with which these tests use it")
                    .of(&req::CTRL_VALIDATE_002)
                    .expected("confirmed")
                    .actual(format!("no confirmed, message {:?}", response.message)),
            );
        }
        Ok(())
    }
}

check! {
    /// A confirmation has to name the confirmed capabilities.
    CONFIRMED_CAPABILITIES {
        id: "controller/validate-volume-capabilities/confirmed-capabilities",
        title: "confirmed lists the requested capabilities",
        spec: [req::CTRL_VALIDATE_012, req::GEN_FIELD_003],
        needs: [CONTROLLER, VOLUME],
        refuted_by: ["validate-confirms-without-capabilities", "validate-confirms-other-capabilities"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let confirmed = confirmed_as_made(cx, &volume).await?;
        ensure!(
            !confirmed.volume_capabilities.is_empty(),
            "confirmed has no volume_capabilities";
            expected: "the requested capabilities",
            actual: "an empty list"
        );
        // A driver may not know newer fields, so a difference is only a remark.
        let asked = cx.capability();
        if !confirmed.volume_capabilities.contains(&asked) {
            cx.warn(
                Violation::new("confirmed lists other capabilities than the requested ones")
                    .expected(wire(&asked))
                    .actual(wires(&confirmed.volume_capabilities)),
            );
        }
        Ok(())
    }
}

check! {
    /// The confirmed context has to be that of the request, or empty.
    CONFIRMED_CONTEXT {
        id: "controller/validate-volume-capabilities/confirmed-context",
        title: "volume_context and parameters in confirmed are those of the request",
        spec: [req::CTRL_VALIDATE_011],
        needs: [CONTROLLER, VOLUME],
        refuted_by: ["validate-confirms-other-context"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let request = validate_request(cx, &volume);
        let confirmed = confirmed_as_made(cx, &volume).await?;
        for (field, sent, returned) in [
            ("volume_context", &request.volume_context, &confirmed.volume_context),
            ("parameters", &request.parameters, &confirmed.parameters),
        ] {
            ensure!(
                returned.is_empty() || returned == sent,
                "confirmed has another {} than the request", field;
                expected: format!("{sent:?}, or nothing"),
                actual: format!("{returned:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// To confirm all capabilities, a driver has to check every one of them.
    ALL_OR_NOTHING {
        id: "controller/validate-volume-capabilities/all-or-nothing",
        title: "a list with one unsupported capability is not confirmed",
        spec: [req::CTRL_VALIDATE_002, req::GEN_ERR_005],
        needs: [CONTROLLER, VOLUME],
        refuted_by: ["validate-checks-first-capability-only", "validate-unsupported-as-internal"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let supported = cx.capability();
        if confirmed(cx, &volume, vec![supported.clone()]).await?.is_none() {
            return Err(Stop::skip("the driver confirms no capability"));
        }
        let all = [AccessType::Mount, AccessType::Block]
            .into_iter()
            .flat_map(|access| MODES.into_iter().map(move |mode| cx.capability_for(access, mode)));
        for unsupported in all.chain([unknown_fs_type(cx)]) {
            if confirmed(cx, &volume, vec![unsupported.clone()]).await?.is_some() {
                continue;
            }
            for pair in [[supported.clone(), unsupported.clone()], [unsupported.clone(), supported]] {
                ensure!(
                    confirmed(cx, &volume, pair.to_vec()).await?.is_none(),
                    "a capability is not confirmed alone, but is confirmed together with another";
                    expected: "confirmed only if every capability of the list is supported",
                    actual: format!("confirmed is set with {} in the list", wire(&unsupported))
                );
            }
            return Ok(());
        }
        Err(Stop::skip("the driver confirms all modes of both access types"))
    }
}

check! {
    /// An orchestrator gives the volume to a workload because of the confirmation.
    CONFIRMED_IS_TRUE {
        id: "controller/validate-volume-capabilities/confirmed-can-be-published",
        title: "an access type that the volume was not made for is confirmed only if the volume can be published with it",
        spec: [req::CTRL_VALIDATE_009],
        needs: [CONTROLLER, NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["validate-confirms-everything", "validate-ignores-volume"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let access = cx.access().other();
        let other = cx.capability_for(access, Mode::SingleNodeWriter);
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_capabilities: vec![other.clone()],
            ..validate_request(cx, &volume)
        };
        // An error confirms nothing, with any code; another check judges that.
        let verdict = cx.call(request).await.any_answer()?;
        if verdict.ok().and_then(|response| response.confirmed).is_none() {
            return Ok(());
        }
        publish_as_said(cx, &volume, &other, "ValidateVolumeCapabilities confirms").await
    }
}

check! {
    /// A volume cannot support the mode UNKNOWN, or no mode.
    INCOMPLETE_CAPABILITY {
        id: "controller/validate-volume-capabilities/incomplete-capability",
        title: "a capability without access mode or access type is not confirmed",
        spec: [
            req::CTRL_VALIDATE_002,
            req::MSG_VOLCAP_010,
            req::MSG_VOLCAP_012,
            req::MSG_VOLCAP_013,
            req::GEN_ERR_005,
        ],
        needs: [CONTROLLER, VOLUME],
        refuted_by: ["validate-accepts-missing-access-type", "validate-accepts-unknown-access-mode"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let whole = cx.capability();
        let without_type = v1::VolumeCapability { access_type: None, ..whole.clone() };
        let without_mode = v1::VolumeCapability { access_mode: None, ..whole };
        for (what, rule, capability) in [
            ("with access mode UNKNOWN", &req::MSG_VOLCAP_010, cx.capability_with_mode(Mode::Unknown)),
            ("without access_mode", &req::MSG_VOLCAP_013, without_mode),
            ("without access_type", &req::MSG_VOLCAP_012, without_type),
        ] {
            let verdict = confirmed(cx, &volume, vec![capability]).await.map_err(|stop| stop.of(rule))?;
            if verdict.is_some() {
                // The specification is only clear for the RPCs that use the capability.
                cx.warn(
                    Violation::new(format!("a capability {what} is confirmed"))
                        .of(rule)
                        .expected("INVALID_ARGUMENT, or OK without confirmed")
                        .actual("confirmed is set"),
                );
            }
        }
        Ok(())
    }
}

check! {
    /// The answer to a request must not depend on chance.
    REPEATED {
        id: "controller/validate-volume-capabilities/same-verdict",
        title: "a repeated validation has the same verdict",
        spec: [req::CTRL_VALIDATE_004],
        needs: [CONTROLLER, VOLUME],
        refuted_by: ["validate-verdict-changes"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let first = cx.call(validate_request(cx, &volume)).setup("a validation").await?;
        let again = cx.call(validate_request(cx, &volume)).await.must("return the same result again")?;
        ensure!(
            first.confirmed == again.confirmed,
            "a repeated validation has another result";
            expected: format!("confirmed {}", wires(&first.confirmed)),
            actual: format!("confirmed {}", wires(&again.confirmed))
        );
        Ok(())
    }
}

check! {
    /// A volume that others deleted must not look healthy.
    DELETED_VOLUME {
        id: "controller/validate-volume-capabilities/deleted-volume",
        title: "ValidateVolumeCapabilities of a deleted volume is NOT_FOUND",
        spec: [req::CTRL_VALIDATE_018],
        needs: [CONTROLLER, CREATE_DELETE_VOLUME],
        refuted_by: ["validate-unknown-volume-ok", "validate-unknown-volume-confirmed"],
    }
    async |cx| {
        let volume: NodeVolume = cx.new_volume().await?.into();
        cx.delete_volume(&volume.id).setup("a volume that is deleted").await?;
        must_become_unknown(cx, Settles::VolumeGone, "of a deleted volume", || cx.call(validate_request(cx, &volume))).await
    }
}

check! {
    /// A made-up id has to be handled like the id of a deleted volume.
    UNKNOWN_VOLUME {
        id: "controller/validate-volume-capabilities/unknown-volume",
        title: "ValidateVolumeCapabilities of an unknown volume is NOT_FOUND",
        spec: [req::CTRL_VALIDATE_018],
        needs: [CONTROLLER],
        refuted_by: ["validate-unknown-volume-ok", "not-found-as-internal"],
        replaces: [
            "Controller Service [Controller Server] ValidateVolumeCapabilities should fail when the requested volume does not exist",
        ],
        duplicate_of: "controller/validate-volume-capabilities/deleted-volume",
    }
    async |cx| {
        let volume = unknown_volume(cx);
        let reply = cx.call(validate_request(cx, &volume)).await;
        reply.must_be_refused("of an unknown volume", unknown_id())?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &NO_VOLUME_ID,
    &NO_VOLUME_CAPABILITIES,
    &CONFIRMS,
    &CONFIRMED_CAPABILITIES,
    &CONFIRMED_CONTEXT,
    &ALL_OR_NOTHING,
    &CONFIRMED_IS_TRUE,
    &INCOMPLETE_CAPABILITY,
    &REPEATED,
    &DELETED_VOLUME,
    &UNKNOWN_VOLUME,
];
