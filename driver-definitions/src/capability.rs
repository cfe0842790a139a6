//! The capabilities of a driver, with the names that a definition has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Declares the enum from a table of variants, names and meanings.
macro_rules! capabilities {
    ($($variant:ident, $name:literal, $meaning:literal;)*) => {
        /// A capability that a definition may declare; the names are those of Kubernetes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Capability {
            $(#[doc = $meaning] $variant,)*
        }

        impl Capability {
            /// All capabilities, in the order of the documentation.
            pub const ALL: &'static [Capability] = &[$(Capability::$variant,)*];

            /// Returns the name in a definition; its case matters.
            pub const fn name(self) -> &'static str {
                match self { $(Capability::$variant => $name,)* }
            }

            /// Describes a driver with the capability.
            pub const fn meaning(self) -> &'static str {
                match self { $(Capability::$variant => $meaning,)* }
            }
        }
    };
}

capabilities! {
    Persistence, "persistence", "Data outlive the pod.";
    Block, "block", "Raw block volumes work. Where it is false, tests expect that one is rejected.";
    FsGroup, "fsGroup", "The owner of a volume can be set by the `fsGroup` of a pod.";
    VolumeMountGroup, "volumeMountGroup", "The driver sets the group itself, by VOLUME_MOUNT_GROUP; wants `fsGroup` too.";
    Exec, "exec", "Files on a volume can be executed.";
    SnapshotDataSource, "snapshotDataSource", "Snapshots can be taken, and volumes made from them.";
    SnapshotMetadata, "snapshotMetadata", "The SnapshotMetadata service lists allocated and changed blocks.";
    GroupSnapshot, "groupSnapshot", "Snapshots of several volumes can be taken at once.";
    PvcDataSource, "pvcDataSource", "Volumes can be cloned.";
    Multipods, "multipods", "Several pods of a node can share a volume.";
    Rwx, "RWX", "Pods of several nodes can write to a volume.";
    ControllerExpansion, "controllerExpansion", "Volumes can grow.";
    NodeExpansion, "nodeExpansion", "The node has a part in growing; no test asks for it.";
    OfflineExpansion, "offlineExpansion", "Volumes can grow while no pod uses them. If it is left out, as `controllerExpansion`.";
    OnlineExpansion, "onlineExpansion", "Volumes can grow while a pod uses them. If it is left out, as `controllerExpansion`.";
    VolumeLimits, "volumeLimits", "A node says how many volumes it takes.";
    SingleNodeVolume, "singleNodeVolume", "A volume can be reached from one node only. Where it is true, tests on other nodes skip.";
    Topology, "topology", "Volumes are in topology segments, those of `TopologyKeys`.";
    Capacity, "capacity", "The driver reports free space, which is published as CSIStorageCapacity objects.";
    FsResizeFromSourceNotSupported, "FSResizeFromSourceNotSupported", "Negative: a file system stays as small as it was when its snapshot becomes a larger volume.";
    ReadWriteOncePod, "readWriteOncePod", "A volume can be kept for a single pod; the driver knows SINGLE_NODE_MULTI_WRITER.";
    MultiplePvsSameId, "multiplePVsSameID", "A node can use a volume by two PersistentVolumes with the same handle.";
    CapReadOnlyMany, "capReadOnlyMany", "Volumes for ReadOnlyMany can be made from a source.";
    SeLinuxMount, "seLinuxMount", "The driver mounts with an SELinux context, and its CSIDriver object says so.";
    PodDeleteAfterUmount, "podDeleteAfterUmount", "A pod can be deleted after its volume was unmounted on the node. Only OpenShift's tests know it, from a manifest of their own.";
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The capabilities of a driver. One that is left out is missing, except online and offline expansion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeMap<Capability, bool>);

impl Capabilities {
    /// Returns whether the driver has the capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.get(&capability).copied().unwrap_or(false)
    }

    /// Returns whether the definition sets the capability, to true or to false.
    pub fn sets(&self, capability: Capability) -> bool {
        self.0.contains_key(&capability)
    }

    /// Returns the driver's capabilities.
    pub fn iter(&self) -> impl Iterator<Item = Capability> {
        self.0.iter().filter(|(_, has)| **has).map(|(capability, _)| *capability)
    }
}

/// Unknown names are ignored, as Kubernetes does; the loader warns of them.
impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Capabilities, D::Error> {
        let given = BTreeMap::<Cow<'de, str>, Option<bool>>::deserialize(deserializer)?;
        let known = |known: &Capability| Some((*known, given.get(known.name())?.unwrap_or(false)));
        let mut has: BTreeMap<_, _> = Capability::ALL.iter().filter_map(known).collect();
        if has.get(&Capability::ControllerExpansion) == Some(&true) {
            has.entry(Capability::OfflineExpansion).or_insert(true);
            has.entry(Capability::OnlineExpansion).or_insert(true);
        }
        Ok(Capabilities(has))
    }
}

impl JsonSchema for Capabilities {
    fn schema_name() -> Cow<'static, str> {
        "Capabilities".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let property = |capability: &Capability| {
            (
                capability.name().to_owned(),
                json_schema!({ "type": "boolean", "description": capability.meaning() }).into(),
            )
        };
        let properties: serde_json::Map<String, Value> = Capability::ALL.iter().map(property).collect();
        json_schema!({
            "type": "object",
            "description": "Which capabilities a driver has. What is left out, it has not, but for growth online and offline.",
            "properties": properties,
        })
    }
}
