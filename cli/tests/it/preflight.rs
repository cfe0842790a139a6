//! `e2e --preflight`, as far as no cluster is needed.

use crate::program::check;

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
fn a_cluster_that_does_not_answer_is_told_by_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    // Nothing listens at the port of nobody.
    let config = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], \
                  clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";
    std::fs::write(&file, config).unwrap();
    let kubeconfig = file.to_str().unwrap();
    let arguments = ["e2e", "--preflight", "--driver-definition", DEFINITION, "--kubeconfig", kubeconfig];
    check(&arguments, 3, &["the cluster at http://127.0.0.1:1"]);
}

#[test]
fn it_runs_nothing_else() {
    for other in ["--plan", "--dry-run", "--cleanup", "--shard=1/2"] {
        check(&["e2e", "--preflight", "--driver-definition", DEFINITION, other], 2, &["--preflight"]);
    }
}
