use crate::cluster::{AttributesClass, Done, Feature, PvcSpec};
use crate::pattern;
use crate::scene::{Scene, all, positive};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volume-modify-stress",
    tags: &["FeatureGate:VolumeAttributesClass", "Feature:VolumeAttributesClass"],
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK, &pattern::NTFS],
    size_min_bytes: 1 << 30,
    needs: &[
        Need::Says(
            |definition| definition.driver_info.volume_modify_stress_test_options.is_some(),
            "the definition has no VolumeModifyStressTestOptions",
        ),
        Need::AttributesClass,
        Need::BlockIfAsked,
        Need::Offers(Feature::AttributesClasses),
    ],
    tests: &[&PROVISIONS, &MODIFIES],
    ..Suite::PLAIN
};

test! {
    /// Many volumes are created concurrently with the attributes of a class, and pods run with them.
    ///
    /// Upstream never starts its pods, so a class that waits for them makes no volume.
    PROVISIONS {
        name: "multiple pods should provision volumes with volumeAttributesClass",
        tags: ["Slow"],
        alone: true,
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        at_once(scene, &attributes, true).await
    }
}

test! {
    /// Many volumes in use get the attributes of a class concurrently.
    ///
    /// Upstream never starts its pods, and changes one volume after another.
    MODIFIES {
        name: "multiple pods should modify volumes with a different volumeAttributesClass",
        tags: ["Slow"],
        alone: true,
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        at_once(scene, &attributes, false).await
    }
}

/// Gives volumes attributes at their creation or later.
async fn at_once(scene: &Scene, attributes: &AttributesClass, created_with: bool) -> Done {
    let options = scene.driver().driver_info.volume_modify_stress_test_options.clone().unwrap_or_default();
    let pods = positive("VolumeModifyStressTestOptions.NumPods", options.num_pods)?;
    let class = scene.class().await?;
    let in_use = all((0..pods).map(async |_| {
        let attributes_class = created_with.then(|| attributes.name.clone());
        let spec = PvcSpec { attributes_class, ..scene.claim_spec(&class) };
        let volume = scene.claim(&spec, &class).await?;
        Ok((spec.name, scene.run(scene.pod(&[&volume])).await?))
    }));
    let in_use = in_use.await?;
    all(in_use.iter().map(async |(claim, _)| match created_with {
        true => scene.has_attributes(claim, attributes).await,
        false => scene.modify(claim, attributes).await,
    }))
    .await?;
    scene.release(in_use).await
}
