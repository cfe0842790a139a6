//! CreateVolume.

use std::collections::BTreeMap;

use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::volume_content_source::Type as SourceType;
use csi_proto::v1::{self};
use tonic::Status;

use super::expand_volume::rounded;
use super::placement;
use super::volume_message::volume_message;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Content, Map, Source, State, Usage, Volume, hash_text};
use crate::validate::{self, Demand, Range, invalid};

const GIB: i64 = 1 << 30;

/// A request that is well formed.
struct Wanted {
    usages: Vec<Usage>,
    range: Range,
    source: Option<Source>,
}

/// What a new volume starts out with.
struct Original {
    content: Option<Content>,
    size_bytes: i64,
}

pub(crate) fn create_volume(
    driver: &MockDriver,
    request: &v1::CreateVolumeRequest,
) -> Result<v1::CreateVolumeResponse, Status> {
    let wanted = parse(driver, request).map_err(|status| quote_flags(driver, status, request))?;
    let mut state = driver.state();
    if let Some(existing) = find(driver, &state, request)? {
        conflict(driver, existing, request, &wanted)?;
        return Ok(v1::CreateVolumeResponse { volume: Some(repeated(driver, existing, request)) });
    }
    check_supported(driver, request, &wanted)?;
    if driver.has(Defect::CreateVolumeLeaksOnError) {
        let leaked = make(driver, &mut state, request, &wanted, Content::new(1, GIB), GIB, 0);
        state.add_volume(Volume { name: None, ..leaked });
    }
    let original = original(driver, &state, wanted.source.as_ref())?;
    let capacity_bytes = size(driver, &wanted, &original)?;
    let zone =
        placement::choose(driver, &state, request.accessibility_requirements.as_ref(), capacity_bytes)?;
    if state.volumes.len() >= driver.config.objects_max as usize {
        return Err(Status::resource_exhausted("no more volumes are possible"));
    }
    let seed = state.fresh_seed();
    let content = match original.content {
        Some(content) if !driver.has(Defect::CreateVolumeSourceDataLost) => content.copy(seed),
        _ => Content::new(seed, capacity_bytes),
    };
    let volume = make(driver, &mut state, request, &wanted, content, capacity_bytes, zone);
    let message = first_answer(driver, &volume);
    state.add_volume(volume);
    if driver.has(Defect::CreateVolumeFailsAfterWork) {
        return Err(Status::internal("the back end did not confirm the volume"));
    }
    if driver.has(Defect::CreateVolumeCrashesAfterWork) {
        drop(state);
        driver.crash("CreateVolume");
    }
    if driver.has(Defect::CreateVolumeAnswersWithoutVolume) {
        return Ok(v1::CreateVolumeResponse::default());
    }
    Ok(v1::CreateVolumeResponse { volume: Some(message) })
}

fn quote_flags(driver: &MockDriver, status: Status, request: &v1::CreateVolumeRequest) -> Status {
    if !driver.has(Defect::MountFlagsInErrors) {
        return status;
    }
    Status::new(status.code(), format!("{} ({:?})", status.message(), request.volume_capabilities))
}

fn parse(driver: &MockDriver, request: &v1::CreateVolumeRequest) -> Result<Wanted, Status> {
    if driver.has(Defect::CreateVolumePanicsWithoutRange) {
        request.capacity_range.expect("capacity_range is always there");
    }
    if !(driver.has(Defect::CreateVolumeAcceptsEmptyName) && request.name.is_empty()) {
        check_name(driver, &request.name)?;
    }
    let usages = match validate::usages(&request.volume_capabilities) {
        Err(_) if tolerates_capabilities(driver, request) => Vec::new(),
        usages => usages?,
    };
    for (field, map) in
        [("parameters", &request.parameters), ("mutable_parameters", &request.mutable_parameters)]
    {
        validate::map(field, map)?;
    }
    let range = range(driver, request)?;
    let source =
        request.volume_content_source.as_ref().map(|source| parse_source(driver, source)).transpose()?;
    if let Some(requirement) = &request.accessibility_requirements
        && driver.has_topology()
        && !driver.has(Defect::CreateVolumeAcceptsEmptyTopologyRequirement)
        && requirement.requisite.is_empty()
        && requirement.preferred.is_empty()
    {
        return Err(invalid("accessibility_requirements has neither requisite nor preferred"));
    }
    Ok(Wanted { usages, range, source: source.flatten() })
}

