//! Writes and reads pods.

use serde_json::{Value, json};

use super::Names;
use super::api::{items, text, text_at};
use super::claims;
use super::discovery::HOSTNAME_LABEL;
use crate::cluster::{
    Container, Ended, FsGroupPolicy, Output, Pod, PodPhase, PodSpec, PodVolume, SeLinuxChangePolicy,
    VolumeSource,
};

/// The command of a container that waits for commands; it ends at once on SIGTERM.
pub(super) const WAITS: &str = "trap 'exit 0' TERM; while :; do sleep 1; done";
/// The grace period of containers in seconds, because none has anything to finish.
const GRACE_SECONDS: u32 = 1;
/// The reasons of containers that are being created; events have the details.
const ON_ITS_WAY: &[&str] = &["ContainerCreating", "PodInitializing"];

/// The placement and the image of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodDefaults {
    /// The image of all containers.
    pub(crate) image: String,
    /// The hostnames of the nodes with the driver, if other nodes lack it; empty means any node.
    pub(crate) hostnames: Vec<String>,
    /// The node of pods that name none.
    pub(crate) client_node: Option<String>,
}

/// Returns the manifest of a test's pod.
pub(crate) fn manifest(names: &Names, pod_defaults: &PodDefaults, spec: &PodSpec) -> Value {
    let containers =
        |of: &[Container]| of.iter().map(|one| container(&pod_defaults.image, one)).collect::<Value>();
    let mut pod = json!({
        "restartPolicy": if spec.restarts { "OnFailure" } else { "Never" },
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "containers": containers(&spec.containers),
        "volumes": spec.volumes.iter().map(|volume| self::volume(names, volume)).collect::<Value>(),
        "securityContext": security(spec),
    });
    if !spec.init_containers.is_empty() {
        pod["initContainers"] = containers(&spec.init_containers);
    }
    if let Some(node) = &spec.bound_to {
        pod["nodeName"] = node.as_str().into();
    }
    if let Some(affinity) = affinity(pod_defaults, spec) {
        pod["affinity"] = affinity;
    }
    json!({ "metadata": { "name": spec.name, "namespace": names.namespace }, "spec": pod })
}

fn container(image: &str, of: &Container) -> Value {
    let mount = |mount: &crate::cluster::VolumeMount| {
        let mut manifest =
            json!({ "name": mount.volume, "mountPath": mount.path, "readOnly": mount.read_only });
        if let Some(sub_path) = &mount.sub_path {
            manifest["subPath"] = sub_path.as_str().into();
        }
        manifest
    };
    let device =
        |device: &crate::cluster::VolumeDevice| json!({ "name": device.volume, "devicePath": device.path });
    json!({
        "name": of.name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", of.script.as_deref().unwrap_or(WAITS)],
        // The status then has the output of a failed container.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": of.mounts.iter().map(mount).collect::<Value>(),
        "volumeDevices": of.devices.iter().map(device).collect::<Value>(),
    })
}

fn volume(names: &Names, volume: &PodVolume) -> Value {
    let mut manifest = match &volume.source {
        VolumeSource::Claim { name, read_only } => {
            json!({ "persistentVolumeClaim": { "claimName": name, "readOnly": read_only } })
        }
        VolumeSource::Inline { driver, attributes, fs_type, read_only } => {
            let mut csi = json!({ "driver": driver, "readOnly": read_only, "volumeAttributes": attributes });
            if !fs_type.is_empty() {
                csi["fsType"] = fs_type.as_str().into();
            }
            json!({ "csi": csi })
        }
        VolumeSource::Ephemeral(spec) => {
            let template = json!({
                "metadata": { "labels": spec.labels },
                "spec": claims::spec(names, spec),
            });
            json!({ "ephemeral": { "volumeClaimTemplate": template } })
        }
        VolumeSource::EmptyDir => json!({ "emptyDir": {} }),
    };
    manifest["name"] = volume.name.as_str().into();
    manifest
}

fn security(spec: &PodSpec) -> Value {
    let mut context = json!({});
    if let Some(group) = spec.fs_group {
        context["fsGroup"] = group.into();
        context["fsGroupChangePolicy"] = match spec.fs_group_policy {
            FsGroupPolicy::Always => "Always",
            FsGroupPolicy::OnRootMismatch => "OnRootMismatch",
        }
        .into();
    }
    if let Some(level) = &spec.selinux_level {
        context["seLinuxOptions"] = json!({ "level": level });
    }
    if let Some(policy) = spec.selinux_policy {
        context["seLinuxChangePolicy"] = match policy {
            SeLinuxChangePolicy::MountOption => "MountOption",
            SeLinuxChangePolicy::Recursive => "Recursive",
        }
        .into();
    }
    context
}

