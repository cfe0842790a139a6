//! Emulates the effects of controllers and sidecars on objects, as recorded in a real cluster.

use serde_json::{Value, json};

use super::api::{Key, Store};

/// The driver's name.
pub(crate) const DRIVER: &str = "disk.example";

/// Works until nothing is left to do.
pub(crate) fn work(store: &mut Store) {
    loop {
        let before = store.objects.clone();
        bind_claims(store);
        run_pods(store);
        publish_capacity(store);
        take_snapshots(store);
        protect_classes(store);
        end_claims(store);
        end_snapshots(store);
        end_namespaces(store);
        if store.objects == before {
            return;
        }
    }
}

fn all(store: &Store, resource: &str) -> Vec<(Key, Value)> {
    let of = store.objects.iter().filter(|((of, _, _), _)| of == resource);
    of.map(|(key, object)| (key.clone(), object.clone())).collect()
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// Binds each claim to a new volume, or to the volume that it names, and adds the finalizers that hold both.
fn bind_claims(store: &mut Store) {
    for ((_, namespace, name), mut claim) in all(store, "persistentvolumeclaims") {
        if claim.get("status").is_some() || is_deleting(&claim) {
            continue;
        }
        let storage = claim["spec"]["resources"]["requests"]["storage"].clone();
        let volume = match claim["spec"]["volumeName"].as_str() {
            Some(volume) => volume.to_owned(),
            None => format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap()),
        };
        let class = claim["spec"]["storageClassName"].as_str().unwrap().to_owned();
        let policy = all(store, "storageclasses").into_iter().find(|((_, _, of), _)| *of == class);
        let policy = policy.map_or(json!("Delete"), |(_, class)| class["reclaimPolicy"].clone());
        let key = ("persistentvolumes".to_owned(), String::new(), volume.clone());
        let mut object = store.objects.get(&key).cloned().unwrap_or_else(|| {
            json!({
                "metadata": {
                    "name": volume,
                    "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER },
                },
                "spec": {
                    "capacity": { "storage": storage },
                    "accessModes": claim["spec"]["accessModes"],
                    "volumeMode": claim["spec"]["volumeMode"],
                    "storageClassName": class,
                    "persistentVolumeReclaimPolicy": policy,
                    "csi": { "driver": DRIVER, "volumeHandle": format!("handle-of-{volume}") },
                },
            })
        });
        object["metadata"]["finalizers"] = json!(["kubernetes.io/pv-protection"]);
        object["spec"]["claimRef"] = json!({ "namespace": namespace, "name": name });
        object["status"] = json!({ "phase": "Bound" });
        store.put("persistentvolumes", object);
        claim["spec"]["volumeName"] = volume.into();
        claim["status"] = json!({ "phase": "Bound", "capacity": { "storage": storage } });
        store.put("persistentvolumeclaims", claim);
    }
}

/// Holds a class of attributes as long as a claim names it.
fn protect_classes(store: &mut Store) {
    const PROTECTION: &str = "kubernetes.io/vac-protection";
    let claims = all(store, "persistentvolumeclaims");
    for (key, mut class) in all(store, "volumeattributesclasses") {
        let is_named =
            claims.iter().any(|(_, claim)| claim["spec"]["volumeAttributesClassName"] == key.2.as_str());
        match is_deleting(&class) {
            true if !is_named => store.remove(&key),
            true => {}
            false if class["metadata"]["finalizers"].is_null() => {
                class["metadata"]["finalizers"] = json!([PROTECTION]);
                store.put(&key.0, class);
            }
            false => {}
        }
    }
}

/// Returns true if a pod uses a device as a file system, or a file system as a device, which kubelet rejects.
fn is_mismatched(store: &Store, pod: &Value) -> bool {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let devices = pod["spec"]["containers"][0]["volumeDevices"].as_array().map_or(0, Vec::len);
    let claims = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let modes = claims.filter_map(|volume| {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str()?;
        let key = ("persistentvolumeclaims".to_owned(), namespace.to_owned(), name.to_owned());
        Some(store.objects.get(&key)?["spec"]["volumeMode"] == "Block")
    });
    modes.into_iter().any(|is_block| is_block != (devices > 0))
}

fn run_pods(store: &mut Store) {
    for (_, mut pod) in all(store, "pods") {
        if pod.get("status").is_some() {
            continue;
        }
        if is_mismatched(store, &pod) {
            let (name, namespace) = (&pod["metadata"]["name"], &pod["metadata"]["namespace"]);
            let event = json!({
                "metadata": { "name": "refused", "namespace": namespace },
                "involvedObject": { "kind": "Pod", "name": name },
                "type": "Warning", "reason": "FailedMount", "message": "it has another volumeMode",
                "lastTimestamp": "2026-11-22T22:53:51Z",
            });
            pod["status"] = json!({ "phase": "Pending" });
            store.put("events", event);
            store.put("pods", pod);
            continue;
        }
        pod["spec"]["nodeName"] = "node-a".into();
        let name = pod["spec"]["containers"][0]["name"].clone();
        let container = json!({ "name": name, "restartCount": 0, "state": { "running": {} } });
        pod["status"] = json!({ "phase": "Running", "containerStatuses": [container] });
        store.put("pods", pod);
    }
}

