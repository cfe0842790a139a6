use csi_driver_definitions::Capability;

use crate::cluster::{Feature, PodSpec};
use crate::pattern;
use crate::scene::path_of;
use crate::test;
use crate::test::{Need, Suite};

/// Upstream has such a test for one driver of a cloud, and not for a definition.
pub(crate) static SUITE: Suite = Suite {
    name: "non-graceful-node-shutdown",
    tags: &["Disruptive"],
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK],
    needs: &[
        Need::BlockIfAsked,
        Need::Cannot(Capability::SingleNodeVolume),
        Need::TwoNodes,
        Need::Offers(Feature::NodeShutdown),
    ],
    tests: &[&MOVED],
    ..Suite::PLAIN
};

test! {
    /// A node loses its power, and the cluster detaches its volumes without it. A pod on another node has the data that
    /// were written before. It keeps them when the first node comes back and gives back what it had, and the first node
    /// can use the volume again.
    MOVED {
        name: "should move a volume with its data to another node when its node is shut down, and keep them when that node returns",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let (path, before, after) = (path_of(0), scene.content(), scene.content());
        let lost = scene.run(scene.pod(&[&volume])).await?;
        lost.write(&path, volume.block, &before).await?;
        // A file is in the memory of the node otherwise.
        lost.sh("sync").await?;
        scene.cluster().shut_node_down(&lost.node).await?;
        scene.pod_gone(&lost.name).await?;
        let elsewhere = PodSpec { not_on: vec![lost.node.clone()], ..scene.pod(&[&volume]) };
        let second = scene.run(elsewhere).await?;
        second.holds(&path, volume.block, &before).await?;
        second.write(&path, volume.block, &after).await?;
        scene.cluster().start_node(&lost.node).await?;
        if scene.cluster().offers(Feature::NodeAccess).is_ok() {
            scene.nothing_left_of(&lost).await?;
        }
        second.holds(&path, volume.block, &after).await?;
        second.delete().await?;
        let back = scene.run(scene.pod_on(&lost.node, &[&volume])).await?;
        back.holds(&path, volume.block, &after).await
    }
}
