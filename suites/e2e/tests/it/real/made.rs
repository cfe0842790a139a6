//! Checks the written objects as a whole.

use csi_suite_e2e::cluster::{
    AccessMode, AttributesClass, Cluster as _, Container, DataSource, FsGroupPolicy, GroupSnapshotOrigin,
    GroupSnapshotSpec, PersistentVolume, PodSpec, PodVolume, PvcSpec, ReclaimPolicy, SeLinuxChangePolicy,
    SecretReference, SecretUse, SnapshotClass, SnapshotOrigin, SnapshotSpec, StorageClass, VolumeBindingMode,
    VolumeDevice, VolumeMode, VolumeMount, VolumeSource,
};
use serde_json::{Value, json};

use super::api::Api;
use super::controllers::DRIVER;
use super::{NAMESPACE, RUN, broken, claim, class, cluster, namespace, pairs};

/// Returns the sent objects of a kind, with the variable marks of the run replaced.
fn sent(api: &Api, kind: &str) -> Value {
    let mut found =
        api.store(|store| store.sent.iter().find(|object| object["kind"] == kind).cloned()).unwrap();
    let marks = found["metadata"].get_mut("annotations").and_then(Value::as_object_mut);
    if let Some(marks) = marks.filter(|marks| marks.contains_key("csi-sanity/process")) {
        let ends_by: u64 = marks["csi-sanity/ends-by-seconds"].as_str().unwrap().parse().unwrap();
        assert!(ends_by > 1_700_000_000, "{ends_by}");
        found["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    found
}

/// Returns the metadata of an object outside of namespaces.
fn outside(name: &str) -> Value {
    json!({
        "name": format!("{NAMESPACE}-{name}"),
        "labels": { "app.kubernetes.io/managed-by": "csi-sanity", "csi-sanity/run": RUN },
    })
}

#[tokio::test]
async fn a_namespace_has_labels_and_allows_privileged_pods() {
    let api = cluster();
    let real = namespace(&api).await;
    assert_eq!(api.names("namespaces"), [""; 0]);
    real.create_storage_class(&class("class-0")).await.unwrap();
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                "app.kubernetes.io/managed-by": "csi-sanity",
                "csi-sanity/run": RUN,
                "pod-security.kubernetes.io/enforce": "privileged",
            },
        },
    });
    assert_eq!(sent(&api, "Namespace"), expected);
}

#[tokio::test]
async fn classes() {
    let api = cluster();
    let real = namespace(&api).await;
    let storage = StorageClass {
        name: "class-0".to_owned(),
        provisioner: DRIVER.to_owned(),
        parameters: pairs(&[("tier", "gold")]),
        mount_options: vec!["noatime".to_owned()],
        volume_binding_mode: VolumeBindingMode::WaitForFirstConsumer,
        allow_volume_expansion: true,
        reclaim_policy: ReclaimPolicy::Retain,
        allowed_topologies: vec![pairs(&[("zone", "a"), ("rack", "1")])],
    };
    real.create_storage_class(&storage).await.unwrap();
    let snapshot = SnapshotClass {
        name: "class-1".to_owned(),
        driver: DRIVER.to_owned(),
        parameters: pairs(&[("how", "fast")]),
        deletion_policy: ReclaimPolicy::Retain,
        ..SnapshotClass::default()
    };
    real.create_snapshot_class(&snapshot).await.unwrap();
    let group = SnapshotClass {
        name: "class-2".to_owned(),
        deletion_policy: ReclaimPolicy::Delete,
        ..snapshot.clone()
    };
    real.create_group_snapshot_class(&group).await.unwrap();
    let attributes = AttributesClass {
        name: "class-3".to_owned(),
        driver: DRIVER.to_owned(),
        parameters: pairs(&[("iops", "9")]),
    };
    real.create_attributes_class(&attributes).await.unwrap();

    assert_eq!(
        sent(&api, "StorageClass"),
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": outside("class-0"),
            "provisioner": DRIVER,
            "parameters": { "tier": "gold" },
            "mountOptions": ["noatime"],
            "reclaimPolicy": "Retain",
            "allowVolumeExpansion": true,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{ "matchLabelExpressions": [
                { "key": "rack", "values": ["1"] },
                { "key": "zone", "values": ["a"] },
            ] }],
        })
    );
    assert_eq!(
        sent(&api, "VolumeSnapshotClass"),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": outside("class-1"),
            "driver": DRIVER,
            "deletionPolicy": "Retain",
            "parameters": { "how": "fast" },
        })
    );
    assert_eq!(
        sent(&api, "VolumeGroupSnapshotClass"),
        json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1beta1",
            "kind": "VolumeGroupSnapshotClass",
            "metadata": outside("class-2"),
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "parameters": { "how": "fast" },
        })
    );
    assert_eq!(
        sent(&api, "VolumeAttributesClass"),
        json!({
            "apiVersion": "storage.k8s.io/v1beta1",
            "kind": "VolumeAttributesClass",
            "metadata": outside("class-3"),
            "driverName": DRIVER,
            "parameters": { "iops": "9" },
        })
    );
}

