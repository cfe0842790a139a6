//! Node plugins of both versions under one controller.

use csi_harness::driver::Version;
use csi_harness::prelude::*;
use csi_nemesis::versions;
use csi_ops::operation::Operation;
use csi_suite_in_use::beside::{Action, InUse, beside};
use csi_suite_in_use::nodes::other_node;
use csi_suite_in_use::restarts::of_restart;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_007};

use crate::rules::{UPGRADE_001, UPGRADE_011};
use crate::{NEXT_VERSION, begin, publish};

/// The check runs where the user says how the driver is started in the middle of a rolling update.
const MIXED_NODES_COMMAND: Need = Need::Configured(Setting::MixedDriverCommand);
const UPDATE: Action =
    Action { name: "the update of the driver, except for the plugin of the first node", rpcs: &[] };
const MOVE: Action =
    Action { name: "the use of the volume before it moves to a node of the other version", rpcs: &[] };

check! {
    /// A DaemonSet is updated node by node. Until its end, the controller of the next version works with node
    /// plugins that do not know what it has created, and pods start and move on nodes of both versions.
    pub(super) MIXED_NODES {
        id: "upgrade/mixed-nodes",
        title: "volumes are used and move on nodes of both versions while the driver is updated node by node",
        spec: [UPGRADE_011, UPGRADE_001, IN_USE_007, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, TWO_NODES, RESTARTS, ROOT, NEXT_VERSION, MIXED_NODES_COMMAND],
        refuted_by: ["hostpath/upgrade-needs-new-nodes", "hostpath/upgrade-empties-on-old-nodes"],
        duplicate_of: "upgrade/volumes-in-use",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        begin(cx).await?;
        let there = other_node(cx).await?;
        let old = InUse::begin(cx).await?;
        let updated = async {
            versions::replace(cx, Version::Mixed).await.map(drop).map_err(|stop| stop.of(&UPGRADE_001))
        };
        beside(UPDATE, [&old], updated).await.map_err(of_restart)?;
        // A volume of the next version is used on the node that has the plugin of the version before.
        let scope = cx.scope();
        let published = publish(&scope, cx.writable_volume().await?).await.map_err(of_mixed)?;
        let new = InUse::of(&scope, published).await?;
        for user in [old, new] {
            let user = moved(user, &there).await?;
            moved(user, cx).await?.end(MOVE).await?;
        }
        Ok(())
    }
}

/// Moves a volume with its workload to another node.
async fn moved(user: InUse, to: &Cx) -> CheckResult<InUse> {
    beside(MOVE, [&user], async { Ok(()) }).await?;
    let from = user.cx().clone();
    let (mut volume, written) = user.leave_node(MOVE).await?;
    let detach = Operation::ControllerUnpublishVolume;
    if detach.is_offered(&from) {
        let request = volume.request(&from, detach).await?;
        request.send(&from).await.must("detach a volume that its node has released").map_err(of_mixed)?;
    }
    let used = to.scope();
    let published = publish(&used, volume.volume).await.map_err(of_mixed)?;
    let noun = "a volume that moved between nodes of two versions";
    InUse::after_move(used, published, &written, &UPGRADE_011, noun).await
}

fn of_mixed(stop: Stop) -> Stop {
    stop.of(&UPGRADE_011).of_a_plain_call()
}
