//! CreateVolume.

use std::collections::BTreeMap;

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::volume_content_source::Type as SourceType;
use tonic::Status;

use super::expand_volume::rounded;
use super::placement;
use super::volumes::volume_message;
use crate::defect::Defect;
use crate::driver::{MockDriver, is_long_fs_type, now_ms};
use crate::quirk::Quirk;
use crate::state::{Access, Content, Map, Source, State, Usage, Volume, hash_text};
use crate::validate::{self, Demand, Range, invalid};

/// A request whose form has been checked.
struct Wanted {
    usages: Vec<Usage>,
    range: Range,
    source: Option<Source>,
}

/// The data and size of a content source; empty without a source.
#[derive(Default)]
struct Original {
    content: Option<Content>,
    size_bytes: i64,
    /// The zone of the source, if it can only be used from there.
    zone: Option<usize>,
}

pub(crate) async fn create_volume(
    driver: &MockDriver,
    request: &v1::CreateVolumeRequest,
) -> Result<v1::CreateVolumeResponse, Status> {
    let wanted = parse(driver, request)?;
    let volume = driver.change(request, |state| match state.volumes.named(&request.name) {
        Some(existing) => {
            check_same(driver, existing, request, &wanted)?;
            Ok(volume_message(driver, existing))
        }
        None => {
            check_supported(driver, request, &wanted)?;
            let volume = make(driver, state, request, wanted)?;
            let message = volume_message(driver, &volume);
            state.add_volume(volume);
            Ok(message)
        }
    });
    Ok(v1::CreateVolumeResponse { volume: Some(volume.await?) })
}

fn parse(driver: &MockDriver, request: &v1::CreateVolumeRequest) -> Result<Wanted, Status> {
    validate::name(&request.name, driver.name_bytes_max())?;
    let usages = validate::usages(&request.volume_capabilities)?;
    if !driver.is(Quirk::EchoesRequests) {
        validate::map("parameters", &request.parameters)?;
    }
    validate::map("mutable_parameters", &request.mutable_parameters)?;
    let range = validate::range(request.capacity_range.as_ref())?;
    let source = request.volume_content_source.as_ref().map(|source| parse_source(driver, source));
    if let Some(requirement) = &request.accessibility_requirements
        && driver.has_topology()
        && requirement.requisite.is_empty()
        && requirement.preferred.is_empty()
    {
        return Err(invalid("accessibility_requirements has neither requisite nor preferred"));
    }
    Ok(Wanted { usages, range, source: source.transpose()? })
}

fn parse_source(driver: &MockDriver, source: &v1::VolumeContentSource) -> Result<Source, Status> {
    match &source.r#type {
        None => Err(invalid("volume_content_source names neither a snapshot nor a volume")),
        Some(SourceType::Snapshot(snapshot)) => {
            if !driver.controller_can(ControllerType::CreateDeleteSnapshot) {
                return Err(invalid("volumes cannot be made from snapshots"));
            }
            driver.check_id_format("snapshot_id", &snapshot.snapshot_id, "snap")?;
            Ok(Source::Snapshot(snapshot.snapshot_id.clone()))
        }
        Some(SourceType::Volume(volume)) => {
            if !driver.controller_can(ControllerType::CloneVolume) {
                return Err(invalid("volumes cannot be cloned"));
            }
            driver.check_id_format("volume_id", &volume.volume_id, "vol")?;
            Ok(Source::Volume(volume.volume_id.clone()))
        }
    }
}

