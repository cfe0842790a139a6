//! The tests check that the files of `deploy/` and the driver definitions agree with the Kubernetes API, with each other and with the
//! driver.

mod classes;
mod crds;
mod definition;
mod kinds;
mod kustomize;
mod plugin;
mod references;
mod yaml;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use yaml::{documents, files_under, text_at};

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

/// Returns the smallest and the largest deployment, as a cluster would receive them.
fn rendered() -> [(&'static str, Vec<Value>); 2] {
    ["base", "full"].map(|name| (name, kustomize::build(&deploy().join("kubernetes").join(name))))
}

/// Returns all objects that can be deployed, and all examples. `expand.yaml` is left out, because it is a later version of another example.
fn everything() -> Vec<Value> {
    let mut objects = kustomize::build(&deploy().join("kubernetes/full"));
    for file in files_under(&deploy().join("examples"), "yaml") {
        if file.file_name().is_some_and(|name| name != "expand.yaml") {
            objects.extend(documents(&file));
        }
    }
    objects
}

#[test]
fn documents_have_known_kinds_and_fields() {
    for file in files_under(&deploy(), "yaml") {
        let found = documents(&file);
        assert!(!found.is_empty(), "{} holds nothing", file.display());
        for document in found {
            if let Err(reason) = kinds::check(&document) {
                panic!("{}: {reason}", file.display());
            }
        }
    }
}

#[test]
fn rendered_objects_have_known_kinds_and_fields() {
    for (name, objects) in rendered() {
        for object in objects {
            if let Err(reason) = kinds::check(&object) {
                panic!("{name}: {reason}");
            }
        }
    }
}

#[test]
fn unknown_kinds_and_fields_are_found() {
    let refused = [
        json!({"apiVersion": "v1", "kind": "Pot", "metadata": {"name": "x"}}),
        json!({"apiVersion": "apps/v1beta1", "kind": "StatefulSet", "metadata": {"name": "x"}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "x"},
            "spec": {"attachIsRequired": true}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "x"},
            "spec": {"attachRequired": "yes"}}),
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": "x"},
            "driver": "d", "deletionPolicy": "Keep"}),
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "x"},
            "spec": {"snapshotClassName": "c", "source": {}}}),
    ];
    for object in refused {
        assert!(kinds::check(&object).is_err(), "{object}");
    }
}

#[test]
fn every_file_is_deployed_or_named_in_the_readme() {
    let used = kustomize::files(&deploy().join("kubernetes/full"));
    let readme = std::fs::read_to_string(deploy().join("README.md")).unwrap();
    for file in files_under(&deploy(), "yaml") {
        let name = file.strip_prefix(deploy()).unwrap().to_str().unwrap();
        if name.starts_with("examples/") {
            assert!(readme.contains(name), "README.md does not name {name}");
        } else {
            assert!(used.contains(&file.canonicalize().unwrap()), "nothing deploys {name}");
        }
    }
}

#[test]
fn every_name_that_is_referred_to_exists() {
    for (name, objects) in rendered() {
        assert_eq!(references::faults(&objects), Vec::<String>::new(), "{name}");
    }
    assert_eq!(references::faults(&everything()), Vec::<String>::new(), "with the examples");
}

#[test]
fn a_name_that_does_not_exist_is_found() {
    let pod = "/spec/template/spec";
    let breaks = [
        ("StatefulSet", "csi-hostpathplugin", format!("{pod}/serviceAccountName"), "ServiceAccount"),
        ("StatefulSet", "csi-hostpathplugin", format!("{pod}/containers/0/volumeMounts/0/name"), "volume"),
        ("StatefulSet", "csi-hostpathplugin", format!("{pod}/volumes/0/name"), "volume"),
        (
            "StatefulSet",
            "csi-hostpathplugin",
            format!("{pod}/containers/0/livenessProbe/httpGet/port"),
            "port",
        ),
        (
            "StatefulSet",
            "csi-hostpathplugin",
            "/spec/selector/matchLabels/app.kubernetes.io~1name".into(),
            "selector",
        ),
        ("StatefulSet", "csi-hostpathplugin", "/spec/serviceName".into(), "Service"),
        ("StatefulSet", "csi-hostpathplugin", "/metadata/namespace".into(), "Namespace"),
        ("Service", "csi-hostpathplugin", "/spec/ports/0/targetPort".into(), "port"),
        ("Service", "csi-hostpathplugin", "/spec/selector/app.kubernetes.io~1name".into(), "selector"),
        ("ClusterRoleBinding", "csi-hostpathplugin-attacher", "/roleRef/name".into(), "ClusterRole"),
        ("ClusterRoleBinding", "csi-hostpathplugin-attacher", "/subjects/0/name".into(), "ServiceAccount"),
        ("ClusterRole", "csi-hostpathplugin-attacher", "/rules/0/verbs/0".into(), "verb"),
        ("StorageClass", "csi-hostpath-sc", "/provisioner".into(), "CSIDriver"),
        ("VolumeSnapshotClass", "csi-hostpath-snapclass", "/driver".into(), "CSIDriver"),
        (
            "Pod",
            "hostpath-pod",
            "/spec/volumes/0/persistentVolumeClaim/claimName".into(),
            "PersistentVolumeClaim",
        ),
        ("Pod", "hostpath-inline-pod", "/spec/volumes/0/csi/driver".into(), "CSIDriver"),
        ("PersistentVolumeClaim", "hostpath-pvc", "/spec/storageClassName".into(), "StorageClass"),
        ("PersistentVolumeClaim", "hostpath-restored-pvc", "/spec/dataSource/name".into(), "VolumeSnapshot"),
        (
            "VolumeSnapshot",
            "hostpath-snapshot",
            "/spec/volumeSnapshotClassName".into(),
            "VolumeSnapshotClass",
        ),
        (
            "VolumeGroupSnapshot",
            "hostpath-database-snapshot",
            "/spec/source/selector/matchLabels/group".into(),
            "claim",
        ),
    ];
    for (kind, name, pointer, expected) in breaks {
        let mut objects = everything();
        let object = objects.iter_mut().find(|object| {
            text_at(object, "/kind") == Some(kind) && text_at(object, "/metadata/name") == Some(name)
        });
        let place = object.and_then(|object| object.pointer_mut(&pointer));
        *place.unwrap_or_else(|| panic!("{kind} {name} has no {pointer}")) = json!("*");
        let faults = references::faults(&objects);
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{kind} {name} {pointer}: {faults:?}");
    }
}

#[test]
fn the_larger_claim_is_the_claim_that_it_enlarges() {
    let read = |name: &str| documents(&deploy().join("examples").join(name)).remove(0);
    let (mut before, after) = (read("pvc.yaml"), read("expand.yaml"));
    let size = "/spec/resources/requests/storage";
    assert_ne!(before.pointer(size), after.pointer(size));
    *before.pointer_mut(size).unwrap() = after.pointer(size).unwrap().clone();
    assert_eq!(before, after);
}
