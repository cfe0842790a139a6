//! CreateVolume.

use std::sync::atomic::Ordering;

use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as SourceType, VolumeSource};
use csi_proto::v1::{self, CreateVolumeRequest, CreateVolumeResponse};
use tonic::{Code, Status};

use super::overlap::Abandoned;
use super::side_effects::after_rejected_create_volume;
use super::volume::corrupt_volume;
use super::{
    Change, GIB, apply, drop_unknown, forget_under_load, host, leak_for_copy, leak_for_rejected_name,
    leave_behind, plain_capability, recode,
};
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{Map, Source, Usage, Volume};
use crate::validate::{self, invalid};

/// The number of parameter bytes that a defect stores.
const PARAMETER_BYTES_KEPT: usize = 1 << 10;
/// The number of secret bytes that a defect accepts.
const SECRET_BYTES_TAKEN: usize = 1 << 10;
/// The keys of secrets that a defect accepts.
const SECRETS_TAKEN: [&str; 2] = ["password", "user"];

pub(crate) async fn create_volume(
    driver: &MockDriver,
    original: &CreateVolumeRequest,
) -> Result<CreateVolumeResponse, Status> {
    host::before_create_volume(driver, original);
    reject(driver, original)?;
    reject_secrets(driver, &original.secrets)?;
    let mut request = original.clone();
    alter_request(driver, &mut request);
    accept_invalid(driver, &mut request);
    if driver.has(Defect::CreateVolumeAdoptsSnapshots)
        && let Some(snapshot) = driver.state().snapshots.named(&request.name)
    {
        let (volume_id, capacity_bytes) = (snapshot.id.clone(), snapshot.size_bytes);
        let volume = v1::Volume { volume_id, capacity_bytes, ..Default::default() };
        return Ok(CreateVolumeResponse { volume: Some(volume) });
    }
    let known = driver.state().volumes.named(&request.name).cloned();
    match &known {
        Some(known) => {
            reject_repeat(driver, original, known)?;
            ignore_conflict(driver, &mut request, known);
        }
        None => alter_size(driver, &mut request),
    }
    let abandoned = Abandoned::watch(driver, &request);
    let mut answer = controller::create_volume(driver, &request).await;
    abandoned.answered(&answer);
    if let Ok(CreateVolumeResponse { volume: Some(volume) }) = &mut answer {
        corrupt_volume(driver, volume);
    }
    if let Ok(response) = &answer {
        forget_under_load(driver, response).await;
    }
    if let Some(source) = original.volume_content_source.as_ref().and_then(|source| source.r#type.as_ref()) {
        leak_for_copy(driver, source, answer.is_ok());
    }
    if answer.is_err() {
        leak_for_rejected_name(driver, &original.name);
    }
    if driver.has(Defect::CreateVolumeEchoesRequisite)
        && let Some(requirement) = &original.accessibility_requirements
        && let Ok(CreateVolumeResponse { volume: Some(volume) }) = &mut answer
    {
        volume.accessible_topology.clone_from(&requirement.requisite);
    }
    match (&mut answer, known) {
        (Ok(response), Some(_)) => repeated(driver, original, response),
        (Ok(response), None) => {
            leave_snapshot(driver, original);
            first(driver, response)?;
        }
        (Err(_), _) => {
            after_rejected_create_volume(driver, original);
            failed(driver, original, &mut answer);
        }
    }
    answer
}

