//! The kinds of objects that a run uses, with the used verbs and the known API versions.

use kube::core::ApiResource;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiKind {
    Namespace,
    Pod,
    /// PersistentVolumeClaim.
    Claim,
    /// PersistentVolume.
    Volume,
    Node,
    Event,
    StorageClass,
    CsiDriver,
    CsiNode,
    /// CSIStorageCapacity.
    Capacity,
    /// VolumeAttachment.
    Attachment,
    /// VolumeAttributesClass.
    AttributesClass,
    /// VolumeSnapshotClass.
    SnapshotClass,
    /// VolumeSnapshot.
    Snapshot,
    /// VolumeSnapshotContent.
    SnapshotContent,
    /// VolumeGroupSnapshotClass.
    GroupSnapshotClass,
    /// VolumeGroupSnapshot.
    GroupSnapshot,
    /// VolumeGroupSnapshotContent.
    GroupSnapshotContent,
    /// SnapshotMetadataService.
    MetadataService,
    Service,
    EndpointSlice,
    Role,
    RoleBinding,
}

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

const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const SNAPSHOT_METADATA: &str = "cbt.storage.k8s.io";
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

impl ApiKind {
    pub const ALL: &'static [ApiKind] = &[
        ApiKind::Namespace,
        ApiKind::Pod,
        ApiKind::Claim,
        ApiKind::Volume,
        ApiKind::Node,
        ApiKind::Event,
        ApiKind::StorageClass,
        ApiKind::CsiDriver,
        ApiKind::CsiNode,
        ApiKind::Capacity,
        ApiKind::Attachment,
        ApiKind::AttributesClass,
        ApiKind::SnapshotClass,
        ApiKind::Snapshot,
        ApiKind::SnapshotContent,
        ApiKind::GroupSnapshotClass,
        ApiKind::GroupSnapshot,
        ApiKind::GroupSnapshotContent,
        ApiKind::MetadataService,
        ApiKind::Service,
        ApiKind::EndpointSlice,
        ApiKind::Role,
        ApiKind::RoleBinding,
    ];

    /// Returns the properties of the kind.
    pub const fn facts(self) -> &'static Facts {
        const fn core(
            kind: &'static str,
            resource: &'static str,
            namespaced: bool,
            verbs: &'static [&'static str],
        ) -> Facts {
            Facts { group: "", versions: &["v1"], kind, resource, namespaced, verbs }
        }
        const fn storage(
            kind: &'static str,
            resource: &'static str,
            namespaced: bool,
            verbs: &'static [&'static str],
        ) -> Facts {
            Facts { group: "storage.k8s.io", versions: &["v1"], kind, resource, namespaced, verbs }
        }
        const fn snapshot(
            kind: &'static str,
            resource: &'static str,
            namespaced: bool,
            verbs: &'static [&'static str],
        ) -> Facts {
            Facts { group: SNAPSHOTS, versions: &["v1"], kind, resource, namespaced, verbs }
        }
        const fn group(
            kind: &'static str,
            resource: &'static str,
            namespaced: bool,
            verbs: &'static [&'static str],
        ) -> Facts {
            Facts {
                group: GROUP_SNAPSHOTS,
                versions: GROUP_SNAPSHOT_VERSIONS,
                kind,
                resource,
                namespaced,
                verbs,
            }
        }
        match self {
            ApiKind::Namespace => &const { core("Namespace", "namespaces", false, CLASS) },
            ApiKind::Pod => &const { core("Pod", "pods", true, OWN) },
            ApiKind::Claim => {
                &const { core("PersistentVolumeClaim", "persistentvolumeclaims", true, OWN_CHANGED) }
            }
            ApiKind::Volume => &const { core("PersistentVolume", "persistentvolumes", false, OWN_CHANGED) },
            ApiKind::Node => &const { core("Node", "nodes", false, &["list"]) },
            ApiKind::Event => &const { core("Event", "events", true, &["list"]) },
            ApiKind::StorageClass => &const { storage("StorageClass", "storageclasses", false, CLASS) },
            ApiKind::CsiDriver => &const { storage("CSIDriver", "csidrivers", false, &["get"]) },
            ApiKind::CsiNode => &const { storage("CSINode", "csinodes", false, &["list"]) },
            ApiKind::Capacity => {
                &const { storage("CSIStorageCapacity", "csistoragecapacities", true, &["list", "watch"]) }
            }
            ApiKind::Attachment => {
                &const { storage("VolumeAttachment", "volumeattachments", false, &["list", "watch"]) }
            }
            ApiKind::AttributesClass => {
                &const {
                    Facts {
                        versions: &["v1", "v1beta1", "v1alpha1"],
                        ..storage("VolumeAttributesClass", "volumeattributesclasses", false, CLASS)
                    }
                }
            }
            ApiKind::SnapshotClass => {
                &const { snapshot("VolumeSnapshotClass", "volumesnapshotclasses", false, CLASS) }
            }
            ApiKind::Snapshot => &const { snapshot("VolumeSnapshot", "volumesnapshots", true, OWN) },
            ApiKind::SnapshotContent => {
                &const { snapshot("VolumeSnapshotContent", "volumesnapshotcontents", false, OWN_CHANGED) }
            }
            ApiKind::GroupSnapshotClass => {
                &const { group("VolumeGroupSnapshotClass", "volumegroupsnapshotclasses", false, CLASS) }
            }
            ApiKind::GroupSnapshot => {
                &const { group("VolumeGroupSnapshot", "volumegroupsnapshots", true, OWN) }
            }
            ApiKind::GroupSnapshotContent => {
                &const { group("VolumeGroupSnapshotContent", "volumegroupsnapshotcontents", false, OWN_CHANGED) }
            }
            ApiKind::MetadataService => {
                &const {
                    Facts {
                        group: SNAPSHOT_METADATA,
                        versions: &["v1beta1", "v1alpha1"],
                        ..core("SnapshotMetadataService", "snapshotmetadataservices", false, &["get"])
                    }
                }
            }
            ApiKind::Service => &const { core("Service", "services", true, &["get"]) },
            ApiKind::EndpointSlice => {
                &const {
                    Facts {
                        group: "discovery.k8s.io",
                        ..core("EndpointSlice", "endpointslices", true, &["list"])
                    }
                }
            }
            ApiKind::Role => &const { Facts { group: RBAC, ..core("Role", "roles", true, &["create"]) } },
            ApiKind::RoleBinding => {
                &const { Facts { group: RBAC, ..core("RoleBinding", "rolebindings", true, &["create"]) } }
            }
        }
    }

    /// Returns whether clusters may lack the kind.
    pub fn is_optional(self) -> bool {
        let facts = self.facts();
        facts.group == SNAPSHOTS
            || facts.group == GROUP_SNAPSHOTS
            || matches!(self, ApiKind::AttributesClass | ApiKind::MetadataService)
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
