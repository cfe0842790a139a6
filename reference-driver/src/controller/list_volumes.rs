//! ListVolumes.

use csi_proto::v1::list_volumes_response::{Entry, VolumeStatus};
use csi_proto::v1::{ListVolumesRequest, ListVolumesResponse};

use super::paging::Page;
use super::{published_node_ids, volume_message};
use crate::driver::Driver;
use crate::error::Result;
use crate::health;
use crate::ids::ObjectKind;

pub(crate) fn list_volumes(driver: &Driver, request: &ListVolumesRequest) -> Result<ListVolumesResponse> {
    let page = Page::read(ObjectKind::Volume, request.max_entries, &request.starting_token)?;
    let mut volumes = driver.store.view()?.volumes_after(page.after, page.fetch_count())?;
    let next_token = page.truncate(&mut volumes, |volume| &volume.key);
    let entries = volumes.iter().map(|volume| Entry {
        volume: Some(volume_message(driver, volume)),
        status: Some(VolumeStatus {
            published_node_ids: published_node_ids(driver, volume),
            volume_condition: Some(health::condition(health::of_data(driver, volume).as_ref())),
        }),
    });
    Ok(ListVolumesResponse { entries: entries.collect(), next_token })
}