/// Rejects requests that should be accepted, or crashes on them.
fn reject(driver: &MockDriver, original: &CreateVolumeRequest) -> Result<(), Status> {
    let (name, has) = (&original.name, |defect| driver.has(defect));
    if has(Defect::CreateVolumePanicsWithoutRange) {
        original.capacity_range.expect("capacity_range is always there");
    }
    if has(Defect::CreateVolumeFailsAfterQuotes) {
        let is_quoted = name.contains(['"', '\'']);
        if driver.is_damaged.fetch_or(is_quoted, Ordering::SeqCst) {
            return Err(Status::unknown(
                "Exception calling application: the list of volumes cannot be parsed",
            ));
        }
    }
    if has(Defect::CreateVolumeDemandsRange) && original.capacity_range.is_none() {
        return Err(invalid("capacity_range is missing"));
    }
    if has(Defect::CreateVolumeCrashesOnLongNames) && name.len() > 128 {
        driver.crash("CreateVolume");
    }
    if has(Defect::CreateVolumeRefusesLongNames) && name.len() > 63 {
        return Err(invalid("name is longer than 63 bytes"));
    }
    if has(Defect::CreateVolumeRefusesUnicodeNames) && !name.is_ascii() {
        return Err(invalid("name is not ASCII"));
    }
    if has(Defect::CreateVolumeInternalOnPathNames) && name.contains('/') {
        return Err(Status::internal("mkdir: no such file or directory"));
    }
    if has(Defect::CreateVolumeDemandsFsType) && usages(original).any(|usage| usage.lacks_fs_type()) {
        return Err(invalid("fs_type is missing"));
    }
    if has(Defect::CreateVolumeRefusesMutableParameters) && !original.mutable_parameters.is_empty() {
        return Err(invalid("mutable_parameters are not supported"));
    }
    let negative =
        original.capacity_range.is_some_and(|range| range.required_bytes.min(range.limit_bytes) < 0);
    if has(Defect::CreateVolumeInternalOnNegativeSize) && negative {
        return Err(Status::internal("size overflow"));
    }
    let source = original.volume_content_source.as_ref().and_then(|source| source.r#type.as_ref());
    if has(Defect::CreateVolumeRefusesSources) && source.is_some() {
        return Err(invalid("volumes cannot be copied"));
    }
    if let Some(SourceType::Snapshot(SnapshotSource { snapshot_id })) = source
        && driver.state().snapshots.get(snapshot_id).is_some_and(|snapshot| snapshot.group.is_some())
    {
        if has(Defect::CreateVolumeRefusesGroupMembers) {
            return Err(invalid("the snapshot belongs to a group"));
        }
        if has(Defect::GroupSnapshotMembersClaimReady) {
            return Err(Status::failed_precondition("the snapshot is not ready to use"));
        }
    }
    if has(Defect::CreateVolumeRefusesSnapshots)
        && matches!(source, Some(SourceType::Snapshot(snapshot)) if !snapshot.snapshot_id.is_empty())
    {
        return Err(Status::unimplemented("volumes cannot be made from snapshots"));
    }
    Ok(())
}

fn reject_secrets(driver: &MockDriver, secrets: &Map) -> Result<(), Status> {
    if driver.has(Defect::CreateVolumeRefusesLargeSecrets) && bytes(secrets) > SECRET_BYTES_TAKEN {
        return Err(invalid("the secrets are too large"));
    }
    let surplus = secrets.keys().find(|key| !SECRETS_TAKEN.contains(&key.as_str()));
    match surplus.filter(|_| driver.has(Defect::CreateVolumeRefusesSurplusSecrets)) {
        Some(key) => Err(invalid(format!("secret `{key}` is not known"))),
        None => Ok(()),
    }
}

/// The total length of keys and values.
fn bytes(map: &Map) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn usages(original: &CreateVolumeRequest) -> impl Iterator<Item = Usage> {
    original.volume_capabilities.iter().filter_map(|capability| validate::usage(capability).ok())
}

/// Changes the request to a different one.
fn alter_request(driver: &MockDriver, request: &mut CreateVolumeRequest) {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateVolumeAdoptsIds)
        && let Some(name) = driver.state().volumes.get(&request.name).and_then(|known| known.name.clone())
    {
        request.name = name;
    }
    if has(Defect::CreateVolumeFoldsCase) {
        request.name = request.name.to_lowercase();
    }
    if has(Defect::CreateVolumeTruncatesNames) {
        request.name = request.name.chars().take(48).collect();
    }
    if has(Defect::CreateVolumeTrimsNames) && !request.name.trim().is_empty() {
        request.name = request.name.trim().to_owned();
    }
    if has(Defect::CreateVolumeForgetsNames) {
        driver.state().volumes.forget_name(&request.name);
    }
    if has(Defect::CreateVolumeChecksFirstCapabilityOnly) {
        request.volume_capabilities.truncate(1);
    }
    if has(Defect::CreateVolumeParametersBeatMutableOnes) {
        request.mutable_parameters.retain(|key, _| !request.parameters.contains_key(key));
    }
    if let Some(requirement) = &mut request.accessibility_requirements
        && *requirement != v1::TopologyRequirement::default()
    {
        alter_topology(driver, requirement);
        if *requirement == v1::TopologyRequirement::default() {
            request.accessibility_requirements = None;
        }
    }
}

