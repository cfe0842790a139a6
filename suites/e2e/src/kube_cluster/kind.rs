//! The kinds of objects that a run uses, with the used verbs and the known API versions.

use kube::core::ApiResource;

/// The properties of a kind.
#[derive(Debug)]
pub struct Facts {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The versions that have all used fields, the best one first.
    pub versions: &'static [&'static str],
    /// The name in manifests.
    pub kind: &'static str,
    /// The name in paths and RBAC rules.
    pub resource: &'static str,
    /// True if the objects are in namespaces.
    pub namespaced: bool,
    /// The verbs that a run uses.
    pub verbs: &'static [&'static str],
}

const STORAGE: &str = "storage.k8s.io";
const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

const V1: &[&str] = &["v1"];
const GROUP_SNAPSHOT_VERSIONS: &[&str] = &["v1", "v1beta2", "v1beta1"];

/// The verbs for objects that a run creates, reads, waits for and deletes.
const OWN: &[&str] = &["create", "delete", "get", "list", "watch"];
/// The verbs for objects that a run also changes.
const OWN_CHANGED: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
/// The verbs for classes, for which no test waits.
const CLASS: &[&str] = &["create", "delete", "get", "list"];

/// Further rights besides the verbs of kinds: group, resource, verbs. API servers require `get` for WebSocket
/// requests, and newer ones also `create`.
pub const MORE_ACCESS: &[(&str, &str, &[&str])] = &[
    ("", "pods/exec", &["create", "get"]),
    ("", "pods/portforward", &["create", "get"]),
    ("", "serviceaccounts/token", &["create"]),
];

/// Declares the enum from a table: the group, the versions, the names in manifests and in paths, whether the objects are
/// in namespaces, and the verbs.
macro_rules! kinds {
    ($($variant:ident($group:expr, $versions:expr, $kind:literal, $resource:literal, $namespaced:literal, $verbs:expr);)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ApiKind {
            $(#[doc = $kind] $variant,)+
        }

        impl ApiKind {
            pub const ALL: &'static [ApiKind] = &[$(ApiKind::$variant,)+];

            /// Returns the properties of the kind.
            pub const fn facts(self) -> &'static Facts {
                match self {
                    $(ApiKind::$variant => &Facts {
                        group: $group,
                        versions: $versions,
                        kind: $kind,
                        resource: $resource,
                        namespaced: $namespaced,
                        verbs: $verbs,
                    },)+
                }
            }
        }
    };
}

kinds! {
    Namespace("", V1, "Namespace", "namespaces", false, CLASS);
    Pod("", V1, "Pod", "pods", true, OWN);
    Claim("", V1, "PersistentVolumeClaim", "persistentvolumeclaims", true, OWN_CHANGED);
    Volume("", V1, "PersistentVolume", "persistentvolumes", false, OWN_CHANGED);
    Node("", V1, "Node", "nodes", false, &["list"]);
    Event("", V1, "Event", "events", true, &["list"]);
    StorageClass(STORAGE, V1, "StorageClass", "storageclasses", false, CLASS);
    CsiDriver(STORAGE, V1, "CSIDriver", "csidrivers", false, &["get"]);
    CsiNode(STORAGE, V1, "CSINode", "csinodes", false, &["list"]);
    Capacity(STORAGE, V1, "CSIStorageCapacity", "csistoragecapacities", true, &["list", "watch"]);
    Attachment(STORAGE, V1, "VolumeAttachment", "volumeattachments", false, &["list", "watch"]);
    AttributesClass(STORAGE, &["v1", "v1beta1", "v1alpha1"], "VolumeAttributesClass", "volumeattributesclasses", false, CLASS);
    SnapshotClass(SNAPSHOTS, V1, "VolumeSnapshotClass", "volumesnapshotclasses", false, CLASS);
    Snapshot(SNAPSHOTS, V1, "VolumeSnapshot", "volumesnapshots", true, OWN);
    SnapshotContent(SNAPSHOTS, V1, "VolumeSnapshotContent", "volumesnapshotcontents", false, OWN_CHANGED);
    GroupSnapshotClass(GROUP_SNAPSHOTS, GROUP_SNAPSHOT_VERSIONS, "VolumeGroupSnapshotClass", "volumegroupsnapshotclasses", false, CLASS);
    GroupSnapshot(GROUP_SNAPSHOTS, GROUP_SNAPSHOT_VERSIONS, "VolumeGroupSnapshot", "volumegroupsnapshots", true, OWN);
    GroupSnapshotContent(GROUP_SNAPSHOTS, GROUP_SNAPSHOT_VERSIONS, "VolumeGroupSnapshotContent", "volumegroupsnapshotcontents", false, OWN_CHANGED);
    MetadataService("cbt.storage.k8s.io", &["v1beta1", "v1alpha1"], "SnapshotMetadataService", "snapshotmetadataservices", false, &["get"]);
    Service("", V1, "Service", "services", true, &["get"]);
    EndpointSlice("discovery.k8s.io", V1, "EndpointSlice", "endpointslices", true, &["list"]);
    Role(RBAC, V1, "Role", "roles", true, &["create"]);
    RoleBinding(RBAC, V1, "RoleBinding", "rolebindings", true, &["create"]);
}

impl ApiKind {
    /// Returns whether clusters may lack the kind.
    pub fn is_optional(self) -> bool {
        let facts = self.facts();
        facts.group == SNAPSHOTS
            || facts.group == GROUP_SNAPSHOTS
            || matches!(self, ApiKind::AttributesClass | ApiKind::MetadataService)
    }

    /// Returns the kind outside of namespaces that represents the driver's side of an object.
    pub(crate) fn content(self) -> Option<ApiKind> {
        match self {
            ApiKind::Claim => Some(ApiKind::Volume),
            ApiKind::Snapshot => Some(ApiKind::SnapshotContent),
            ApiKind::GroupSnapshot => Some(ApiKind::GroupSnapshotContent),
            _ => None,
        }
    }

    /// Returns the place at which an object outside of namespaces names the one that it belongs to.
    pub(crate) fn owner_at(self) -> Option<&'static str> {
        match self {
            ApiKind::Volume => Some("/spec/claimRef/namespace"),
            ApiKind::SnapshotContent => Some("/spec/volumeSnapshotRef/namespace"),
            ApiKind::GroupSnapshotContent => Some("/spec/volumeGroupSnapshotRef/namespace"),
            _ => None,
        }
    }

    /// Returns the kind in a version of its API.
    pub(crate) fn resource(self, version: &str) -> ApiResource {
        let Facts { group, kind, resource, .. } = self.facts();
        ApiResource {
            group: (*group).to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            kind: (*kind).to_owned(),
            plural: (*resource).to_owned(),
        }
    }
}

/// Returns all rights that a run needs: group, resource and verbs, as in an RBAC rule.
pub fn access() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    let kinds = ApiKind::ALL.iter().map(|kind| {
        let facts = kind.facts();
        (facts.group, facts.resource, facts.verbs)
    });
    kinds.chain(MORE_ACCESS.iter().copied())
}
