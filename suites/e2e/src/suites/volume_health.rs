use csi_harness::lifecycle::hooks::BACKEND;
use csi_harness::prelude::{Settles, Stop};

use crate::cluster::{Done, Feature, HealthCondition, HealthOf};
use crate::pattern;
use crate::scene::{RunningPod, Scene, Volume, failed};
use crate::test;
use crate::test::{Need, Suite};

/// Upstream's first tests belong to its in-memory driver, from Kubernetes 1.37 on.
pub(crate) static SUITE: Suite = Suite {
    name: "volume-health",
    tags: &["FeatureGate:CSIVolumeHealth"],
    patterns: &[&pattern::FS_MODE, &pattern::BLOCK],
    needs: &[Need::BlockIfAsked],
    tests: &[&NORMAL, &STATS, &ABNORMAL, &STORAGE, &CLAIM_NORMAL, &CLAIM_ABNORMAL],
    ..Suite::PLAIN
};

test! {
    /// No problem of a healthy volume is reported, and kubelet can use the answers.
    NORMAL {
        name: "return normal volume health",
        needs: [Need::Offers(Feature::VolumeHealth)],
    }
    async |scene| {
        let (_, pod, of) = volume_in_use(scene).await?;
        scene.cluster().look_after_health().await?;
        is_well(scene, &of, "a healthy volume is shown as unhealthy in its pod").await?;
        pod.delete().await
    }
}

test! {
    /// Kubelet gets usable statistics of a volume, whether the driver reports health or not.
    STATS {
        name: "return normal volume stats without volume health",
        needs: [Need::Offers(Feature::VolumeStats)],
    }
    async |scene| {
        let (_, pod, _) = volume_in_use(scene).await?;
        scene.cluster().look_after_health().await?;
        pod.delete().await
    }
}

test! {
    /// A problem of a volume is shown in its pod while it lasts.
    ABNORMAL {
        name: "return abnormal volume health",
        needs: [Need::Offers(Feature::VolumeHealth)],
    }
    async |scene| {
        let (volume, pod, of) = volume_in_use(scene).await?;
        is_damaged_and_repaired(scene, &id(scene, &volume).await?, &of).await?;
        pod.delete().await
    }
}

test! {
    /// A problem of the back end is shown in the CSINode while it lasts.
    STORAGE {
        name: "should mark CSINode unhealthy and then healthy",
        exists: |pattern, _| !pattern.is_block(),
        needs: [Need::Offers(Feature::StorageHealth)],
    }
    async |scene| {
        let nodes = scene.cluster().nodes().await?;
        let node = nodes.first().ok_or_else(|| Stop::skip("the driver has no node"))?;
        is_damaged_and_repaired(scene, BACKEND, &HealthOf::Node(node.name.clone())).await
    }
}

test! {
    /// No problem of a healthy volume is shown in its claim.
    CLAIM_NORMAL {
        name: "should show nothing in the claim of a healthy volume",
        exists: |pattern, _| !pattern.is_block(),
        needs: [Need::Offers(Feature::ClaimHealth)],
    }
    async |scene| {
        let (volume, pod, _) = volume_in_use(scene).await?;
        scene.cluster().look_after_health().await?;
        let of = HealthOf::Claim(volume.claim().to_owned());
        is_well(scene, &of, "a healthy volume is shown as unhealthy in its claim").await?;
        pod.delete().await
    }
}

test! {
    /// A problem of a volume is shown in its claim while it lasts.
    CLAIM_ABNORMAL {
        name: "should mark the claim unhealthy and then healthy",
        exists: |pattern, _| !pattern.is_block(),
        needs: [Need::Offers(Feature::ClaimHealth)],
    }
    async |scene| {
        let (volume, pod, _) = volume_in_use(scene).await?;
        let of = HealthOf::Claim(volume.claim().to_owned());
        is_damaged_and_repaired(scene, &id(scene, &volume).await?, &of).await?;
        pod.delete().await
    }
}

/// Makes a volume and a pod that uses it, whose health kubelet monitors.
async fn volume_in_use(scene: &Scene) -> Done<(Volume, RunningPod<'_>, HealthOf)> {
    let volume = scene.volume().await?;
    let spec = scene.pod(&[&volume]);
    let name = spec.volumes.first().map(|first| first.name.clone()).unwrap_or_default();
    let of = HealthOf::PodVolume(spec.name.clone(), name);
    Ok((volume, scene.run(spec).await?, of))
}

/// Returns the volume_id of a claim.
async fn id(scene: &Scene, volume: &Volume) -> Done<String> {
    let claim = scene.existing_claim(volume.claim()).await?;
    Ok(scene.volume_behind(&claim).await?.handle)
}

/// Checks that health was reported, and without a problem.
async fn is_well(scene: &Scene, of: &HealthOf, otherwise: &str) -> Done {
    match scene.cluster().health(of).await? {
        Some(conditions) if conditions.is_empty() => Ok(()),
        Some(conditions) => Err(failed(otherwise, "no conditions", words(&conditions))),
        None => {
            Err(failed("the health of a working volume cannot be read", "an answer", "no answer with OK"))
        }
    }
}

/// Damages something with the user's command until the problem is shown, and repairs it until it is no longer shown.
async fn is_damaged_and_repaired(scene: &Scene, what: &str, of: &HealthOf) -> Done {
    let cx = &scene.cx;
    if cx.config().health.make_ill.is_none() {
        return Err(Stop::skip("--config has no `health` commands that break a volume"));
    }
    scene.cluster().look_after_health().await?;
    is_well(scene, of, "something is unhealthy before the test has broken anything").await?;
    cx.make_ill(what).await?;
    let reported =
        cx.eventually(Settles::IllnessReported, async || shown(scene, of, |shown| !shown.is_empty()).await);
    if reported.await?.is_none() {
        return Err(failed("what was broken is shown as healthy", format!("conditions of {of:?}"), "none"));
    }
    cx.make_well(what).await?;
    let gone = cx.eventually(Settles::IllnessOver, async || shown(scene, of, <[_]>::is_empty).await);
    match gone.await? {
        Some(()) => Ok(()),
        None => {
            let left = scene.cluster().health(of).await?.unwrap_or_default();
            Err(failed(
                "what is healthy again is shown as unhealthy",
                format!("no conditions of {of:?}"),
                words(&left),
            ))
        }
    }
}

/// Reads after a round whether the expected health is shown.
async fn shown(scene: &Scene, of: &HealthOf, is_it: impl Fn(&[HealthCondition]) -> bool) -> Done<Option<()>> {
    scene.cluster().look_after_health().await?;
    let shown = scene.cluster().health(of).await?;
    Ok(shown.is_some_and(|conditions| is_it(&conditions)).then_some(()))
}

fn words(conditions: &[HealthCondition]) -> String {
    let one = |condition: &HealthCondition| {
        format!("{} for {:?} ({})", condition.status, condition.reason, condition.message)
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(", ")
}
