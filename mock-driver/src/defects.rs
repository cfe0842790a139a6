//! The effects of defects on requests and replies. Each function is called by the service and calls the handler of
//! its RPC, which knows nothing about it. The few defects that change the effect of a call on the state are in the
//! handlers.

mod capabilities;
mod controller_expand_volume;
mod controller_get_node_info;
mod controller_get_volume_health;
mod controller_list_volume_health;
mod controller_publish_volume;
mod create_group_snapshot;
mod create_snapshot;
mod create_volume;
mod delete_volume;
mod group_snapshot;
mod health;
mod host;
mod identity;
mod leaks;
mod list_snapshots;
mod list_volumes;
mod load;
mod metadata;
mod node_expand_volume;
mod node_get_info;
mod node_get_volume_health;
mod node_get_volume_stats;
mod node_publish_volume;
mod node_stage_volume;
mod overlap;
mod side_effects;
mod snapshot;
mod status;
mod validate_volume_capabilities;
mod volume;

use std::collections::BTreeMap;

use csi_proto::v1;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use tonic::{Code, Status};

use crate::config::StaticVolume;
use crate::controller;
use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{Content, Map, State, Volume};
use crate::validate::{self, invalid};

pub(crate) use self::capabilities::{
    controller_get_capabilities, get_plugin_capabilities, group_controller_get_capabilities,
    node_get_capabilities,
};
pub(crate) use self::controller_expand_volume::controller_expand_volume;
pub(crate) use self::controller_get_node_info::controller_get_node_info;
pub(crate) use self::controller_get_volume_health::controller_get_volume_health;
pub(crate) use self::controller_list_volume_health::controller_list_volume_health;
pub(crate) use self::controller_publish_volume::{controller_publish_volume, controller_unpublish_volume};
pub(crate) use self::create_group_snapshot::create_volume_group_snapshot;
pub(crate) use self::create_snapshot::create_snapshot;
pub(crate) use self::create_volume::create_volume;
pub(crate) use self::delete_volume::delete_volume;
pub(crate) use self::group_snapshot::{delete_volume_group_snapshot, get_volume_group_snapshot};
pub(crate) use self::health::node_get_storage_health;
pub(crate) use self::identity::{get_plugin_info, probe};
pub(crate) use self::leaks::{End, leak_after, leak_for_connection, leak_for_copy, leak_for_rejected_name};
pub(crate) use self::list_snapshots::list_snapshots;
pub(crate) use self::list_volumes::list_volumes;
pub(crate) use self::load::{HIDDEN_LIMIT, end_of_calls, forget_under_load, wait_under_load};
pub(crate) use self::metadata::{get_metadata_allocated, get_metadata_delta, send};
pub(crate) use self::node_expand_volume::node_expand_volume;
pub(crate) use self::node_get_info::node_get_info;
pub(crate) use self::node_get_volume_health::node_get_volume_health;
pub(crate) use self::node_get_volume_stats::node_get_volume_stats;
pub(crate) use self::node_publish_volume::{node_publish_volume, node_unpublish_volume};
pub(crate) use self::node_stage_volume::{node_stage_volume, node_unstage_volume};
pub(crate) use self::overlap::{StaleRead, crash_on_second_connection};
pub(crate) use self::side_effects::{has_saving_defect, save_with_defect, stays_locked};
pub(crate) use self::snapshot::{delete_snapshot, get_snapshot};
pub(crate) use self::status::{corrupt_rejection, print_secrets};
pub(crate) use self::validate_volume_capabilities::validate_volume_capabilities;
pub(crate) use self::volume::{controller_get_volume, controller_modify_volume, get_capacity};

const GIB: i64 = 1 << 30;

/// A defect that only changes a message.
type Change<T> = (Defect, fn(&mut T));

/// Makes each change whose defect is switched on.
fn apply<T>(driver: &MockDriver, message: &mut T, changes: &[Change<T>]) {
    for (defect, change) in changes {
        if driver.has(*defect) {
            change(message);
        }
    }
}

/// Adds each entry whose defect is switched on.
fn add<T, const N: usize>(driver: &MockDriver, list: &mut Vec<T>, entries: [(Defect, T); N]) {
    list.extend(entries.into_iter().filter(|(defect, _)| driver.has(*defect)).map(|(_, entry)| entry));
}

/// Adds a volume whose id the caller does not learn. Without a name, no later request finds it.
fn leave_behind(driver: &MockDriver, state: &mut State, name: Option<String>, capacity_bytes: i64) {
    let seed = state.fresh_seed();
    let id = match &name {
        Some(name) => controller::new_id(driver, state, name),
        None => state.fresh_id("vol"),
    };
    let volume_context = Map::new();
    let left = StaticVolume { id, capacity_bytes, volume_context, readonly: false };
    let content = Content::new(seed, capacity_bytes);
    state.add_volume(Volume { name, ..Volume::provisioned_elsewhere(&left, content) });
}

/// Replaces a code in the reply.
fn recode<T>(answer: &mut Result<T, Status>, from: Code, to: Code) {
    if let Err(status) = answer
        && status.code() == from
    {
        *status = Status::new(to, status.message());
    }
}

/// Turns an error with this code into an empty OK reply.
fn forgive<T: Default>(answer: &mut Result<T, Status>, code: Code) {
    if answer.as_ref().is_err_and(|status| status.code() == code) {
        *answer = Ok(T::default());
    }
}

fn volume_not_found(id: &str) -> Status {
    Status::not_found(format!("volume {id} does not exist"))
}

/// Fails if a path is too long for a defect: 128 bytes or more with the first defect, more than 128 with the second.
fn check_lengths(driver: &MockDriver, paths: &[&str], [fewer, no_more]: [Defect; 2]) -> Result<(), Status> {
    let most = match () {
        () if driver.has(fewer) => 127,
        () if driver.has(no_more) => 128,
        () => return Ok(()),
    };
    match paths.iter().any(|path| path.len() > most) {
        true => Err(invalid("a path is longer than a string of the protocol may be")),
        false => Ok(()),
    }
}

/// Returns whether a capability is present but incomplete.
fn is_incomplete(capability: Option<&v1::VolumeCapability>) -> bool {
    capability.is_some_and(|capability| validate::usage(capability).is_err())
}

/// A capability that every volume has, to replace one that is missing or incomplete.
fn plain_capability() -> v1::VolumeCapability {
    v1::VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter as i32 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// Returns whether the text, taken as a path, leads to its own directory or a parent.
fn is_all_dots(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c == '.' || c == '/')
}

/// Removes parameters that the driver does not know.
fn drop_unknown(parameters: &mut Map, known: &[String]) {
    let understood = |key: &String, value: &mut String| {
        let one = BTreeMap::from([(key.clone(), value.clone())]);
        validate::known_parameters("parameters", &one, known).is_ok()
    };
    parameters.retain(understood);
}

/// Returns whether a careless driver can print the name.
pub(crate) fn is_plain(name: Option<&str>) -> bool {
    name.is_none_or(|name| name.chars().all(|c| c.is_ascii_graphic()))
}
