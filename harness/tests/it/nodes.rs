//! The tests run checks on drivers with several nodes.

use std::collections::BTreeSet;

use csi_harness::client::target::{Target, TargetError};
use csi_harness::config::{Config, NodeConfig, PathCommands};
use csi_harness::driver::Driver;
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Capability, MockDriver};
use csi_proto::Endpoint;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::bench::{Ran, config, options, run};

/// Some mock drivers play nodes, and the configuration names the endpoints of all of them.
struct Nodes {
    driver: Driver,
    config: Config,
    directory: TempDir,
}

/// Serves the drivers, each of which plays the nodes with these numbers.
async fn serve(drivers: Vec<(csi_mock_driver::Config, Vec<usize>)>) -> Nodes {
    let directory = tempfile::tempdir().expect("a directory");
    let mut served = Vec::new();
    for (mock, nodes) in drivers {
        let driver = MockDriver::new(mock).expect("a mock driver");
        for node in nodes {
            let socket = directory.path().join(format!("{}.sock", served.len()));
            served.push((Endpoint::Unix(socket), driver.at_node(node).expect("it has that node")));
        }
    }
    let node =
        |(endpoint, _): &(Endpoint, _)| NodeConfig { endpoint: endpoint.to_string(), ..Default::default() };
    let mut nodes: Vec<NodeConfig> = served.iter().map(node).collect();
    let endpoint = Some(nodes.remove(0).endpoint);
    let driver = Driver::in_process(move || {
        Ok(served.iter().map(|(endpoint, driver)| (endpoint.clone(), driver.routes())).collect())
    });
    driver.start().await.expect("it starts");
    Nodes { driver, config: Config { endpoint, nodes, ..config() }, directory }
}

async fn two() -> Nodes {
    serve(vec![(Default::default(), vec![0, 1])]).await
}

async fn ran(config: Config, checks: &[&'static Check]) -> Ran {
    let target = Target::connect(config).await.expect("an answer");
    let options = csi_harness::run::runner::RunOptions { keep_calls: true, ..options() };
    run(target, options, watch::channel(Default::default()).1, checks).await
}

check! {
    /// Moves a volume from one node to the other, and leaves it to the harness to undo that there.
    MOVES {
        id: "nodes/moves",
        title: "a volume moves to another node",
        spec: [req::GEN_ERR_001],
        needs: [TWO_NODES],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let ids = BTreeSet::from([cx.node_id().await?, cx.at_node(1).node_id().await?]);
        ensure!(ids.len() == 2, "both nodes are {ids:?}");
        let mut paths = BTreeSet::new();
        for cx in [cx.clone(), cx.at_node(1)] {
            let part = cx.scope();
            let published = part.published(part.staged(part.attached(volume.clone()).await?).await?).await?;
            paths.extend([published.staged.staging_path, published.target_path]);
            if cx.target().nodes().len() == 2 && paths.len() == 2 {
                part.undo().await?;
            }
        }
        ensure!(paths.len() == 4, "the nodes share paths: {paths:?}");
        Ok(())
    }
}

check! {
    /// Needs one node only.
    STAYS {
        id: "nodes/stays",
        title: "NodeGetInfo is answered",
        spec: [req::NODE_INFO_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::NodeGetInfoRequest::default()).await.must("be answered")?;
        Ok(())
    }
}

#[tokio::test]
async fn each_node_is_called_and_undone_by_itself() {
    let nodes = two().await;
    let root = nodes.directory.path().join("paths");
    let config = Config { mount_dir: Some(root.clone()), staging_dir: Some(root.clone()), ..nodes.config };
    let ran = ran(config, &[&MOVES]).await;
    assert_eq!(ran.outcome(&MOVES), &Outcome::Passed, "{}", ran.stories);
    assert!(ran.leftovers.is_empty() && ran.summary.leaks.is_empty(), "{:?}", ran.leftovers);
    for rpc in
        ["NodeGetInfo", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    {
        let called = ran.calls.iter().filter(|call| call.rpc == rpc).map(|call| call.node);
        assert_eq!(called.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]), "{rpc}");
    }
    let on_the_second = ran.calls.iter().find(|call| call.rpc == "NodeStageVolume" && call.node == 1);
    let directory = root.join("node-2").display().to_string();
    assert!(on_the_second.is_some_and(|call| call.request.contains(&directory)), "below {directory}");
    assert!(!root.exists(), "what was made is removed");
}