/// Returns ALREADY_EXISTS if the existing volume of this name is not what the request asks for.
fn check_same(
    driver: &MockDriver,
    existing: &Volume,
    request: &v1::CreateVolumeRequest,
    wanted: &Wanted,
) -> Result<(), Status> {
    let mutable = &request.mutable_parameters;
    let other_mutable = driver.controller_can(ControllerType::ModifyVolume)
        && existing.first_mutable_parameters != *mutable
        && existing.mutable_parameters != *mutable;
    let requirement = request.accessibility_requirements.as_ref();
    let differences = [
        (!wanted.range.contains(existing.capacity_bytes), "capacity"),
        (!wanted.usages.iter().all(|usage| existing.covers(usage)), "volume capability"),
        (existing.parameters != request.parameters, "set of parameters"),
        (other_mutable, "set of mutable parameters"),
        (existing.source != wanted.source, "content source"),
        (!placement::fulfils(driver, existing.zone, requirement), "accessible topology"),
    ];
    match differences.into_iter().find(|(differs, _)| *differs) {
        None => Ok(()),
        Some((_, what)) => {
            Err(Status::already_exists(format!("a volume of this name exists with another {what}")))
        }
    }
}

/// Fails if the driver cannot create such a volume.
fn check_supported(
    driver: &MockDriver,
    request: &v1::CreateVolumeRequest,
    wanted: &Wanted,
) -> Result<(), Status> {
    wanted.usages.iter().try_for_each(|usage| driver.supports(usage)).map_err(invalid)?;
    match validate::demanded(&request.parameters, &driver.config.required_parameters) {
        Ok(()) => {}
        Err(Demand::Missing(key)) => return Err(invalid(format!("parameter `{key}` is missing"))),
        Err(Demand::Wrong(key)) => return Err(invalid(format!("parameter `{key}` has an unknown value"))),
    }
    if !driver.is(Quirk::UnknownParametersIgnored) && !driver.is(Quirk::EchoesRequests) {
        validate::known_parameters("parameters", &request.parameters, &driver.config.parameters)?;
    }
    if driver.controller_can(ControllerType::ModifyVolume) {
        let known = &driver.config.mutable_parameters;
        validate::known_parameters("mutable_parameters", &request.mutable_parameters, known)?;
    }
    Ok(())
}

fn make(
    driver: &MockDriver,
    state: &mut State,
    request: &v1::CreateVolumeRequest,
    wanted: Wanted,
) -> Result<Volume, Status> {
    let original =
        wanted.source.as_ref().map_or(Ok(Original::default()), |source| original(state, source))?;
    let capacity_bytes = size(driver, wanted.range, &original)?;
    let ignores_topology = wanted.source.is_some() && driver.has(Defect::CreateVolumeIgnoresTopologyOfCopies);
    let requirement = request.accessibility_requirements.as_ref().filter(|_| !ignores_topology);
    let zone = placement::choose(driver, state, requirement, original.zone, capacity_bytes)?;
    if state.volumes.len() >= driver.config.objects_max as usize {
        return Err(Status::resource_exhausted("no more volumes are possible"));
    }
    let seed = state.fresh_seed();
    let context = context(driver, request, &wanted.usages);
    let copied = original.content.filter(|_| !driver.has(Defect::CreateVolumeSourceDataLost));
    Ok(Volume {
        id: new_id(driver, state, &request.name),
        name: Some(request.name.clone()),
        made_ms: now_ms(),
        capacity_bytes,
        usages: wanted.usages,
        parameters: request.parameters.clone(),
        first_mutable_parameters: request.mutable_parameters.clone(),
        mutable_parameters: request.mutable_parameters.clone(),
        modifications: 0,
        context,
        source: wanted.source,
        zone,
        content: copied.map_or_else(|| Content::new(seed, capacity_bytes), |content| content.copy(seed)),
        attachments: BTreeMap::new(),
        on_nodes: BTreeMap::new(),
    })
}

