//! Finds out what a cluster has: kinds and their versions, and nodes with the driver.

use std::collections::BTreeMap;

use csi_harness::prelude::Stop;
use serde_json::Value;

use super::api::{self, Failed, Kinds, Server, bounded, items, text};
use super::connect::Connection;
use super::kind::ApiKind;
use super::metadata::service::MetadataService;
use crate::cluster::{Done, Node, Pairs};

/// The label with which node feature discovery marks a node that enforces SELinux.
pub(crate) const SELINUX_LABEL: &str = "feature.node.kubernetes.io/kernel-selinux.enabled";
/// The label that identifies a node, for pods on one of several nodes.
pub(crate) const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// A cluster, and the driver's parts in it.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The API server and its kinds.
    pub server: Server,
    /// The version of Kubernetes, such as `v1.33.1`.
    pub version: String,
    /// The nodes for pods that have the driver, by name.
    pub nodes: Vec<DriverNode>,
    /// The nodes for pods that lack the driver, by name.
    pub others: Vec<String>,
    /// The SnapshotMetadata service of the driver, if it has one.
    pub metadata_service: Option<MetadataService>,
}

/// A node with the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverNode {
    /// The node as tests see it.
    pub node: Node,
    /// The value of its label `kubernetes.io/hostname`.
    pub hostname: String,
    /// The topology keys of the driver's registration.
    pub topology_keys: Vec<String>,
    /// True if the node reports that it enforces SELinux.
    pub enforces_selinux: bool,
}

impl Discovered {
    /// Reads the properties of a cluster.
    ///
    /// # Errors
    /// Broken if it cannot be reached, or returns an error.
    pub async fn new(connection: Connection, driver: &str) -> Done<Discovered> {
        let version = bounded(connection.client.apiserver_version())
            .await
            .map_err(|why| unreached(&connection, &why))?;
        let kinds = kinds(&connection).await.map_err(|why| unreached(&connection, &why))?;
        let server = Server { connection, kinds };
        let (nodes, others) = nodes(&server, driver).await?;
        let metadata_service = MetadataService::find(&server, driver).await?;
        Ok(Discovered { server, version: version.git_version, nodes, others, metadata_service })
    }
}

fn unreached(connection: &Connection, why: &Failed) -> Stop {
    Stop::broken(format!("the cluster at {}: {why}", connection.server))
}

/// Returns the kinds that the server has in a known version. Kinds of every cluster are not requested.
pub(crate) async fn kinds(connection: &Connection) -> Result<Kinds, Failed> {
    let (optional, always): (Vec<ApiKind>, Vec<ApiKind>) =
        ApiKind::ALL.iter().partition(|kind| kind.is_optional());
    let mut kinds: Kinds =
        always.into_iter().map(|kind| (kind, kind.resource(kind.facts().versions[0]))).collect();
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for group in bounded(connection.client.list_api_groups()).await?.groups {
        groups.insert(group.name, group.versions.into_iter().map(|one| one.version).collect());
    }
    // The resources of each version, as far as they were requested.
    let mut served: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in optional {
        let facts = kind.facts();
        let there = groups.get(facts.group).map(Vec::as_slice).unwrap_or_default();
        for version in facts.versions.iter().filter(|version| there.iter().any(|one| one == *version)) {
            let api_version = format!("{}/{version}", facts.group);
            if !served.contains_key(&api_version) {
                let listed = bounded(connection.client.list_api_group_resources(&api_version)).await?;
                let names = listed.resources.into_iter().map(|resource| resource.name).collect();
                served.insert(api_version.clone(), names);
            }
            if served[&api_version].iter().any(|name| name == facts.resource) {
                kinds.insert(kind, kind.resource(version));
                break;
            }
        }
    }
    Ok(kinds)
}

/// Returns the nodes for pods: those with the driver, and the names of the others.
pub(crate) async fn nodes(server: &Server, driver: &str) -> Done<(Vec<DriverNode>, Vec<String>)> {
    let registered: BTreeMap<String, Value> = server
        .list(ApiKind::CsiNode, None, "")
        .await?
        .into_iter()
        .filter_map(|node| {
            let drivers = items(&node, "/spec/drivers").iter();
            let here = drivers.into_iter().find(|one| text(one, "/name") == driver)?.clone();
            Some((text(&node, "/metadata/name").to_owned(), here))
        })
        .collect();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for node in server.list(ApiKind::Node, None, "").await?.iter().filter(|node| takes_pods(node)) {
        match registered.get(text(node, "/metadata/name")) {
            Some(registration) => with.push(driver_node(node, registration)),
            None => without.push(text(node, "/metadata/name").to_owned()),
        }
    }
    with.sort_by(|a: &DriverNode, b| a.node.name.cmp(&b.node.name));
    without.sort();
    Ok((with, without))
}

/// Returns whether kubelet reports that the node is ready.
pub(super) fn is_ready(node: &Value) -> bool {
    items(node, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}

/// Returns whether a node is ready and accepts pods without tolerations.
fn takes_pods(node: &Value) -> bool {
    let keeps_off = |taint: &Value| matches!(text(taint, "/effect"), "NoSchedule" | "NoExecute");
    let is_closed = node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default();
    is_ready(node) && !is_closed && !items(node, "/spec/taints").iter().any(keeps_off)
}

fn driver_node(node: &Value, registration: &Value) -> DriverNode {
    let labels = api::pairs(node, "/metadata/labels");
    let topology_keys = api::strings(registration, "/topologyKeys");
    let topology: Pairs =
        topology_keys.iter().filter_map(|key| Some((key.clone(), labels.get(key)?.clone()))).collect();
    let name = text(node, "/metadata/name").to_owned();
    let volume_limit = registration.pointer("/allocatable/count").and_then(Value::as_u64);
    DriverNode {
        hostname: labels.get(HOSTNAME_LABEL).unwrap_or(&name).clone(),
        node: Node { name, topology, volume_limit },
        topology_keys,
        enforces_selinux: labels.get(SELINUX_LABEL).is_some_and(|value| value == "true"),
    }
}