/// Changes the requested size of a new volume.
fn alter_size(driver: &MockDriver, request: &mut CreateVolumeRequest) {
    let has = |defect| driver.has(defect);
    let valid = validate::range(request.capacity_range.as_ref()).is_ok();
    let Some(range) = request.capacity_range.as_mut().filter(|_| valid) else { return };
    let required_bytes = range.required_bytes;
    if required_bytes > driver.config.volume_size_bytes_max {
        return;
    }
    if has(Defect::CreateVolumeRoundsDown) && required_bytes > GIB {
        range.required_bytes = required_bytes / GIB * GIB;
    }
    if has(Defect::CreateVolumeHalvesSize) {
        range.required_bytes = required_bytes / 2;
    }
    if has(Defect::CreateVolumeExceedsLimit) && required_bytes > 0 {
        range.required_bytes = required_bytes.saturating_add(GIB - 1) / GIB * GIB;
        range.limit_bytes = 0;
    }
    if has(Defect::CreateVolumeTruncatesToSource) && request.volume_content_source.is_some() {
        range.required_bytes = 0;
    }
    if *range == v1::CapacityRange::default() {
        request.capacity_range = None;
    }
}

fn alter_topology(driver: &MockDriver, requirement: &mut v1::TopologyRequirement) {
    if driver.has(Defect::CreateVolumeReversesPreferred) {
        requirement.preferred.reverse();
    }
    if driver.has(Defect::CreateVolumeIgnoresPreferred) {
        requirement.preferred.clear();
    }
    let several = requirement.requisite.len() > 1;
    let place = if driver.has(Defect::CreateVolumeIgnoresRequisite)
        || (several && driver.has(Defect::CreateVolumeIgnoresSeveralRequisites))
    {
        driver.zones.last()
    } else if driver.has(Defect::CreateVolumeEchoesRequisite) {
        driver.zones.first()
    } else {
        None
    };
    if let Some(segments) = place.cloned() {
        requirement.requisite = vec![v1::Topology { segments }];
        requirement.preferred.clear();
    }
}

/// Replaces fields that should be rejected with valid ones, so that they are accepted.
fn accept_invalid(driver: &MockDriver, request: &mut CreateVolumeRequest) {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateVolumeAcceptsEmptyName) && request.name.is_empty() {
        request.name = "unnamed".to_owned();
    }
    if has(Defect::CreateVolumeAcceptsMissingCapabilities) && request.volume_capabilities.is_empty() {
        request.volume_capabilities.push(plain_capability());
    }
    for capability in &mut request.volume_capabilities {
        accept_invalid_capability(driver, capability);
    }
    if has(Defect::CreateVolumeKeepsParametersInPart) {
        drop_unknown(&mut request.parameters, &driver.config.parameters);
    }
    if has(Defect::CreateVolumeIgnoresUnknownMutableParameters) {
        drop_unknown(&mut request.mutable_parameters, &driver.config.mutable_parameters);
    }
    if let Some(v1::CapacityRange { required_bytes, limit_bytes }) = request.capacity_range
        && ((has(Defect::CreateVolumeAcceptsNegativeSize) && required_bytes.min(limit_bytes) < 0)
            || (has(Defect::CreateVolumeAcceptsEmptyRange) && required_bytes == 0 && limit_bytes == 0)
            || (has(Defect::CreateVolumeAcceptsCrossedRange)
                && required_bytes > limit_bytes
                && limit_bytes > 0))
    {
        let range = v1::CapacityRange { required_bytes: required_bytes.max(0), limit_bytes: 0 };
        request.capacity_range = (required_bytes > 0).then_some(range);
    }
    if request.volume_content_source.as_ref().is_some_and(|source| is_ignored(driver, source)) {
        request.volume_content_source = None;
    }
    if has(Defect::CreateVolumeAcceptsEmptyTopologyRequirement)
        && request.accessibility_requirements == Some(v1::TopologyRequirement::default())
    {
        request.accessibility_requirements = None;
    }
}

