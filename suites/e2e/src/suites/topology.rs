use std::collections::BTreeSet;

use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;

use crate::cluster::{Done, Pairs, PodPhase, StorageClass, VolumeBindingMode};
use crate::pattern;
use crate::scene::{Scene, Seen, failed};
use crate::test;
use crate::test::{Need, Suite, allowed_segments, segments};

pub(crate) static SUITE: Suite = Suite {
    name: "topology",
    patterns: &[&pattern::TOPOLOGY_IMMEDIATE, &pattern::TOPOLOGY_DELAYED],
    needs: &[
        Need::Can(Capability::Topology),
        Need::Says(
            |definition| !definition.driver_info.topology_keys.is_empty(),
            "the definition has no TopologyKeys",
        ),
    ],
    tests: &[&ALLOWED, &CONFLICTING],
    ..Suite::PLAIN
};

test! {
    /// A volume of a class with allowedTopologies is made in one of these, and its pod runs there: in a segment that
    /// matches all of its keys, whereas upstream only requires one.
    ALLOWED {
        name: "should provision a volume and schedule a pod with AllowedTopologies",
        needs: [Need::SpareSegments(0)],
    }
    async |scene| {
        let (class, _) = class_of_some_segments(scene).await?;
        let volume = scene.volume_of(&class).await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        let nodes = scene.cluster().nodes().await?;
        let here = nodes.iter().find(|node| node.name == pod.node);
        let here = here.ok_or_else(|| Stop::broken(format!("there is no node {}", pod.node)))?;
        let allowed = class.allowed_topologies.iter().any(|segment| is_in(&here.topology, segment));
        if !allowed {
            return Err(failed(
                "a pod runs outside of the segments that its volume is allowed in",
                format!("{:?}", class.allowed_topologies),
                format!("{:?}", here.topology),
            ));
        }
        let claim = scene.existing_claim(volume.claim()).await?;
        let made = scene.volume_behind(&claim).await?;
        let outside = made.topology.iter().find(|segment| {
            !class.allowed_topologies.iter().any(|allowed| is_in(segment, allowed))
        });
        if let Some(outside) = outside {
            return Err(failed(
                "a volume can be used from a segment that it is not allowed in",
                format!("{:?}", class.allowed_topologies),
                format!("{outside:?}"),
            ));
        }
        pod.delete().await
    }
}

test! {
    /// A pod that must run in another segment than its volume is not scheduled.
    CONFLICTING {
        name: "should fail to schedule a pod which has topologies that conflict with AllowedTopologies",
        needs: [Need::SpareSegments(1)],
    }
    async |scene| {
        let (class, excluded) = class_of_some_segments(scene).await?;
        let Some(excluded) = excluded else {
            return Err(Stop::broken("the nodes are in other segments than before"));
        };
        let volume = scene.volume_of(&class).await?;
        let nodes = scene.cluster().nodes().await?;
        let mut spec = scene.pod(&[&volume]);
        spec.node = nodes.iter().find(|node| is_in(&node.topology, &excluded)).map(|node| node.name.clone());
        scene.cluster().create_pod(&spec).await?;
        scene.until("the pod is not scheduled", scene.timeouts().pod_start, || async {
            let pod = scene.existing_pod(&spec.name).await?;
            if pod.phase != PodPhase::Pending {
                return Ok(Seen::Never(format!("it is {:?}", pod.phase)));
            }
            let why = pod.waiting.unwrap_or_default();
            Ok(if why.starts_with("Unschedulable") { Seen::There(()) } else { Seen::NotYet(why) })
        })
        .await?;
        if class.volume_binding_mode == VolumeBindingMode::WaitForFirstConsumer {
            let claim = scene.existing_claim(volume.claim()).await?;
            if let Some(volume) = claim.volume {
                return Err(failed("a volume is made for a pod that cannot be scheduled", "none", volume));
            }
        }
        scene.delete_pod(&spec.name).await
    }
}

/// Creates a class that permits all segments of the nodes except one, if there are enough, and returns the excluded
/// one.
async fn class_of_some_segments(scene: &Scene) -> Done<(StorageClass, Option<Pairs>)> {
    let mut segments = segments_of_nodes(scene).await?;
    let is_one_spare = segments.len() > allowed_segments(scene.driver());
    let excluded = if is_one_spare { segments.pop_last() } else { None };
    let class = scene.class_with(|class| class.allowed_topologies = segments.into_iter().collect()).await?;
    Ok((class, excluded))
}

/// Returns the segments of the nodes, each of which must have all keys of the definition.
pub(super) async fn segments_of_nodes(scene: &Scene) -> Done<BTreeSet<Pairs>> {
    let nodes = scene.cluster().nodes().await?;
    segments(scene.driver(), &nodes).map_err(|(node, segment)| {
        failed(
            format!("node {} lacks labels of the topology", node.name),
            format!("{:?}", scene.driver().driver_info.topology_keys),
            format!("{segment:?}"),
        )
    })
}

/// Returns whether a topology has all labels of a segment.
pub(super) fn is_in(place: &Pairs, segment: &Pairs) -> bool {
    segment.iter().all(|(key, value)| place.get(key) == Some(value))
}
