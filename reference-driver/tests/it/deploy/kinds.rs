//! Checks that documents are of known kinds and contain only fields of their kind.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::crds::{SnapshotClass, VolumeAttributesClass, VolumeGroupSnapshot, VolumeSnapshot};
use super::kustomize::Kustomization;
use super::yaml::text_at;

/// Returns an error that says what is wrong with an object.
pub(super) fn check(object: &Value) -> Result<(), String> {
    let version = text_at(object, "/apiVersion").ok_or("it has no apiVersion")?;
    let kind = text_at(object, "/kind").ok_or("it has no kind")?;
    match (version, kind) {
        ("v1", "Namespace") => round_trip::<Namespace>(object),
        ("v1", "PersistentVolumeClaim") => round_trip::<PersistentVolumeClaim>(object),
        ("v1", "Pod") => round_trip::<Pod>(object),
        ("v1", "Service") => round_trip::<Service>(object),
        ("v1", "ServiceAccount") => round_trip::<ServiceAccount>(object),
        ("apps/v1", "StatefulSet") => round_trip::<StatefulSet>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => round_trip::<ClusterRole>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => round_trip::<ClusterRoleBinding>(object),
        ("rbac.authorization.k8s.io/v1", "Role") => round_trip::<Role>(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => round_trip::<RoleBinding>(object),
        ("storage.k8s.io/v1", "CSIDriver") => round_trip::<CSIDriver>(object),
        ("storage.k8s.io/v1", "StorageClass") => round_trip::<StorageClass>(object),
        ("storage.k8s.io/v1", "VolumeAttributesClass") => parse::<VolumeAttributesClass>(object),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot") => parse::<VolumeSnapshot>(object),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass") => parse::<SnapshotClass>(object),
        ("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot") => parse::<VolumeGroupSnapshot>(object),
        ("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotClass") => parse::<SnapshotClass>(object),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization") => parse::<Kustomization>(object),
        ("kustomize.config.k8s.io/v1alpha1", "Component") => parse::<Kustomization>(object),
        _ => Err(format!("{version} {kind} is not a kind that is known here")),
    }
    .map_err(|reason| format!("{kind} {}: {reason}", text_at(object, "/metadata/name").unwrap_or_default()))
}

/// Converts to the type of the API and back, which shows unknown fields because the types drop them.
fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Result<(), String> {
    let typed: T = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let kept = serde_json::to_value(typed).map_err(|error| error.to_string())?;
    match dropped(object, &kept) {
        None => Ok(()),
        Some(pointer) => Err(format!("{pointer} is not a field of the API")),
    }
}

fn parse<T: DeserializeOwned>(object: &Value) -> Result<(), String> {
    T::deserialize(object).map(|_| ()).map_err(|error| error.to_string())
}

/// Returns the first path in a value that is missing or different in another.
fn dropped(value: &Value, kept: &Value) -> Option<String> {
    let within = |key: String, value: &Value, kept: Option<&Value>| match kept {
        None => Some(format!("/{key}")),
        Some(kept) => dropped(value, kept).map(|rest| format!("/{key}{rest}")),
    };
    match (value, kept) {
        (Value::Object(fields), Value::Object(kept)) => {
            fields.iter().find_map(|(key, value)| within(key.clone(), value, kept.get(key)))
        }
        (Value::Array(items), Value::Array(kept)) => {
            items.iter().enumerate().find_map(|(at, value)| within(at.to_string(), value, kept.get(at)))
        }
        _ => (value != kept).then(String::new),
    }
}