fn accept_invalid_capability(driver: &MockDriver, capability: &mut v1::VolumeCapability) {
    let plain = plain_capability();
    if capability.access_type.is_none() && driver.has(Defect::CreateVolumeAcceptsMissingAccessType) {
        capability.access_type = plain.access_type.clone();
    }
    if capability.access_mode.is_none() && driver.has(Defect::CreateVolumeAcceptsMissingAccessMode) {
        capability.access_mode = plain.access_mode;
    }
    let unknown = capability.access_mode.is_some_and(|access| access.mode == 0);
    if unknown && driver.has(Defect::CreateVolumeAcceptsUnknownAccessMode) {
        capability.access_mode = plain.access_mode;
    }
    let unsupported = validate::usage(capability).is_ok_and(|usage| driver.supports(&usage).is_err());
    if unsupported && driver.has(Defect::CreateVolumeAcceptsUnsupportedCapability) {
        *capability = plain;
    }
}

/// Returns whether the source is ignored and the volume is empty.
fn is_ignored(driver: &MockDriver, source: &v1::VolumeContentSource) -> bool {
    let has = |defect| driver.has(defect);
    match &source.r#type {
        None => has(Defect::CreateVolumeAcceptsEmptySource),
        Some(SourceType::Snapshot(SnapshotSource { snapshot_id: id })) => {
            (id.is_empty() && has(Defect::CreateVolumeAcceptsEmptySnapshotId))
                || (has(Defect::CreateVolumeIgnoresMissingSource)
                    && !id.is_empty()
                    && driver.state().snapshots.get(id).is_none())
        }
        Some(SourceType::Volume(VolumeSource { volume_id: id })) => {
            (id.is_empty() && has(Defect::CreateVolumeAcceptsEmptySourceVolumeId))
                || (has(Defect::CreateVolumeIgnoresMissingSource)
                    && !id.is_empty()
                    && driver.state().volumes.get(id).is_none())
                || (has(Defect::CreateVolumeDropsUnsupportedSources)
                    && !driver.controller_can(ControllerType::CloneVolume))
        }
    }
}

fn reject_repeat(driver: &MockDriver, request: &CreateVolumeRequest, known: &Volume) -> Result<(), Status> {
    if driver.has(Defect::CreateVolumeRefusesRepeats) {
        return Err(Status::already_exists("a volume of this name exists"));
    }
    if driver.has(Defect::CreateVolumeRefusesRepeatedCopies) && known.source.is_some() {
        return Err(Status::already_exists("a volume of this name exists"));
    }
    if driver.has(Defect::CreateVolumeInternalOnRepeats) {
        return Err(Status::internal("mkdir: file exists"));
    }
    let other_size = request.capacity_range.is_some_and(|range| range.required_bytes != known.capacity_bytes);
    if driver.has(Defect::CreateVolumeRefusesCompatibleSize) && other_size {
        return Err(Status::already_exists("a volume of this name exists with another capacity"));
    }
    let limit_alone = request.capacity_range.is_some_and(|range| range.required_bytes == 0);
    if driver.has(Defect::CreateVolumeRefusesLimitRepeats) && limit_alone {
        return Err(Status::already_exists("a volume of this name exists with more than 0 bytes"));
    }
    if driver.has(Defect::CreateVolumeKeepsParametersInPart)
        && bytes(&request.parameters) > PARAMETER_BYTES_KEPT
    {
        return Err(Status::already_exists("a volume of this name exists with other parameters"));
    }
    Ok(())
}

/// Removes conflicts between a repeated request and the existing volume.
fn ignore_conflict(driver: &MockDriver, request: &mut CreateVolumeRequest, known: &Volume) {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateVolumeIgnoresSizeConflict) {
        request.capacity_range = None;
    }
    if has(Defect::CreateVolumeRepeatIgnoresLimit)
        && let Some(range) = &mut request.capacity_range
        && range.required_bytes <= known.capacity_bytes
        && range.limit_bytes > 0
    {
        range.limit_bytes = range.limit_bytes.max(known.capacity_bytes);
    }
    if has(Defect::CreateVolumeIgnoresCapabilityConflict) {
        request.volume_capabilities = known.usages.iter().map(Usage::to_proto).collect();
    }
    if has(Defect::CreateVolumeIgnoresParameterConflict)
        || has(Defect::CreateVolumeRepeatTakesContextFromRequest)
    {
        request.parameters = known.parameters.clone();
    }
    if has(Defect::CreateVolumeIgnoresMutableParameterConflict) {
        request.mutable_parameters = known.mutable_parameters.clone();
    }
    if has(Defect::CreateVolumeIgnoresSourceConflict) {
        request.volume_content_source = known.source.as_ref().map(Source::to_proto);
    }
    if has(Defect::CreateVolumeIgnoresTopologyConflict) {
        request.accessibility_requirements = None;
    }
}

