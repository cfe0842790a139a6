//! Reads the manifests of the classes that a definition names, as far as they reach a driver.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::definition::Source;
use crate::document::Value;
use crate::load::{LoadError, Loaded, Manifest};
use crate::lookup::{Lookup, Missing};

/// A Kubernetes object that configures how a driver makes or changes volumes or snapshots. Each test makes a copy with
/// its own name, so the name in a manifest is not read.
pub trait Class: DeserializeOwned {
    /// Makes a class without parameters for a driver.
    fn of_driver(name: &str) -> Self;

    /// Returns the name of the class's driver.
    fn driver(&self) -> &str;
}

/// The class for new volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// The name in a cluster.
    #[serde(skip)]
    pub name: String,
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
    /// The alternative topology segments in which volumes may be; empty means any.
    // An empty list in a manifest would permit no topology.
    #[serde(with = "topology", skip_serializing_if = "Vec::is_empty")]
    pub allowed_topologies: Vec<BTreeMap<String, String>>,
}

/// The time at which a volume is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum VolumeBindingMode {
    /// The volume is made as soon as the claim exists.
    #[default]
    Immediate,
    /// The volume is made when a pod uses the claim, in the topology of that pod.
    WaitForFirstConsumer,
}

/// The fate of a volume whose claim is deleted, or of a snapshot whose object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ReclaimPolicy {
    /// It is deleted, too.
    #[default]
    Delete,
    /// It is kept.
    Retain,
}

/// The class for new snapshots, or for new group snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotClass {
    /// The name in a cluster.
    #[serde(skip)]
    pub name: String,
    /// The name of the driver.
    pub driver: String,
    /// The `parameters` of CreateSnapshot or CreateVolumeGroupSnapshot, and keys of the snapshotter itself below
    /// `csi.storage.k8s.io/`.
    pub parameters: BTreeMap<String, String>,
    /// The fate of deleted snapshots. The tests choose it, so that of a manifest is not read.
    #[serde(skip_deserializing)]
    pub deletion_policy: ReclaimPolicy,
    /// The alternative topology segments in which snapshots must be usable; empty leaves this to the driver. Few
    /// clusters know the field, so it is not in manifests.
    #[serde(skip)]
    pub allowed_topologies: Vec<BTreeMap<String, String>>,
}

/// The class for changes of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AttributesClass {
    /// The name in a cluster.
    #[serde(skip)]
    pub name: String,
    /// The name of the driver.
    #[serde(rename = "driverName")]
    pub driver: String,
    /// The `mutable_parameters` of ControllerModifyVolume.
    pub parameters: BTreeMap<String, String>,
}

/// Implements [`Class`] with the field that names the driver.
macro_rules! classes {
    ($($class:ident: $driver:ident),*) => {
        $(impl Class for $class {
            fn of_driver(name: &str) -> $class {
                $class { $driver: name.to_owned(), ..$class::default() }
            }

            fn driver(&self) -> &str {
                &self.$driver
            }
        })*
    };
}

classes!(StorageClass: provisioner, SnapshotClass: driver, AttributesClass: driver);

/// Reads and writes topology segments as the terms of a manifest.
mod topology {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type Segment = BTreeMap<String, String>;

    #[derive(Default, Deserialize, Serialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Term {
        match_label_expressions: Vec<Requirement>,
    }

    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Requirement {
        key: String,
        values: Vec<String>,
    }

    /// Each value of a term is an alternative. If a term has several keys, each value of the first key is combined
    /// with the first values of the others.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Segment>, D::Error> {
        let mut segments = Vec::new();
        for term in Vec::<Term>::deserialize(deserializer)? {
            let Some((first, rest)) = term.match_label_expressions.split_first() else { continue };
            let rest = rest.iter().filter_map(|one| Some((one.key.clone(), one.values.first()?.clone())));
            let rest: Segment = rest.collect();
            for value in &first.values {
                let mut segment = rest.clone();
                segment.insert(first.key.clone(), value.clone());
                segments.push(segment);
            }
        }
        Ok(segments)
    }

    pub(super) fn serialize<S: Serializer>(segments: &[Segment], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(segments.iter().map(|segment| {
            Term {
                match_label_expressions: segment
                    .iter()
                    .map(|(key, value)| Requirement { key: key.clone(), values: vec![value.clone()] })
                    .collect(),
            }
        }))
    }
}

/// The kinds of classes that a definition can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassKind {
    /// StorageClass.
    Storage,
    /// VolumeSnapshotClass.
    Snapshot,
    /// VolumeGroupSnapshotClass.
    GroupSnapshot,
    /// VolumeAttributesClass.
    Attributes,
}

