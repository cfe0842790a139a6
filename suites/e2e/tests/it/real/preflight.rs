//! Checks the facts that preflight reads from a deployment, and its findings.

use csi_driver_definitions::{DriverDefinition, Loaded};
use csi_suite_e2e::preflight::{GatherError, gather, judge};
use serde_json::{Value, json};

use super::api::Api;
use super::controllers::DRIVER;
use super::{cluster, connection};

const SIDECARS: [&str; 5] =
    ["csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "csi-node-driver-registrar"];

/// Returns a definition that promises a lot.
fn definition() -> Loaded {
    let text = format!(
        "StorageClass: {{ FromExistingClassName: gold }}\nSnapshotClass: {{ FromName: true }}\nDriverInfo:\n  Name: {DRIVER}\n  \
         TopologyKeys: [disk.example/zone]\n  Capabilities: {{ snapshotDataSource: true, controllerExpansion: true, topology: true, \
         capacity: true, fsGroup: true, volumeLimits: true }}\n"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    DriverDefinition::load(file.path()).unwrap()
}

/// Returns a running pod whose containers have these images.
fn pod(namespace: &str, name: &str, images: &[&str]) -> Value {
    let container = |image: &&str| {
        json!({
            "name": image, "image": format!("registry.example/{image}:v1"),
            "args": ["--csi-address=/csi/csi.sock", format!("--plugin={DRIVER}"), "--enable-capacity"],
            "volumeMounts": [{ "name": "socket", "mountPath": "/csi" }],
        })
    };
    let status = |image: &&str| json!({ "name": image, "state": { "running": {} } });
    json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "serviceAccountName": name, "containers": images.iter().map(container).collect::<Value>() },
        "status": { "phase": "Running", "containerStatuses": images.iter().map(status).collect::<Value>() },
    })
}

fn lease(name: &str, renewed: &str) -> Value {
    json!({
        "metadata": { "namespace": "driver", "name": name },
        "spec": { "renewTime": renewed, "leaseDurationSeconds": 15 },
    })
}

fn registered(node: &str) -> Value {
    let driver = json!({ "name": DRIVER, "nodeID": node, "topologyKeys": ["disk.example/zone"], "allocatable": { "count": 7 } });
    json!({ "metadata": { "name": node }, "spec": { "drivers": [driver] } })
}

fn class(provisioner: &str) -> Value {
    json!({ "metadata": { "name": "gold" }, "provisioner": provisioner, "allowVolumeExpansion": true })
}

fn object(capacity: bool) -> Value {
    json!({ "metadata": { "name": DRIVER }, "spec": { "fsGroupPolicy": "File", "storageCapacity": capacity } })
}

/// Returns a deployment that keeps the promises of the definition.
fn good() -> Api {
    let api = cluster();
    for node in ["node-a", "node-b"] {
        api.has("csinodes", registered(node));
    }
    api.has("csidrivers", object(true));
    api.has("storageclasses", class(DRIVER));
    api.has("pods", pod("driver", "plugin", &SIDECARS));
    api.has("pods", pod("kube-system", "snapshots", &["snapshot-controller"]));
    api.has("leases", lease("external-attacher-leader-disk-example", "2026-11-22T22:53:51.000000Z"));
    api.has("leases", lease("somebody-else", "2026-11-22T22:53:55.000000Z"));
    api
}