/// Publishes a capacity for each class, and removes it with the class.
fn publish_capacity(store: &mut Store) {
    let Some(zone) = store.capacity_of else { return };
    let classes: Vec<String> =
        all(store, "storageclasses").into_iter().map(|((_, _, name), _)| name).collect();
    for class in &classes {
        let name = format!("capacity-{class}");
        let key = ("csistoragecapacities".to_owned(), "driver".to_owned(), name.clone());
        if !store.objects.contains_key(&key) {
            store.put(
                "csistoragecapacities",
                json!({
                    "metadata": { "name": name, "namespace": "driver" },
                    "storageClassName": class,
                    "nodeTopology": { "matchLabels": { "disk.example/zone": zone } },
                    "capacity": "1Gi",
                }),
            );
        }
    }
    for (key, capacity) in all(store, "csistoragecapacities") {
        if !classes.iter().any(|class| capacity["storageClassName"] == class.as_str()) {
            store.remove(&key);
        }
    }
}

/// Deletes the driver's snapshot with its content, unless the content is to be retained.
pub(crate) fn forget(store: &mut Store, object: &Value) {
    if let Some(handle) = object["status"]["snapshotHandle"].as_str()
        && object["spec"]["deletionPolicy"] == "Delete"
    {
        store.taken.remove(handle);
    }
}

fn take_snapshots(store: &mut Store) {
    for ((_, namespace, name), mut snapshot) in all(store, "volumesnapshots") {
        if snapshot.get("status").is_some() || is_deleting(&snapshot) {
            continue;
        }
        let content = match snapshot["spec"]["source"]["volumeSnapshotContentName"].as_str() {
            Some(content) => {
                let key = ("volumesnapshotcontents".to_owned(), String::new(), content.to_owned());
                let mut object = store.objects[&key].clone();
                object["status"] = json!({ "snapshotHandle": object["spec"]["source"]["snapshotHandle"] });
                store.put("volumesnapshotcontents", object);
                content.to_owned()
            }
            None => {
                store.taken.insert(format!("handle-of-{name}"));
                let content = format!("snapcontent-{}", snapshot["metadata"]["uid"].as_str().unwrap());
                let class = snapshot["spec"]["volumeSnapshotClassName"].as_str().unwrap().to_owned();
                let key = ("volumesnapshotclasses".to_owned(), String::new(), class);
                let policy = store.objects[&key]["deletionPolicy"].clone();
                store.put(
                    "volumesnapshotcontents",
                    json!({
                        "metadata": { "name": content },
                        "spec": {
                            "deletionPolicy": policy,
                            "volumeSnapshotRef": { "namespace": namespace, "name": name },
                        },
                        "status": { "snapshotHandle": format!("handle-of-{name}") },
                    }),
                );
                content
            }
        };
        snapshot["metadata"]["finalizers"] =
            json!(["snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"]);
        snapshot["status"] =
            json!({ "readyToUse": true, "boundVolumeSnapshotContentName": content, "restoreSize": "1Gi" });
        store.put("volumesnapshots", snapshot);
    }
}

/// Deletes a volume with its claim, unless it is to be retained.
fn end_claims(store: &mut Store) {
    for (key, mut volume) in all(store, "persistentvolumes") {
        let claim = &volume["spec"]["claimRef"];
        let of = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
        let claim = ("persistentvolumeclaims".to_owned(), of("namespace"), of("name"));
        if volume.get("status").is_none() || store.objects.contains_key(&claim) {
            continue;
        }
        if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" || is_deleting(&volume) {
            store.remove(&key);
        } else if volume["status"]["phase"] != "Released" {
            volume["status"]["phase"] = "Released".into();
            store.put("persistentvolumes", volume);
        }
    }
}

/// Deletes a content with its snapshot, unless it is to be retained.
fn end_snapshots(store: &mut Store) {
    for (key, snapshot) in all(store, "volumesnapshots") {
        if is_deleting(&snapshot) {
            let content = snapshot["status"]["boundVolumeSnapshotContentName"].as_str().unwrap().to_owned();
            let content = ("volumesnapshotcontents".to_owned(), String::new(), content);
            if let Some(mut object) = store
                .objects
                .get(&content)
                .filter(|content| content["spec"]["deletionPolicy"] == "Delete")
                .cloned()
            {
                if store.misses_deletions && object["metadata"]["annotations"].is_null() {
                    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                    store.objects.insert(content, object);
                    continue;
                }
                store.remove(&content);
            }
            store.remove(&key);
        }
    }
}

/// Deletes all objects in a namespace before the namespace.
fn end_namespaces(store: &mut Store) {
    for (key, namespace) in all(store, "namespaces") {
        if is_deleting(&namespace) {
            let inside: Vec<Key> = store.objects.keys().filter(|(_, of, _)| *of == key.2).cloned().collect();
            match inside.is_empty() {
                true => store.remove(&key),
                false => inside.iter().for_each(|one| store.delete(one)),
            }
        }
    }
}
