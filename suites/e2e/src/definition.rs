//! A DriverDefinition with the classes that it names.

use std::path::{Path, PathBuf};

use csi_driver_definitions::{
    AttributesClass, ClassError, DriverDefinition, Loaded, SnapshotClass, StorageClass,
};

use crate::pattern::slug;

/// A definition with its classes.
#[derive(Debug)]
pub struct Definition {
    pub(crate) path: PathBuf,
    /// The name in ids and names of tests, if the run has several definitions.
    pub(crate) label: Option<String>,
    /// The contents of the file.
    pub(crate) driver: DriverDefinition,
    pub(crate) storage: Option<StorageClass>,
    pub(crate) snapshot: Option<SnapshotClass>,
    pub(crate) group_snapshot: Option<SnapshotClass>,
    pub(crate) attributes: Option<AttributesClass>,
}

impl Definition {
    /// Reads the classes as well. Only one of several definitions needs a label, from [`label_of`].
    ///
    /// # Errors
    /// Fails if a class that the definition names cannot be read.
    pub fn new(loaded: Loaded, label: Option<String>) -> Result<Definition, ClassError> {
        Ok(Definition {
            label,
            storage: loaded.storage_class()?,
            snapshot: loaded.snapshot_class()?,
            group_snapshot: loaded.group_snapshot_class()?,
            attributes: loaded.volume_attributes_class()?,
            driver: loaded.definition,
            path: loaded.path,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns the contents of the file.
    pub fn driver(&self) -> &DriverDefinition {
        &self.driver
    }

    /// Returns `the definition`, with its label if it has one.
    pub fn title(&self) -> String {
        self.label
            .as_ref()
            .map_or_else(|| "the definition".to_owned(), |label| format!("the definition {label}"))
    }

    /// Returns the StorageClass, if the definition names one.
    pub fn storage_class(&self) -> Option<&StorageClass> {
        self.storage.as_ref()
    }

    /// Returns the node of pods that name none, if the definition sets it.
    pub fn client_node(&self) -> Option<&str> {
        Some(self.driver.client_node_name.as_str()).filter(|name| !name.is_empty())
    }
}

/// Returns the label of a definition: the stem of the name of its file, as part of an id.
pub fn label_of(path: &Path) -> String {
    slug(&path.file_stem().unwrap_or_default().to_string_lossy())
}
