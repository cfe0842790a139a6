//! Checks the reading of objects, as recorded in a cluster of version 1.36.

use csi_suite_e2e::cluster::{
    AccessMode, Capacity, Cluster as _, DataSource, Ended, Event, Output, Pairs, PersistentVolume, PodPhase,
    PodSpec, Pvc, PvcPhase, PvcSpec, ReclaimPolicy, Snapshot, SnapshotOrigin, SnapshotSpec, VolumeMode,
    VolumePhase,
};
use serde_json::{Value, json};

use super::{NAMESPACE, cluster, namespace, pairs};

fn recorded_claim() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.kubernetes.io/storage-provisioner": "hostpath.csi.k8s.io",
            },
            "finalizers": ["kubernetes.io/pvc-protection"],
            "name": "claim-5",
            "namespace": NAMESPACE,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "dataSource": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snapshot-4" },
            "dataSourceRef": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snapshot-4" },
            "resources": { "requests": { "storage": "2Gi" } },
            "storageClassName": format!("{NAMESPACE}-class-0"),
            "volumeAttributesClassName": format!("{NAMESPACE}-attributes-class-2"),
            "volumeMode": "Block",
            "volumeName": "pvc-9fe913b8-b834-4935-a7d9-96934e221fd3",
        },
        "status": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" },
            "conditions": [
                { "type": "FileSystemResizePending", "status": "True" },
                { "type": "Resizing", "status": "False" },
            ],
            "currentVolumeAttributesClassName": format!("{NAMESPACE}-attributes-class-1"),
            "modifyVolumeStatus": { "status": "Infeasible", "targetVolumeAttributesClassName": "x" },
            "phase": "Bound",
        },
    })
}

#[tokio::test]
async fn a_claim() {
    let api = cluster();
    let real = namespace(&api).await;
    api.has("persistentvolumeclaims", recorded_claim());
    let volume = "pvc-9fe913b8-b834-4935-a7d9-96934e221fd3".to_owned();
    let expected = Pvc {
        spec: PvcSpec {
            name: "claim-5".to_owned(),
            class: "class-0".to_owned(),
            access_modes: vec![AccessMode::ReadWriteOnce],
            mode: VolumeMode::Block,
            request_bytes: 2 << 30,
            source: Some(DataSource::Snapshot("snapshot-4".to_owned())),
            attributes_class: Some("attributes-class-2".to_owned()),
            volume: Some(volume.clone()),
            labels: Pairs::new(),
        },
        phase: PvcPhase::Bound,
        volume: Some(volume),
        capacity_bytes: 1 << 30,
        attributes_class: Some("attributes-class-1".to_owned()),
        conditions: vec!["FileSystemResizePending".to_owned(), "ModifyVolumeError".to_owned()],
        given_up: None,
    };
    assert_eq!(real.claim("claim-5").await.unwrap(), Some(expected));
    assert_eq!(real.claim("claim-6").await.unwrap(), None);
    real.resize_pvc("claim-5", 3 << 30).await.unwrap();
    real.set_attributes_class("claim-5", "attributes-class-3").await.unwrap();
    let spec = real.claim("claim-5").await.unwrap().unwrap().spec;
    assert_eq!(spec.request_bytes, 3 << 30);
    assert_eq!(spec.attributes_class.as_deref(), Some("attributes-class-3"));
    assert_eq!(spec.access_modes, [AccessMode::ReadWriteOnce], "and nothing else has changed");
}

