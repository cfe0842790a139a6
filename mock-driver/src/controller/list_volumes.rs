//! ListVolumes.

use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::list_volumes_response::{Entry, VolumeStatus};
use tonic::Status;

use super::page;
use super::volume_message::{condition, published_node_ids, volume_message};
use crate::driver::MockDriver;
use crate::state::{List, Volume};
use crate::validate;

pub(crate) async fn list_volumes(
    driver: &MockDriver,
    request: &v1::ListVolumesRequest,
) -> Result<v1::ListVolumesResponse, Status> {
    let max_entries = validate::not_negative("max_entries", request.max_entries)?;
    let token = &request.starting_token;
    let mut state = driver.state();
    let still_listed = if token.is_empty() { state.still_listed() } else { Vec::new() };
    let shown = |volume: &Volume| driver.shows(volume.made_ms);
    let listed = page::page(driver, List::Volumes, &state.volumes, token, max_entries, shown)?;
    let mut entries: Vec<Entry> = listed.rows.iter().map(|volume| entry(driver, volume)).collect();
    let room = if max_entries == 0 { usize::MAX } else { max_entries - entries.len() };
    entries.extend(still_listed.iter().take(room).map(|volume| entry(driver, volume)));
    Ok(v1::ListVolumesResponse { entries, next_token: listed.next_token })
}

fn entry(driver: &MockDriver, volume: &Volume) -> Entry {
    let reported = driver.controller_can(ControllerType::ListVolumesPublishedNodes)
        || driver.controller_can(ControllerType::VolumeCondition);
    let status = reported.then(|| VolumeStatus {
        published_node_ids: published_node_ids(driver, volume),
        volume_condition: condition(driver, volume),
    });
    Entry { volume: Some(volume_message(driver, volume)), status }
}
