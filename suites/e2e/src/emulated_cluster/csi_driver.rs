//! What is told of a driver where no manifest has its CSIDriver.

use csi_driver_definitions::{CsiDriver, VolumeLifecycleMode};
use csi_harness::prelude::Capability;
use csi_harness::protocol::capability::Capabilities;

/// What can be told without manifests. Inline volumes show only when they are asked for, so they are let through.
pub(super) fn of(capabilities: &Capabilities) -> CsiDriver {
    CsiDriver {
        attach_required: capabilities.has(Capability::PublishUnpublishVolume),
        pod_info_on_mount: true,
        volume_lifecycle_modes: vec![VolumeLifecycleMode::Persistent, VolumeLifecycleMode::Ephemeral],
        ..CsiDriver::default()
    }
}