/// Returns the affinity of a pod. The scheduler chooses the node, so that it considers the volumes.
fn affinity(pod_defaults: &PodDefaults, spec: &PodSpec) -> Option<Value> {
    let by_name = |operator: &str, name: &str| json!({ "key": "metadata.name", "operator": operator, "values": [name] });
    let node = spec.node.as_ref().or(pod_defaults.client_node.as_ref());
    let fields: Vec<Value> = node
        .map(|name| by_name("In", name))
        .into_iter()
        .chain(spec.not_on.iter().map(|name| by_name("NotIn", name)))
        .collect();
    let mut term = json!({});
    if !fields.is_empty() {
        term["matchFields"] = fields.into();
    }
    if !pod_defaults.hostnames.is_empty() && node.is_none() {
        let hostnames = json!({ "key": HOSTNAME_LABEL, "operator": "In", "values": pod_defaults.hostnames });
        term["matchExpressions"] = json!([hostnames]);
    }
    let is_anywhere = term.as_object().is_some_and(serde_json::Map::is_empty);
    (!is_anywhere).then(|| {
        let terms = json!({ "nodeSelectorTerms": [term] });
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } })
    })
}

/// Reads the current state of a pod. `spec` is its specification.
pub(crate) fn read(spec: PodSpec, object: &Value) -> Pod {
    let phase = phase(object);
    Pod {
        spec,
        uid: text(object, "/metadata/uid").to_owned(),
        node: text_at(object, "/spec/nodeName"),
        phase,
        mounted: phase != PodPhase::Pending,
        ended: statuses(object).filter_map(ended).collect(),
        restarts: statuses(object).map(restarts).sum(),
        waiting: waiting(object),
        given_up: None,
    }
}

/// Returns the states of all containers, including init containers.
fn statuses(object: &Value) -> impl Iterator<Item = &Value> {
    items(object, "/status/initContainerStatuses").iter().chain(items(object, "/status/containerStatuses"))
}

/// Returns the phase; a pod runs once all its containers have started.
fn phase(object: &Value) -> PodPhase {
    let has_begun = |status: &Value| {
        ["/state/running", "/state/terminated", "/lastState/terminated"]
            .iter()
            .any(|state| status.pointer(state).is_some_and(Value::is_object))
    };
    match text(object, "/status/phase") {
        "Running" if items(object, "/status/containerStatuses").iter().all(has_begun) => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::Pending,
    }
}

/// Returns the last end of a container, with its output if it failed.
fn ended(status: &Value) -> Option<Ended> {
    let states = ["/state/terminated", "/lastState/terminated"];
    let terminated =
        states.iter().find_map(|state| status.pointer(state).filter(|state| state.is_object()))?;
    let code = terminated.pointer("/exitCode").and_then(Value::as_i64).unwrap_or_default();
    let output = Output {
        code: i32::try_from(code).unwrap_or(i32::MAX),
        stdout: text(terminated, "/message").to_owned(),
        stderr: String::new(),
    };
    Some(Ended { container: text(status, "/name").to_owned(), output })
}

fn restarts(status: &Value) -> u32 {
    let count = status.pointer("/restartCount").and_then(Value::as_u64).unwrap_or_default();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns `REASON: MESSAGE` of the pod's obstacle: from the scheduler, or a container that cannot start.
fn waiting(object: &Value) -> Option<String> {
    let unscheduled = items(object, "/status/conditions").iter().find(|condition| {
        text(condition, "/type") == "PodScheduled" && text(condition, "/status") == "False"
    });
    let stuck = || {
        let waits = statuses(object).filter_map(|status| status.pointer("/state/waiting"));
        let is_stuck = |state: &&Value| !ON_ITS_WAY.contains(&text(state, "/reason"));
        waits.filter(|state| state.is_object()).find(is_stuck)
    };
    let why = unscheduled.or_else(stuck)?;
    Some(format!("{}: {}", text(why, "/reason"), text(why, "/message")))
}
