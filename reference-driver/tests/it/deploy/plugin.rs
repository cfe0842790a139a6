//! Checks that the pod of the plugin matches the driver and kubelet.

use std::collections::BTreeMap;
use std::ffi::OsString;

use csi_hostpath_driver::Config;
use csi_hostpath_driver::args::Args;
use serde_json::Value;

use super::rendered;
use super::yaml::{list_at, text_at};

/// Environment variables that are taken from a field of the pod have this value here.
const NODE_NAME: &str = "node-1";
/// Kubelet expects the sockets of plugins in this directory.
const KUBELET_PLUGINS: &str = "/var/lib/kubelet/plugins/";

/// Returns the only object of a kind.
fn only<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| text_at(object, "/kind") == Some(kind));
    let first = found.next().unwrap_or_else(|| panic!("there is no {kind}"));
    assert!(found.next().is_none(), "there are several {kind}s");
    first
}

fn pod(objects: &[Value]) -> &Value {
    &only(objects, "StatefulSet")["spec"]["template"]["spec"]
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let found =
        list_at(pod, "/containers").iter().find(|container| text_at(container, "/name") == Some(name));
    found.unwrap_or_else(|| panic!("there is no container {name}"))
}

/// Returns the arguments of a container, with environment variables expanded.
fn arguments(container: &Value) -> Vec<String> {
    let environment: BTreeMap<&str, &str> = list_at(container, "/env")
        .iter()
        .map(|variable| {
            (text_at(variable, "/name").unwrap(), text_at(variable, "/value").unwrap_or(NODE_NAME))
        })
        .collect();
    let fill_in = |argument: &Value| {
        let mut text = argument.as_str().unwrap().to_owned();
        for (name, value) in &environment {
            text = text.replace(&format!("$({name})"), value);
        }
        assert!(!text.contains("$("), "{text} refers to a variable that is not set");
        text
    };
    list_at(container, "/args").iter().map(fill_in).collect()
}

/// Returns the value of a flag of a container.
fn flag(container: &Value, name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    arguments(container).into_iter().find_map(|argument| argument.strip_prefix(&prefix).map(str::to_owned))
}

/// Returns the settings that the driver derives from its arguments.
pub(super) fn config(objects: &[Value]) -> Config {
    let arguments = arguments(container(pod(objects), "hostpath"));
    let line = std::iter::once("csi-hostpath-driver".to_owned()).chain(arguments).map(OsString::from);
    Args::read(line).unwrap_or_else(|error| panic!("{error}")).into_config().unwrap()
}

#[test]
fn the_arguments_match_the_driver_and_the_cluster() {
    for (name, objects) in rendered() {
        let config = config(&objects);
        let driver = only(&objects, "CSIDriver");
        assert_eq!(text_at(driver, "/metadata/name"), Some(config.name.as_str()), "{name}");
        assert_eq!(driver["spec"]["attachRequired"], config.attach, "{name}");
        assert_eq!(config.node_id, NODE_NAME, "{name}");
    }
}

#[test]
fn each_component_switches_on_what_it_is_about() {
    let [(_, base), (_, full)] = rendered();
    assert!(!config(&base).snapshot_metadata);
    assert!(config(&full).snapshot_metadata);
    let group = "--feature-gates=CSIVolumeGroupSnapshot=true".to_owned();
    assert!(!arguments(container(pod(&base), "csi-snapshotter")).contains(&group));
    assert!(arguments(container(pod(&full), "csi-snapshotter")).contains(&group));
}

#[test]
fn published_capacity_keeps_up_with_volumes() {
    for (name, objects) in rendered() {
        let provisioner = container(pod(&objects), "csi-provisioner");
        let number = |flag_name| flag(provisioner, flag_name).and_then(|value| value.parse::<u32>().ok());
        assert!(arguments(provisioner).contains(&"--enable-capacity".to_owned()), "{name}");
        assert!(number("kube-api-capacity-qps") >= Some(50), "{name}");
        assert!(number("kube-api-capacity-burst") >= Some(100), "{name}");
    }
}

