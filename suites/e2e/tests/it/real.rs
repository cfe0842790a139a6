//! The tests run against an API server in this process, as in a real cluster. Commands in pods need a WebSocket, which only `workload` has.

mod api;
mod close;
mod controllers;
mod found;
mod made;
mod metadata;
mod node;
mod preflight;
mod read;
mod run;
mod shutdown;
mod workload;

use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_suite_e2e::cluster::{AccessMode, Cluster, Pairs, PvcSpec, StorageClass, VolumeMode};
use csi_suite_e2e::kube_cluster::api::Server;
use csi_suite_e2e::kube_cluster::connect::Connection;
use csi_suite_e2e::kube_cluster::discovery::Discovered;
use csi_suite_e2e::kube_cluster::{DriverCommands, KubeCluster, KubeClusters, Settings};
use csi_suite_e2e::volume_slots::VolumeSlots;
use kube::Client;
use serde_json::json;

use api::Api;
use controllers::DRIVER;

/// The test has this namespace.
const NAMESPACE: &str = "sanity-abc123-1-0";
const RUN: &str = "sanity-abc123";
const LIMIT: Duration = Duration::from_secs(3600);

/// Returns a server with two nodes, the first of which has the driver, and with all kinds of snapshots.
fn cluster() -> Api {
    let api = Api::default();
    api.store(|store| {
        let snapshots = vec!["volumesnapshotclasses", "volumesnapshots", "volumesnapshotcontents"];
        let groups =
            vec!["volumegroupsnapshotclasses", "volumegroupsnapshots", "volumegroupsnapshotcontents"];
        store.groups.insert("snapshot.storage.k8s.io/v1".to_owned(), snapshots);
        store.groups.insert("groupsnapshot.storage.k8s.io/v1beta1".to_owned(), groups);
        store.groups.insert("storage.k8s.io/v1".to_owned(), vec!["storageclasses"]);
        store.groups.insert("storage.k8s.io/v1beta1".to_owned(), vec!["volumeattributesclasses"]);
    });
    for (name, zone) in [("node-a", "a"), ("node-b", "b")] {
        api.has("nodes", json!({
            "metadata": {
                "name": name,
                "labels": { "kubernetes.io/hostname": format!("{name}.example"), "disk.example/zone": zone, "other": "x" },
            },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }));
    }
    api.has("csinodes", json!({
        "metadata": { "name": "node-a" },
        "spec": { "drivers": [
            { "name": "other.example", "nodeID": "x" },
            { "name": DRIVER, "nodeID": "a", "topologyKeys": ["disk.example/zone"], "allocatable": { "count": 7 } },
        ] },
    }));
    api.has("csinodes", json!({ "metadata": { "name": "node-b" }, "spec": { "drivers": [] } }));
    api
}

fn connection(api: &Api) -> Connection {
    Connection { client: Client::new(api.clone(), "default"), server: "https://cluster.example".to_owned() }
}

async fn found(api: &Api) -> Discovered {
    Discovered::new(connection(api), DRIVER).await.unwrap()
}

async fn server(api: &Api) -> Server {
    found(api).await.server
}

fn settings() -> Settings {
    Settings {
        driver_commands: DriverCommands::default(),
        node_commands: None,
        driver: DRIVER.to_owned(),
        image: "tools:1".to_owned(),
        client_node: None,
        claim_annotations: pairs(&[("who", "me")]),
        node_access: None,
    }
}

async fn clusters(api: &Api) -> KubeClusters {
    KubeClusters::new(found(api).await, settings(), VolumeSlots::default(), LIMIT, |_| {})
}

/// Makes the namespace of a test.
async fn namespace(api: &Api) -> KubeCluster {
    namespace_with(found(api).await, settings())
}

fn namespace_with(found: Discovered, settings: Settings) -> KubeCluster {
    KubeClusters::new(found, settings, VolumeSlots::default(), LIMIT, |_| {}).namespace(RUN, NAMESPACE)
}

fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn class(name: &str) -> StorageClass {
    StorageClass { name: name.to_owned(), provisioner: DRIVER.to_owned(), ..StorageClass::default() }
}

fn claim(name: &str, class: &str) -> PvcSpec {
    PvcSpec {
        name: name.to_owned(),
        class: class.to_owned(),
        access_modes: vec![AccessMode::ReadWriteOnce],
        mode: VolumeMode::Filesystem,
        request_bytes: 1 << 30,
        ..PvcSpec::default()
    }
}

/// Returns the reason for which a test would be broken.
fn broken(stop: Stop) -> String {
    match stop {
        Stop::Broken(why) => why,
        other => panic!("not broken: {other:?}"),
    }
}

/// Makes a namespace with a class and a claim that is bound.
async fn with_claim(api: &Api) -> KubeCluster {
    let real = namespace(api).await;
    real.create_storage_class(&class("class-0")).await.unwrap();
    real.create_pvc(&claim("claim-0", "class-0")).await.unwrap();
    real
}
