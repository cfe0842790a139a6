//! The classes that a definition names: what their manifests say that reaches a driver.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::definition::Source;
use crate::document::Value;
use crate::load::{LoadError, Loaded, Manifest};
use crate::lookup::{Lookup, Missing};

/// A kind of class.
pub trait Class: DeserializeOwned {
    /// The `kind` of its manifests.
    const KIND: &'static str;
    /// The part of their `apiVersion` before the slash.
    const GROUP: &'static str;

    /// The keys that a manifest of it can have.
    const KEYS: &'static [&'static str];

    /// One without parameters.
    fn of_driver(name: &str) -> Self;

    /// Which driver it is for.
    fn driver(&self) -> &str;

    /// Reads a manifest, which has to be the only one in its file.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold one class of this kind.
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

/// How volumes are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// The driver.
    pub provisioner: String,
    /// What CreateVolume gets as `parameters`, and keys of the provisioner itself, below `csi.storage.k8s.io/`.
    pub parameters: BTreeMap<String, String>,
    /// Options for each mount.
    pub mount_options: Vec<String>,
    /// When volumes are made; at once if it is left out.
    pub volume_binding_mode: VolumeBindingMode,
    /// Whether claims can grow.
    pub allow_volume_expansion: bool,
    /// What happens to a volume without a claim; it is deleted if it is left out.
    pub reclaim_policy: ReclaimPolicy,
    /// Where volumes may be.
    pub allowed_topologies: Vec<TopologyTerm>,
}

/// When a volume is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeBindingMode {
    /// As soon as there is a claim.
    #[default]
    Immediate,
    /// Not before a pod wants it, so that it can be where the pod is.
    WaitForFirstConsumer,
}

/// What happens to a volume whose claim is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ReclaimPolicy {
    /// It goes too.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// A set of topology segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    /// All of which have to hold.
    pub match_label_expressions: Vec<TopologyRequirement>,
}

/// What a label of a segment may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TopologyRequirement {
    /// The label.
    pub key: String,
    /// Any of which it may be.
    pub values: Vec<String>,
}

/// How snapshots are made. What happens to one without its object, the tests choose themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeSnapshotClass {
    /// The driver.
    pub driver: String,
    /// What CreateSnapshot gets as `parameters`, and keys of the snapshotter itself, below `csi.storage.k8s.io/`.
    pub parameters: BTreeMap<String, String>,
}

/// How group snapshots are made. What happens to one without its object, the tests choose themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeGroupSnapshotClass {
    /// The driver.
    pub driver: String,
    /// What CreateVolumeGroupSnapshot gets as `parameters`, and keys of the snapshotter itself.
    pub parameters: BTreeMap<String, String>,
}

/// How volumes are changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttributesClass {
    /// The driver.
    pub driver_name: String,
    /// What ControllerModifyVolume gets as `mutable_parameters`.
    pub parameters: BTreeMap<String, String>,
}

/// The kinds: their group, the field that names the driver, and the keys beside those that every object has.
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

/// Why there is no class where a definition names one.
#[derive(Debug, thiserror::Error)]
pub enum ClassError {
    /// Its file is nowhere.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Its file is no manifest of it.
    #[error(transparent)]
    Invalid(#[from] LoadError),
    /// It is in a cluster, which nobody asks here.
    #[error(
        "the {kind} {name:?} is in a cluster; without one, put its manifest into classes/{name}.yaml beside the definition"
    )]
    InCluster {
        /// The kind of class.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// It is for another driver.
    #[error("the {kind} is for the driver {other:?}, but the definition is for {driver:?}")]
    OtherDriver {
        /// The kind of class.
        kind: &'static str,
        /// The driver of the class.
        other: String,
        /// The driver of the definition.
        driver: String,
    },
}

impl Loaded {
    /// The class of volumes; none if the definition names none.
    ///
    /// A class that is in a cluster is read from `classes/NAME.yaml`, looked for as `FromFile`.
    ///
    /// # Errors
    /// There is no such class, or it is for another driver.
    pub fn storage_class(&self) -> Result<Option<StorageClass>, ClassError> {
        self.class(self.definition.storage_class.source())
    }

    /// The class of snapshots, likewise.
    ///
    /// # Errors
    /// As [`Loaded::storage_class`].
    pub fn snapshot_class(&self) -> Result<Option<VolumeSnapshotClass>, ClassError> {
        self.class(self.definition.snapshot_class.source())
    }

    /// The class of group snapshots, likewise.
    ///
    /// # Errors
    /// As [`Loaded::storage_class`].
    pub fn group_snapshot_class(&self) -> Result<Option<VolumeGroupSnapshotClass>, ClassError> {
        self.class(self.definition.group_snapshot_class.source())
    }

    /// The class for changes of volumes, likewise.
    ///
    /// # Errors
    /// As [`Loaded::storage_class`].
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
