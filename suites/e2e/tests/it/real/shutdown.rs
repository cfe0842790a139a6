//! Commands of the user shut nodes down, and the nodes have a taint until they are back.

use csi_harness::prelude::Stop;
use csi_suite_e2e::cluster::{Cluster as _, Feature};
use csi_suite_e2e::kube_cluster::cleanup::clean_up;
use csi_suite_e2e::kube_cluster::{KubeCluster, NodeCommands, Settings};
use serde_json::{Value, json};

use super::api::Api;
use super::{class, cluster, found, namespace, namespace_with, server, settings};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Makes a node ready or not ready.
fn node_is(api: &Api, ready: bool) {
    let mut node = api.object("nodes", "", "node-a").unwrap();
    node["status"]["conditions"][0]["status"] = if ready { "True" } else { "Unknown" }.into();
    api.store(|store| store.put("nodes", node));
}

fn taints(api: &Api) -> Value {
    api.object("nodes", "", "node-a").unwrap()["spec"]["taints"].clone()
}

/// Makes the namespace of a test in a cluster whose nodes can be shut down.
async fn with_commands(api: &Api, shut_down: &str, start: &str) -> KubeCluster {
    let node_commands = NodeCommands { shut_down: shut_down.to_owned(), start: start.to_owned() };
    namespace_with(found(api).await, Settings { node_commands: Some(node_commands), ..settings() })
}

#[tokio::test]
async fn a_node_that_is_down_is_out_of_service_until_it_is_back() {
    let api = cluster();
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let command = |word: &str| format!("echo {word} $NODE >> {}", log.display());
    let real = with_commands(&api, &command("down"), &command("up")).await;
    let falls = async {
        while !log.exists() {
            tokio::task::yield_now().await;
        }
        assert_eq!(taints(&api), Value::Null, "the node may still write");
        node_is(&api, false);
    };
    let (down, ()) = tokio::join!(real.shut_node_down("node-a"), falls);
    down.unwrap();
    let ours = json!({ "key": OUT_OF_SERVICE, "value": "csi-sanity", "effect": "NoExecute" });
    assert_eq!(taints(&api), json!([ours]));
    node_is(&api, true);
    real.start_node("node-a").await.unwrap();
    assert_eq!(taints(&api), json!([]));
    real.start_node("node-a").await.unwrap();
    let said = std::fs::read_to_string(log).unwrap();
    assert_eq!(said, "down node-a\nup node-a\n", "a node that is up is not started");
}

#[tokio::test]
async fn the_taint_of_a_killed_run_is_removed() {
    let api = cluster();
    node_is(&api, false);
    let real = with_commands(&api, "true", "true").await;
    real.shut_node_down("node-a").await.unwrap();
    let cleaned = clean_up(&server(&api).await, |_| {}).await.unwrap();
    assert_eq!(cleaned.removed, ["the taint of Node node-a, which is out of service"]);
    assert_eq!(taints(&api), json!([]));
}

#[tokio::test]
async fn without_commands_no_node_is_shut_down() {
    let real = namespace(&cluster()).await;
    let why = real.offers(Feature::NodeShutdown).unwrap_err();
    assert!(why.contains("--node-shutdown-command"), "{why}");
    assert!(matches!(real.shut_node_down("node-a").await, Err(Stop::Skip(_))));
}

#[tokio::test]
async fn the_taint_of_a_run_that_goes_on_stays() {
    let api = cluster();
    node_is(&api, false);
    let real = with_commands(&api, "true", "true").await;
    real.create_storage_class(&class("class-0")).await.unwrap();
    real.shut_node_down("node-a").await.unwrap();
    let tainted = taints(&api);
    let cleaned = clean_up(&server(&api).await, |_| {}).await.unwrap();
    assert!(!cleaned.kept.is_empty() && cleaned.removed.is_empty(), "{cleaned:?}");
    assert_eq!(taints(&api), tainted);
}