fn check_name(driver: &MockDriver, name: &str) -> Result<(), Status> {
    let long = driver.is(Quirk::LongNamesAccepted);
    let bytes_max = if long { driver.config.name_bytes_max.max(4096) } else { driver.config.name_bytes_max };
    if driver.has(Defect::CreateVolumeRefusesLongNames) && name.len() > 63 {
        return Err(invalid("name is longer than 63 bytes"));
    }
    if driver.has(Defect::CreateVolumeRefusesUnicodeNames) && !name.is_ascii() {
        return Err(invalid("name is not ASCII"));
    }
    if driver.has(Defect::CreateVolumeCrashesOnLongNames) && name.len() > 128 {
        driver.crash("CreateVolume");
    }
    if driver.has(Defect::CreateVolumeInternalOnPathNames) && name.contains('/') {
        return Err(Status::internal("mkdir: no such file or directory"));
    }
    validate::name(name, bytes_max)
}

/// Defects that let incomplete capabilities through.
fn tolerates_capabilities(driver: &MockDriver, request: &v1::CreateVolumeRequest) -> bool {
    let given = &request.volume_capabilities;
    (given.is_empty() && driver.has(Defect::CreateVolumeAcceptsMissingCapabilities))
        || (given.iter().any(|one| one.access_type.is_none())
            && driver.has(Defect::CreateVolumeAcceptsMissingAccessType))
        || (given.iter().any(|one| one.access_mode.is_none())
            && driver.has(Defect::CreateVolumeAcceptsMissingAccessMode))
        || (given.iter().any(|one| one.access_mode.is_some_and(|access| access.mode == 0))
            && driver.has(Defect::CreateVolumeAcceptsUnknownAccessMode))
}

fn range(driver: &MockDriver, request: &v1::CreateVolumeRequest) -> Result<Range, Status> {
    let range = validate::range(request.capacity_range.as_ref());
    let Some(v1::CapacityRange { required_bytes, limit_bytes }) = request.capacity_range else {
        return range;
    };
    let tolerated = (driver.has(Defect::CreateVolumeAcceptsNegativeSize)
        && required_bytes.min(limit_bytes) < 0)
        || (driver.has(Defect::CreateVolumeAcceptsEmptyRange) && required_bytes == 0 && limit_bytes == 0)
        || (driver.has(Defect::CreateVolumeAcceptsCrossedRange)
            && required_bytes > limit_bytes
            && limit_bytes > 0);
    if tolerated {
        return Ok(Range { required_bytes: required_bytes.max(0), limit_bytes: i64::MAX });
    }
    if driver.has(Defect::CreateVolumeInternalOnNegativeSize) && required_bytes.min(limit_bytes) < 0 {
        return Err(Status::internal("size overflow"));
    }
    range
}

fn parse_source(driver: &MockDriver, source: &v1::VolumeContentSource) -> Result<Option<Source>, Status> {
    if driver.has(Defect::CreateVolumeRefusesSources) && source.r#type.is_some() {
        return Err(invalid("volumes cannot be copied"));
    }
    match &source.r#type {
        None if driver.has(Defect::CreateVolumeAcceptsEmptySource) => Ok(None),
        None => Err(invalid("volume_content_source names neither a snapshot nor a volume")),
        Some(SourceType::Snapshot(snapshot)) => {
            if !driver.controller_can(ControllerType::CreateDeleteSnapshot) {
                return Err(invalid("volumes cannot be made from snapshots"));
            }
            if snapshot.snapshot_id.is_empty() && driver.has(Defect::CreateVolumeAcceptsEmptySnapshotId) {
                return Ok(None);
            }
            driver.check_id_format("snapshot_id", &snapshot.snapshot_id, "snap")?;
            Ok(Some(Source::Snapshot(snapshot.snapshot_id.clone())))
        }
        Some(SourceType::Volume(volume)) => {
            if !driver.controller_can(ControllerType::CloneVolume) {
                if driver.has(Defect::CreateVolumeDropsUnsupportedSources) {
                    return Ok(None);
                }
                return Err(invalid("volumes cannot be cloned"));
            }
            if volume.volume_id.is_empty() && driver.has(Defect::CreateVolumeAcceptsEmptySourceVolumeId) {
                return Ok(None);
            }
            driver.check_id_format("volume_id", &volume.volume_id, "vol")?;
            Ok(Some(Source::Volume(volume.volume_id.clone())))
        }
    }
}

