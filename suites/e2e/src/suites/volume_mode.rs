use csi_driver_definitions::Capability;
use tokio::time::Instant;

use crate::cluster::{Feature, PodPhase, PvcPhase, VolumeBindingMode, VolumeMode};
use crate::pattern;
use crate::scene::{Seen, Volume, failed};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volumeMode",
    patterns: &[&pattern::FS_MODE, &pattern::BLOCK],
    size_min_bytes: 1 << 20,
    tests: &[&FAILS_TO_BIND, &MISMATCHED, &UNUSED],
    ..Suite::PLAIN
};

test! {
    /// A driver without block volumes rejects one. Upstream also passes without an error.
    FAILS_TO_BIND {
        name: "should fail in binding dynamic provisioned PV to PVC",
        tags: ["Slow", "LinuxOnly"],
        exists: |pattern, definition| pattern.is_block() && !definition.can(Capability::Block),
    }
    async |scene| {
        let class = scene.class_with(|class| class.volume_binding_mode = VolumeBindingMode::Immediate).await?;
        let spec = scene.claim_spec(&class);
        scene.cluster().create_pvc(&spec).await?;
        scene.until("making a block volume is rejected", scene.timeouts().claim_provision, || async {
            let claim = scene.existing_claim(&spec.name).await?;
            if claim.phase == PvcPhase::Bound {
                return Ok(Seen::Never("the claim is bound".to_owned()));
            }
            let events = scene.cluster().events(&spec.name).await?;
            Ok(match events.iter().any(|event| event.reason == "ProvisioningFailed") {
                true => Seen::There(()),
                false => Seen::NotYet("no error was reported".to_owned()),
            })
        })
        .await
    }
}

test! {
    /// A claim with a file system cannot be a device in a pod, nor the other way round: kubelet rejects it before it
    /// calls the driver.
    MISMATCHED {
        name: "should fail to use a volume in a pod with mismatched mode",
        tags: ["Slow"],
        needs: [Need::Can(Capability::Block), Need::Offers(Feature::Orchestrator)],
    }
    async |scene| {
        let volume = scene.volume().await?;
        let spec = scene.pod(&[&Volume { block: !volume.block, ..volume.clone() }]);
        let limit = scene.timeouts().pod_start;
        let since = Instant::now();
        scene.cluster().create_pod(&spec).await?;
        scene.until("kubelet rejects the pod", limit, || async {
            let phase = scene.existing_pod(&spec.name).await?.phase;
            if phase != PodPhase::Pending {
                return Ok(Seen::Never(format!("it is {phase:?}")));
            }
            let events = scene.cluster().events(&spec.name).await?;
            // As upstream, it suffices that the pod does not start in time, even if no event says why.
            let is_refused = events.iter().any(|event| event.reason == "FailedMount");
            Ok(match is_refused || since.elapsed() >= limit {
                true => Seen::There(()),
                false => Seen::NotYet("no error was reported".to_owned()),
            })
        })
        .await?;
        scene.delete_pod(&spec.name).await
    }
}

test! {
    /// A volume that no container of its pod uses is attached, but neither staged nor published.
    UNUSED {
        name: "should not mount / map unused volumes in a pod [LinuxOnly]",
        needs: [Need::BlockIfAsked, Need::Offers(Feature::NodeAccess)],
    }
    async |scene| {
        let volume = scene.volume().await?;
        let mut spec = scene.pod(&[&volume]);
        for container in &mut spec.containers {
            container.mounts.clear();
            container.devices.clear();
        }
        let pod = scene.run(spec).await?;
        let found = scene.paths_of_volumes(&pod).await?;
        if !found.is_empty() {
            let kind = if scene.pattern.mode == Some(VolumeMode::Block) { "mapped" } else { "mounted" };
            return Err(failed(format!("a volume that no container uses is {kind}"), "nothing", found));
        }
        pod.delete().await
    }
}
