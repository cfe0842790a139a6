//! The driver fails for a while and then works, at each call that kubelet and the sidecars make.

use csi_harness::prelude::{CheckResult, Cx};
use csi_mock_driver::Config;
use csi_suite_e2e::cluster::{Cluster as _, Pairs, PvcSpec};
use csi_suite_e2e::emulated_cluster::EmulatedCluster;

use crate::pods::{claim_spec, pod_spec};
use crate::stage::{
    Test, attributes_class, claim, class, delete_pod, grown, on_mock_paused, snapshot_class, start,
    take_groups, take_snapshots,
};

/// Each call fails this number of times, which takes more than a minute with the pauses of the sidecars.
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
        // Some failures with the other codes meet calls of the run itself.
        let is_enough = played.passed().times(method) > TIMES as usize || code != "INTERNAL";
        assert!(is_enough, "{method} {code}: {played:#?}");
    }
}

/// Takes a volume through all of its calls.
async fn life(local: EmulatedCluster, cx: Cx) -> CheckResult {
    let class = class(&local, &cx).await;
    while local.capacities(&class.name).await?.is_empty() {
        local.changed().await;
    }
    attributes_class(&local, &cx, "gold").await?;
    let labels: Pairs = [("app".to_owned(), "one".to_owned())].into();
    let spec = PvcSpec { labels: labels.clone(), ..claim_spec(&class.name) };
    claim(&local, spec).await;
    start(&local, &pod_spec("pod")).await?;
    local.set_attributes_class("claim", "gold").await?;
    local.resize_pvc("claim", 128 << 20).await?;
    grown(&local, 128 << 20).await?;
    delete_pod(&local, "pod").await?;
    let snapshots = snapshot_class(&cx, Pairs::new());
    local.create_snapshot_class(&snapshots).await?;
    local.create_group_snapshot_class(&snapshots).await?;
    take_snapshots(&local, "snapshots").await?;
    take_groups(&local, "snapshots", labels).await?;
    local.close().await
}
