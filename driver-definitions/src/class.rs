//! Reads the manifests of the classes that a definition names, as far as they reach a driver.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::definition::Source;
use crate::document::Value;
use crate::load::{LoadError, Loaded, Manifest};
use crate::lookup::{Lookup, Missing};

/// A Kubernetes object that configures how a driver makes or changes volumes or snapshots.
pub trait Class: DeserializeOwned {
    /// The `kind` in the manifests.
    const KIND: &'static str;
    /// The part of the manifests' `apiVersion` before the slash.
    const GROUP: &'static str;

    /// The permitted keys of a manifest.
    const KEYS: &'static [&'static str];

    /// Makes a class without parameters for a driver.
    fn of_driver(name: &str) -> Self;

    /// Returns the name of the class's driver.
    fn driver(&self) -> &str;

    /// Reads a manifest, which has to be the only one in its file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or does not contain exactly one class of this kind.
    fn read(path: &Path) -> Result<Self, LoadError> {
        let manifest = Manifest::read(path)?;
        let wrong = |place, message: String| Err(manifest.wrong(place, message));
        let root = &manifest.documents.first;
        let text = |key| match root.get(key).map(|(_, node)| (&node.value, node.place)) {
            Some((Value::Text(text), place)) => (text.as_str(), Some(place)),
            _ => ("", None),
        };
        let (kind, place) = text("kind");
        if kind != Self::KIND {
            return wrong(place, format!("kind is {kind:?}; it has to be {}", Self::KIND));
        }
        let (version, place) = text("apiVersion");
        if version.split_once('/').is_none_or(|(group, _)| group != Self::GROUP) {
            return wrong(place, format!("apiVersion is {version:?}; it has to begin with {}/", Self::GROUP));
        }
        if manifest.documents.second.is_some() {
            let message = "a second object begins here; the file has to hold one only";
            return wrong(manifest.documents.second, message.to_owned());
        }
        let class: Self = manifest.parse()?;
        if class.driver().is_empty() {
            return wrong(None, format!("the {} names no driver", Self::KIND));
        }
        Ok(class)
    }
}

/// The class for new volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// The name of the driver.
    pub provisioner: String,
    /// The `parameters` of CreateVolume, and keys of the provisioner itself below `csi.storage.k8s.io/`.
    pub parameters: BTreeMap<String, String>,
    /// The options of each mount.
    pub mount_options: Vec<String>,
    /// The time at which volumes are made; the default is immediately.
    pub volume_binding_mode: VolumeBindingMode,
    /// True if claims can grow.
    pub allow_volume_expansion: bool,
    /// The fate of a volume without a claim; the default is deletion.
    pub reclaim_policy: ReclaimPolicy,
    /// The topologies in which volumes may be.
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// The time at which a volume is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeBindingMode {
    /// The volume is made as soon as the claim exists.
    #[default]
    Immediate,
    /// The volume is made when a pod uses the claim, in the topology of that pod.
    WaitForFirstConsumer,
}

/// The fate of a volume whose claim is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ReclaimPolicy {
    /// The volume is deleted, too.
    #[default]
    Delete,
    /// The volume is kept.
    Retain,
}

/// A set of topology segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    /// The requirements, all of which must be met.
    pub match_label_expressions: Vec<TopologyRequirement>,
}

/// The permitted values of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TopologyRequirement {
    /// The label.
    pub key: String,
    /// The values, any of which is permitted.
    pub values: Vec<String>,
}

/// The class for new snapshots. The tests choose the deletion policy themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeSnapshotClass {
    /// The name of the driver.
    pub driver: String,
    /// The `parameters` of CreateSnapshot, and keys of the snapshotter itself below `csi.storage.k8s.io/`.
    pub parameters: BTreeMap<String, String>,
}

/// The class for new group snapshots. The tests choose the deletion policy themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeGroupSnapshotClass {
    /// The name of the driver.
    pub driver: String,
    /// The `parameters` of CreateVolumeGroupSnapshot, and keys of the snapshotter itself.
    pub parameters: BTreeMap<String, String>,
}

/// The class for changes of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttributesClass {
    /// The name of the driver.
    pub driver_name: String,
    /// The `mutable_parameters` of ControllerModifyVolume.
    pub parameters: BTreeMap<String, String>,
}

