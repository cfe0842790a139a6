use csi_harness::prelude::Stop;

use crate::cluster::{Done, Feature, Node, PodPhase, PodSpec, StorageClass, VolumeBindingMode};
use crate::pattern;
use crate::scene::{Scene, Seen, Volume, all, failed};
use crate::test;
use crate::test::{Need, Suite};

/// A higher limit is not tried, because so many volumes take too long for the result.
const TRIED_MAX: u64 = 64;
/// The number of volumes on a node while its limit is read again.
const IN_USE: u64 = 2;

/// Upstream has its tests among those of the driver in memory, where a hook changes the limit.
pub(crate) static SUITE: Suite = Suite {
    name: "MutableCSINodeAllocatableCount",
    tags: &["FeatureGate:MutableCSINodeAllocatableCount"],
    patterns: &[&pattern::FS_MODE],
    needs: &[Need::Offers(Feature::LimitsReadAgain)],
    tests: &[&OWN, &EXCEEDED],
    ..Suite::PLAIN
};

test! {
    /// Kubelet reads the limit of a node again: the node is unchanged, and the driver's volumes on it are not
    /// subtracted from the limit, because the scheduler subtracts them.
    OWN {
        name: "should not take its own volumes off the CSINode allocatable count",
        alone: true,
    }
    async |scene| {
        let class = class(scene).await?;
        let node = first_node(scene).await?;
        let before = limit_read_again(scene).await?;
        let volumes: Vec<Volume> = all((0..IN_USE).map(|_| scene.volume_of(&class))).await?;
        let during = run_and_release(scene, &node, &volumes, async || limit_read_again(scene).await).await?;
        let after = limit_read_again(scene).await?;
        // A limit that changes by itself hardly ever falls by exactly this number, and then stays lower.
        match before.zip(during) {
            Some((limit, during)) if before == after && during + IN_USE == limit => Err(failed(
                "the limit shrinks with each volume on the node, and the scheduler subtracts these volumes once more",
                format!("max_volumes_per_node {limit}, with volumes and without"),
                format!("{during} with {IN_USE} volumes"),
            )),
            _ => Ok(()),
        }
    }
}

test! {
    /// A node that is full by its limit rejects one more volume with RESOURCE_EXHAUSTED: only then the limit is read
    /// again, and the pod fails, so that its owner makes another one elsewhere.
    EXCEEDED {
        name: "should fail a pod with VolumeAttachmentLimitExceeded on a node that is full",
        alone: true,
        needs: [Need::NodeLimit(TRIED_MAX)],
    }
    async |scene| {
        let class = class(scene).await?;
        let node = first_node(scene).await?;
        let limit = limit_read_again(scene).await?.ok_or_else(|| Stop::skip("the node has no volume limit"))?;
        let more = [scene.volume_of(&class).await?];
        // Its claim is bound first, and the volume is reachable from the node.
        run_and_release(scene, &node, &more, async || Ok(())).await?;
        let volumes: Vec<Volume> = all((0..limit).map(|_| scene.volume_of(&class))).await?;
        let full = on_node(scene, &node, &volumes);
        let full = scene.run_within(full, scene.timeouts().pod_start_slow).await?;

        let mut spec = on_node(scene, &node, &more);
        spec.bound_to = spec.node.take();
        scene.cluster().create_pod(&spec).await?;
        let rejected = scene.until("a pod fails on a full node", scene.timeouts().pod_start, || async {
            let pod = scene.existing_pod(&spec.name).await?;
            let why = pod.given_up.clone().or(pod.waiting.clone()).unwrap_or_default();
            Ok(match pod.phase {
                PodPhase::Failed => Seen::There(true),
                PodPhase::Running | PodPhase::Succeeded => Seen::There(false),
                PodPhase::Pending if pod.given_up.is_some() => Seen::Never(why),
                PodPhase::Pending => Seen::NotYet(format!("{why}{}", scene.explaining_event(&spec.name).await?)),
            })
        });
        let rejected = rejected.await?;
        scene.delete_pod(&spec.name).await?;
        full.delete().await?;
        match rejected {
            true => Ok(()),
            // The scheduler keeps to max_volumes_per_node; a driver that accepts more breaks no rule.
            false => Err(Stop::skip("the node accepts more volumes than its limit")),
        }
    }
}

/// Returns the class of the definition; if some nodes do not reach every volume, volumes are made for the pod's node.
pub(super) async fn class(scene: &Scene) -> Done<StorageClass> {
    let change = |class: &mut StorageClass| {
        if !scene.driver().driver_info.topology_keys.is_empty() {
            class.volume_binding_mode = VolumeBindingMode::WaitForFirstConsumer;
        }
    };
    scene.class_with(change).await
}

async fn first_node(scene: &Scene) -> Done<Node> {
    let nodes = scene.cluster().nodes().await?;
    nodes.into_iter().next().ok_or_else(|| Stop::skip("the driver has no node"))
}

/// Makes kubelet read the first node's limit again, and returns it.
async fn limit_read_again(scene: &Scene) -> Done<Option<u64>> {
    scene.cluster().read_limits_again().await?;
    Ok(first_node(scene).await?.volume_limit)
}

fn on_node(scene: &Scene, node: &Node, volumes: &[Volume]) -> PodSpec {
    scene.pod_on(&node.name, &volumes.iter().collect::<Vec<_>>())
}

/// Runs an action while a pod on the node has the volumes, and waits until they are off the node.
async fn run_and_release<T>(
    scene: &Scene,
    node: &Node,
    volumes: &[Volume],
    meanwhile: impl AsyncFnOnce() -> Done<T>,
) -> Done<T> {
    let pod = scene.run(on_node(scene, node, volumes)).await?;
    let done = meanwhile().await?;
    pod.delete().await?;
    for volume in volumes {
        scene.claim_detached(volume.claim()).await?;
    }
    Ok(done)
}
