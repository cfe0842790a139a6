//! Applies a definition to a run without Kubernetes.

use csi_harness::config::Config;

use crate::definition::Definition;
use crate::emulated_cluster::parameters::{GROUP_SNAPSHOTS, SNAPSHOTS, of_class, of_storage_class};

/// Adds the values of a definition's classes, as the sidecars pass them on, where the configuration has none.
///
/// # Errors
/// Fails if a sidecar would reject a class.
pub fn fill(config: &mut Config, definition: &Definition) -> Result<(), String> {
    if let Some(class) = &definition.storage {
        let read = of_storage_class(&class.parameters)?;
        fill_in(&mut config.parameters, read.parameters);
        fill_in(&mut config.fs_type, read.fs_type.unwrap_or_default());
        fill_in(&mut config.mount_flags, class.mount_options.clone());
    }
    if let Some(class) = &definition.snapshot {
        fill_in(&mut config.snapshot_parameters, of_class(&class.parameters, SNAPSHOTS)?.parameters);
    }
    if let Some(class) = &definition.group_snapshot {
        fill_in(
            &mut config.group_snapshot_parameters,
            of_class(&class.parameters, GROUP_SNAPSHOTS)?.parameters,
        );
    }
    if let Some(class) = &definition.attributes {
        fill_in(&mut config.mutable_parameters, class.parameters.clone());
    }
    Ok(())
}

fn fill_in<T: Default + PartialEq>(value: &mut T, defined: T) {
    if *value == T::default() {
        *value = defined;
    }
}