/// The volume that was made under this name before.
fn find<'a>(
    driver: &MockDriver,
    state: &'a State,
    request: &v1::CreateVolumeRequest,
) -> Result<Option<&'a Volume>, Status> {
    let name = &request.name;
    if driver.has(Defect::CreateVolumeForgetsNames) {
        return Ok(None);
    }
    if driver.has(Defect::CreateVolumeFoldsCase) {
        let folded = name.to_lowercase();
        return Ok(state
            .volumes
            .values()
            .find(|volume| volume.name.as_ref().is_some_and(|known| known.to_lowercase() == folded)));
    }
    if driver.has(Defect::CreateVolumeTruncatesNames) {
        let cut = |name: &str| name.chars().take(48).collect::<String>();
        return Ok(state
            .volumes
            .values()
            .find(|volume| volume.name.as_ref().is_some_and(|known| cut(known) == cut(name))));
    }
    if driver.has(Defect::CreateVolumeTrimsNames) {
        return Ok(state
            .volumes
            .values()
            .find(|volume| volume.name.as_ref().is_some_and(|known| known.trim() == name.trim())));
    }
    let existing = state.volumes.named(name);
    if existing.is_some() && driver.is_contended(name) {
        return Ok(None);
    }
    if existing.is_some() && driver.has(Defect::CreateVolumeRefusesRepeats) {
        return Err(Status::already_exists(format!("volume {name} exists")));
    }
    if existing.is_some() && driver.has(Defect::CreateVolumeInternalOnRepeats) {
        return Err(Status::internal("mkdir: file exists"));
    }
    Ok(existing)
}

/// ALREADY_EXISTS if the volume of this name is not what is wanted.
fn conflict(
    driver: &MockDriver,
    existing: &Volume,
    request: &v1::CreateVolumeRequest,
    wanted: &Wanted,
) -> Result<(), Status> {
    let differs = |what: &str| {
        let message = format!("a volume of this name exists with another {what}");
        if driver.has(Defect::CreateVolumeConflictAsInternal) {
            return Err(Status::internal(message));
        }
        if driver.has(Defect::CreateVolumeConflictAsInvalidArgument) {
            return Err(invalid(message));
        }
        Err(Status::already_exists(message))
    };
    if !wanted.range.contains(existing.capacity_bytes) && !driver.has(Defect::CreateVolumeIgnoresSizeConflict)
    {
        return differs("capacity");
    }
    if driver.has(Defect::CreateVolumeRefusesCompatibleSize)
        && wanted.range.required_bytes != existing.capacity_bytes
        && wanted.range != Range::ANY
    {
        return differs("capacity");
    }
    if !wanted.usages.iter().all(|usage| existing.covers(usage))
        && !driver.has(Defect::CreateVolumeIgnoresCapabilityConflict)
    {
        return differs("volume capability");
    }
    if existing.parameters != request.parameters
        && !driver.has(Defect::CreateVolumeIgnoresParameterConflict)
        && !driver.has(Defect::CreateVolumeRepeatTakesContextFromRequest)
    {
        return differs("set of parameters");
    }
    let mutable = &request.mutable_parameters;
    if driver.controller_can(ControllerType::ModifyVolume)
        && existing.first_mutable_parameters != *mutable
        && existing.mutable_parameters != *mutable
        && !driver.has(Defect::CreateVolumeIgnoresMutableParameterConflict)
    {
        return differs("set of mutable parameters");
    }
    if existing.source != wanted.source && !driver.has(Defect::CreateVolumeIgnoresSourceConflict) {
        return differs("content source");
    }
    if !placement::fulfils(driver, existing.zone, request.accessibility_requirements.as_ref())
        && !driver.has(Defect::CreateVolumeIgnoresTopologyConflict)
    {
        return differs("accessible topology");
    }
    Ok(())
}

/// The answer to a repeated request.
fn repeated(driver: &MockDriver, existing: &Volume, request: &v1::CreateVolumeRequest) -> v1::Volume {
    let mut message = volume_message(driver, existing);
    if driver.has(Defect::CreateVolumeRepeatTakesContextFromRequest) {
        message.volume_context.extend(request.parameters.clone());
    }
    if driver.has(Defect::CreateVolumeRepeatChangesContext) {
        message.volume_context.insert("answer".to_owned(), "repeated".to_owned());
    }
    if driver.has(Defect::CreateVolumeRepeatDropsContext) {
        message.volume_context.clear();
    }
    if driver.has(Defect::CreateVolumeRepeatDropsTopology) {
        message.accessible_topology.clear();
    }
    if driver.has(Defect::CreateVolumeRepeatDropsSource) {
        message.content_source = None;
    }
    if driver.has(Defect::CreateVolumeRepeatDropsCapacity) {
        message.capacity_bytes = 0;
    }
    if driver.has(Defect::CreateVolumeRepeatChangesId) {
        message.volume_id.push_str("-0");
    }
    message
}

