//! Finds sidecars in pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::facts::{Role, Sidecar, SidecarVersion};
use crate::kube_cluster::api::{items, text};

/// Parts of image names, by role. A name comes after those that are a prefix of it.
const IMAGES: [(&str, Role); 9] = [
    ("csi-provisioner", Role::Provisioner),
    ("external-provisioner", Role::Provisioner),
    ("csi-attacher", Role::Attacher),
    ("external-attacher", Role::Attacher),
    ("csi-resizer", Role::Resizer),
    ("external-resizer", Role::Resizer),
    ("csi-snapshotter", Role::Snapshotter),
    ("node-driver-registrar", Role::Registrar),
    ("snapshot-controller", Role::SnapshotController),
];

/// The image of all sidecars together. A flag says which of them a container runs; without it, all of them.
const ALL_IN_ONE: &str = "csi-sidecars";
const CONTROLLERS: [(&str, Role); 5] = [
    ("provisioner", Role::Provisioner),
    ("attacher", Role::Attacher),
    ("resizer", Role::Resizer),
    ("snapshotter", Role::Snapshotter),
    ("node-driver-registrar", Role::Registrar),
];

/// Returns the sidecars among all containers of a cluster, and which of them belong to the driver.
pub(super) fn sidecars(pods: &[Value], driver: &str) -> Vec<Sidecar> {
    let live: Vec<&Value> = pods.iter().filter(|pod| !has_ended(pod)).collect();
    let namespaces: BTreeSet<&str> = live
        .iter()
        .filter(|pod| names(pod, driver) && roles(pod).next().is_some())
        .map(|pod| text(pod, "/metadata/namespace"))
        .collect();
    live.iter()
        .flat_map(|pod| {
            // A namespace may have the pods of several drivers.
            let of_another = names_another(pod, driver);
            let near = namespaces.contains(text(pod, "/metadata/namespace")) && !of_another;
            let is_drivers = names(pod, driver) || near;
            roles(pod).map(move |(container, role)| sidecar(pod, container, role, is_drivers))
        })
        .collect()
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Returns whether an argument, a path or a label of the pod names the driver.
fn names(pod: &Value, driver: &str) -> bool {
    let mut said = pod["spec"].to_string();
    said.push_str(&pod["metadata"]["labels"].to_string());
    // Another driver's name may contain this one.
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-');
    let within = |at: usize| {
        let (before, after) = (said[..at].chars().next_back(), said[at + driver.len()..].chars().next());
        is_part(before) || is_part(after) || before == Some('.') || after == Some('.')
    };
    !driver.is_empty() && said.match_indices(driver).any(|(at, _)| !within(at))
}

/// Returns whether its registrar registers a path that names another driver.
fn names_another(pod: &Value, driver: &str) -> bool {
    const PLUGINS: &str = "/plugins/";
    roles(pod).filter(|(_, role)| *role == Role::Registrar).any(|(container, _)| {
        let path = argument(container, "--kubelet-registration-path").unwrap_or_default();
        let plugin = path.split_once(PLUGINS).and_then(|(_, rest)| rest.split('/').next());
        plugin.is_some_and(|plugin| plugin.contains('.') && plugin != driver)
    })
}

fn roles(pod: &Value) -> impl Iterator<Item = (&Value, Role)> {
    let containers = items(pod, "/spec/containers").iter();
    let ahead = items(pod, "/spec/initContainers").iter();
    let ahead = ahead.filter(|container| text(container, "/restartPolicy") == "Always");
    containers
        .chain(ahead)
        .flat_map(|container| roles_of(container).into_iter().map(move |role| (container, role)))
}

fn roles_of(container: &Value) -> Vec<Role> {
    let image = text(container, "/image");
    if image_name(image) != ALL_IN_ONE {
        return role(image).into_iter().collect();
    }
    let chosen = argument(container, "--controllers");
    let runs =
        |name: &str| chosen.as_deref().is_none_or(|chosen| chosen.split(',').any(|one| one.trim() == name));
    CONTROLLERS.iter().filter(|(name, _)| runs(name)).map(|(_, role)| *role).collect()
}

/// Returns the name of an image, without its registry and its tag.
fn image_name(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

fn role(image: &str) -> Option<Role> {
    let name = image_name(image);
    IMAGES.iter().find(|(part, _)| name.contains(part)).map(|(_, role)| *role)
}

fn sidecar(pod: &Value, container: &Value, role: Role, is_drivers: bool) -> Sidecar {
    let namespace = text(pod, "/metadata/namespace");
    Sidecar {
        role,
        pod: format!("{namespace}/{}", text(pod, "/metadata/name")),
        account: format!("system:serviceaccount:{namespace}:{}", account(pod)),
        is_drivers,
        trouble: trouble(pod, text(container, "/name")),
        socket: socket(pod, container),
        version: version(text(container, "/image")),
        gates: gates(&argument(container, "--feature-gates").unwrap_or_default()),
        publishes_capacity: is_set(container, "--enable-capacity")
            || is_set(container, "--provisioner-enable-capacity"),
    }
}

/// Returns the numbers of a tag such as `v1.13.2`. The tag of all sidecars together is none of their versions.
fn version(image: &str) -> Option<SidecarVersion> {
    if image_name(image) == ALL_IN_ONE {
        return None;
    }
    let name = image.rsplit('/').next()?.split('@').next()?;
    let mut numbers = name.split_once(':')?.1.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let patch = numbers.next().map(|patch| patch.split('-').next().unwrap_or_default().parse());
    Some((major, minor, patch.and_then(Result::ok).unwrap_or(u32::MAX)))
}

/// Parses `NAME=true,NAME=false`.
fn gates(value: &str) -> BTreeMap<String, bool> {
    let gate = |gate: &str| {
        let (name, is_on) = gate.split_once('=')?;
        Some((name.trim().to_owned(), is_on.trim().parse().ok()?))
    };
    value.split(',').filter_map(gate).collect()
}

/// Returns whether a container has a flag without a value.
fn is_set(container: &Value, flag: &str) -> bool {
    let words =
        items(container, "/command").iter().chain(items(container, "/args")).filter_map(Value::as_str);
    let name = flag.trim_start_matches('-');
    words.filter(|word| word.starts_with('-')).any(|word| {
        let rest = word.trim_start_matches('-').strip_prefix(name);
        matches!(rest, Some("" | "=true" | "=1"))
    })
}

fn account(pod: &Value) -> &str {
    match text(pod, "/spec/serviceAccountName") {
        "" => "default",
        name => name,
    }
}

/// Returns why a container does not run.
fn trouble(pod: &Value, container: &str) -> Option<String> {
    let statuses = items(pod, "/status/containerStatuses").iter();
    let mut statuses = statuses.chain(items(pod, "/status/initContainerStatuses"));
    let Some(status) = statuses.find(|status| text(status, "/name") == container) else {
        return Some(format!("the pod is {}", text(pod, "/status/phase")));
    };
    if status.pointer("/state/running").is_some() {
        return None;
    }
    let reason = ["/state/waiting/reason", "/state/terminated/reason"]
        .into_iter()
        .map(|at| text(status, at))
        .find(|reason| !reason.is_empty());
    Some(reason.unwrap_or("it is not running").to_owned())
}

/// Returns the socket that a sidecar calls, as a volume of the pod and the path in it.
fn socket(pod: &Value, container: &Value) -> Option<String> {
    let address = expanded(&argument(container, "--csi-address")?, container);
    let address = address.strip_prefix("unix://").unwrap_or(&address);
    let mounts = items(container, "/volumeMounts").iter();
    let inside = |mount: &&Value| {
        let rest = address.strip_prefix(text(mount, "/mountPath").trim_end_matches('/'));
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let mount = mounts.filter(inside).max_by_key(|mount| text(mount, "/mountPath").len())?;
    let path = address.strip_prefix(text(mount, "/mountPath").trim_end_matches('/'))?;
    let volume = text(mount, "/name");
    let host: BTreeMap<&str, &str> = items(pod, "/spec/volumes")
        .iter()
        .map(|volume| (text(volume, "/name"), text(volume, "/hostPath/path")))
        .collect();
    match host.get(volume) {
        Some(directory) if !directory.is_empty() => {
            Some(format!("{}{path}", directory.trim_end_matches('/')))
        }
        _ => Some(format!("{volume}{path}")),
    }
}

/// Returns the value of a flag with one dash or two, in one argument or two.
fn argument(container: &Value, flag: &str) -> Option<String> {
    let words: Vec<&str> = items(container, "/command")
        .iter()
        .chain(items(container, "/args"))
        .filter_map(Value::as_str)
        .collect();
    let name = flag.trim_start_matches('-');
    words.iter().enumerate().find_map(|(at, word)| {
        let rest = word.trim_start_matches('-').strip_prefix(name).filter(|_| word.starts_with('-'))?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value.to_owned()),
            None if rest.is_empty() => words.get(at + 1).map(|value| (*value).to_owned()),
            None => None,
        }
    })
}

/// Expands `$(NAME)` with the variables of the container.
fn expanded(text_with: &str, container: &Value) -> String {
    let mut expanded = text_with.to_owned();
    for variable in items(container, "/env") {
        let name = format!("$({})", text(variable, "/name"));
        expanded = expanded.replace(&name, text(variable, "/value"));
    }
    expanded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": { "namespace": "csi", "name": "plugin-0" },
            "spec": {
                "serviceAccountName": "plugin",
                "containers": [
                    { "name": "driver", "image": "r/driver:1", "args": ["--drivername=d.example"] },
                    {
                        "name": "provisioner",
                        "image": "registry.example:5000/sig/csi-provisioner:v6@sha256:0",
                        "args": ["-csi-address", "$(ADDRESS)"],
                        "env": [{ "name": "ADDRESS", "value": "/csi/csi.sock" }],
                        "volumeMounts": [{ "name": "socket", "mountPath": "/csi/" }],
                    },
                    { "name": "registrar", "image": "csi-node-driver-registrar", "args": ["--csi-address=unix:///run/csi.sock"],
                      "volumeMounts": [{ "name": "socket", "mountPath": "/run" }] },
                ],
                "volumes": [{ "name": "socket", "hostPath": { "path": "/plugins/d" } }],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    { "name": "provisioner", "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
                    { "name": "registrar", "state": { "running": {} } },
                ],
            },
        })
    }

    #[test]
    fn a_pod_tells_its_sidecars() {
        let [provisioner, registrar] = &sidecars(&[pod()], "d.example")[..] else { panic!("two of them") };
        assert_eq!((provisioner.role, registrar.role), (Role::Provisioner, Role::Registrar));
        assert_eq!(provisioner.pod, "csi/plugin-0");
        assert_eq!(provisioner.account, "system:serviceaccount:csi:plugin");
        assert_eq!(provisioner.trouble.as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(registrar.trouble, None);
        let socket = Some("/plugins/d/csi.sock".to_owned());
        assert_eq!(
            (&provisioner.socket, &registrar.socket),
            (&socket, &socket),
            "by whatever path they call it"
        );
        assert!(provisioner.is_drivers);
    }

    #[test]
    fn flags_and_versions_are_read() {
        let mut pod = pod();
        pod["spec"]["containers"][1]["args"] =
            json!(["--feature-gates=Topology=true,VolumeAttributesClass=false", "--enable-capacity"]);
        let provisioner = &sidecars(&[pod], "d.example")[0];
        assert_eq!(provisioner.version, None, "v6 has no second number");
        assert_eq!(version("registry.example:5000/sig/csi-resizer:v1.13.2@sha256:0"), Some((1, 13, 2)));
        assert_eq!(version("csi-resizer:v1.13"), Some((1, 13, u32::MAX)));
        assert_eq!(version("csi-resizer:canary"), None);
        assert_eq!(
            provisioner.gates,
            [("Topology".to_owned(), true), ("VolumeAttributesClass".to_owned(), false)].into()
        );
        assert!(provisioner.publishes_capacity);
    }

    #[test]
    fn one_container_can_run_several_sidecars() {
        let mut pod = pod();
        pod["spec"]["containers"] = json!([{
            "name": "sidecars", "image": "registry.example/csi-sidecars:v0.1.0",
            "args": ["--csi-address=/csi/csi.sock", "--controllers=attacher,provisioner", "--provisioner-enable-capacity", "d.example"],
        }]);
        let found = sidecars(&[pod.clone()], "d.example");
        let roles: Vec<Role> = found.iter().map(|one| one.role).collect();
        assert_eq!(roles, [Role::Provisioner, Role::Attacher]);
        assert!(found.iter().all(|one| one.version.is_none() && one.publishes_capacity));
        pod["spec"]["containers"][0]["args"] = json!(["d.example"]);
        assert_eq!(sidecars(&[pod], "d.example").len(), CONTROLLERS.len(), "without the flag, all of them");
    }

    #[test]
    fn a_driver_is_not_known_by_part_of_its_name() {
        for other in ["d.exampl", ".example", "my.d.example", "example"] {
            let is_drivers = sidecars(&[pod()], other).iter().any(|one| one.is_drivers);
            assert!(!is_drivers, "{other}");
        }
    }

    #[test]
    fn pods_of_another_driver_are_not_its_own() {
        let mut beside = pod();
        beside["spec"]["containers"][0]["args"] = json!([]);
        assert!(!sidecars(&[beside.clone()], "d.example")[0].is_drivers);
        assert!(sidecars(&[beside.clone(), pod()], "d.example")[0].is_drivers);
        let path = "--kubelet-registration-path=/var/lib/kubelet/plugins/other.example/csi.sock";
        beside["spec"]["containers"][2]["args"] = json!([path]);
        assert!(!sidecars(&[beside, pod()], "d.example")[0].is_drivers);
    }

    #[test]
    fn pods_that_have_ended_have_no_sidecars() {
        let mut ended = pod();
        ended["status"]["phase"] = json!("Failed");
        assert!(sidecars(&[ended], "d.example").is_empty());
    }
}
