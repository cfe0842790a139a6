//! Decides in which zone a volume is stored, and from which nodes it can be reached.

use csi_proto::v1;
use tonic::Status;

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Map, State};
use crate::validate;

/// Chooses the zone of a new volume: a preferred one in their order, then a required one, or any zone if none is
/// required. A copy of a snapshot that is only usable in its own zone goes there.
pub(super) fn choose(
    driver: &MockDriver,
    state: &State,
    requirement: Option<&v1::TopologyRequirement>,
    source: Option<usize>,
    bytes: i64,
) -> Result<usize, Status> {
    let mut candidates = candidates(driver, requirement);
    if let Some(zone) = source.filter(|_| constrains_snapshots(driver)) {
        let elsewhere = driver.has(Defect::CreateVolumeRestoresElsewhere) && requirement.is_none();
        candidates.retain(|candidate| (*candidate == zone) != elsewhere);
    }
    if candidates.is_empty() {
        return Err(Status::resource_exhausted("no storage can be reached from the topologies asked for"));
    }
    let fits = |zone: &usize| free_bytes(driver, state, *zone) >= bytes;
    if driver.has(Defect::CreateVolumeOvercommits) {
        return Ok(candidates[0]);
    }
    candidates
        .into_iter()
        .find(fits)
        .ok_or_else(|| Status::resource_exhausted(format!("no storage has {bytes} bytes free")))
}

/// The free storage in a zone.
pub(super) fn free_bytes(driver: &MockDriver, state: &State, zone: usize) -> i64 {
    driver.zone_capacity_bytes().saturating_sub(state.allocated(zone)).max(0)
}

fn candidates(driver: &MockDriver, requirement: Option<&v1::TopologyRequirement>) -> Vec<usize> {
    let everywhere: Vec<usize> = (0..driver.zones.len()).collect();
    let Some(requirement) = requirement.filter(|_| constrains(driver)) else { return everywhere };
    let mut candidates = matching(driver, &requirement.preferred);
    let rest = match requirement.requisite.is_empty() {
        true => everywhere,
        false => matching(driver, &requirement.requisite),
    };
    if !requirement.requisite.is_empty() {
        candidates.retain(|zone| rest.contains(zone));
    }
    candidates.extend(rest);
    candidates
}

/// The zones within these topologies, in the order of the topologies.
fn matching(driver: &MockDriver, topologies: &[v1::Topology]) -> Vec<usize> {
    let within = |topology: &v1::Topology| {
        let segments = topology.segments.clone();
        (0..driver.zones.len()).filter(move |zone| contains(&driver.zones[*zone], &segments))
    };
    topologies.iter().flat_map(within).collect()
}

/// Returns whether a zone has all the segments.
pub(super) fn contains(zone: &Map, segments: &Map) -> bool {
    segments
        .iter()
        .all(|(key, value)| zone.iter().any(|(known, its)| known.eq_ignore_ascii_case(key) && its == value))
}

/// Returns whether a volume in this zone satisfies a requirement.
pub(super) fn fulfils(
    driver: &MockDriver,
    zone: usize,
    requirement: Option<&v1::TopologyRequirement>,
) -> bool {
    let requisite = requirement.filter(|_| constrains(driver)).map(|given| given.requisite.as_slice());
    match requisite {
        None | Some([]) => true,
        Some(requisite) => matching(driver, requisite).contains(&zone),
    }
}

/// The topology of a snapshot whose volume is in this zone, if the driver reports it.
pub(super) fn snapshot_topology(driver: &MockDriver, zone: usize) -> Vec<v1::Topology> {
    let segments = driver.zones.get(zone).filter(|_| constrains_snapshots(driver));
    segments.map(|segments| v1::Topology { segments: segments.clone() }).into_iter().collect()
}

/// Returns whether the zone of a snapshot restricts its use.
pub(super) fn constrains_snapshots(driver: &MockDriver) -> bool {
    constrains(driver) && driver.has_snapshot_topology()
}

/// Returns whether the zone of a volume restricts its use.
pub(super) fn constrains(driver: &MockDriver) -> bool {
    driver.has_topology() && !driver.is(Quirk::TopologyEverywhere) && !driver.is(Quirk::NodeTopologyLeftOut)
}

/// Returns whether a node can reach a volume in this zone.
pub(super) fn reaches(driver: &MockDriver, zone: usize, node_topology: &Map) -> bool {
    !constrains(driver) || driver.zones.get(zone).is_some_and(|segments| contains(node_topology, segments))
}

pub(crate) async fn get_capacity(
    driver: &MockDriver,
    request: &v1::GetCapacityRequest,
) -> Result<v1::GetCapacityResponse, Status> {
    validate::map("parameters", &request.parameters)?;
    if driver.is(Quirk::NoDefaultPool) && request.parameters.is_empty() {
        return Err(Status::failed_precondition("there is no default pool"));
    }
    if !can_be_had(driver, request)? {
        return Ok(v1::GetCapacityResponse::default());
    }
    let state = driver.state();
    let free = zones(driver, request).map(|zone| free_bytes(driver, &state, zone));
    let limited = !driver.is(Quirk::NoSizeLimits);
    Ok(v1::GetCapacityResponse {
        available_capacity: free.fold(0, i64::saturating_add),
        maximum_volume_size: limited.then_some(driver.config.volume_size_bytes_max),
        minimum_volume_size: limited.then_some(driver.config.volume_size_bytes_min),
    })
}

/// Returns whether a volume with these capabilities and parameters is possible.
fn can_be_had(driver: &MockDriver, request: &v1::GetCapacityRequest) -> Result<bool, Status> {
    for capability in &request.volume_capabilities {
        if driver.supports(&validate::usage(capability)?).is_err() {
            return Ok(false);
        }
    }
    let known = &driver.config.parameters;
    let ignored = driver.is(Quirk::UnknownParametersIgnored);
    Ok(ignored || validate::known_parameters("parameters", &request.parameters, known).is_ok())
}

/// The zones whose storage the request asks about.
fn zones(driver: &MockDriver, request: &v1::GetCapacityRequest) -> impl Iterator<Item = usize> {
    let topology = request.accessible_topology.as_ref().filter(|_| driver.has_topology());
    let counts = move |zone: &Map| topology.is_none_or(|topology| contains(zone, &topology.segments));
    driver.zones.iter().enumerate().filter(move |(_, zone)| counts(zone)).map(|(index, _)| index)
}
