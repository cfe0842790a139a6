//! Checks of the Controller service.

pub(crate) mod common;
pub(crate) mod controller_expand_volume;
pub(crate) mod controller_get_capabilities;
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
