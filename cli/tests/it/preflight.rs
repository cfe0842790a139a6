//! `e2e --preflight` ends with an exit code, and says so if the cluster cannot be reached.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::program::{Folder, check};

const DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/mock.yaml");

#[test]
fn a_cluster_that_is_not_there_is_told_by_its_flag() {
    let arguments = ["e2e", "--preflight", "--driver-definition", DEFINITION];
    check(
        &[&arguments[..], &["--kubeconfig", "/nowhere/config"]].concat(),
        2,
        &["--kubeconfig /nowhere/config"],
    );
}

#[test]
fn a_silent_cluster_is_named_by_its_address() {
    let folder = Folder::new();
    // No process listens at port 1.
    let config = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], \
                  clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";
    let file = folder.write("config", config);
    let arguments = ["e2e", "--preflight", "--driver-definition", DEFINITION, "--kubeconfig", &file];
    check(&arguments, 3, &["the cluster at http://127.0.0.1:1"]);
}

const DRIVER: &str = "mock.csi-sanity.example";

/// Returns a CSIDriver, and a node that has the driver.
fn installed() -> Vec<(&'static str, Value)> {
    let metadata = json!({ "name": "node-1", "labels": { "mock.csi-sanity.example/zone": "a" } });
    let status = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    let keys = ["mock.csi-sanity.example/zone"];
    let driver =
        json!({ "name": DRIVER, "nodeID": "1", "topologyKeys": keys, "allocatable": { "count": 64 } });
    let object = json!({ "storageCapacity": true, "fsGroupPolicy": "File", "attachRequired": false });
    vec![
        ("csidrivers", json!({ "metadata": { "name": DRIVER }, "spec": object })),
        ("nodes", json!({ "metadata": metadata, "spec": {}, "status": status })),
        ("csinodes", json!({ "metadata": { "name": "node-1" }, "spec": { "drivers": [driver] } })),
    ]
}

#[test]
fn errors_end_with_3_and_warnings_do_not() {
    let folder = Folder::new();
    let text = format!("StorageClass: {{FromName: true}}\nDriverInfo: {{Name: {DRIVER}}}\n");
    let definition = folder.write("driver.yaml", &text);
    let look = |objects: &[(&'static str, Value)], code| {
        let cluster = Cluster::start(objects);
        let arguments = ["e2e", "--preflight", "--driver-definition", &definition];
        check(&[&arguments[..], &["--kubeconfig", cluster.kubeconfig()]].concat(), code, &[]).stdout
    };
    let said = look(&[], 3);
    assert!(said.starts_with(&format!("error    no CSIDriver {DRIVER}: the cluster has none; ")), "{said}");
    assert!(said.contains(&format!("error    no node has the driver {DRIVER}: ")), "{said}");
    assert!(said.ends_with("errors: 2, warnings: 1\n"), "{said}");

    let said = look(&installed(), 0);
    assert!(said.starts_with("warning  claims stay unbound: no csi-provisioner is found: "), "{said}");
    assert!(said.ends_with("errors: 0, warnings: 1\n"), "{said}");

    folder.write("driver.yaml", &format!("DriverInfo: {{Name: {DRIVER}}}\n"));
    assert_eq!(look(&installed(), 0), "nothing wrong was found\n");
}

#[test]
fn it_runs_nothing_else() {
    for other in ["--plan", "--dry-run", "--cleanup", "--shard=1/2"] {
        check(&["e2e", "--preflight", "--driver-definition", DEFINITION, other], 2, &["--preflight"]);
    }
}
