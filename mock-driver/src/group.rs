//! The GroupController service.

mod capabilities;
mod create;
mod delete;
mod get;
mod message;

pub(crate) use self::capabilities::group_controller_get_capabilities;
pub(crate) use self::create::create_volume_group_snapshot;
pub(crate) use self::delete::delete_volume_group_snapshot;
pub(crate) use self::get::get_volume_group_snapshot;