#[tokio::test]
async fn a_volume() {
    let api = cluster();
    let real = namespace(&api).await;
    api.has("persistentvolumes", json!({
        "metadata": { "name": "pvc-1", "annotations": { "pv.kubernetes.io/provisioned-by": "hostpath.csi.k8s.io" } },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "2Gi" },
            "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "claim-1", "namespace": NAMESPACE },
            "csi": {
                "driver": "hostpath.csi.k8s.io",
                "volumeAttributes": { "backend": "directory" },
                "volumeHandle": "vol-1d541685ec45fceba5b68dc8dbd56bbf",
            },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "topology.hostpath.csi/node", "operator": "In", "values": ["node-1"] },
            ] }] } },
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": format!("{NAMESPACE}-class-0"),
            "volumeMode": "Filesystem",
        },
        "status": { "lastPhaseTransitionTime": "2026-11-22T22:56:40Z", "phase": "Released" },
    }));
    let expected = PersistentVolume {
        name: "pvc-1".to_owned(),
        handle: "vol-1d541685ec45fceba5b68dc8dbd56bbf".to_owned(),
        capacity_bytes: 2 << 30,
        access_modes: vec![AccessMode::ReadWriteOnce],
        class: "class-0".to_owned(),
        attributes: pairs(&[("backend", "directory")]),
        reclaim: ReclaimPolicy::Delete,
        topology: vec![pairs(&[("topology.hostpath.csi/node", "node-1")])],
        claim: Some("claim-1".to_owned()),
        phase: VolumePhase::Released,
        ..PersistentVolume::default()
    };
    assert_eq!(real.volume("pvc-1").await.unwrap(), Some(expected));
    assert!(!real.is_attached("pvc-1").await.unwrap());
    let source = json!({ "persistentVolumeName": "pvc-1" });
    let attachment =
        json!({ "metadata": { "name": "csi-1" }, "spec": { "nodeName": "node-a", "source": source } });
    api.has("volumeattachments", attachment);
    assert!(real.is_attached("pvc-1").await.unwrap());
    assert!(!real.is_attached("pvc-2").await.unwrap());
}

/// Reads a pod that has this status.
async fn pod(status: Value) -> csi_suite_e2e::cluster::Pod {
    let api = cluster();
    let real = namespace(&api).await;
    let pod = json!({
        "metadata": { "name": "pod-0", "namespace": NAMESPACE, "uid": "u-1" },
        "spec": { "nodeName": "node-a" },
        "status": status,
    });
    api.has("pods", pod);
    let pod = real.pod("pod-0").await.unwrap().unwrap();
    assert_eq!(
        (pod.uid.as_str(), pod.node.as_deref(), &pod.spec),
        ("u-1", Some("node-a"), &PodSpec::default())
    );
    pod
}

#[tokio::test]
async fn a_pod_runs_once_each_of_its_containers_has_begun() {
    let container = |name: &str, state: Value| json!({ "name": name, "lastState": {}, "restartCount": 0, "state": state });
    let begins = container("one", json!({ "waiting": { "reason": "ContainerCreating" } }));
    let runs = container("two", json!({ "running": { "startedAt": "2026-11-22T22:56:43Z" } }));
    let half = pod(json!({ "phase": "Running", "containerStatuses": [begins, runs] })).await;
    assert_eq!((half.phase, half.waiting, half.mounted), (PodPhase::Pending, None, false));
    let both = pod(json!({ "phase": "Running", "containerStatuses": [runs] })).await;
    assert_eq!((both.phase, both.ended.len(), both.restarts, both.mounted), (PodPhase::Running, 0, 0, true));
}

#[tokio::test]
async fn a_pod_tells_how_its_containers_have_ended() {
    let terminated = |code: i32, message: &str| json!({ "terminated": { "exitCode": code, "message": message, "reason": "Error" } });
    let again = json!({
        "name": "again", "restartCount": 1, "lastState": terminated(1, "no such file"),
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } },
    });
    let first = json!({ "name": "first", "restartCount": 0, "lastState": {}, "state": terminated(0, "") });
    let pod =
        pod(json!({ "phase": "Running", "initContainerStatuses": [first], "containerStatuses": [again] }))
            .await;
    let ended = |container: &str, code, stdout: &str| Ended {
        container: container.to_owned(),
        output: Output { code, stdout: stdout.to_owned(), stderr: String::new() },
    };
    assert_eq!(pod.ended, [ended("first", 0, ""), ended("again", 1, "no such file")]);
    assert_eq!((pod.phase, pod.restarts), (PodPhase::Running, 1));
    assert_eq!(pod.waiting.as_deref(), Some("CrashLoopBackOff: back-off 10s"));
}