#[tokio::test]
async fn a_claim() {
    let api = cluster();
    let real = namespace(&api).await;
    let spec = PvcSpec {
        access_modes: vec![AccessMode::ReadWriteOnce, AccessMode::ReadOnlyMany],
        mode: VolumeMode::Block,
        source: Some(DataSource::Snapshot("snapshot-0".to_owned())),
        attributes_class: Some("class-3".to_owned()),
        labels: pairs(&[("group", "one")]),
        ..claim("claim-0", "class-0")
    };
    real.create_pvc(&spec).await.unwrap();
    assert_eq!(
        sent(&api, "PersistentVolumeClaim"),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "claim-0",
                "namespace": NAMESPACE,
                "labels": { "group": "one" },
                "annotations": { "who": "me" },
            },
            "spec": {
                "storageClassName": format!("{NAMESPACE}-class-0"),
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "volumeMode": "Block",
                "resources": { "requests": { "storage": "1073741824" } },
                "dataSource": {
                    "apiGroup": "snapshot.storage.k8s.io",
                    "kind": "VolumeSnapshot",
                    "name": "snapshot-0",
                },
                "volumeAttributesClassName": format!("{NAMESPACE}-class-3"),
            },
        })
    );
}

#[tokio::test]
async fn a_volume_by_hand_and_the_claim_that_it_is_for() {
    let api = cluster();
    let real = namespace(&api).await;
    let volume = PersistentVolume {
        name: "volume-1".to_owned(),
        handle: "handle-7".to_owned(),
        capacity_bytes: 1 << 20,
        access_modes: vec![AccessMode::ReadWriteOnce],
        fs_type: "ext4".to_owned(),
        attributes: pairs(&[("a", "b")]),
        mount_options: vec!["noatime".to_owned()],
        secrets: [(
            SecretUse::NodeStage,
            SecretReference { namespace: "ns".to_owned(), name: "s".to_owned() },
        )]
        .into(),
        reclaim: ReclaimPolicy::Retain,
        topology: vec![pairs(&[("zone", "a")])],
        claim: Some("claim-1".to_owned()),
        ..PersistentVolume::default()
    };
    real.create_volume(&volume).await.unwrap();
    let spec = PvcSpec { volume: Some("volume-1".to_owned()), ..claim("claim-1", "") };
    real.create_pvc(&spec).await.unwrap();
    assert_eq!(
        sent(&api, "PersistentVolume"),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": outside("volume-1"),
            "spec": {
                "capacity": { "storage": "1048576" },
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Filesystem",
                "persistentVolumeReclaimPolicy": "Retain",
                "mountOptions": ["noatime"],
                "csi": {
                    "driver": DRIVER,
                    "volumeHandle": "handle-7",
                    "fsType": "ext4",
                    "volumeAttributes": { "a": "b" },
                    "nodeStageSecretRef": { "namespace": "ns", "name": "s" },
                },
                "claimRef": { "namespace": NAMESPACE, "name": "claim-1" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [
                    { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] },
                ] } },
            },
        })
    );
    let claim = sent(&api, "PersistentVolumeClaim");
    assert_eq!(claim["spec"]["volumeName"], format!("{NAMESPACE}-volume-1"));
    assert_eq!(claim["spec"]["storageClassName"], "");
    let read = real.volume("volume-1").await.unwrap().unwrap();
    assert_eq!(read, PersistentVolume { phase: read.phase, ..volume }, "it is read as it was written");
    assert_eq!(real.claim("claim-1").await.unwrap().unwrap().volume.as_deref(), Some("volume-1"));
}