/// Returns the findings, one line each.
async fn said(api: &Api) -> Vec<String> {
    let loaded = definition();
    let facts = gather(&connection(api), &loaded, None).await.unwrap();
    judge(&loaded.definition, &facts).iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn of_a_good_deployment_nothing_is_said() {
    let api = good();
    assert_eq!(said(&api).await, [""; 0]);
    let asked = api.store(|store| store.reviewed.clone());
    for right in ["create pods", "create pods/exec", "delete storageclasses", "list csinodes"] {
        assert!(asked.contains(&format!("tester {right}")), "{right}: {asked:?}");
    }
    assert!(
        asked.contains("system:serviceaccount:driver:plugin patch volumeattachments/status"),
        "{asked:?}"
    );
    let others = asked.iter().filter(|asked| asked.starts_with("system:serviceaccount:kube-system:"));
    assert_eq!(others.count(), 0, "{asked:?}");
}

#[tokio::test]
async fn every_mistake_is_named() {
    let api = good();
    api.has("csidrivers", object(false));
    api.has("csinodes", json!({ "metadata": { "name": "node-b" }, "spec": { "drivers": [] } }));
    api.has("storageclasses", class("other.example"));
    let mut plugin = pod("driver", "plugin", &SIDECARS);
    plugin["status"]["containerStatuses"][2]["state"] =
        json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    api.has("pods", plugin);
    api.has("leases", lease("external-attacher-leader-disk-example", "2026-11-22T22:33:55.000000Z"));
    api.store(|store| {
        store.groups.remove("snapshot.storage.k8s.io/v1");
        store.denied.insert("tester create pods/exec".to_owned());
        let account = "system:serviceaccount:driver:plugin";
        store.denied.insert(format!("{account} patch volumeattachments/status"));
        store.denied.insert(format!("{account} watch persistentvolumeclaims"));
    });
    let said = said(&api).await;
    let expected: [(&str, &[&str]); 9] = [
        ("error", &["the driver's free space is not read", "storageCapacity: false"]),
        ("error", &["no csi-attacher has held its lease", "1200 s behind"]),
        ("error", &["csi-resizer does not run", "driver/plugin: CrashLoopBackOff"]),
        ("error", &["the cluster has no VolumeSnapshot"]),
        (
            "error",
            &["the StorageClass is for another driver", "\"gold\" of the cluster is for other.example"],
        ),
        ("error", &["the tests may not create pods/exec"]),
        ("error", &["csi-attacher may not patch volumeattachments.storage.k8s.io/status"]),
        ("error", &["csi-provisioner may not watch persistentvolumeclaims", "driver:plugin"]),
        ("warning", &["nodes lack the driver", "node-b lack it, 1 of others"]),
    ];
    for (level, words) in expected {
        let found = |line: &&String| line.starts_with(level) && words.iter().all(|word| line.contains(word));
        assert_eq!(said.iter().filter(found).count(), 1, "{words:?}: {said:#?}");
    }
    assert_eq!(said.len(), expected.len(), "{said:#?}");
}

#[tokio::test]
async fn rejections_of_the_server_are_quoted() {
    let api = good();
    api.store(|store| store.refused.extend(["GET csinodes", "GET pods"].map(str::to_owned)));
    let said = said(&api).await;
    for (line, what) in
        said.iter().zip(["the nodes could not be looked at", "sidecars could not be looked at"])
    {
        assert!(
            line.starts_with(&format!("warning  {what}: ")) && line.contains("403 Forbidden"),
            "{said:#?}"
        );
    }
    assert_eq!(said.len(), 2, "{said:#?}");
}

#[tokio::test]
async fn a_class_that_is_in_no_file_is_no_fact() {
    let directory = tempfile::tempdir().unwrap();
    let [file, class] = ["driver.yaml", "no-such-class.yaml"].map(|name| directory.path().join(name));
    let text = format!("StorageClass: {{FromFile: no-such-class.yaml}}\nDriverInfo: {{Name: {DRIVER}}}\n");
    std::fs::write(&file, text).unwrap();
    std::fs::write(&class, "").unwrap();
    let loaded = DriverDefinition::load(&file).unwrap();
    std::fs::remove_file(&class).unwrap();
    let error = gather(&connection(&good()), &loaded, None).await.unwrap_err();
    assert!(matches!(error, GatherError::Class(_)), "{error:?}");
    assert!(error.to_string().contains("no-such-class.yaml"), "{error}");
}