fn original(state: &mut State, source: &Source) -> Result<Original, Status> {
    match source {
        Source::Snapshot(id) => {
            let snapshot = state.snapshots.get(id);
            let snapshot =
                snapshot.ok_or_else(|| Status::not_found(format!("source snapshot {id} does not exist")))?;
            if !super::is_ready(snapshot) {
                return Err(Status::failed_precondition(format!("source snapshot {id} is not ready to use")));
            }
            Ok(Original {
                content: Some(snapshot.content.clone()),
                size_bytes: snapshot.size_bytes,
                zone: Some(snapshot.zone),
            })
        }
        Source::Volume(id) => {
            let Some(volume) = state.volumes.get(id) else { return Err(state.no_source(id)) };
            let content = Some(volume.content.clone());
            Ok(Original { content, size_bytes: volume.capacity_bytes, zone: None })
        }
    }
}

/// The size of the new volume.
fn size(driver: &MockDriver, range: Range, original: &Original) -> Result<i64, Status> {
    let Range { required_bytes, limit_bytes } = range;
    let (min, max) = (driver.config.volume_size_bytes_min, driver.config.volume_size_bytes_max);
    let source_bytes = original.size_bytes;
    if source_bytes > limit_bytes && !driver.has(Defect::CreateVolumeShrinksSource) {
        return Err(Status::out_of_range(format!(
            "the source has {source_bytes} bytes, more than the limit"
        )));
    }
    let larger = original.content.is_some() && required_bytes > source_bytes;
    if larger && driver.is(Quirk::LargerCopiesRefused) {
        return Err(Status::out_of_range(format!("the source has only {source_bytes} bytes")));
    }
    let small = required_bytes > 0 && required_bytes < min && driver.is(Quirk::SmallSizesRefused);
    if limit_bytes < min || small {
        return Err(Status::out_of_range(format!("no volume is smaller than {min} bytes")));
    }
    if required_bytes > max && !driver.has(Defect::CreateVolumeAcceptsAnySize) {
        return Err(Status::out_of_range(format!("no volume is larger than {max} bytes")));
    }
    let unasked = required_bytes == 0 && source_bytes == 0;
    let wish =
        if unasked { driver.config.volume_size_bytes_default.min(limit_bytes) } else { required_bytes };
    let size = rounded(driver, wish.max(min).max(source_bytes.min(limit_bytes)));
    if size > limit_bytes {
        return Err(Status::out_of_range(format!(
            "the next possible size is {size} bytes, more than the limit"
        )));
    }
    Ok(size)
}

/// The id of a new volume with this name.
pub(crate) fn new_id(driver: &MockDriver, state: &mut State, name: &str) -> String {
    if driver.has(Defect::CreateVolumeReusesIds) {
        return "vol-00000000".to_owned();
    }
    if driver.is(Quirk::EchoesRequests) {
        return name.to_owned();
    }
    let id = match driver.is(Quirk::IdsFromNames) {
        true => format!("vol-{:016x}", hash_text(name)),
        false => state.fresh_id("vol"),
    };
    match driver.has(Defect::CreateVolumeIdTooLong) {
        true => format!("{id}-{}", "0".repeat(128)),
        false => id,
    }
}

/// The parameters of the request, and its file system types that are too long for any real file system.
fn echo(request: &v1::CreateVolumeRequest, usages: &[Usage]) -> Map {
    let fs_types =
        usages.iter().filter(|usage| is_long_fs_type(usage)).filter_map(|usage| match &usage.access {
            Access::Mount { fs_type, .. } => Some(("fs-type".to_owned(), fs_type.clone())),
            Access::Block => None,
        });
    request.parameters.clone().into_iter().chain(fs_types).collect()
}

/// The volume_context, with the backend and the tier of the volume.
fn context(driver: &MockDriver, request: &v1::CreateVolumeRequest, usages: &[Usage]) -> Map {
    if driver.is(Quirk::EchoesRequests) {
        return echo(request, usages);
    }
    if driver.is(Quirk::VolumeContextEmpty) {
        return Map::new();
    }
    let mut context = Map::from([("backend".to_owned(), "memory".to_owned())]);
    if let Some(tier) = request.mutable_parameters.get("tier").or_else(|| request.parameters.get("tier")) {
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
