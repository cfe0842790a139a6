//! ControllerPublishVolume and ControllerUnpublishVolume. They only record which node may use a volume.

use std::collections::BTreeMap;

use csi_proto::v1::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};

use crate::backend;
use crate::capability::Capability;
use crate::driver::{Driver, checked_map, required};
use crate::error::{DriverError, Result, Shown};
use crate::store::{Attachment, Change, Volume, may_be_committed};

pub(crate) fn controller_publish_volume(
    driver: &Driver,
    request: &ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolumeResponse> {
    driver.require(driver.config.attach, "attaching")?;
    required("volume_id", &request.volume_id)?;
    required("node_id", &request.node_id)?;
    checked_map("volume_context", &request.volume_context)?;
    let capability = Capability::required(request.volume_capability.as_ref())?;
    let (mut volume, _guard) = driver.volume_exclusive(&request.volume_id)?;
    if !driver.config.has_node(&request.node_id) {
        return Err(DriverError::not_found("node", &request.node_id));
    }
    backend::check_fit(driver, &volume, &capability)?;
    let wanted = Attachment { capability, readonly: request.readonly };
    if let Some(present) = volume.attachments.get(&request.node_id) {
        check_same(&request.volume_id, present, &wanted)?;
    } else {
        check_elsewhere(&volume, &wanted)?;
        let slot = driver.ledger.reserve_attachment(&request.node_id)?;
        volume.attachments.insert(request.node_id.clone(), wanted);
        let committed = driver.store.commit(vec![Change::PutVolume(volume)]);
        if may_be_committed(&committed) {
            slot.keep();
        }
        committed?;
    }
    Ok(ControllerPublishVolumeResponse { publish_context: publish_context(request.readonly) })
}

/// Fails if the volume is already attached in a different way (CTRL-PUBLISH-026).
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

/// Fails if the volume is attached to another node, unless both attachments allow several nodes (CTRL-PUBLISH-006,
/// -027).
fn check_elsewhere(volume: &Volume, wanted: &Attachment) -> Result<()> {
    let shared = |attachment: &Attachment| attachment.capability.mode.is_multi_node();
    let Some((other, _)) =
        volume.attachments.iter().find(|(_, present)| !(shared(present) && shared(wanted)))
    else {
        return Ok(());
    };
    let reason = format!("it is attached to node {} and its access mode allows no second one", Shown(other));
    Err(DriverError::precondition(format!("volume {}", Shown(volume.id())), reason))
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
    let (mut volume, _guard) = match driver.volume_exclusive(&request.volume_id) {
        // A volume that does not exist is attached nowhere (CTRL-UNPUBLISH-006).
        Err(DriverError::NotFound { .. }) => return Ok(ControllerUnpublishVolumeResponse {}),
        result => result?,
    };
    let node_id = &request.node_id;
    let is_asked_for = |node: &String| node_id.is_empty() || node == node_id;
    let detached: Vec<String> =
        volume.attachments.keys().filter(|node| is_asked_for(node)).cloned().collect();
    if detached.is_empty() {
        return Ok(ControllerUnpublishVolumeResponse {});
    }
    volume.attachments.retain(|node, _| !is_asked_for(node));
    // Records of staging, and older ones of publishing, do not name the node, so while another node has the volume
    // attached they may belong to it.
    if volume.attachments.is_empty() && driver.is_in_use(&driver.store.view()?, &volume)? {
        if driver.config.check_lifecycle {
            let what = format!("volume {}", Shown(&request.volume_id));
            return Err(DriverError::precondition(what, "it is still staged or published"));
        }
        tracing::warn!(volume = %volume.key, "detached while still staged or published");
    }
    driver.store.commit(vec![Change::PutVolume(volume)])?;
    detached.iter().for_each(|node| driver.ledger.release_attachment(node));
    Ok(ControllerUnpublishVolumeResponse {})
}