#[tokio::test]
async fn a_pod() {
    let api = cluster();
    let real = namespace(&api).await;
    let mounts = vec![VolumeMount {
        volume: "one".to_owned(),
        path: "/mnt".to_owned(),
        read_only: true,
        sub_path: Some("sub".to_owned()),
    }];
    let devices = vec![VolumeDevice { volume: "two".to_owned(), path: "/dev/x".to_owned() }];
    let source = |name: &str, source| PodVolume { name: name.to_owned(), source };
    let inline = VolumeSource::Inline {
        driver: DRIVER.to_owned(),
        attributes: pairs(&[("size", "1")]),
        fs_type: "xfs".to_owned(),
        read_only: false,
    };
    let spec = PodSpec {
        name: "pod-0".to_owned(),
        init_containers: vec![Container {
            name: "first".to_owned(),
            script: Some("true".to_owned()),
            ..Container::default()
        }],
        containers: vec![Container { name: "c".to_owned(), script: None, mounts, devices }],
        volumes: vec![
            source("one", VolumeSource::Claim { name: "claim-0".to_owned(), read_only: true }),
            source("two", VolumeSource::Ephemeral(Box::new(claim("ignored", "class-0")))),
            source("three", inline),
            source("four", VolumeSource::EmptyDir),
        ],
        not_on: vec!["node-z".to_owned()],
        fs_group: Some(1000),
        fs_group_policy: FsGroupPolicy::OnRootMismatch,
        selinux_level: Some("s0:c0,c1".to_owned()),
        selinux_policy: Some(SeLinuxChangePolicy::Recursive),
        restarts: true,
        ..PodSpec::default()
    };
    real.create_pod(&spec).await.unwrap();
    let container = |name: &str, script: &str, mounts: Value, devices: Value| {
        json!({
            "name": name,
            "image": "tools:1",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
            "volumeDevices": devices,
        })
    };
    let mounts = json!([{ "name": "one", "mountPath": "/mnt", "readOnly": true, "subPath": "sub" }]);
    let devices = json!([{ "name": "two", "devicePath": "/dev/x" }]);
    assert_eq!(
        sent(&api, "Pod"),
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "pod-0", "namespace": NAMESPACE },
            "spec": {
                "restartPolicy": "OnFailure",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "nodeSelector": { "kubernetes.io/os": "linux" },
                "initContainers": [container("first", "true", json!([]), json!([]))],
                "containers": [container("c", "trap 'exit 0' TERM; while :; do sleep 1; done", mounts, devices)],
                "volumes": [
                    { "name": "one", "persistentVolumeClaim": { "claimName": "claim-0", "readOnly": true } },
                    { "name": "two", "ephemeral": { "volumeClaimTemplate": {
                        "metadata": { "labels": {} },
                        "spec": {
                            "storageClassName": format!("{NAMESPACE}-class-0"),
                            "accessModes": ["ReadWriteOnce"],
                            "volumeMode": "Filesystem",
                            "resources": { "requests": { "storage": "1073741824" } },
                        },
                    } } },
                    { "name": "three", "csi": {
                        "driver": DRIVER, "readOnly": false, "volumeAttributes": { "size": "1" }, "fsType": "xfs",
                    } },
                    { "name": "four", "emptyDir": {} },
                ],
                "securityContext": {
                    "fsGroup": 1000,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seLinuxOptions": { "level": "s0:c0,c1" },
                    "seLinuxChangePolicy": "Recursive",
                },
                // The pod must go to node-a, because node-b lacks the driver.
                "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{
                        "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["node-z"] }],
                        "matchExpressions": [
                            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-a.example"] },
                        ],
                    }],
                } } },
            },
        })
    );
    let pinned = PodSpec { name: "pod-1".to_owned(), node: Some("node-a".to_owned()), ..spec.clone() };
    real.create_pod(&pinned).await.unwrap();
    let made = api.object("pods", NAMESPACE, "pod-1").unwrap();
    let at = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0";
    let expected = json!({ "key": "metadata.name", "operator": "In", "values": ["node-a"] });
    assert_eq!(made.pointer(at), Some(&expected), "the scheduler puts it there");
    assert_eq!(real.pod("pod-0").await.unwrap().unwrap().spec, spec, "and it is what was asked for");
}

