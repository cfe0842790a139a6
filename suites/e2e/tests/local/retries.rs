//! A driver that fails for a while and then works, at each call that kubelet and the sidecars make.

use csi_harness::prelude::{CheckResult, Cx};
use csi_mock_driver::Config;
use csi_suite_e2e::cluster::{
    AttributesClass, ClaimSpec, Cluster as _, GroupSnapshotOrigin, GroupSnapshotSpec, Pairs, ReclaimPolicy,
    SnapshotClass, SnapshotOrigin, SnapshotSpec, VolumeMode,
};
use csi_suite_e2e::local::Local;

use crate::pods::{claim_spec, pod_spec};
use crate::stage::{Test, claim, class, delete_pod, on_mock_paused, started};

/// How often each fails: longer than a minute, with the pauses of the sidecars in between.
const TIMES: u32 = 7;
const CODES: [&str; 3] = ["INTERNAL", "UNAVAILABLE", "ABORTED"];

macro_rules! tests {
    ($($name:ident: $method:literal;)+) => {
        pub(crate) const TESTS: &[Test] = &[$((stringify!($name), || goes_on_after($method)),)+];
    };
}

tests! {
    create_volume_is_tried_again: "CreateVolume";
    delete_volume_is_tried_again: "DeleteVolume";
    controller_publish_is_tried_again: "ControllerPublishVolume";
    controller_unpublish_is_tried_again: "ControllerUnpublishVolume";
    controller_expand_is_tried_again: "ControllerExpandVolume";
    controller_modify_is_tried_again: "ControllerModifyVolume";
    get_capacity_is_tried_again: "GetCapacity";
    create_snapshot_is_tried_again: "CreateSnapshot";
    delete_snapshot_is_tried_again: "DeleteSnapshot";
    list_snapshots_is_tried_again: "ListSnapshots";
    create_group_snapshot_is_tried_again: "CreateVolumeGroupSnapshot";
    get_group_snapshot_is_tried_again: "GetVolumeGroupSnapshot";
    delete_group_snapshot_is_tried_again: "DeleteVolumeGroupSnapshot";
    node_get_info_is_tried_again: "NodeGetInfo";
    node_stage_is_tried_again: "NodeStageVolume";
    node_unstage_is_tried_again: "NodeUnstageVolume";
    node_publish_is_tried_again: "NodePublishVolume";
    node_unpublish_is_tried_again: "NodeUnpublishVolume";
    node_expand_is_tried_again: "NodeExpandVolume";
}

fn goes_on_after(method: &str) {
    for code in CODES {
        let mut config = Config::default();
        config.fail.insert(method.parse().unwrap(), format!("{code}:{TIMES}").parse().unwrap());
        let played = on_mock_paused(config, life);
        // What the run itself asks before has its share of the others.
        let is_enough = played.passed().times(method) > TIMES as usize || code != "INTERNAL";
        assert!(is_enough, "{method} {code}: {played:#?}");
    }
}

/// Everything that a volume can go through.
async fn life(local: Local, cx: Cx) -> CheckResult {
    let class = class(&local, &cx).await;
    while local.capacities(&class.name).await?.is_empty() {
        local.changed().await;
    }
    let driver = cx.target().info().name.clone();
    let parameters = [("tier".to_owned(), "gold".to_owned())].into();
    let gold = AttributesClass { name: "gold".to_owned(), driver: driver.clone(), parameters };
    local.create_attributes_class(&gold).await?;
    let labels: Pairs = [("app".to_owned(), "one".to_owned())].into();
    let spec = ClaimSpec { labels: labels.clone(), ..claim_spec(&class.name, VolumeMode::Filesystem) };
    claim(&local, spec).await;
    local.create_pod(&pod_spec("pod", VolumeMode::Filesystem, false)).await?;
    started(&local, "pod").await?;
    local.set_attributes_class("claim", "gold").await?;
    local.resize_claim("claim", 128 << 20).await?;
    loop {
        let claim = local.claim("claim").await?.unwrap();
        if claim.capacity_bytes >= 128 << 20 && claim.attributes_class.is_some() {
            break;
        }
        assert_eq!(claim.given_up, None);
        local.changed().await;
    }
    delete_pod(&local, "pod").await?;
    let snapshots = SnapshotClass {
        name: "snapshots".to_owned(),
        driver,
        deletion: ReclaimPolicy::Delete,
        ..SnapshotClass::default()
    };
    local.create_snapshot_class(&snapshots).await?;
    local.create_group_snapshot_class(&snapshots).await?;
    take_snapshots(&local).await?;
    take_groups(&local, labels).await?;
    local.close().await
}

/// A snapshot, and the same again by its id.
async fn take_snapshots(local: &Local) -> CheckResult {
    let mut origin = SnapshotOrigin::Claim("claim".to_owned());
    for name in ["taken", "found"] {
        let class = "snapshots".to_owned();
        local.create_snapshot(&SnapshotSpec { name: name.to_owned(), class, origin }).await?;
        let ready = loop {
            let snapshot = local.snapshot(name).await?.unwrap();
            if snapshot.ready {
                break snapshot;
            }
            local.changed().await;
        };
        origin = SnapshotOrigin::Handle(ready.handle.unwrap());
    }
    Ok(())
}

/// A group snapshot, and the same again by its id.
async fn take_groups(local: &Local, labels: Pairs) -> CheckResult {
    let mut origin = GroupSnapshotOrigin::Labels(labels);
    for name in ["group", "found-group"] {
        let class = "snapshots".to_owned();
        local.create_group_snapshot(&GroupSnapshotSpec { name: name.to_owned(), class, origin }).await?;
        let ready = loop {
            let group = local.group_snapshot(name).await?.unwrap();
            if group.ready {
                break group;
            }
            local.changed().await;
        };
        let member = local.snapshot(&ready.members[0].0).await?.unwrap();
        let snapshots = vec![member.handle.unwrap()];
        origin = GroupSnapshotOrigin::Handles { group: ready.handle.unwrap(), snapshots };
    }
    Ok(())
}
