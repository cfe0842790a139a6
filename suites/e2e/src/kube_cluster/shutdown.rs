//! Shuts nodes down with the user's command, and lets their pods go to other nodes as an administrator does: with the taint
//! `node.kubernetes.io/out-of-service`.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_proto::lock::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::KubeCluster;
use super::api::{Server, items, text};
use super::commands::{NodeCommands, run};
use super::discovery::is_ready;
use super::kind::ApiKind;
use crate::cluster::Done;

/// The taint with which Kubernetes deletes the pods of a node and detaches its volumes without waiting for it.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Limits the time until the cluster notices that a node is down, or that it is ready again.
const NOTICE_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The pause before a node is read again.
const PAUSE: Duration = Duration::from_secs(1);
/// Limits the attempts to change the taints of a node, which others change as well.
const TRIES_MAX: u32 = 10;
/// The reason why no node is shut down.
const NO_SHUTDOWN: &str = "nodes are shut down only with --node-shutdown-command and --node-start-command";

/// The names of nodes that a test has shut down.
pub(super) type NodesDown = Mutex<BTreeSet<String>>;

/// Returns the commands for nodes.
///
/// # Errors
/// There are none; the text names their flags.
pub(super) fn commands(given: Option<&NodeCommands>) -> Result<&NodeCommands, String> {
    given.ok_or_else(|| NO_SHUTDOWN.to_owned())
}

impl KubeCluster {
    /// Shuts a node down, waits until the cluster has noticed it, and declares it out of service.
    pub(super) async fn shut_down(&self, node: &str) -> Done {
        let commands = commands(self.settings.node_commands.as_ref()).map_err(Stop::skip)?;
        self.nodes_down.lock().insert(node.to_owned());
        run(&commands.shut_down, &format!("shuts node {node} down"), Some(node)).await?;
        self.noticed(node, false).await?;
        set_out_of_service(self.server(), node, true).await
    }

    /// Starts a node that was shut down, and waits until it is ready.
    pub(super) async fn start_up(&self, node: &str) -> Done {
        let commands = commands(self.settings.node_commands.as_ref()).map_err(Stop::skip)?;
        if !self.nodes_down.lock().contains(node) {
            return Ok(());
        }
        run(&commands.start, &format!("starts node {node}"), Some(node)).await?;
        self.noticed(node, true).await?;
        set_out_of_service(self.server(), node, false).await?;
        self.nodes_down.lock().remove(node);
        Ok(())
    }

    /// Starts the nodes that a test has left down.
    pub(super) async fn start_all(&self) -> Done {
        let down = self.nodes_down.lock().clone();
        for node in down {
            (self.say)(&format!("starting node {node}, which a test has shut down"));
            self.start_up(&node).await?;
        }
        Ok(())
    }

    /// Waits until a node is ready, or not ready.
    async fn noticed(&self, name: &str, ready: bool) -> Done {
        let until = Instant::now() + NOTICE_LIMIT;
        loop {
            let node = node(self.server(), name).await?;
            match node.as_ref().is_some_and(is_ready) {
                is_ready if is_ready == ready => return Ok(()),
                _ if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                is_ready => {
                    let (state, flag) = match is_ready {
                        true => ("is still ready", "--node-shutdown-command"),
                        false => ("is not ready again", "--node-start-command"),
                    };
                    let waited_s = NOTICE_LIMIT.as_secs();
                    return Err(Stop::broken(format!("node {name} {state} after {waited_s} s; see {flag}")));
                }
            }
        }
    }
}

/// Removes the taints of runs that were killed. Returns the names of their nodes, which may still be down.
pub(super) async fn put_in_service(server: &Server) -> Done<Vec<String>> {
    let nodes = server.list(ApiKind::Node, None, "").await?;
    let tainted = nodes.iter().filter(|node| taints(node).iter().any(is_ours));
    let names: Vec<String> = tainted.map(|node| text(node, "/metadata/name").to_owned()).collect();
    for name in &names {
        set_out_of_service(server, name, false).await?;
    }
    Ok(names)
}

async fn node(server: &Server, name: &str) -> Done<Option<Value>> {
    let nodes = server.list(ApiKind::Node, None, "").await?;
    Ok(nodes.into_iter().find(|node| text(node, "/metadata/name") == name))
}

/// Sets the taint of a node, or removes it. Taints of others stay.
async fn set_out_of_service(server: &Server, name: &str, is_out: bool) -> Done {
    for tries in 1.. {
        let Some(node) = node(server, name).await? else { return Ok(()) };
        // The patch only applies if nothing else has changed.
        let patch = json!({
            "metadata": { "resourceVersion": text(&node, "/metadata/resourceVersion") },
            "spec": { "taints": with_taint(&node, is_out) },
        });
        match server.patch(ApiKind::Node, None, name, patch).await {
            Err(why) if tries == TRIES_MAX => return Err(why),
            Err(_) => tokio::time::sleep(PAUSE).await,
            Ok(()) => break,
        }
    }
    Ok(())
}

/// Returns the taints of a node with our own, or without it.
fn with_taint(node: &Value, is_out: bool) -> Vec<Value> {
    let ours = json!({ "key": OUT_OF_SERVICE, "value": super::MANAGER, "effect": "NoExecute" });
    let others = taints(node).iter().filter(|taint| !is_ours(taint)).cloned();
    others.chain(is_out.then_some(ours)).collect()
}

fn taints(node: &Value) -> &[Value] {
    items(node, "/spec/taints")
}

fn is_ours(taint: &Value) -> bool {
    text(taint, "/key") == OUT_OF_SERVICE && text(taint, "/value") == super::MANAGER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_of_others_stay() {
        let theirs = json!({ "key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute" });
        let unreachable = json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" });
        let node = |taints: &[Value]| json!({ "spec": { "taints": taints } });
        let before = [theirs, unreachable];
        let tainted = with_taint(&node(&before), true);
        assert_eq!((&tainted[..2], &tainted[2]["value"]), (&before[..], &json!("csi-sanity")));
        assert_eq!(with_taint(&node(&tainted), true), tainted, "it is set once");
        assert_eq!(with_taint(&node(&tainted), false), before);
        assert_eq!(with_taint(&json!({ "spec": {} }), false), [Value::Null; 0]);
    }
}