/// Implements [`Class`] for each kind, from its group, the field that names the driver, and the keys beside those of
/// every object.
macro_rules! classes {
    ($($class:ident, $group:literal, $driver:ident, [$($key:literal),*];)*) => {
        $(impl Class for $class {
            const KIND: &'static str = stringify!($class);
            const GROUP: &'static str = $group;
            const KEYS: &'static [&'static str] = &["apiVersion", "kind", "metadata", $($key),*];

            fn of_driver(name: &str) -> $class {
                $class { $driver: name.to_owned(), ..$class::default() }
            }

            fn driver(&self) -> &str {
                &self.$driver
            }
        })*
    };
}

classes! {
    StorageClass, "storage.k8s.io", provisioner, [
        "provisioner", "parameters", "mountOptions", "volumeBindingMode", "allowVolumeExpansion", "reclaimPolicy",
        "allowedTopologies"
    ];
    VolumeSnapshotClass, "snapshot.storage.k8s.io", driver, ["driver", "parameters", "deletionPolicy"];
    VolumeGroupSnapshotClass, "groupsnapshot.storage.k8s.io", driver, ["driver", "parameters", "deletionPolicy"];
    VolumeAttributesClass, "storage.k8s.io", driver_name, ["driverName", "parameters"];
}

/// Says why a class that a definition names cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClassError {
    /// The file was not found.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The file is no manifest of the class.
    #[error(transparent)]
    Invalid(#[from] LoadError),
    /// The class is in a cluster, which is not read here.
    #[error(
        "the {kind} {name:?} is in a cluster; without one, put its manifest into classes/{name}.yaml beside the definition"
    )]
    InCluster {
        /// The kind of the class.
        kind: &'static str,
        /// The name of the class.
        name: String,
    },
    /// The class is for another driver.
    #[error("the {kind} is for the driver {other:?}, but the definition is for {driver:?}")]
    OtherDriver {
        /// The kind of the class.
        kind: &'static str,
        /// The driver of the class.
        other: String,
        /// The driver of the definition.
        driver: String,
    },
}

impl Loaded {
    /// Returns the class for volumes, or `None` if the definition names none.
    ///
    /// A class in a cluster is read from `classes/NAME.yaml`, which is searched for like the file of `FromFile`.
    ///
    /// # Errors
    /// Fails if there is no such class, or if it is for another driver.
    pub fn storage_class(&self) -> Result<Option<StorageClass>, ClassError> {
        self.class(self.definition.storage_class.source())
    }

    /// Returns the class for snapshots, as [`Loaded::storage_class`] does.
    ///
    /// # Errors
    /// Fails as [`Loaded::storage_class`] does.
    pub fn snapshot_class(&self) -> Result<Option<VolumeSnapshotClass>, ClassError> {
        self.class(self.definition.snapshot_class.source())
    }

    /// Returns the class for group snapshots, as [`Loaded::storage_class`] does.
    ///
    /// # Errors
    /// Fails as [`Loaded::storage_class`] does.
    pub fn group_snapshot_class(&self) -> Result<Option<VolumeGroupSnapshotClass>, ClassError> {
        self.class(self.definition.group_snapshot_class.source())
    }

    /// Returns the class for changes of volumes, as [`Loaded::storage_class`] does.
    ///
    /// # Errors
    /// Fails as [`Loaded::storage_class`] does.
    pub fn volume_attributes_class(&self) -> Result<Option<VolumeAttributesClass>, ClassError> {
        self.class(self.definition.volume_attributes_class.source())
    }

    fn class<C: Class>(&self, source: Option<Source<'_>>) -> Result<Option<C>, ClassError> {
        let driver = &self.definition.driver_info.name;
        let lookup = Lookup::of(&self.path);
        let class = match source {
            None => return Ok(None),
            Some(Source::Name) => C::of_driver(driver),
            Some(Source::File(file)) => C::read(&lookup.find(file)?)?,
            Some(source @ Source::ExistingClass(name)) => {
                let in_cluster = |_| ClassError::InCluster { kind: C::KIND, name: name.to_owned() };
                let file = source.file().unwrap_or_default();
                C::read(&lookup.find(&file).map_err(in_cluster)?)?
            }
        };
        if class.driver() != driver {
            let other = class.driver().to_owned();
            return Err(ClassError::OtherDriver { kind: C::KIND, other, driver: driver.clone() });
        }
        Ok(Some(class))
    }
}
