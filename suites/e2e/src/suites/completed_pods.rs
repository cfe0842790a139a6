use csi_driver_definitions::Capability;

use crate::cluster::{Done, Feature, PodPhase, PodSpec};
use crate::pattern;
use crate::scene::{RunningPod, Scene, Seen, Volume, path_of};
use crate::test;
use crate::test::{Need, Suite};

/// Upstream deletes a completed pod before the next one uses its volume.
pub(crate) static SUITE: Suite = Suite {
    name: "completed-pods",
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    tests: &[&NEXT, &BESIDE],
    ..Suite::PLAIN
};

test! {
    /// Kubelet unmounts the volume of a completed pod, whether or not the pod is deleted, and mounts it for the next pod.
    NEXT {
        name: "should unmount the volume of a completed pod and mount it for the next pod on the node",
        needs: [Need::Offers(Feature::NodeAccess)],
    }
    async |scene| {
        let (volume, path, content) = (scene.volume().await?, path_of(0), scene.content());
        let first = scene.run(completing(scene, &volume)).await?;
        first.write(&path, volume.block, &content).await?;
        complete(scene, &first).await?;
        scene.nothing_left_of(&first).await?;
        let second = scene.run(scene.pod_on(&first.node, &[&volume])).await?;
        second.holds(&path, volume.block, &content).await?;
        second.delete().await?;
        first.delete().await
    }
}

test! {
    /// A pod keeps the volume that it shares with a pod that completes, and the next pod gets it beside both.
    BESIDE {
        name: "should keep a volume mounted beside a completed pod and mount it for another pod",
        needs: [Need::Can(Capability::Multipods), Need::Offers(Feature::NodeAccess)],
    }
    async |scene| {
        let (volume, path, content) = (scene.volume().await?, path_of(0), scene.content());
        let first = scene.run(completing(scene, &volume)).await?;
        let second = scene.run(scene.pod_on(&first.node, &[&volume])).await?;
        second.write(&path, volume.block, &content).await?;
        complete(scene, &first).await?;
        scene.nothing_left_of(&first).await?;
        second.holds(&path, volume.block, &content).await?;
        let third = scene.run(scene.pod_on(&first.node, &[&volume])).await?;
        third.holds(&path, volume.block, &content).await?;
        third.delete().await?;
        second.holds(&path, volume.block, &content).await?;
        second.delete().await?;
        first.delete().await
    }
}

/// Returns the file that makes the container of a pod end.
fn end_file() -> String {
    format!("{}/end", path_of(0))
}

/// Describes a pod that runs until [`complete`] ends it.
fn completing(scene: &Scene, volume: &Volume) -> PodSpec {
    let mut spec = scene.pod(&[volume]);
    spec.restarts = false;
    let script = format!("while [ ! -e {} ]; do sleep 0.1; done", end_file());
    spec.containers.iter_mut().for_each(|container| container.script = Some(script.clone()));
    spec
}

/// Ends the container of a pod, and waits until the pod has completed. The pod still exists.
async fn complete(scene: &Scene, pod: &RunningPod<'_>) -> Done {
    // The container may end before it can say how the command ended.
    let ended = pod.sh(&format!("touch {}", end_file())).await;
    let completed = scene
        .until(&format!("pod {} completes", pod.name), scene.timeouts().pod_delete, || async {
            Ok(match scene.existing_pod(&pod.name).await?.phase {
                PodPhase::Succeeded => Seen::There(()),
                phase => Seen::NotYet(format!("it is {phase:?}")),
            })
        })
        .await;
    completed.map_err(|late| ended.err().unwrap_or(late))
}