/// Whether the driver can make such a volume at all.
fn check_supported(
    driver: &MockDriver,
    request: &v1::CreateVolumeRequest,
    wanted: &Wanted,
) -> Result<(), Status> {
    let checked = if driver.has(Defect::CreateVolumeChecksFirstCapabilityOnly) { 1 } else { usize::MAX };
    for usage in wanted.usages.iter().take(checked) {
        if let Err(reason) = driver.supports(usage)
            && !driver.has(Defect::CreateVolumeAcceptsUnsupportedCapability)
        {
            return Err(invalid(reason));
        }
        if usage.lacks_fs_type() && driver.has(Defect::CreateVolumeDemandsFsType) {
            return Err(invalid("fs_type is missing"));
        }
    }
    match validate::demanded(&request.parameters, &driver.config.required_parameters) {
        Ok(()) => {}
        Err(Demand::Missing(key)) => return Err(invalid(format!("parameter `{key}` is missing"))),
        Err(Demand::Wrong(key)) => return Err(invalid(format!("parameter `{key}` has an unknown value"))),
    }
    if !driver.is(Quirk::UnknownParametersIgnored)
        && !driver.has(Defect::CreateVolumeIgnoresUnknownParameters)
    {
        validate::known_parameters("parameters", &request.parameters, &driver.config.parameters)?;
    }
    if driver.has(Defect::CreateVolumeRefusesMutableParameters) && !request.mutable_parameters.is_empty() {
        return Err(invalid("mutable_parameters are not supported"));
    }
    if driver.controller_can(ControllerType::ModifyVolume)
        && !driver.has(Defect::CreateVolumeIgnoresUnknownMutableParameters)
    {
        let known = &driver.config.mutable_parameters;
        validate::known_parameters("mutable_parameters", &request.mutable_parameters, known)?;
    }
    Ok(())
}

/// The data and the size that come from the source.
fn original(driver: &MockDriver, state: &State, source: Option<&Source>) -> Result<Original, Status> {
    let found = match source {
        None => return Ok(Original { content: None, size_bytes: 0 }),
        Some(Source::Snapshot(_)) if driver.has(Defect::CreateVolumeRefusesSnapshots) => {
            return Err(Status::unimplemented("volumes cannot be made from snapshots"));
        }
        Some(Source::Snapshot(id)) => {
            let snapshot = state.snapshots.get(id);
            if let Some(snapshot) = snapshot
                && !super::snapshot_message::is_ready(snapshot)
            {
                return Err(Status::failed_precondition(format!("source snapshot {id} is not ready to use")));
            }
            snapshot.map(|snapshot| (snapshot.content.clone(), snapshot.size_bytes))
        }
        Some(Source::Volume(id)) => {
            state.volumes.get(id).map(|volume| (volume.content.clone(), volume.capacity_bytes))
        }
    };
    match (found, source) {
        (Some((content, size_bytes)), _) => Ok(Original { content: Some(content), size_bytes }),
        (None, _) if driver.has(Defect::CreateVolumeIgnoresMissingSource) => {
            Ok(Original { content: None, size_bytes: 0 })
        }
        (None, _) if driver.has(Defect::CreateVolumeMissingSourceAsInternal) => {
            Err(Status::internal("the source cannot be read"))
        }
        (None, Some(Source::Snapshot(id))) => {
            Err(Status::not_found(format!("source snapshot {id} does not exist")))
        }
        (None, _) => Err(Status::not_found("the source volume does not exist")),
    }
}