impl ClassKind {
    /// Returns the `kind` in the manifests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClassKind::Storage => "StorageClass",
            ClassKind::Snapshot => "VolumeSnapshotClass",
            ClassKind::GroupSnapshot => "VolumeGroupSnapshotClass",
            ClassKind::Attributes => "VolumeAttributesClass",
        }
    }

    /// Returns the part of the manifests' `apiVersion` before the slash.
    pub(crate) fn group(self) -> &'static str {
        match self {
            ClassKind::Storage | ClassKind::Attributes => "storage.k8s.io",
            ClassKind::Snapshot => "snapshot.storage.k8s.io",
            ClassKind::GroupSnapshot => "groupsnapshot.storage.k8s.io",
        }
    }

    /// Returns the permitted keys of a manifest.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            ClassKind::Storage => &[
                "apiVersion",
                "kind",
                "metadata",
                "provisioner",
                "parameters",
                "mountOptions",
                "volumeBindingMode",
                "allowVolumeExpansion",
                "reclaimPolicy",
                "allowedTopologies",
            ],
            ClassKind::Snapshot | ClassKind::GroupSnapshot => {
                &["apiVersion", "kind", "metadata", "driver", "parameters", "deletionPolicy"]
            }
            ClassKind::Attributes => &["apiVersion", "kind", "metadata", "driverName", "parameters"],
        }
    }
}

/// Reads a manifest, which has to be the only one in its file.
fn read<C: Class>(expected: ClassKind, path: &Path) -> Result<C, LoadError> {
    let manifest = Manifest::read(path)?;
    let wrong = |place, message: String| Err(manifest.wrong(place, message));
    let root = &manifest.documents.first;
    let text = |key| match root.get(key).map(|(_, node)| (&node.value, node.place)) {
        Some((Value::Text(text), place)) => (text.as_str(), Some(place)),
        _ => ("", None),
    };
    let (kind, place) = text("kind");
    if kind != expected.name() {
        return wrong(place, format!("kind is {kind:?}; it has to be {}", expected.name()));
    }
    let (version, place) = text("apiVersion");
    if version.split_once('/').is_none_or(|(group, _)| group != expected.group()) {
        return wrong(
            place,
            format!("apiVersion is {version:?}; it has to begin with {}/", expected.group()),
        );
    }
    if manifest.documents.second.is_some() {
        let message = "a second object begins here; the file has to hold one only";
        return wrong(manifest.documents.second, message.to_owned());
    }
    let class: C = manifest.parse()?;
    if class.driver().is_empty() {
        return wrong(None, format!("the {} names no driver", expected.name()));
    }
    Ok(class)
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
        self.class(ClassKind::Storage, self.definition.storage_class.source())
    }

    /// Returns the class for snapshots, as [`Loaded::storage_class`] does.
    ///
    /// # Errors
    /// Fails as [`Loaded::storage_class`] does.
    pub fn snapshot_class(&self) -> Result<Option<SnapshotClass>, ClassError> {
        self.class(ClassKind::Snapshot, self.definition.snapshot_class.source())
    }

    /// Returns the class for group snapshots, as [`Loaded::storage_class`] does.
    ///
    /// # Errors
    /// Fails as [`Loaded::storage_class`] does.
    pub fn group_snapshot_class(&self) -> Result<Option<SnapshotClass>, ClassError> {
        self.class(ClassKind::GroupSnapshot, self.definition.group_snapshot_class.source())
    }

    /// Returns the class for changes of volumes, as [`Loaded::storage_class`] does.
    ///
    /// # Errors
    /// Fails as [`Loaded::storage_class`] does.
    pub fn volume_attributes_class(&self) -> Result<Option<AttributesClass>, ClassError> {
        self.class(ClassKind::Attributes, self.definition.volume_attributes_class.source())
    }

    fn class<C: Class>(&self, kind: ClassKind, source: Option<Source<'_>>) -> Result<Option<C>, ClassError> {
        let driver = &self.definition.driver_info.name;
        let lookup = Lookup::of(&self.path);
        let class = match source {
            None => return Ok(None),
            Some(Source::Name) => C::of_driver(driver),
            Some(Source::File(file)) => read(kind, &lookup.find(file)?)?,
            Some(source @ Source::ExistingClass(name)) => {
                let in_cluster = |_| ClassError::InCluster { kind: kind.name(), name: name.to_owned() };
                let file = source.file().unwrap_or_default();
                read(kind, &lookup.find(&file).map_err(in_cluster)?)?
            }
        };
        if class.driver() != driver {
            let other = class.driver().to_owned();
            return Err(ClassError::OtherDriver { kind: kind.name(), other, driver: driver.clone() });
        }
        Ok(Some(class))
    }
}
