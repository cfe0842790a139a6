//! Infers the CSIDriver of a driver if no manifest has it.

use csi_driver_definitions::{CsiDriver, VolumeLifecycleMode};
use csi_harness::prelude::Capability;
use csi_harness::protocol::capability::Capabilities;

/// Returns the inferred values. Inline volumes are permitted, because only a request shows whether the driver
/// supports them, and SELinux contexts are as the definition promises.
pub(super) fn of(capabilities: &Capabilities, se_linux_mount: bool) -> CsiDriver {
    CsiDriver {
        attach_required: capabilities.has(Capability::PublishUnpublishVolume),
        pod_info_on_mount: true,
        se_linux_mount,
        volume_lifecycle_modes: vec![VolumeLifecycleMode::Persistent, VolumeLifecycleMode::Ephemeral],
        ..CsiDriver::default()
    }
}