#[tokio::test]
async fn a_pod_tells_what_it_waits_for() {
    let message = "0/2 nodes are available: 1 node(s) exceed max volume count.";
    let condition =
        json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message });
    let unscheduled = pod(json!({ "phase": "Pending", "conditions": [condition] })).await;
    assert_eq!(unscheduled.waiting, Some(format!("Unschedulable: {message}")));
    let why = "failed to prepare subPath for volumeMount \"volume1\" of container \"read\"";
    let waiting = json!({ "reason": "CreateContainerConfigError", "message": why });
    let stuck =
        json!({ "name": "read", "restartCount": 0, "lastState": {}, "state": { "waiting": waiting } });
    let stuck = pod(json!({ "phase": "Pending", "containerStatuses": [stuck] })).await;
    assert_eq!(stuck.waiting, Some(format!("CreateContainerConfigError: {why}")));
    assert_eq!(pod(json!({ "phase": "Succeeded" })).await.phase, PodPhase::Succeeded);
    assert_eq!(pod(json!({ "phase": "Failed" })).await.phase, PodPhase::Failed);
}

#[tokio::test]
async fn a_snapshot_with_its_content() {
    let api = cluster();
    let real = namespace(&api).await;
    api.has(
        "volumesnapshots",
        json!({
            "metadata": { "name": "snapshot-4", "namespace": NAMESPACE },
            "spec": {
                "source": { "persistentVolumeClaimName": "claim-1" },
                "volumeSnapshotClassName": format!("{NAMESPACE}-snapshot-class-3"),
            },
            "status": {
                "boundVolumeSnapshotContentName": "snapcontent-977cda90",
                "creationTime": "2026-11-22T22:53:50Z",
                "readyToUse": true,
                "restoreSize": "1Mi",
            },
        }),
    );
    let expected = Snapshot {
        spec: SnapshotSpec {
            name: "snapshot-4".to_owned(),
            class: "snapshot-class-3".to_owned(),
            origin: SnapshotOrigin::Claim("claim-1".to_owned()),
        },
        ready: true,
        handle: None,
        restore_size_bytes: 1 << 20,
        topology: Vec::new(),
        deletion: ReclaimPolicy::Delete,
        error: None,
        given_up: None,
    };
    assert_eq!(real.snapshot("snapshot-4").await.unwrap().as_ref(), Some(&expected), "no content yet");
    api.has(
        "volumesnapshotcontents",
        json!({
            "metadata": { "name": "snapcontent-977cda90" },
            "spec": {
                "deletionPolicy": "Retain",
                "driver": "hostpath.csi.k8s.io",
                "source": { "volumeHandle": "vol-2d7dccf1069b5c9934e82193af836288" },
                "volumeSnapshotRef": { "name": "snapshot-4", "namespace": NAMESPACE },
            },
            "status": {
                "creationTime": 1795388030626547893_i64,
                "error": { "message": "Failed to check and update snapshot content: busy" },
                "readyToUse": true,
                "restoreSize": 1048576,
                "snapshotHandle": "snap-51d8573d78e25f625fce2b1a86ef8777",
            },
        }),
    );
    let expected = Snapshot {
        handle: Some("snap-51d8573d78e25f625fce2b1a86ef8777".to_owned()),
        deletion: ReclaimPolicy::Retain,
        error: Some("Failed to check and update snapshot content: busy".to_owned()),
        ..expected
    };
    assert_eq!(real.snapshot("snapshot-4").await.unwrap(), Some(expected));
}

#[tokio::test]
async fn members_of_a_group_are_snapshots_that_name_it() {
    let api = cluster();
    let real = namespace(&api).await;
    api.has(
        "volumegroupsnapshots",
        json!({
            "metadata": { "name": "group-0", "namespace": NAMESPACE },
            "spec": {
                "source": { "selector": { "matchLabels": { "group": "one" } } },
                "volumeGroupSnapshotClassName": format!("{NAMESPACE}-class-2"),
            },
            "status": { "boundVolumeGroupSnapshotContentName": "groupcontent-1", "readyToUse": true },
        }),
    );
    api.has(
        "volumegroupsnapshotcontents",
        json!({
            "metadata": { "name": "groupcontent-1" },
            "spec": { "deletionPolicy": "Delete" },
            "status": { "volumeGroupSnapshotHandle": "group-handle" },
        }),
    );
    for (name, group) in [("member-b", "group-0"), ("member-a", "group-0"), ("other", "group-1")] {
        api.has(
            "volumesnapshots",
            json!({
                "metadata": { "name": name, "namespace": NAMESPACE },
                "spec": { "source": { "persistentVolumeClaimName": format!("claim-of-{name}") } },
                "status": { "volumeGroupSnapshotName": group },
            }),
        );
    }
    let group = real.group_snapshot("group-0").await.unwrap().unwrap();
    let member = |name: &str| (name.to_owned(), format!("claim-of-{name}"));
    assert_eq!(group.members, [member("member-a"), member("member-b")]);
    assert_eq!((group.ready, group.handle.as_deref()), (true, Some("group-handle")));
}

