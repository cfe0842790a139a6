//! The specification, checked: a folder for each service, a file for each RPC.
//!
//! A check is a private static in the file of its RPC and stands in the `CHECKS` of that file; the compiler warns of
//! one that does not.

mod controller;
mod every_reply;
mod expansion;
mod gated;
mod group;
mod identity;
mod inspect;
mod lifecycle;
mod metadata;
mod moment;
mod node;
pub mod proven;
mod topology;
pub mod untested;
mod volume_health;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::checks::retired::{Fate, Retired};

/// Every check of the specification.
pub const SUITE: Suite = Suite {
    name: "sanity",
    checks: Checks::Declared(&[
        identity::get_plugin_info::CHECKS,
        identity::get_plugin_capabilities::CHECKS,
        identity::probe::CHECKS,
        identity::every_endpoint::CHECKS,
        controller::create_volume::malformed::CHECKS,
        controller::create_volume::reply::CHECKS,
        controller::create_volume::names::CHECKS,
        controller::create_volume::capacity::CHECKS,
        controller::create_volume::parameters::CHECKS,
        controller::create_volume::secrets::CHECKS,
        controller::create_volume::modes::CHECKS,
        controller::create_volume::source::CHECKS,
        controller::create_volume::topology::CHECKS,
        controller::create_volume::topology_names::CHECKS,
        controller::create_volume::conflicts::CHECKS,
        controller::delete_volume::CHECKS,
        controller::list_volumes::CHECKS,
        every_reply::sizes::CHECKS,
        every_reply::fields::CHECKS,
        every_reply::status::CHECKS,
        every_reply::secrets::CHECKS,
        every_reply::health::CHECKS,
        every_reply::not_advertised::CHECKS,
        controller::controller_get_capabilities::CHECKS,
        controller::validate_volume_capabilities::CHECKS,
        controller::get_capacity::CHECKS,
        controller::controller_publish_volume::CHECKS,
        controller::controller_unpublish_volume::CHECKS,
        controller::second_node::CHECKS,
        controller::controller_expand_volume::CHECKS,
        controller::controller_modify_volume::CHECKS,
        controller::controller_get_volume::CHECKS,
        controller::controller_get_volume_health::CHECKS,
        controller::controller_list_volume_health::CHECKS,
        controller::create_snapshot::CHECKS,
        controller::create_snapshot::topology::CHECKS,
        controller::delete_snapshot::CHECKS,
        controller::list_snapshots::CHECKS,
        controller::list_snapshots::pages::CHECKS,
        controller::get_snapshot::CHECKS,
        group::group_controller_get_capabilities::CHECKS,
        group::create_volume_group_snapshot::CHECKS,
        group::create_volume_group_snapshot::repeats::CHECKS,
        group::create_volume_group_snapshot::refusals::CHECKS,
        group::get_volume_group_snapshot::CHECKS,
        group::delete_volume_group_snapshot::CHECKS,
        metadata::get_metadata_allocated::CHECKS,
        metadata::get_metadata_delta::CHECKS,
        node::node_get_capabilities::CHECKS,
        node::node_get_info::CHECKS,
        node::node_stage_volume::CHECKS,
        node::node_unstage_volume::CHECKS,
        node::node_publish_volume::CHECKS,
        node::node_publish_volume::fields::CHECKS,
        node::node_publish_volume::repeats::CHECKS,
        node::node_publish_volume::target::CHECKS,
        node::node_publish_volume::modes::CHECKS,
        node::node_publish_volume::paths::CHECKS,
        node::node_unpublish_volume::CHECKS,
        node::node_get_volume_stats::CHECKS,
        node::node_get_volume_stats::fields::CHECKS,
        node::node_get_volume_stats::paths::CHECKS,
        node::node_get_volume_health::CHECKS,
        node::node_get_storage_health::CHECKS,
        volume_health::told::CHECKS,
        node::node_expand_volume::CHECKS,
        node::node_expand_volume::fields::CHECKS,
        node::node_expand_volume::refusals::CHECKS,
        node::node_expand_volume::paths::CHECKS,
        inspect::CHECKS,
        lifecycle::created::CHECKS,
        lifecycle::provisioned::CHECKS,
    ]),
    retired: &[
        Retired {
            id: "controller/create-volume/mutable-parameters-win",
            since: "0.1.0",
            fate: Fate::Gone("volume_context is opaque, so that it does not show which value a volume got"),
        },
        Retired {
            id: "controller/create-volume/infeasible-topology",
            since: "0.1.0",
            fate: Fate::Gone("a caller may ask only for topology that the plugin supports"),
        },
    ],
};