#[test]
fn all_containers_use_the_socket_of_kubelet() {
    for (name, objects) in rendered() {
        let pod = pod(&objects);
        let endpoint = flag(container(pod, "hostpath"), "endpoint").unwrap();
        let socket = endpoint.strip_prefix("unix://").unwrap();
        for sidecar in list_at(pod, "/containers") {
            let sidecar_name = text_at(sidecar, "/name").unwrap();
            let mount = list_at(sidecar, "/volumeMounts")
                .iter()
                .find(|mount| text_at(mount, "/name") == Some("socket-dir"))
                .unwrap_or_else(|| panic!("{name}: {sidecar_name} does not see the socket"));
            assert!(socket.starts_with(text_at(mount, "/mountPath").unwrap()), "{name}: {sidecar_name}");
            if sidecar_name != "hostpath" {
                assert_eq!(flag(sidecar, "csi-address").as_deref(), Some(socket), "{name}: {sidecar_name}");
            }
        }
        let registered = flag(container(pod, "node-driver-registrar"), "kubelet-registration-path").unwrap();
        let directory = host_path(pod, "socket-dir");
        assert_eq!(registered, format!("{directory}/csi.sock"), "{name}");
        assert!(registered.starts_with(KUBELET_PLUGINS), "{name}");
    }
}

#[test]
fn ports_are_those_that_programs_listen_on() {
    for (name, objects) in rendered() {
        let pod = pod(&objects);
        let hostpath = container(pod, "hostpath");
        let port = |wanted: &str| {
            let ports = list_at(hostpath, "/ports");
            let found = ports.iter().find(|port| text_at(port, "/name") == Some(wanted)).unwrap();
            found["containerPort"].to_string()
        };
        assert_eq!(flag(container(pod, "liveness-probe"), "health-port"), Some(port("healthz")), "{name}");
        let metrics = flag(hostpath, "metrics-address").unwrap();
        assert!(metrics.ends_with(&format!(":{}", port("metrics"))), "{name}");
    }
}

#[test]
fn mounts_reach_kubelet_at_its_own_paths() {
    for (name, objects) in rendered() {
        let pod = pod(&objects);
        let hostpath = container(pod, "hostpath");
        assert_eq!(hostpath["securityContext"]["privileged"], true, "{name}");
        let mut shared = Vec::new();
        for mount in list_at(hostpath, "/volumeMounts") {
            if mount["mountPropagation"] == "Bidirectional" {
                let path = text_at(mount, "/mountPath").unwrap();
                assert_eq!(host_path(pod, text_at(mount, "/name").unwrap()), path, "{name}");
                shared.push(path);
            }
        }
        assert_eq!(shared, ["/var/lib/kubelet/pods", "/var/lib/kubelet/plugins"], "{name}");
        let data = config(&objects).state_dir;
        let kept = list_at(hostpath, "/volumeMounts")
            .iter()
            .any(|mount| text_at(mount, "/mountPath").map(std::path::Path::new) == Some(data.as_path()));
        assert!(kept, "{name}: the state would be lost with the container");
    }
}

#[test]
fn only_the_driver_is_privileged() {
    for (name, objects) in rendered() {
        for container in list_at(pod(&objects), "/containers") {
            let container_name = text_at(container, "/name").unwrap();
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{name}: {container_name}");
            if container_name != "hostpath" {
                assert_eq!(security["allowPrivilegeEscalation"], false, "{name}: {container_name}");
                assert_eq!(security["capabilities"]["drop"][0], "ALL", "{name}: {container_name}");
            }
        }
    }
}

/// Returns the host path of a volume of the pod.
fn host_path<'a>(pod: &'a Value, volume: &str) -> &'a str {
    let found = list_at(pod, "/volumes").iter().find(|found| text_at(found, "/name") == Some(volume));
    text_at(found.unwrap_or_else(|| panic!("there is no volume {volume}")), "/hostPath/path").unwrap()
}