#[tokio::test]
async fn capacities_are_those_of_the_class_anywhere() {
    let api = cluster();
    let real = namespace(&api).await;
    for (name, class) in [("c-1", format!("{NAMESPACE}-class-0")), ("c-2", "class-0".to_owned())] {
        api.has(
            "csistoragecapacities",
            json!({
                "metadata": { "name": name, "namespace": "driver" },
                "storageClassName": class,
                "nodeTopology": { "matchLabels": { "zone": "a" } },
                "capacity": "10Gi",
            }),
        );
    }
    let expected = Capacity { topology: pairs(&[("zone", "a")]), available_bytes: Some(10 << 30) };
    assert_eq!(real.capacities("class-0").await.unwrap(), [expected]);
}

#[tokio::test]
async fn events_are_sorted_by_time() {
    let api = cluster();
    let real = namespace(&api).await;
    let event = |namespace: &str, of: &str, name: &str, time: &str| {
        api.has(
            "events",
            json!({
                "metadata": { "name": name, "namespace": namespace },
                "involvedObject": { "name": of },
                "reason": name,
                "message": "m",
                "lastTimestamp": time,
            }),
        );
    };
    event(NAMESPACE, "pod-0", "FailedMount", "2026-11-22T22:53:52Z");
    event(NAMESPACE, "pod-0", "Scheduled", "2026-11-22T22:53:50Z");
    event(NAMESPACE, "pod-1", "Other", "2026-11-22T22:53:51Z");
    event("default", "pvc-1", "VolumeFailedDelete", "2026-11-22T22:53:51Z");
    event("default", "pod-2", "AnotherPod", "2026-11-22T22:53:51Z");
    let reported =
        |reason: &str| Event { reason: reason.to_owned(), message: "m".to_owned(), is_warning: false };
    assert_eq!(real.events("pod-0").await.unwrap(), [reported("Scheduled"), reported("FailedMount")]);
    assert_eq!(real.events("pvc-1").await.unwrap(), [reported("VolumeFailedDelete")]);
    assert_eq!(real.events("pod-2").await.unwrap(), [], "that is another one's");
}

/// Controllers repeat what they wait for, but a sidecar may say only once why that does not arrive.
#[tokio::test]
async fn a_warning_tells_more_than_what_is_waited_for() {
    let api = cluster();
    let real = namespace(&api).await;
    let event = |name: &str, kind: &str, reason: &str, time: &str| {
        api.has(
            "events",
            json!({
                "metadata": { "name": name, "namespace": NAMESPACE },
                "involvedObject": { "name": "claim-0" },
                "type": kind,
                "reason": reason,
                "message": "m",
                "lastTimestamp": time,
            }),
        );
    };
    let telling = async || {
        let events = real.events("claim-0").await.unwrap();
        Event::most_explaining(&events).map(|event| event.reason.clone())
    };
    assert_eq!(telling().await, None);
    event("a", "Normal", "Provisioning", "2026-11-22T22:53:50Z");
    event("b", "Normal", "ExternalProvisioning", "2026-11-22T22:53:51Z");
    assert_eq!(telling().await.as_deref(), Some("ExternalProvisioning"), "as long as nothing has gone wrong");
    event("c", "Warning", "ProvisioningCleanupFailed", "2026-11-22T22:53:52Z");
    event("d", "Warning", "ProvisioningFailed", "2026-11-22T22:53:53Z");
    event("e", "Normal", "ExternalProvisioning", "2026-11-22T22:53:54Z");
    assert_eq!(telling().await.as_deref(), Some("ProvisioningFailed"));
}
