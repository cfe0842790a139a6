//! The tests check who calls the SnapshotMetadata service, for what, and where, without a connection to its pod.

use csi_harness::prelude::Stop;
use csi_suite_e2e::cluster::{Cluster as _, Feature};
use serde_json::json;

use super::api::Api;
use super::controllers::DRIVER;
use super::{NAMESPACE, broken, cluster, namespace};

/// Returns a cluster that knows the kind and has the service of a driver.
fn with_service_of(driver: &str) -> Api {
    let api = cluster();
    api.store(|store| {
        store.groups.insert("cbt.storage.k8s.io/v1beta1".to_owned(), vec!["snapshotmetadataservices"]);
    });
    let spec = json!({ "address": "metadata.storage:6443", "audience": "backup", "caCert": "UEVN" });
    api.has("snapshotmetadataservices", json!({ "metadata": { "name": driver }, "spec": spec }));
    api
}

#[tokio::test]
async fn metadata_is_offered_where_the_driver_serves_it() {
    let real = namespace(&with_service_of(DRIVER)).await;
    assert_eq!(real.offers(Feature::SnapshotMetadata), Ok(()));
    let real = namespace(&with_service_of("other.example")).await;
    let why = real.offers(Feature::SnapshotMetadata).unwrap_err();
    assert_eq!(why, format!("there is no SnapshotMetadataService {DRIVER}"));
    assert!(matches!(real.snapshot_blocks("snapshot-0", None).await, Err(Stop::Skip(_))));
}

#[tokio::test]
async fn an_account_that_may_read_snapshots_asks() {
    let api = with_service_of(DRIVER);
    let real = namespace(&api).await;
    for _ in 0..2 {
        let why = broken(real.snapshot_blocks("snapshot-0", None).await.unwrap_err());
        assert!(
            why.contains("metadata.storage:6443: there is no Service metadata in namespace storage"),
            "{why}"
        );
    }
    assert_eq!(api.names("roles"), ["reads-snapshots"], "once");
    let role = api.object("roles", NAMESPACE, "reads-snapshots").unwrap();
    let rules = json!([{ "apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": ["get"] }]);
    assert_eq!(role["rules"], rules);
    let binding = api.object("rolebindings", NAMESPACE, "reads-snapshots").unwrap();
    assert_eq!(binding["roleRef"]["name"], "reads-snapshots");
    assert_eq!(
        binding["subjects"],
        json!([{ "kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE }])
    );
    let asked =
        api.store(|store| store.sent.iter().find(|one| one["spec"].get("audiences").is_some()).cloned());
    assert_eq!(asked.unwrap()["spec"]["audiences"], json!(["backup"]));
    real.close().await.unwrap();
    assert_eq!(api.names("namespaces"), [""; 0]);
    assert_eq!(api.names("rolebindings"), [""; 0]);
}
