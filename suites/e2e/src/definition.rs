//! A DriverDefinition with the classes that it names.

use std::path::{Path, PathBuf};

use csi_driver_definitions::{
    AttributesClass, ClassError, DriverDefinition, Loaded, SnapshotClass, StorageClass,
};
use csi_harness::config::Config;

use crate::emulated_cluster::parameters::{GROUP_SNAPSHOTS, SNAPSHOTS, of_class, of_storage_class};
use crate::pattern::slug;

/// A definition with its classes.
#[derive(Debug)]
pub struct Definition {
    pub path: PathBuf,
    /// The name in ids and names of tests, if the run has several definitions.
    pub label: Option<String>,
    /// The contents of the file.
    pub driver: DriverDefinition,
    /// The StorageClass, if the definition names one.
    pub storage: Option<StorageClass>,
    pub(crate) snapshot: Option<SnapshotClass>,
    pub(crate) group_snapshot: Option<SnapshotClass>,
    pub(crate) attributes: Option<AttributesClass>,
}

/// The classes of a definition that cannot be used, a line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.lines())]
pub struct ClassErrors {
    /// The path of the definition.
    path: PathBuf,
    errors: Vec<ClassError>,
}

impl ClassErrors {
    pub fn new(path: PathBuf, errors: Vec<ClassError>) -> ClassErrors {
        ClassErrors { path, errors }
    }

    /// The caller prefixes the first line with `error: `.
    fn lines(&self) -> String {
        let line = |error| format!("--driver-definition {}: {error}", self.path.display());
        self.errors.iter().map(line).collect::<Vec<_>>().join("\nerror: ")
    }
}

impl Definition {
    /// Reads the classes as well. Only one of several definitions needs a label, from [`label_of`].
    ///
    /// # Errors
    /// Names all classes of the definition that cannot be read.
    pub fn new(loaded: Loaded, label: Option<String>) -> Result<Definition, ClassErrors> {
        let classes = (
            loaded.storage_class(),
            loaded.snapshot_class(),
            loaded.group_snapshot_class(),
            loaded.volume_attributes_class(),
        );
        match classes {
            (Ok(storage), Ok(snapshot), Ok(group_snapshot), Ok(attributes)) => Ok(Definition {
                label,
                storage,
                snapshot,
                group_snapshot,
                attributes,
                driver: loaded.definition,
                path: loaded.path,
            }),
            (storage, snapshot, group_snapshot, attributes) => {
                let errors = [storage.err(), snapshot.err(), group_snapshot.err(), attributes.err()];
                Err(ClassErrors::new(loaded.path, errors.into_iter().flatten().collect()))
            }
        }
    }

    /// Returns `the definition`, with its label if it has one.
    pub fn title(&self) -> String {
        self.label
            .as_ref()
            .map_or_else(|| "the definition".to_owned(), |label| format!("the definition {label}"))
    }

    /// Returns the node of pods that name none, if the definition sets it.
    pub fn client_node(&self) -> Option<&str> {
        Some(self.driver.client_node_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Adds the values of the classes, as the sidecars pass them on, where the configuration of a run without Kubernetes has none.
    ///
    /// # Errors
    /// Fails if a sidecar would reject a class.
    pub fn fill(&self, config: &mut Config) -> Result<(), String> {
        if let Some(class) = &self.storage {
            let read = of_storage_class(&class.parameters)?;
            fill_in(&mut config.parameters, read.parameters);
            fill_in(&mut config.fs_type, read.fs_type.unwrap_or_default());
            fill_in(&mut config.mount_flags, class.mount_options.clone());
        }
        if let Some(class) = &self.snapshot {
            fill_in(&mut config.snapshot_parameters, of_class(&class.parameters, SNAPSHOTS)?.parameters);
        }
        if let Some(class) = &self.group_snapshot {
            let read = of_class(&class.parameters, GROUP_SNAPSHOTS)?;
            fill_in(&mut config.group_snapshot_parameters, read.parameters);
        }
        if let Some(class) = &self.attributes {
            fill_in(&mut config.mutable_parameters, class.parameters.clone());
        }
        Ok(())
    }
}

fn fill_in<T: Default + PartialEq>(value: &mut T, defined: T) {
    if *value == T::default() {
        *value = defined;
    }
}

/// Returns the label of a definition: the stem of the name of its file, as part of an id.
pub fn label_of(path: &Path) -> String {
    slug(&path.file_stem().unwrap_or_default().to_string_lossy())
}