/// Leaves a snapshot of a cloned volume, with the defect that does so.
fn leave_snapshot(driver: &MockDriver, original: &CreateVolumeRequest) {
    let source = original.volume_content_source.as_ref().and_then(|source| source.r#type.as_ref());
    if let Some(SourceType::Volume(source)) = source
        && driver.has(Defect::CreateVolumeLeavesSnapshotOfSource)
    {
        let mut state = driver.state();
        let id = state.fresh_id("snap");
        let snapshot = controller::cut(driver, &mut state, id, &source.volume_id);
        state.snapshots.insert(snapshot);
    }
}

/// Changes the reply to the first request.
fn first(driver: &MockDriver, response: &mut CreateVolumeResponse) -> Result<(), Status> {
    let has = |defect| driver.has(defect);
    if has(Defect::CreateVolumeFailsAfterWork) {
        return Err(Status::internal("the back end did not confirm the volume"));
    }
    if has(Defect::CreateVolumeCrashesAfterWork) {
        driver.crash("CreateVolume");
    }
    let Some(volume) = &mut response.volume else { return Ok(()) };
    if has(Defect::CreateVolumeKeepsFirstCapability)
        && let Some(made) = driver.state().volumes.get_mut(&volume.volume_id)
    {
        made.usages.truncate(1);
    }
    if has(Defect::CreateVolumeEmptyId) {
        volume.volume_id.clear();
    }
    if has(Defect::CreateVolumeNegativeCapacity) {
        volume.capacity_bytes = -1;
    }
    if has(Defect::CreateVolumeNamesOtherSource) && volume.content_source.is_some() {
        volume.content_source = Some(Source::Volume("vol-of-another".to_owned()).to_proto());
    }
    if has(Defect::CreateVolumeAnswersWithoutVolume) {
        response.volume = None;
    }
    Ok(())
}

/// Changes the reply to a repeated request.
fn repeated(driver: &MockDriver, original: &CreateVolumeRequest, response: &mut CreateVolumeResponse) {
    let has = |defect| driver.has(defect);
    let Some(volume) = &mut response.volume else { return };
    if has(Defect::CreateVolumeRepeatTakesContextFromRequest) {
        volume.volume_context.extend(original.parameters.clone());
    }
    if has(Defect::CreateVolumeRepeatChangesContext) {
        volume.volume_context.insert("answer".to_owned(), "repeated".to_owned());
    }
    let changes: &[Change<v1::Volume>] = &[
        (Defect::CreateVolumeRepeatDropsContext, |volume| volume.volume_context.clear()),
        (Defect::CreateVolumeRepeatDropsTopology, |volume| volume.accessible_topology.clear()),
        (Defect::CreateVolumeRepeatDropsSource, |volume| volume.content_source = None),
        (Defect::CreateVolumeRepeatDropsCapacity, |volume| volume.capacity_bytes = 0),
        (Defect::CreateVolumeRepeatChangesId, |volume| volume.volume_id.push_str("-0")),
    ];
    apply(driver, volume, changes);
}

fn failed(
    driver: &MockDriver,
    original: &CreateVolumeRequest,
    answer: &mut Result<CreateVolumeResponse, Status>,
) {
    if driver.has(Defect::CreateVolumeLeaksOnError) {
        leave_behind(driver, &mut driver.state(), None, GIB);
    }
    let needs_unknown_fs_type = || {
        let usages = validate::usages(&original.volume_capabilities).unwrap_or_default();
        usages.iter().any(|usage| !validate::knows_fs_type(usage))
    };
    if driver.has(Defect::CreateVolumeFailsLate) && needs_unknown_fs_type() {
        let mut state = driver.state();
        if state.volumes.named(&original.name).is_none() {
            leave_behind(driver, &mut state, Some(original.name.clone()), GIB);
        }
        recode(answer, Code::InvalidArgument, Code::Internal);
    }
    if let Err(status) = answer
        && driver.has(Defect::MountFlagsInErrors)
    {
        let message = format!("{} ({:?})", status.message(), original.volume_capabilities);
        *status = Status::new(status.code(), message);
    }
}
