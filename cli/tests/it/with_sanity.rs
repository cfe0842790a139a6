//! `e2e --cluster kube --with-sanity` reaches a driver through a port of its pod, which an API server forwards.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use csi_mock_driver::{Config, Delay};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::driver::{Driver, LONG};
use crate::program::{Said, program, read_json};

const DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/mock.yaml");
const NAME: &str = "mock.csi-sanity.example";

/// The driver is in a pod of the cluster, and its directory also has the temporary files of the run.
struct Deployed {
    driver: Driver,
    cluster: Cluster,
    scratch: TempDir,
}

impl Deployed {
    fn new(config: Config) -> Deployed {
        let driver = Driver::start(config);
        let cluster = Cluster::with_pods(&objects(driver.directory()), driver.directory().join("csi.sock"));
        Deployed { driver, cluster, scratch: tempfile::tempdir().unwrap() }
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = program();
        command.args(["e2e", "--cluster", "kube", "--with-sanity", "--driver-definition", DEFINITION]);
        command.args(["--kubeconfig", self.cluster.kubeconfig()]).args(flags);
        command.env("TMPDIR", self.scratch.path()).env_remove("CSI_ENDPOINT");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn says(&self, flags: &[&str]) -> Said {
        self.command(flags).output().unwrap().into()
    }

    /// Lists the files beside the socket.
    fn beside(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.driver.directory()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Returns a node with the driver, whose pod has the sidecar and a socket in a directory on this machine.
fn objects(directory: &Path) -> Vec<(&'static str, Value)> {
    let at = directory.to_str().unwrap();
    let container = |name: &str, privileged: bool| {
        json!({
            "name": name, "image": "it", "securityContext": { "privileged": privileged },
            "volumeMounts": [{ "name": "socket-dir", "mountPath": at }],
        })
    };
    let status = json!({
        "name": "csi-sanity-proxy", "ready": true, "restartCount": 0, "image": "it", "imageID": "it",
        "state": { "running": {} },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "mock-0", "namespace": "drivers" },
        "spec": { "containers": [container("mock", true), container("csi-sanity-proxy", false)] },
        "status": { "phase": "Running", "containerStatuses": [status] },
    });
    let other = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "other", "namespace": "default" },
        "spec": { "containers": [] }, "status": { "phase": "Running" },
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-1", "labels": {} }, "spec": {},
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": "node-1" },
        "spec": { "drivers": [{ "name": NAME, "nodeID": "node-1", "topologyKeys": [] }] },
    });
    vec![("nodes", node), ("pods", other), ("pods", pod), ("csinodes", csi_node)]
}

#[test]
fn a_driver_in_a_pod_is_called_through_its_sidecar() {
    let deployed = Deployed::new(Config::default());
    let report = deployed.scratch.path().join("report.json");
    let json = format!("json={}", report.display());
    let chosen = "identity/*,node/node-publish-volume/*,node/node-unpublish-volume/*";
    let said = deployed.says(&["--filter", chosen, "--report", &json]);
    assert_eq!(said.code, Some(0), "{} {}", said.stdout, said.stderr);
    let place = "at pod drivers/mock-0 of http://127.0.0.1:";
    assert!(said.stdout.contains(place) && said.stdout.contains("v1.36.0-it"), "{}", said.stdout);
    let report = read_json(report);
    let passed = |id: &str| {
        let of = report["checks"].as_array().unwrap().iter().find(|check| check["id"] == id);
        of.is_some_and(|check| check["outcome"] == "passed")
    };
    // The check looks at a path in the pod of the driver.
    assert!(passed("node/node-unpublish-volume/removes-target"), "{report:#}");
    assert_eq!(deployed.beside(), ["csi.sock"]);
    assert_eq!(deployed.driver.volumes(), [""; 0]);
}

#[test]
fn what_a_killed_run_has_made_in_the_driver_is_undone() {
    let delay = ["NodeUnpublishVolume", "DeleteVolume"]
        .map(|rpc| (rpc.parse().unwrap(), Delay(std::time::Duration::from_millis(200))));
    let deployed = Deployed::new(Config { delay: delay.into(), ..Config::default() });
    let mut child = deployed.command(&["--filter", "node/node-publish-volume/*"]).spawn().unwrap();
    deployed.driver.wait_for_volume();
    let started = Instant::now();
    while deployed.beside() == ["csi.sock"] {
        assert!(started.elapsed() < LONG, "no path is ever made");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let said = deployed.says(&["--cleanup"]);
    assert_eq!(said.code, Some(0), "{} {}", said.stdout, said.stderr);
    assert!(said.stdout.contains("undone: volume "), "{}", said.stdout);
    assert_eq!(deployed.driver.volumes(), [""; 0]);
    assert_eq!(deployed.beside(), ["csi.sock"]);
    assert_eq!(std::fs::read_dir(deployed.scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_driver_without_sidecars_is_named_with_the_reason() {
    let driver = Driver::start(Config::default());
    let cluster = Cluster::with_pods(&objects(driver.directory()), driver.directory().join("nobody.sock"));
    let scratch = tempfile::tempdir().unwrap();
    let deployed = Deployed { driver, cluster, scratch };
    let said = deployed.says(&["--filter", "identity/*"]);
    assert_eq!(said.code, Some(3), "{} {}", said.stdout, said.stderr);
    for printed in ["sidecar-patch.yaml", NAME, "pod drivers/mock-0: connection refused"] {
        assert!(said.stderr.contains(printed), "{printed}: {}", said.stderr);
    }
}
