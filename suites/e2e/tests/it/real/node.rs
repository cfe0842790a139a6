//! The tests check the pod with access to a node and its deletion, without commands in pods.

use csi_harness::prelude::Stop;
use csi_suite_e2e::cluster::{Cluster as _, Feature};
use csi_suite_e2e::kube_cluster::{KubeCluster, NodeAccess, Settings};
use serde_json::json;

use super::api::Api;
use super::{NAMESPACE, broken, cluster, found, namespace, namespace_with, settings};

async fn with_access(api: &Api, node_access: NodeAccess) -> KubeCluster {
    namespace_with(found(api).await, Settings { node_access: Some(node_access), ..settings() })
}

#[tokio::test]
async fn nodes_are_left_alone_unless_the_user_allows_it() {
    let api = cluster();
    let real = namespace(&api).await;
    let why = real.offers(Feature::NodeAccess).unwrap_err();
    assert!(why.contains("--node-access"), "{why}");
    for refused in [real.paths_of_pod("node-a", "uid").await.map(drop), real.stop_kubelet("node-a").await] {
        assert!(matches!(refused, Err(Stop::Skip(_))), "{refused:?}");
    }
    assert_eq!(api.names("namespaces"), [""; 0]);
}

#[tokio::test]
async fn a_privileged_pod_is_deleted_with_its_test() {
    let api = cluster();
    let access = NodeAccess { kubelet_dir: "/var/lib/k0s/kubelet".to_owned(), ..NodeAccess::default() };
    let real = with_access(&api, access).await;
    assert_eq!(real.offers(Feature::NodeAccess), Ok(()));
    assert_eq!(api.names("pods"), [""; 0], "it is made when it is needed");
    // The commands fail, because this server cannot run any in pods.
    broken(real.paths_of_pod("node-a", "uid").await.unwrap_err());
    broken(real.stop_kubelet("node-a").await.unwrap_err());
    assert_eq!(api.names("pods"), ["node-0"], "one for both");
    let pod = api.object("pods", NAMESPACE, "node-0").unwrap();
    let spec = &pod["spec"];
    assert_eq!(spec["nodeName"], "node-a");
    assert_eq!(spec["hostPID"], true);
    let container = &spec["containers"][0];
    assert_eq!(container["image"], "tools:1");
    assert_eq!(container["securityContext"]["privileged"], true);
    let propagations = [&container["volumeMounts"][0], &container["volumeMounts"][1]]
        .map(|mount| mount["mountPropagation"].as_str().unwrap_or_default());
    assert_eq!(propagations, ["HostToContainer"; 2], "or nothing could be unmounted on the node");
    let volumes = json!([
        { "name": "host", "hostPath": { "path": "/", "type": "Directory" } },
        { "name": "kubelet", "hostPath": { "path": "/var/lib/k0s/kubelet", "type": "Directory" } },
    ]);
    assert_eq!(spec["volumes"], volumes);
    real.close().await.unwrap();
    assert_eq!(api.names("pods"), [""; 0]);
    assert_eq!(api.names("namespaces"), [""; 0]);
}

#[tokio::test]
async fn a_kubelet_that_was_not_stopped_is_not_waited_for() {
    let api = cluster();
    let real = with_access(&api, NodeAccess::default()).await;
    real.start_kubelet("node-a").await.unwrap();
    assert_eq!(api.names("pods"), [""; 0]);
}
