use csi_driver_definitions::Capability;
use csi_harness::text::size::sized;
use csi_proto::{Call as _, v1};
use csi_workload::beside::Action;

use crate::cluster::{Done, Feature};
use crate::pattern;
use crate::scene::{Content, Extent, RunningPod, Scene, Volume, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volume-expand",
    patterns: &[
        &pattern::DEFAULT_FS,
        &pattern::XFS,
        &pattern::BLOCK,
        &pattern::DEFAULT_FS_EXPANDS,
        &pattern::BLOCK_EXPANDS,
        &pattern::NTFS,
        &pattern::NTFS_EXPANDS,
    ],
    size_min_bytes: 1 << 30,
    needs: &[Need::Can(Capability::ControllerExpansion), Need::BlockIfAsked],
    tests: &[&NOT_WITHOUT_PERMISSION, &OFFLINE, &ONLINE, &RECREATED],
    ..Suite::PLAIN
};

const EXPANSION: Action = Action {
    name: "ControllerExpandVolume and NodeExpandVolume",
    rpcs: &[v1::ControllerExpandVolumeRequest::RPC, v1::NodeExpandVolumeRequest::RPC],
};

test! {
    /// Claims of a class without allowVolumeExpansion cannot grow. The API server ensures that.
    NOT_WITHOUT_PERMISSION {
        name: "should not allow expansion of pvcs without AllowVolumeExpansion property",
        exists: |pattern, _| !pattern.allow_expansion,
        needs: [Need::Offers(Feature::Orchestrator)],
    }
    async |scene| {
        let volume = scene.volume().await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        let asked_bytes = scene.existing_claim(volume.claim()).await?.spec.request_bytes;
        let grown = scene.grow(volume.claim()).await;
        // Reading the claim shows that the request was rejected, and that the cluster is reachable.
        let asks_bytes = scene.existing_claim(volume.claim()).await?.spec.request_bytes;
        if grown.is_ok() || asks_bytes != asked_bytes {
            return Err(failed("a claim grows although its class does not allow it", "a rejection", format!("{} asked for", sized(asks_bytes))));
        }
        pod.delete().await
    }
}

test! {
    /// A volume grows while no pod uses it. The next pod sees its full size and the data.
    ///
    /// Upstream only reads the objects; here the block device or the file system is measured.
    OFFLINE {
        name: "Verify if offline PVC expansion works",
        exists: |pattern, _| pattern.allow_expansion,
        needs: [Need::Can(Capability::OfflineExpansion)],
    }
    async |scene| {
        let (small, pod) = Small::in_use(scene).await?;
        pod.delete().await?;
        let wanted_bytes = scene.grow(small.volume.claim()).await?;
        scene.controller_has_grown(small.volume.claim(), wanted_bytes).await?;
        let pod = scene.run(scene.pod(&[&small.volume])).await?;
        small.is_larger(scene, &pod, wanted_bytes).await?;
        pod.delete().await
    }
}

test! {
    /// A volume grows while a pod uses it, and the pod sees the new size and its data.
    ///
    /// Upstream only reads the objects; here the block device or the file system is measured.
    ONLINE {
        name: "should resize volume when PVC is edited while pod is using it",
        exists: |pattern, _| pattern.allow_expansion,
        needs: [Need::Can(Capability::OnlineExpansion)],
    }
    async |scene| {
        let (small, pod) = Small::in_use(scene).await?;
        let user = pod.start_workload(&path_of(0)).await;
        let grown = async {
            let wanted_bytes = scene.grow(small.volume.claim()).await?;
            scene.controller_has_grown(small.volume.claim(), wanted_bytes).await?;
            small.is_larger(scene, &pod, wanted_bytes).await
        };
        scene.beside(EXPANSION, &[&user], grown).await?;
        user.end(EXPANSION).await;
        pod.delete().await
    }
}

test! {
    /// A volume grows while a pod uses it, and another pod uses it on this node before or after the node's part of
    /// the expansion. The second pod sees the full size and the data.
    ///
    /// Upstream only reads the objects; here the block device or the file system is measured.
    RECREATED {
        name: "should resize volume when PVC is edited and the pod is re-created on the same node after controller resize is finished",
        exists: |pattern, _| pattern.allow_expansion,
        needs: [Need::Can(Capability::OnlineExpansion)],
    }
    async |scene| {
        let (small, first) = Small::in_use(scene).await?;
        let wanted_bytes = scene.grow(small.volume.claim()).await?;
        scene.controller_has_grown(small.volume.claim(), wanted_bytes).await?;
        let second = scene.pod_on(&first.node, &[&small.volume]);
        first.delete().await?;
        let second = scene.run(second).await?;
        small.is_larger(scene, &second, wanted_bytes).await?;
        second.delete().await
    }
}

/// A volume before it grows.
struct Small {
    volume: Volume,
    content: Content,
    extent: Extent,
}

impl Small {
    /// Makes a volume that a pod has written to and measured.
    async fn in_use(scene: &Scene) -> Done<(Small, RunningPod<'_>)> {
        let volume = scene.volume().await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        let (path, content) = (path_of(0), scene.content());
        pod.write(&path, volume.block, &content).await?;
        let extent = pod.extent(&path, volume.block).await?;
        Ok((Small { volume, content, extent }, pod))
    }

    /// Checks that a pod sees the larger volume and its data.
    async fn is_larger(&self, scene: &Scene, pod: &RunningPod<'_>, wanted_bytes: i64) -> Done {
        scene.has_grown(self.volume.claim(), wanted_bytes).await?;
        let (path, block) = (path_of(0), self.volume.block);
        pod.sees_growth(&path, block, self.extent, wanted_bytes).await?;
        pod.holds(&path, block, &self.content).await
    }
}
