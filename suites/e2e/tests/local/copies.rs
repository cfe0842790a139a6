//! The tests make snapshots, copies, larger volumes and other classes of attributes.

use csi_harness::prelude::{CheckResult, Cx, Stop};
use csi_suite_e2e::cluster::{
    AccessMode, AttributesClass, Cluster as _, DataSource, GroupSnapshotOrigin, GroupSnapshotSpec, Pairs,
    PvcPhase, PvcSpec, ReclaimPolicy, SnapshotClass, SnapshotOrigin, SnapshotSpec, VolumeMode,
};
use csi_suite_e2e::emulated_cluster::EmulatedCluster;

use crate::pods::{claim_spec, exec, pod_spec};
use crate::stage::{FLAGS, Test, claim, class, delete_pod, on_hostpath, on_mock, started};

pub(crate) const TESTS: &[Test] = &[
    ("a_snapshot_becomes_a_volume", a_snapshot_becomes_a_volume),
    ("a_claim_grows_in_use_and_out_of_use", a_claim_grows_in_use_and_out_of_use),
    ("a_group_goes_with_one_call", a_group_goes_with_one_call),
    ("a_claim_gets_another_class_of_attributes", a_claim_gets_another_class_of_attributes),
];

fn snapshot_class(cx: &Cx) -> SnapshotClass {
    SnapshotClass {
        name: "snapshots".to_owned(),
        driver: cx.target().info().name.clone(),
        parameters: Pairs::new(),
        deletion_policy: ReclaimPolicy::Delete,
        allowed_topologies: Vec::new(),
    }
}

fn a_snapshot_becomes_a_volume() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let source = claim_spec(&class.name, VolumeMode::Filesystem);
        claim(&local, source.clone()).await;
        local.create_pod(&pod_spec("writer", VolumeMode::Filesystem, false)).await?;
        started(&local, "writer").await?;
        exec(&local, "writer", "echo hello > /mnt/data/file && sync").await?;
        delete_pod(&local, "writer").await?;
        local.create_snapshot_class(&snapshot_class(&cx)).await?;
        let origin = SnapshotOrigin::Claim("claim".to_owned());
        let spec = SnapshotSpec { name: "snapshot".to_owned(), class: "snapshots".to_owned(), origin };
        local.create_snapshot(&spec).await?;
        while !local.snapshot("snapshot").await?.unwrap().ready {
            local.changed().await;
        }
        for (name, source) in [
            ("restored", DataSource::Snapshot("snapshot".to_owned())),
            ("cloned", DataSource::Claim("claim".to_owned())),
        ] {
            let spec = PvcSpec {
                name: name.to_owned(),
                source: Some(source),
                ..claim_spec(&class.name, VolumeMode::Filesystem)
            };
            let copy = claim(&local, spec).await;
            assert_eq!(copy.phase, PvcPhase::Bound, "{copy:?}");
            let mut pod = pod_spec(name, VolumeMode::Filesystem, false);
            pod.volumes[0].source =
                csi_suite_e2e::cluster::VolumeSource::Claim { name: name.to_owned(), read_only: false };
            local.create_pod(&pod).await?;
            started(&local, name).await?;
            assert_eq!(exec(&local, name, "cat /mnt/data/file").await?.stdout, "hello\n");
        }
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    played.passed();
    assert!(played.requests("CreateSnapshot")[0].contains(r#""name":"snapshot-"#));
}

fn a_claim_grows_in_use_and_out_of_use() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let mut class = class(&local, &cx).await;
        class.name = "image".to_owned();
        class.parameters = [("backend".to_owned(), "image".to_owned())].into();
        class.parameters.insert("csi.storage.k8s.io/fstype".to_owned(), "xfs".to_owned());
        local.create_storage_class(&class).await?;
        let spec = PvcSpec { request_bytes: 320 << 20, ..claim_spec(&class.name, VolumeMode::Filesystem) };
        let made = claim(&local, spec).await;
        assert_eq!(made.phase, PvcPhase::Bound, "{made:?}");
        local.create_pod(&pod_spec("pod", VolumeMode::Filesystem, false)).await?;
        started(&local, "pod").await?;
        grown(&local, 400 << 20).await?;
        delete_pod(&local, "pod").await?;
        // The driver would put the expansion off during a call to detach the volume.
        while local.is_attached(made.volume.as_deref().unwrap()).await? {
            local.changed().await;
        }
        local.resize_pvc("claim", 480 << 20).await?;
        let conditions = async || Ok::<_, Stop>(local.claim("claim").await?.unwrap().conditions);
        while !conditions().await?.contains(&"FileSystemResizePending".to_owned()) {
            local.changed().await;
        }
        // The resizer keeps both conditions until the node has expanded the file system.
        assert_eq!(conditions().await?, ["Resizing", "FileSystemResizePending"]);
        local.create_pod(&pod_spec("later", VolumeMode::Filesystem, false)).await?;
        started(&local, "later").await?;
        let claim = local.claim("claim").await?.unwrap();
        assert_eq!((claim.capacity_bytes, claim.conditions), (480 << 20, Vec::new()));
        let size = exec(&local, "later", "df -B1 --output=size /mnt/data | tail -1").await?.stdout;
        assert!(size.trim().parse::<i64>().unwrap() > 400 << 20, "{size}");
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    let expansions: Vec<_> =
        played.passed().calls().into_iter().filter(|method| method.contains("Expand")).collect();
    assert_eq!(expansions, ["ControllerExpandVolume", "NodeExpandVolume"].repeat(2));
}

