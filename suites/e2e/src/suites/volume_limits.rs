use std::time::Duration;

use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;

use super::allocatable_count::class;
use crate::cluster::PodPhase;
use crate::pattern::{self, VolumeType};
use crate::scene::{Seen, Volume, all, failed};
use crate::test;
use crate::test::{Need, Suite};

/// A higher limit is not tried, because so many volumes take too long for the result.
const TRIED_MAX: u64 = 256;

pub(crate) static SUITE: Suite = Suite {
    name: "volumeLimits",
    patterns: &[&pattern::FS_MODE, &pattern::EPHEMERAL_PLAIN],
    needs: &[
        Need::Can(Capability::VolumeLimits),
        Need::Fits(
            |pattern, _| pattern.volume == VolumeType::Dynamic,
            "for volumes with a claim of their own",
        ),
    ],
    tests: &[&SUPPORTS, &ALL_NODES],
    ..Suite::PLAIN
};

test! {
    /// A node can have as many volumes as its driver reports, all in one pod; a pod with one more is not scheduled
    /// there.
    SUPPORTS {
        name: "should support volume limits",
        tags: ["Serial"],
        needs: [Need::NodeLimit(TRIED_MAX)],
    }
    async |scene| {
        let nodes = scene.cluster().nodes().await?;
        let node = nodes.first().ok_or_else(|| Stop::broken("the cluster has no node"))?;
        let Some(limit) = node.volume_limit else {
            return Err(failed("a node does not report how many volumes it takes", "max_volumes_per_node", "none"));
        };
        let class = class(scene).await?;
        let volumes: Vec<Volume> = all((0..limit).map(|_| scene.volume_of(&class))).await?;
        let spec = scene.pod_on(&node.name, &volumes.iter().collect::<Vec<_>>());
        let full = scene.run_within(spec, scene.timeouts().pod_start * 10).await?;

        let more = scene.volume_of(&class).await?;
        let spec = scene.pod_on(&node.name, &[&more]);
        scene.cluster().create_pod(&spec).await?;
        scene.until("a pod with one more volume is not scheduled", scene.timeouts().pod_start, || async {
            let pod = scene.existing_pod(&spec.name).await?;
            if pod.phase != PodPhase::Pending {
                return Ok(Seen::Never(format!("it is {:?}", pod.phase)));
            }
            let why = pod.waiting.unwrap_or_default();
            Ok(match why.starts_with("Unschedulable") && why.contains("max volume count") {
                true => Seen::There(()),
                false => Seen::NotYet(why),
            })
        })
        .await?;
        scene.delete_pod(&spec.name).await?;
        full.delete().await
    }
}

test! {
    /// Every node reports its volume limit.
    ALL_NODES {
        name: "should verify that all csinodes have volume limits",
    }
    async |scene| {
        scene.until("every node has a limit", Duration::from_secs(60), || async {
            let nodes = scene.cluster().nodes().await?;
            let without = nodes.iter().find(|node| node.volume_limit.is_none_or(|limit| limit == 0));
            Ok(match without {
                None => Seen::There(()),
                Some(node) => Seen::Never(format!("NodeGetInfo of {} has no max_volumes_per_node", node.name)),
            })
        })
        .await
    }
}