#[tokio::test]
async fn a_snapshot_of_a_claim_and_one_that_exists_already() {
    let api = cluster();
    let real = super::with_claim(&api).await;
    let class =
        SnapshotClass { name: "class-1".to_owned(), driver: DRIVER.to_owned(), ..SnapshotClass::default() };
    real.create_snapshot_class(&class).await.unwrap();
    let of_claim = SnapshotSpec {
        name: "snapshot-0".to_owned(),
        class: "class-1".to_owned(),
        origin: SnapshotOrigin::Claim("claim-0".to_owned()),
    };
    real.create_snapshot(&of_claim).await.unwrap();
    assert_eq!(
        sent(&api, "VolumeSnapshot"),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": { "name": "snapshot-0", "namespace": NAMESPACE },
            "spec": {
                "volumeSnapshotClassName": format!("{NAMESPACE}-class-1"),
                "source": { "persistentVolumeClaimName": "claim-0" },
            },
        })
    );
    let of_handle = SnapshotSpec {
        name: "snapshot-1".to_owned(),
        origin: SnapshotOrigin::Handle("handle-9".to_owned()),
        ..of_claim
    };
    real.create_snapshot(&of_handle).await.unwrap();
    assert_eq!(
        sent(&api, "VolumeSnapshotContent"),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": outside("snapshot-1"),
            "spec": {
                "driver": DRIVER,
                "deletionPolicy": "Delete",
                "volumeSnapshotClassName": format!("{NAMESPACE}-class-1"),
                "source": { "snapshotHandle": "handle-9" },
                "volumeSnapshotRef": { "namespace": NAMESPACE, "name": "snapshot-1" },
            },
        })
    );
    let read = real.snapshot("snapshot-1").await.unwrap().unwrap();
    assert_eq!(read.spec, of_handle);
    assert_eq!(read.handle.as_deref(), Some("handle-9"));
}

#[tokio::test]
async fn group_snapshots_by_labels_and_existing_ones() {
    let api = cluster();
    let real = namespace(&api).await;
    let class =
        SnapshotClass { name: "class-2".to_owned(), driver: DRIVER.to_owned(), ..SnapshotClass::default() };
    real.create_group_snapshot_class(&class).await.unwrap();
    let spec = GroupSnapshotSpec {
        name: "group-0".to_owned(),
        class: "class-2".to_owned(),
        origin: GroupSnapshotOrigin::Labels(pairs(&[("group", "one")])),
    };
    real.create_group_snapshot(&spec).await.unwrap();
    let source = json!({ "selector": { "matchLabels": { "group": "one" } } });
    assert_eq!(
        sent(&api, "VolumeGroupSnapshot"),
        json!({
            "apiVersion": "groupsnapshot.storage.k8s.io/v1beta1",
            "kind": "VolumeGroupSnapshot",
            "metadata": { "name": "group-0", "namespace": NAMESPACE },
            "spec": { "volumeGroupSnapshotClassName": format!("{NAMESPACE}-class-2"), "source": source },
        })
    );
    let origin = GroupSnapshotOrigin::Handles { group: "g".to_owned(), snapshots: vec!["s".to_owned()] };
    let given = GroupSnapshotSpec { name: "group-1".to_owned(), origin, ..spec };
    real.create_group_snapshot(&given).await.unwrap();
    assert_eq!(
        sent(&api, "VolumeGroupSnapshotContent")["spec"],
        json!({
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "volumeGroupSnapshotClassName": format!("{NAMESPACE}-class-2"),
            "source": { "groupSnapshotHandles": { "volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["s"] } },
            "volumeGroupSnapshotRef": { "namespace": NAMESPACE, "name": "group-1" },
        })
    );
    let found = real.group_snapshot("group-1").await.unwrap().unwrap();
    assert_eq!(found.spec, given);
    // A member that existed before gets objects of its own.
    assert_eq!(found.members, [("group-1-member-0".to_owned(), String::new())]);
    assert_eq!(
        sent(&api, "VolumeSnapshotContent")["spec"],
        json!({
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "source": { "snapshotHandle": "s" },
            "volumeSnapshotRef": { "namespace": NAMESPACE, "name": "group-1-member-0" },
        })
    );
    let group = api.object("volumegroupsnapshots", NAMESPACE, "group-1").unwrap();
    let owner = json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1beta1", "kind": "VolumeGroupSnapshot", "name": "group-1",
        "uid": group["metadata"]["uid"],
    });
    assert_eq!(sent(&api, "VolumeSnapshot")["metadata"]["ownerReferences"], json!([owner]));
}

#[tokio::test]
async fn a_refused_object_has_the_server_s_words() {
    let api = cluster();
    let real = namespace(&api).await;
    api.store(|store| store.refused.insert("POST persistentvolumeclaims".to_owned()));
    let why = broken(real.create_pvc(&claim("claim-0", "class-0")).await.unwrap_err());
    let expected = "create PersistentVolumeClaim claim-0: 403 Forbidden: persistentvolumeclaims is forbidden: \
                    User \"tester\" cannot POST resource \"persistentvolumeclaims\"";
    assert!(why.contains(expected), "{why}");
}
