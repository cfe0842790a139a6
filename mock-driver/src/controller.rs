//! The Controller service, an RPC or two to a file.

mod capabilities;
mod capacity;
mod create_snapshot;
mod create_volume;
mod delete_snapshot;
mod delete_volume;
mod expand_volume;
mod get_snapshot;
mod get_volume;
mod list_snapshots;
mod list_volumes;
mod modify_volume;
mod page;
mod placement;
mod publish_volume;
mod snapshot_message;
mod unpublish_volume;
mod validate_capabilities;
mod volume_message;

pub(crate) use self::capabilities::controller_get_capabilities;
pub(crate) use self::capacity::get_capacity;
pub(crate) use self::create_snapshot::{create_snapshot, cut};
pub(crate) use self::create_volume::create_volume;
pub(crate) use self::delete_snapshot::{check_unused, delete_snapshot, has_copies};
pub(crate) use self::delete_volume::{delete_volume, snapshots_of};
pub(crate) use self::expand_volume::{controller_expand_volume, rounded};
pub(crate) use self::get_snapshot::get_snapshot;
pub(crate) use self::get_volume::controller_get_volume;
pub(crate) use self::list_snapshots::list_snapshots;
pub(crate) use self::list_volumes::list_volumes;
pub(crate) use self::modify_volume::controller_modify_volume;
pub(crate) use self::publish_volume::{check_context, controller_publish_volume};
pub(crate) use self::snapshot_message::{creation_time, is_ready, look_at, snapshot_message, timestamp};
pub(crate) use self::unpublish_volume::controller_unpublish_volume;
pub(crate) use self::validate_capabilities::{confirmed, validate_volume_capabilities};
pub(crate) use self::volume_message::state_of_health;
