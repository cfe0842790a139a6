//! Uses the parts of nodes that no API shows: their files, and their kubelet, which is stopped and started again.
//! Both need a privileged pod on the node, which is created in the test's namespace when it is first needed.

mod scripts;

use std::collections::BTreeMap;
use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_proto::lock::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kind::ApiKind;
use super::{KubeCluster, close, events, exec, pods};
use crate::cluster::{Done, Event, Output, PodPhase, PodSpec};

/// The time for which kubelet is down. The node itself starts it again, because no command reaches it without
/// kubelet.
const DOWN: Duration = Duration::from_secs(30);
/// Limits the commands that stop or start kubelet.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Limits the time for which kubelet may still answer after it was stopped.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);
/// Limits one answer of kubelet; without it, kubelet is down.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Limits the time until kubelet answers again.
const BACK_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Limits the start of a node's pod, whose image may have to be pulled.
const POD_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Limits a command on a node.
const LOOK_LIMIT: Duration = Duration::from_secs(30);
/// The pause before kubelet is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The grace period of a pod that still has to start kubelet.
const GRACE_SECONDS: u64 = DOWN.as_secs() + 2 * COMMAND_LIMIT.as_secs();

/// The container of a node's pod.
const CONTAINER: &str = "node";
/// The mount point of the node's root directory.
const HOST: &str = "/host";
/// The mount point of kubelet's directory, because the root may have a link there.
const KUBELET: &str = "/kubelet";

/// The user's settings for the use of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAccess {
    /// kubelet's directory.
    pub kubelet_dir: String,
    /// A shell command that stops kubelet on its node.
    pub stop_command: String,
    /// A shell command that starts kubelet, and does nothing if it runs.
    pub start_command: String,
}

impl Default for NodeAccess {
    fn default() -> NodeAccess {
        NodeAccess {
            kubelet_dir: "/var/lib/kubelet".to_owned(),
            stop_command: "systemctl stop kubelet".to_owned(),
            start_command: "systemctl start kubelet".to_owned(),
        }
    }
}

/// A test's state of nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    /// The names of the pods, by node.
    pods: tokio::sync::Mutex<BTreeMap<String, String>>,
    /// The time at which kubelet was stopped, by node.
    stopped: Mutex<BTreeMap<String, Instant>>,
}

impl KubeCluster {
    /// Returns what the node has for the volumes of a pod.
    pub(super) async fn paths_on_node(&self, node: &str, uid: &str) -> Done<Vec<String>> {
        let access = self.node_access()?;
        let pod = self.node_pod(node).await?;
        let printed = self.must(&pod, &scripts::paths_of_pod(KUBELET, uid)).await?;
        Ok(scripts::paths(&printed, KUBELET, &access.kubelet_dir, uid))
    }