/// The size that the volume gets.
fn size(driver: &MockDriver, wanted: &Wanted, original: &Original) -> Result<i64, Status> {
    let Range { required_bytes, limit_bytes } = wanted.range;
    let (min, max) = (driver.config.volume_size_bytes_min, driver.config.volume_size_bytes_max);
    let out_of_range = |why: String| {
        if driver.has(Defect::CreateVolumeOutOfRangeAsInternal) {
            return Status::internal(why);
        }
        if driver.has(Defect::CreateVolumeOutOfRangeAsInvalidArgument) {
            return invalid(why);
        }
        Status::out_of_range(why)
    };
    if driver.has(Defect::CreateVolumeTruncatesToSource) && original.size_bytes > 0 {
        return Ok(original.size_bytes.min(required_bytes.max(min)));
    }
    if original.size_bytes > limit_bytes && !driver.has(Defect::CreateVolumeShrinksSource) {
        return Err(out_of_range(format!(
            "the source has {} bytes, more than the limit",
            original.size_bytes
        )));
    }
    let larger = original.content.is_some() && required_bytes > original.size_bytes;
    if larger && driver.is(Quirk::LargerCopiesRefused) {
        return Err(out_of_range(format!("the source has only {} bytes", original.size_bytes)));
    }
    let small = required_bytes > 0 && required_bytes < min && driver.is(Quirk::SmallSizesRefused);
    if limit_bytes < min || small {
        return Err(out_of_range(format!("no volume is smaller than {min} bytes")));
    }
    if required_bytes > max && !driver.has(Defect::CreateVolumeAcceptsAnySize) {
        return Err(out_of_range(format!("no volume is larger than {max} bytes")));
    }
    let unasked = required_bytes == 0 && original.size_bytes == 0;
    let wish =
        if unasked { driver.config.volume_size_bytes_default.min(limit_bytes) } else { required_bytes };
    let size = round(driver, wish.max(min).max(original.size_bytes.min(limit_bytes)));
    if size > limit_bytes && !driver.has(Defect::CreateVolumeExceedsLimit) {
        return Err(out_of_range(format!("the next possible size is {size} bytes, more than the limit")));
    }
    Ok(size)
}

/// The next size that can be had, if no defect has its way.
fn round(driver: &MockDriver, bytes: i64) -> i64 {
    if driver.has(Defect::CreateVolumeRoundsDown) && bytes > GIB {
        return bytes / GIB * GIB;
    }
    if driver.has(Defect::CreateVolumeHalvesSize) {
        return bytes / 2;
    }
    if driver.has(Defect::CreateVolumeExceedsLimit) {
        return bytes.saturating_add(GIB - 1) / GIB * GIB;
    }
    rounded(driver, bytes)
}

fn make(
    driver: &MockDriver,
    state: &mut State,
    request: &v1::CreateVolumeRequest,
    wanted: &Wanted,
    content: Content,
    capacity_bytes: i64,
    zone: usize,
) -> Volume {
    let id = if driver.is(Quirk::IdsFromNames) {
        format!("vol-{:016x}", hash_text(&request.name))
    } else if driver.has(Defect::CreateVolumeReusesIds) {
        "vol-00000000".to_owned()
    } else if driver.has(Defect::CreateVolumeIdTooLong) {
        format!("{}-{}", state.fresh_id("vol"), "0".repeat(128))
    } else {
        state.fresh_id("vol")
    };
    Volume {
        id,
        name: Some(request.name.clone()),
        capacity_bytes,
        usages: wanted.usages.clone(),
        parameters: request.parameters.clone(),
        first_mutable_parameters: request.mutable_parameters.clone(),
        mutable_parameters: request.mutable_parameters.clone(),
        modifications: 0,
        context: context(driver, request),
        source: wanted.source.clone(),
        zone,
        content,
        attachments: BTreeMap::new(),
        on_nodes: BTreeMap::new(),
    }
}

/// The volume context: the backend, and the tier the volume was made with.
fn context(driver: &MockDriver, request: &v1::CreateVolumeRequest) -> Map {
    if driver.is(Quirk::VolumeContextEmpty) {
        return Map::new();
    }
    let (mut first, mut second) = (&request.mutable_parameters, &request.parameters);
    if driver.has(Defect::CreateVolumeParametersBeatMutableOnes) {
        std::mem::swap(&mut first, &mut second);
    }
    let mut context = Map::from([("backend".to_owned(), "memory".to_owned())]);
    if let Some(tier) = first.get("tier").or_else(|| second.get("tier")) {
        context.insert("tier".to_owned(), tier.clone());
    }
    if driver.has(Defect::CreateVolumeContextTooLarge) {
        context.insert("history".to_owned(), "x".repeat(5 << 10));
    }
    if driver.has(Defect::CreateVolumeContextHoldsSecrets) {
        context.extend(request.secrets.clone());
    }
    context
}

/// The answer to the request that made the volume.
fn first_answer(driver: &MockDriver, volume: &Volume) -> v1::Volume {
    let mut message = volume_message(driver, volume);
    if driver.has(Defect::CreateVolumeEmptyId) {
        message.volume_id.clear();
    }
    if driver.has(Defect::CreateVolumeNegativeCapacity) {
        message.capacity_bytes = -1;
    }
    if driver.has(Defect::CreateVolumeDropsSource) {
        message.content_source = None;
    }
    if driver.has(Defect::CreateVolumeNamesOtherSource) && message.content_source.is_some() {
        message.content_source = Some(Source::Volume("vol-of-another".to_owned()).to_proto());
    }
    message
}