#[tokio::test]
async fn a_node_has_paths_and_commands_of_its_own() {
    let nodes = two().await;
    let mut config = nodes.config;
    let own = nodes.directory.path().join("own");
    config.nodes[0].mount_dir = Some(own.clone());
    config.nodes[0].paths = Some(PathCommands {
        create_staging_path_command: Some("/nowhere/create".into()),
        ..PathCommands::default()
    });
    let ran = ran(config, &[&MOVES]).await;
    let Outcome::Broken(why) = ran.outcome(&MOVES) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("failed to run /nowhere/create"), "on the second node only: {why}");
}

#[tokio::test]
async fn without_a_second_node_such_checks_are_skipped() {
    let one = serve(vec![(Default::default(), vec![0])]).await;
    // `twice` has two sockets of one node, and the second node of `silent` does not return its id.
    let twice = serve(vec![(Default::default(), vec![0, 0])]).await;
    let silent = csi_mock_driver::Config {
        defects: vec![csi_mock_driver::Defect::NodeGetInfoFails],
        ..Default::default()
    };
    let silent = serve(vec![(Default::default(), vec![0]), (silent, vec![1])]).await;
    for (nodes, expected) in [
        (one, "needs a second node, which --node-endpoint names"),
        (twice, "needs a second node, but NodeGetInfo returns one id on both"),
        (silent, "needs a second node, but NodeGetInfo does not return an id on both"),
    ] {
        let ran = ran(nodes.config, &[&MOVES, &STAYS]).await;
        assert_eq!(ran.outcome(&MOVES), &Outcome::Skipped(expected.to_owned()));
        assert_eq!(ran.outcome(&STAYS), &Outcome::Passed);
    }
}

#[tokio::test]
async fn what_another_node_says_otherwise_is_news() {
    let other = csi_mock_driver::Config {
        driver_name: "other.example".to_owned(),
        without: vec![Capability::Node(NodeType::ExpandVolume)],
        ..Default::default()
    };
    let nodes = serve(vec![(Default::default(), vec![0]), (other, vec![0])]).await;
    let second = nodes.config.nodes[0].endpoint.clone();
    let target = Target::connect(nodes.config).await.expect("an answer");
    assert!(
        target.capabilities().has(csi_harness::prelude::Capability::NodeExpandVolume),
        "as the first one says"
    );
    let remarks = target.remarks().join("\n");
    for part in
        ["to the driver \"other.example\"", "other capabilities", "the node_id of another node", &second]
    {
        assert!(remarks.contains(part), "{part}: {remarks}");
    }
    let same = Target::connect(two().await.config).await.expect("an answer");
    assert_eq!(same.remarks(), Vec::<String>::new());
    assert_eq!(
        same.nodes().iter().map(|node| node.id()).collect::<Vec<_>>(),
        [Some("node-1"), Some("node-2")]
    );
}

#[tokio::test]
async fn a_node_that_is_not_there_is_named() {
    let mut nodes = two().await;
    nodes.config.nodes[0].endpoint = "/nowhere/csi.sock".to_owned();
    nodes.config.time_limits.dial_ms = 50;
    let Err(error) = Target::connect(nodes.config).await else { panic!("there is no such node") };
    assert!(matches!(error, TargetError::Dial(_)), "{error}");
    assert!(csi_harness::text::message::error_chain(&error).contains("/nowhere/csi.sock"), "{error}");
}

/// A driver counts as alive only if all of its nodes answer.
#[tokio::test]
async fn all_nodes_have_to_answer() {
    let both = two().await;
    let other = serve(vec![(Default::default(), vec![1])]).await;
    let mut config = both.config.clone();
    config.nodes[0].endpoint = other.config.endpoint.clone().expect("it has one");
    let target = Target::connect(config).await.expect("an answer");
    assert!(target.is_alive().await);
    other.driver.kill().await.expect("it can be killed");
    assert!(!target.is_alive().await, "the second node is dead");
}