    /// Stops kubelet, and checks that it is down.
    pub(super) async fn stop_kubelet_on(&self, node: &str) -> Done {
        let NodeAccess { stop_command, start_command, .. } = self.node_access()?;
        let pod = self.node_pod(node).await?;
        // If this command were wrong, kubelet could not be started again.
        let idle = self.on_node(&pod, &scripts::on_host(HOST, start_command), COMMAND_LIMIT).await?;
        if idle.code != 0 {
            let problem =
                "so it was not stopped; --kubelet-start-command must succeed where kubelet already runs";
            return Err(unfit(node, start_command, &idle, problem));
        }
        let begun = Instant::now();
        let script = scripts::stop(HOST, stop_command, start_command, DOWN);
        // The connection passes through kubelet, and may hang without it.
        let fails = async {
            match self.on_node(&pod, &script, COMMAND_LIMIT).await {
                Ok(stopped) if stopped.code != 0 => stopped,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            stopped = fails => return Err(unfit(node, stop_command, &stopped, "see --kubelet-stop-command")),
            silent = self.falls_silent(node, &pod) => silent?,
        }
        self.nodes.stopped.lock().insert(node.to_owned(), begun);
        Ok(())
    }

    /// Waits until kubelet no longer answers.
    async fn falls_silent(&self, node: &str, pod: &str) -> Done {
        let until = Instant::now() + SILENCE_LIMIT;
        while self.on_node(pod, "true", ANSWER_LIMIT).await.is_ok() {
            if Instant::now() >= until {
                let stop_command = &self.node_access()?.stop_command;
                return Err(Stop::broken(format!(
                    "kubelet on node {node} still runs after `{stop_command}`; see --kubelet-stop-command"
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Waits until kubelet runs again; the node starts it.
    pub(super) async fn start_kubelet_on(&self, node: &str) -> Done {
        let begun = self.nodes.stopped.lock().remove(node);
        let Some(begun) = begun else { return Ok(()) };
        let was_in_time = begun.elapsed() < DOWN;
        let pod = self.node_pod(node).await?;
        let ended = self.back(node, &pod, begun + DOWN + BACK_LIMIT).await?;
        if ended.code != 0 {
            let stop_command = &self.node_access()?.stop_command;
            return Err(unfit(node, stop_command, &ended, "see --kubelet-stop-command"));
        }
        match was_in_time {
            true => Ok(()),
            false => Err(Stop::broken(format!(
                "kubelet on node {node} was started again after {} s, before the test had finished its steps without kubelet",
                DOWN.as_secs()
            ))),
        }
    }

    /// Requests the result of stopping kubelet, until it answers.
    async fn back(&self, node: &str, pod: &str, until: Instant) -> Done<Output> {
        loop {
            let asked = self.on_node(pod, scripts::STOPPED, ANSWER_LIMIT).await;
            match asked {
                Ok(output) if output.code != scripts::NOT_YET => return Ok(output),
                _ if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                asked => {
                    let start = &self.node_access()?.start_command;
                    let why = asked.map_or_else(close::reason, |_| {
                        "it answers, but its pod is still starting it".to_owned()
                    });
                    let problem = format!("kubelet on node {node} is not back; run `{start}` there: {why}");
                    return Err(Stop::broken(problem));
                }
            }
        }
    }

    fn node_access(&self) -> Done<&NodeAccess> {
        self.settings.node_access.as_ref().ok_or_else(|| Stop::skip(super::NO_NODE_ACCESS))
    }

    async fn on_node(&self, pod: &str, script: &str, limit: Duration) -> Done<Output> {
        exec::run(self.server(), &self.names.namespace, [pod, CONTAINER], script, &[], limit).await
    }

    async fn must(&self, pod: &str, script: &str) -> Done<String> {
        let output = self.on_node(pod, script, LOOK_LIMIT).await?;
        match output.code {
            0 => Ok(output.stdout),
            code => Err(Stop::broken(format!(
                "a command on a node ended with {code}: {}",
                output.stderr.trim_end()
            ))),
        }
    }

    /// Returns the running pod of a node.
    async fn node_pod(&self, node: &str) -> Done<String> {
        let mut pods = self.nodes.pods.lock().await;
        if let Some(pod) = pods.get(node) {
            return Ok(pod.clone());
        }
        let name = format!("node-{}", pods.len());
        let access = self.node_access()?;
        let manifest = manifest(&self.names.namespace, &name, &self.settings.image, node, access);
        self.create(ApiKind::Pod, manifest).await?;
        self.runs(&name).await?;
        pods.insert(node.to_owned(), name.clone());
        Ok(name)
    }

    async fn runs(&self, name: &str) -> Done {
        let until = Instant::now() + POD_LIMIT;
        loop {
            let changed = self.watches.changed();
            let object = self.look(ApiKind::Pod, name).await?.unwrap_or_default();
            let pod = pods::read(PodSpec::default(), &object);
            match pod.phase {
                PodPhase::Running => return Ok(()),
                PodPhase::Pending if Instant::now() < until => changed.await,
                phase => {
                    let events = events::of(self.server(), self.namespace(), name).await?;
                    let event = Event::most_explaining(&events);
                    let event = event.map(|event| format!("{}: {}", event.reason, event.message));
                    let why = pod.waiting.or(event).unwrap_or_default();
                    let problem =
                        format!("pod {name}, which looks at the node, does not run, but is {phase:?}: {why}");
                    return Err(Stop::broken(problem));
                }
            }
        }
    }
}

/// Reports a command of the user that does not work.
fn unfit(node: &str, command: &str, output: &Output, advice: &str) -> Stop {
    let Output { code, stdout, stderr } = output;
    let printed = format!("{stdout}{stderr}").trim().replace('\n', "; ");
    Stop::broken(format!("`{command}` on node {node} ends with {code}, {advice}: {printed}"))
}

/// Returns the manifest of a node's pod.
fn manifest(namespace: &str, name: &str, image: &str, node: &str, access: &NodeAccess) -> Value {
    let directory =
        |name: &str, path: &str| json!({ "name": name, "hostPath": { "path": path, "type": "Directory" } });
    // An unmount on the node must also take effect here, or the driver could not release the volume.
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path, "mountPropagation": "HostToContainer" });
    json!({
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "nodeName": node,
            "hostPID": true,
            "hostIPC": true,
            "hostNetwork": true,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", pods::WAITS],
                "securityContext": { "privileged": true, "runAsUser": 0 },
                // A pod that is deleted while kubelet stops must not end the process that starts it again.
                "lifecycle": { "preStop": { "exec": { "command": ["sh", "-c", scripts::WAIT_FOR_GUARD] } } },
                "volumeMounts": [mount("host", HOST), mount("kubelet", KUBELET)],
            }],
            "volumes": [directory("host", "/"), directory("kubelet", &access.kubelet_dir)],
        },
    })
}