async fn grown(local: &EmulatedCluster, bytes: i64) -> CheckResult {
    local.resize_pvc("claim", bytes).await?;
    loop {
        let claim = local.claim("claim").await?.unwrap();
        assert_eq!(claim.given_up, None);
        if claim.capacity_bytes >= bytes {
            return Ok(());
        }
        local.changed().await;
    }
}

fn a_group_goes_with_one_call() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let labels: Pairs = [("app".to_owned(), "one".to_owned())].into();
        for name in ["first", "second"] {
            let spec = PvcSpec {
                name: name.to_owned(),
                labels: labels.clone(),
                ..claim_spec(&class.name, VolumeMode::Filesystem)
            };
            claim(&local, spec).await;
        }
        local.create_group_snapshot_class(&snapshot_class(&cx)).await?;
        let origin = GroupSnapshotOrigin::Labels(labels);
        let spec = GroupSnapshotSpec { name: "group".to_owned(), class: "snapshots".to_owned(), origin };
        local.create_group_snapshot(&spec).await?;
        let group = loop {
            let group = local.group_snapshot("group").await?.unwrap();
            if group.ready {
                break group;
            }
            assert_eq!(group.given_up, None);
            local.changed().await;
        };
        let claims: Vec<&str> = group.members.iter().map(|(_, claim)| claim.as_str()).collect();
        assert!(claims.contains(&"first") && claims.contains(&"second"), "{group:?}");
        for (member, _) in &group.members {
            assert!(local.snapshot(member).await?.unwrap().ready);
        }
        local.close().await
    }
    let played = on_mock(csi_mock_driver::Config::default(), body);
    let calls = played.passed().calls();
    assert!(!calls.contains(&"CreateSnapshot") && !calls.contains(&"DeleteSnapshot"), "{calls:?}");
    assert_eq!(played.requests("DeleteVolumeGroupSnapshot").len(), 1);
}

fn a_claim_gets_another_class_of_attributes() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        for tier in ["silver", "gold"] {
            let parameters = [("tier".to_owned(), tier.to_owned())].into();
            let driver = cx.target().info().name.clone();
            let class = AttributesClass { name: tier.to_owned(), driver, parameters };
            local.create_attributes_class(&class).await?;
        }
        let spec = PvcSpec {
            attributes_class: Some("silver".to_owned()),
            access_modes: vec![AccessMode::ReadWriteOncePod],
            ..claim_spec(&class.name, VolumeMode::Filesystem)
        };
        let made = claim(&local, spec).await;
        assert_eq!(made.attributes_class.as_deref(), Some("silver"), "{made:?}");
        local.set_attributes_class("claim", "gold").await?;
        while local.claim("claim").await?.unwrap().attributes_class.as_deref() != Some("gold") {
            local.changed().await;
        }
        local.close().await
    }
    let played = on_hostpath(&FLAGS, body);
    let Some(played) = played else { return };
    assert_eq!(played.passed().calls(), ["CreateVolume", "ControllerModifyVolume", "DeleteVolume"]);
}
