//! The Controller service.

mod create_volume;
mod expand_volume;
mod page;
mod placement;
mod publish_volume;
mod snapshots;
mod validate_capabilities;
mod volumes;

use csi_proto::v1;
use tonic::Status;

use crate::capability::controller_capability;
use crate::driver::MockDriver;
use crate::identity::FUTURE_TYPE;
use crate::quirk::Quirk;

pub(crate) use self::create_volume::{create_volume, new_id};
pub(crate) use self::expand_volume::{controller_expand_volume, rounded};
pub(crate) use self::page::{List, sequence, token};
pub(crate) use self::placement::get_capacity;
pub(crate) use self::publish_volume::{
    check_context, controller_get_node_info, controller_publish_volume, controller_unpublish_volume,
};
pub(crate) use self::snapshots::{
    check_unused, create_snapshot, creation_time, cut, delete_snapshot, get_snapshot, has_copies, is_ready,
    list_snapshots, look_at, snapshot_message, timestamp,
};
pub(crate) use self::validate_capabilities::{confirmed, validate_volume_capabilities};
pub(crate) use self::volumes::{
    controller_get_volume, controller_get_volume_health, controller_list_volume_health,
    controller_modify_volume, delete_volume, list_volumes, snapshots_of, volume_condition,
};

pub(crate) async fn controller_get_capabilities(
    driver: &MockDriver,
    _: &v1::ControllerGetCapabilitiesRequest,
) -> Result<v1::ControllerGetCapabilitiesResponse, Status> {
    let mut capabilities = driver.capabilities.controller();
    if driver.is(Quirk::FutureCapability) {
        capabilities.push(controller_capability(FUTURE_TYPE));
    }
    Ok(v1::ControllerGetCapabilitiesResponse { capabilities })
}
