//! Checks the discovery of a cluster.

use csi_suite_e2e::cluster::{Cluster as _, Feature, Node, Pairs, SnapshotClass};
use csi_suite_e2e::kube_cluster::discovery::Discovered;
use csi_suite_e2e::kube_cluster::kind::ApiKind;
use serde_json::json;

use super::controllers::DRIVER;
use super::{broken, cluster, connection, found, namespace};

#[tokio::test]
async fn nodes_are_those_that_take_pods_and_have_the_driver() {
    let api = cluster();
    for (name, spec, ready) in [
        ("closed", json!({ "unschedulable": true }), "True"),
        ("tainted", json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }] }), "True"),
        ("away", json!({}), "Unknown"),
    ] {
        let conditions = json!([{ "type": "Ready", "status": ready }]);
        api.has(
            "nodes",
            json!({ "metadata": { "name": name }, "spec": spec, "status": { "conditions": conditions } }),
        );
    }
    let found = found(&api).await;
    let [one] = &found.nodes[..] else { panic!("{:?}", found.nodes) };
    let topology = Pairs::from([("disk.example/zone".to_owned(), "a".to_owned())]);
    assert_eq!(one.node, Node { name: "node-a".to_owned(), topology, volume_limit: Some(7) });
    assert_eq!(one.hostname, "node-a.example");
    assert_eq!(found.others, ["node-b"]);
    assert_eq!(found.version, "v1.33.9");
}

#[tokio::test]
async fn the_best_served_version_is_used() {
    let api = cluster();
    let found = found(&api).await;
    let version = |kind| found.server.kinds.get(&kind).map(|it| it.api_version.as_str());
    assert_eq!(version(ApiKind::Snapshot), Some("snapshot.storage.k8s.io/v1"));
    assert_eq!(version(ApiKind::GroupSnapshot), Some("groupsnapshot.storage.k8s.io/v1beta1"));
    assert_eq!(
        version(ApiKind::AttributesClass),
        Some("storage.k8s.io/v1beta1"),
        "v1 is there, and lacks the kind"
    );
    assert_eq!(version(ApiKind::Claim), Some("v1"));
}

#[tokio::test]
async fn what_a_cluster_lacks_is_the_reason_to_skip() {
    let api = cluster();
    api.store(|store| store.groups.clear());
    let real = namespace(&api).await;
    for (feature, names) in [
        (Feature::Snapshots, "no VolumeSnapshot"),
        (Feature::GroupSnapshots, "no VolumeGroupSnapshot"),
        (Feature::AttributesClasses, "no VolumeAttributesClass"),
        (Feature::SeLinux, "SELinux"),
        (Feature::NodeAccess, "--node-access"),
        (Feature::SnapshotMetadata, "no SnapshotMetadataService"),
    ] {
        let why = real.offers(feature).unwrap_err();
        assert!(why.contains(names), "{feature:?}: {why}");
    }
    assert_eq!(real.offers(Feature::Orchestrator), Ok(()), "what is about Kubernetes alone, Kubernetes has");
    let made = real.create_snapshot_class(&SnapshotClass::default()).await.unwrap_err();
    assert!(matches!(made, csi_harness::prelude::Stop::Skip(_)), "{made:?}");
    assert_eq!(api.names("namespaces"), [""; 0], "and no namespace is made for it");
}

#[tokio::test]
async fn a_refusal_has_the_server_s_words() {
    let api = cluster();
    api.store(|store| store.refused.insert("GET csinodes".to_owned()));
    let why = broken(Discovered::new(connection(&api), DRIVER).await.unwrap_err());
    assert!(why.contains("list CSINode: 403 Forbidden: csinodes is forbidden: User \"tester\""), "{why}");
}
