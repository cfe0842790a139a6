//! Checks of the Controller service.

pub(crate) mod common;
pub(crate) mod controller_expand_volume;
pub(crate) mod controller_get_capabilities;
pub(crate) mod controller_get_node_info;
pub(crate) mod controller_get_volume;
pub(crate) mod controller_get_volume_health;
pub(crate) mod controller_list_volume_health;
pub(crate) mod controller_modify_volume;
pub(crate) mod controller_publish_volume;
pub(crate) mod controller_unpublish_volume;
pub(crate) mod create_snapshot;
pub(crate) mod create_volume;
pub(crate) mod delete_snapshot;
pub(crate) mod delete_volume;
pub(crate) mod get_capacity;
pub(crate) mod get_snapshot;
pub(crate) mod list_snapshots;
pub(crate) mod list_volumes;
pub(crate) mod second_node;
pub(crate) mod validate_volume_capabilities;

use csi_harness::checks::check::Check;

pub(crate) const CHECKS: &[&[&Check]] = &[
    create_volume::malformed::CHECKS,
    create_volume::reply::CHECKS,
    create_volume::names::CHECKS,
    create_volume::capacity::CHECKS,
    create_volume::parameters::CHECKS,
    create_volume::secrets::CHECKS,
    create_volume::modes::CHECKS,
    create_volume::source::CHECKS,
    create_volume::topology::CHECKS,
    create_volume::topology_names::CHECKS,
    create_volume::conflicts::CHECKS,
    delete_volume::CHECKS,
    list_volumes::CHECKS,
    controller_get_capabilities::CHECKS,
    validate_volume_capabilities::CHECKS,
    get_capacity::CHECKS,
    controller_publish_volume::CHECKS,
    controller_unpublish_volume::CHECKS,
    second_node::CHECKS,
    controller_expand_volume::CHECKS,
    controller_modify_volume::CHECKS,
    controller_get_volume::CHECKS,
    controller_get_volume_health::CHECKS,
    controller_list_volume_health::CHECKS,
    controller_get_node_info::CHECKS,
    create_snapshot::CHECKS,
    create_snapshot::topology::CHECKS,
    delete_snapshot::CHECKS,
    list_snapshots::CHECKS,
    list_snapshots::pages::CHECKS,
    get_snapshot::CHECKS,
];
