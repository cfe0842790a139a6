//! `csi-sanity e2e --cluster kube` checks its flags, files and rights before it needs a cluster.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use csi_suite_e2e::kube_cluster::kind::access;

use crate::ci_files::documents;
use crate::program::Folder;

const DEFINITION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../driver-definitions/hostpath.yaml");

/// Runs the program, and returns its exit code and its standard error.
fn ends(flags: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-sanity"));
    command.args(["e2e", "--driver-definition", DEFINITION]).args(flags);
    command.env_remove("CSI_ENDPOINT").env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBERNETES_SERVICE_PORT");
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn flags_of_another_kind_of_cluster_are_refused() {
    for (flags, named) in [
        (&["--cluster", "kube", "--endpoint", "/run/csi.sock"][..], "--endpoint"),
        (&["--cluster", "kube", "--node-endpoint", "/run/csi.sock"], "--node-endpoint"),
        (&["--cluster", "kube", "--driver-command", "true"], "--driver-command"),
        (&["--cluster", "kube", "--secrets", "s.yaml"], "--secrets"),
        (&["--cluster", "kube", "--manifest", "m.yaml"], "--manifest"),
        (&["--cluster", "kube", "--default-fstype", "ext4"], "--default-fstype"),
        (&["--cluster", "kube", "--extra-create-metadata"], "--extra-create-metadata"),
        (&["--cluster", "kube", "--kubelet-dir", "/tmp"], "--kubelet-dir"),
        (&["--cluster", "kube", "--expect-capability", "LIST_VOLUMES"], "--expect-capability"),
        (&["--kubeconfig", "config"], "--kubeconfig"),
        (&["--context", "mine"], "--context"),
        (&["--image", "tools"], "--image"),
        (&["--node-access"], "--node-access"),
    ] {
        let (code, printed) = ends(flags);
        assert_eq!(code, 2, "{flags:?}: {printed}");
        assert!(printed.starts_with(&format!("error: {named}")), "{flags:?}: {printed}");
        assert!(printed.contains("for --cluster kube"), "{flags:?}: {printed}");
    }
}

#[test]
fn nodes_are_used_by_all_that_is_needed_for_it() {
    let kube = &["--cluster", "kube"];
    for (flags, missing) in [
        (&["--node-access", "--kubelet-stop-command", "a"][..], "--kubelet-start-command"),
        (&["--node-access", "--kubelet-start-command", "a"], "--kubelet-stop-command"),
        (&["--kubelet-stop-command", "a", "--kubelet-start-command", "b"], "--node-access"),
    ] {
        let (code, printed) = ends(&[kube, flags].concat());
        assert_eq!(code, 2, "{flags:?}: {printed}");
        assert!(printed.contains(missing), "{flags:?}: {printed}");
    }
}

#[test]
fn kubeconfig_errors_name_the_file_and_context() {
    let (code, printed) = ends(&["--cluster", "kube"]);
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains("--kubeconfig FILE"), "{printed}");
    let (code, printed) = ends(&["--cluster", "kube", "--kubeconfig", "/nonexistent/config"]);
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains("--kubeconfig /nonexistent/config"), "{printed}");
    let folder = Folder::new();
    let path = folder.write("config", "apiVersion: v1\nkind: Config\ncurrent-context: one\n");
    let (code, printed) = ends(&["--cluster", "kube", "--kubeconfig", &path, "--context", "other"]);
    assert_eq!(code, 2, "{printed}");
    assert!(printed.contains(&format!("--kubeconfig {path}, --context other")), "{printed}");
}

#[test]
fn an_unreached_cluster_is_no_fault_of_the_driver() {
    let folder = Folder::new();
    // No process listens at port 9, which is for the service "discard".
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                  clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n\
                  contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n";
    let path = folder.write("config", config);
    let (code, printed) = ends(&["--cluster", "kube", "--kubeconfig", &path]);
    assert_eq!(code, 3, "{printed}");
    assert!(printed.contains("http://127.0.0.1:9"), "{printed}");
}

#[test]
fn the_manifest_gives_exactly_the_rights_in_use() {
    let mut given = BTreeSet::new();
    let of = |rule: &serde_json::Value, key: &str| -> Vec<String> {
        let words = rule[key].as_array().into_iter().flatten();
        words.map(|word| word.as_str().unwrap_or_default().to_owned()).collect()
    };
    let manifests = documents(Path::new("ci/kubernetes/e2e-rbac.yaml"));
    let role = manifests.iter().find(|one| one["kind"] == "ClusterRole").expect("there is a ClusterRole");
    for rule in role["rules"].as_array().expect("it has rules") {
        for group in of(rule, "apiGroups") {
            for resource in of(rule, "resources") {
                for verb in of(rule, "verbs") {
                    assert!(
                        given.insert((group.clone(), resource.clone(), verb.clone())),
                        "{resource} {verb} stands twice"
                    );
                }
            }
        }
    }
    let used: BTreeSet<(String, String, String)> = access()
        .flat_map(|(group, resource, verbs)| {
            verbs.iter().map(move |verb| (group.to_owned(), resource.to_owned(), (*verb).to_owned()))
        })
        .collect();
    assert_eq!(given, used);
}
