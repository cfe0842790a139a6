//! ControllerPublishVolume and ControllerUnpublishVolume: who may use a volume where, as bookkeeping.

use std::collections::BTreeMap;

use csi_proto::v1::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};

use crate::capability::Capability;
use crate::driver::{Driver, checked_map, required};
use crate::error::{DriverError, Result};
use crate::ids::Shown;
use crate::store::{Attachment, Change, may_be_there};

pub(crate) fn controller_publish_volume(
    driver: &Driver,
    request: &ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolumeResponse> {
    driver.require(driver.config.attach, "attaching")?;
    required("volume_id", &request.volume_id)?;
    required("node_id", &request.node_id)?;
    checked_map("volume_context", &request.volume_context)?;
    let capability = Capability::required(request.volume_capability.as_ref())?;
    let (mut volume, _guard) = driver.volume_alone(&request.volume_id)?;
    if request.node_id != driver.config.node_id {
        return Err(DriverError::not_found("node", &request.node_id));
    }
    driver.check_fit(&volume, &capability)?;
    let wanted = Attachment { capability, readonly: request.readonly };
    if let Some(present) = volume.attachments.get(&request.node_id) {
        check_same(&request.volume_id, present, &wanted)?;
    } else {
        let slot = driver.ledger.reserve_attachment()?;
        volume.attachments.insert(request.node_id.clone(), wanted);
        let committed = driver.store.commit(vec![Change::PutVolume(volume)]);
        if may_be_there(&committed) {
            slot.keep();
        }
        committed?;
    }
    Ok(ControllerPublishVolumeResponse { publish_context: publish_context(request.readonly) })
}

/// Fails if the volume is attached in another way (CTRL-PUBLISH-026).
fn check_same(volume_id: &str, present: &Attachment, wanted: &Attachment) -> Result<()> {
    let what = format!("the attachment of volume {}", Shown(volume_id));
    if present.readonly != wanted.readonly {
        let reason = "it has the other value of readonly".to_owned();
        return Err(DriverError::Exists { what, reason });
    }
    let usage = |capability: &Capability| (capability.is_block(), capability.mode);
    if usage(&present.capability) != usage(&wanted.capability) {
        let reason = "it has another volume_capability".to_owned();
        return Err(DriverError::Exists { what, reason });
    }
    Ok(())
}

fn publish_context(readonly: bool) -> BTreeMap<String, String> {
    [("readonly".to_owned(), readonly.to_string())].into()
}

pub(crate) fn controller_unpublish_volume(
    driver: &Driver,
    request: &ControllerUnpublishVolumeRequest,
) -> Result<ControllerUnpublishVolumeResponse> {
    driver.require(driver.config.attach, "attaching")?;
    required("volume_id", &request.volume_id)?;
    let (mut volume, _guard) = match driver.volume_alone(&request.volume_id) {
        // What does not exist is attached nowhere (CTRL-UNPUBLISH-006).
        Err(DriverError::NotFound { .. }) => return Ok(ControllerUnpublishVolumeResponse {}),
        result => result?,
    };
    let node_id = &request.node_id;
    let before = volume.attachments.len();
    volume.attachments.retain(|node, _| !node_id.is_empty() && node != node_id);
    let detached = before - volume.attachments.len();
    if detached == 0 {
        return Ok(ControllerUnpublishVolumeResponse {});
    }
    if driver.is_in_use(&driver.store.view()?, &volume)? {
        if driver.config.check_lifecycle {
            let what = format!("volume {}", Shown(&request.volume_id));
            return Err(DriverError::precondition(what, "it is still staged or published"));
        }
        tracing::warn!(volume = %volume.key, "detached while still staged or published");
    }
    driver.store.commit(vec![Change::PutVolume(volume)])?;
    for _ in 0..detached {
        driver.ledger.release_attachment();
    }
    Ok(ControllerUnpublishVolumeResponse {})
}
