//! The tests make snapshots, copies, larger volumes and other classes of attributes.

use csi_harness::prelude::{CheckResult, Cx, Stop};
use csi_suite_e2e::cluster::{
    AccessMode, Cluster as _, DataSource, GroupSnapshotOrigin, Pairs, PvcPhase, PvcSpec, SnapshotOrigin,
};
use csi_suite_e2e::emulated_cluster::EmulatedCluster;

use crate::pods::{claim_source, claim_spec, exec, pod_spec};
use crate::stage::{
    FLAGS, Test, attributes_class, claim, class, delete_pod, grown, on_hostpath, on_mock, snapshot_class,
    start, take_group, take_snapshot,
};

pub(crate) const TESTS: &[Test] = &[
    ("a_snapshot_becomes_a_volume", a_snapshot_becomes_a_volume),
    ("a_claim_grows_in_use_and_out_of_use", a_claim_grows_in_use_and_out_of_use),
    ("a_group_goes_with_one_call", a_group_goes_with_one_call),
    ("a_claim_gets_another_class_of_attributes", a_claim_gets_another_class_of_attributes),
];

fn a_snapshot_becomes_a_volume() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        claim(&local, claim_spec(&class.name)).await;
        start(&local, &pod_spec("writer")).await?;
        exec(&local, "writer", "echo hello > /mnt/data/file && sync").await?;
        delete_pod(&local, "writer").await?;
        local.create_snapshot_class(&snapshot_class(&cx, Pairs::new())).await?;
        let origin = SnapshotOrigin::Claim("claim".to_owned());
        take_snapshot(&local, "snapshot", "snapshots", origin).await?;
        for (name, source) in [
            ("restored", DataSource::Snapshot("snapshot".to_owned())),
            ("cloned", DataSource::Claim("claim".to_owned())),
        ] {
            let spec = PvcSpec { name: name.to_owned(), source: Some(source), ..claim_spec(&class.name) };
            let copy = claim(&local, spec).await;
            assert_eq!(copy.phase, PvcPhase::Bound, "{copy:?}");
            let mut pod = pod_spec(name);
            pod.volumes[0].source = claim_source(name);
            start(&local, &pod).await?;
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
        let spec = PvcSpec { request_bytes: 320 << 20, ..claim_spec(&class.name) };
        let made = claim(&local, spec).await;
        assert_eq!(made.phase, PvcPhase::Bound, "{made:?}");
        start(&local, &pod_spec("pod")).await?;
        local.resize_pvc("claim", 400 << 20).await?;
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
        start(&local, &pod_spec("later")).await?;
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

fn a_group_goes_with_one_call() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let labels: Pairs = [("app".to_owned(), "one".to_owned())].into();
        for name in ["first", "second"] {
            let spec = PvcSpec { name: name.to_owned(), labels: labels.clone(), ..claim_spec(&class.name) };
            claim(&local, spec).await;
        }
        local.create_group_snapshot_class(&snapshot_class(&cx, Pairs::new())).await?;
        let group = take_group(&local, "group", "snapshots", GroupSnapshotOrigin::Labels(labels)).await?;
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
            attributes_class(&local, &cx, tier).await?;
        }
        let spec = PvcSpec {
            attributes_class: Some("silver".to_owned()),
            access_modes: vec![AccessMode::ReadWriteOncePod],
            ..claim_spec(&class.name)
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
