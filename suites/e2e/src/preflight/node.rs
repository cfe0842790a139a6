//! Judges nodes: they have the driver, with the properties of the definition.

use csi_driver_definitions::{Capability, DriverDefinition};

use super::{Facts, Finding, Nodes, unknown};
use crate::kube_cluster::discovery::DriverNode;

/// Limits the shown names.
const NAMES_MAX: usize = 10;

pub(super) fn judge(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(why) => return vec![unknown("the nodes", why)],
    };
    if nodes.with.is_empty() {
        return vec![nowhere(&definition.driver_info.name, nodes)];
    }
    let mut findings: Vec<Finding> = lacking(nodes).into_iter().collect();
    findings.extend(client_node(definition, nodes));
    findings.extend(topology(definition, nodes));
    findings.extend(limits(definition, nodes));
    findings
}

fn nowhere(driver: &str, nodes: &Nodes) -> Finding {
    let evidence = match nodes.without.len() {
        0 => "no node is ready and open for pods".to_owned(),
        _ => format!("the CSINode of {} does not name it", named(&nodes.without)),
    };
    Finding::error(
        format!("no node has the driver {driver}"),
        evidence,
        "look at the logs of csi-node-driver-registrar in the driver's pods, and whether its --kubelet-registration-path is the \
         driver's socket on the host",
    )
}

fn lacking(nodes: &Nodes) -> Option<Finding> {
    let finding = || {
        Finding::warning(
            "nodes lack the driver, but test pods may be scheduled on them",
            format!("{} lack it, {} of others have it", named(&nodes.without), nodes.with.len()),
            "look at tolerations and node selectors of the driver's DaemonSet, and at its pods there",
        )
    };
    (!nodes.without.is_empty()).then(finding)
}

fn client_node(definition: &DriverDefinition, nodes: &Nodes) -> Option<Finding> {
    let name = &definition.client_node_name;
    let is_known = name.is_empty() || nodes.with.iter().any(|one| one.node.name == *name);
    (!is_known).then(|| {
        let with: Vec<String> = nodes.with.iter().map(|one| one.node.name.clone()).collect();
        Finding::error(
            format!("the node of ClientNodeName, {name}, has no driver"),
            format!("{} of them have it", named(&with)),
            "correct ClientNodeName in the definition, or take it out",
        )
    })
}

fn topology(definition: &DriverDefinition, nodes: &Nodes) -> Vec<Finding> {
    if !definition.can(Capability::Topology) {
        return Vec::new();
    }
    let lacks = |has: &dyn Fn(&DriverNode) -> bool| !nodes.with.iter().any(has);
    let finding = |key: &String| {
        if lacks(&|one| one.topology_keys.contains(key)) {
            let keys: Vec<String> = nodes.with.iter().flat_map(|one| one.topology_keys.clone()).collect();
            let keys = if keys.is_empty() { "none".to_owned() } else { named(&keys) };
            let mend = "correct TopologyKeys in the definition, or what NodeGetInfo answers";
            Some((format!("kubelet has received {keys}"), mend))
        } else if lacks(&|one| one.node.topology.contains_key(key)) {
            Some((
                "the driver has registered with it, and no Node has the label".to_owned(),
                "do not remove the label; restart the driver's pod on the node to have it again",
            ))
        } else {
            None
        }
        .map(|(evidence, mend)| Finding::error(format!("no node has the topology key {key}"), evidence, mend))
    };
    definition.driver_info.topology_keys.iter().filter_map(finding).collect()
}

fn limits(definition: &DriverDefinition, nodes: &Nodes) -> Option<Finding> {
    let missing = definition.can(Capability::VolumeLimits)
        && !nodes.with.iter().any(|one| one.node.volume_limit.is_some_and(|limit| limit > 0));
    missing.then(|| {
        Finding::error(
            "no node says how many volumes it takes",
            "the definition has `volumeLimits: true`, no CSINode has allocatable.count",
            "answer max_volumes_per_node in NodeGetInfo, or take `volumeLimits` out of the definition",
        )
    })
}

/// Returns some of several names without duplicates.
fn named(names: &[String]) -> String {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        hidden => format!("{shown} and {hidden} more"),
    }
}
