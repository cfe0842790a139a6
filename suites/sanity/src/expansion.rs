//! Determines in which state a driver expands volumes.

use csi_harness::prelude::*;

use crate::node::published;

/// Returns whether the controller need not expand an unused volume.
pub(crate) fn is_online_only(cx: &Cx) -> bool {
    let capabilities = cx.target().capabilities();
    capabilities.has(Capability::OnlineExpansion) && !capabilities.has(Capability::OfflineExpansion)
}

/// Makes a volume that the driver can expand.
pub(crate) async fn expandable(cx: &Cx) -> CheckResult<NodeVolume> {
    if !is_online_only(cx) {
        return Ok(cx.new_volume().await?.into());
    }
    if let Some(reason) = NODE.unmet(cx.target(), cx.access()) {
        return Err(Stop::skip(format!("the driver expands volumes that are in use, and {reason}")));
    }
    Ok(published(cx).await?.staged.attached.volume)
}
