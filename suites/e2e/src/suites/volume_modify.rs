use csi_harness::prelude::Stop;

use crate::cluster::{AttributesClass, ClaimSpec, Done, Feature};
use crate::pattern;
use crate::scene::{Content, RunningPod, Scene, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volume-modify",
    tags: &["FeatureGate:VolumeAttributesClass", "Feature:VolumeAttributesClass"],
    context: "",
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK, &pattern::NTFS],
    size_min_bytes: 1 << 30,
    needs: &[Need::AttributesClass, Need::BlockIfAsked, Need::Offers(Feature::AttributesClasses)],
    tests: &[&CREATED_WITH, &FROM_NONE, &FROM_ANOTHER, &RECOVERS, &PROTECTED],
};

test! {
    /// A volume is made with the attributes of a class.
    CREATED_WITH {
        name: "should create a volume with VAC",
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        let used = Used::new(scene, Some(&attributes)).await?;
        scene.has_attributes(&used.claim, &attributes).await?;
        used.ends().await
    }
}

test! {
    /// A volume that a pod uses gets the attributes of a class, and keeps its data.
    FROM_NONE {
        name: "should modify volume with no VAC",
    }
    async |scene| {
        let used = Used::new(scene, None).await?;
        scene.modify(&used.claim, &scene.attributes_class().await?).await?;
        used.ends().await
    }
}

test! {
    /// A volume with the attributes of a class gets those of another, which are the same: the driver takes what it has done
    /// already.
    FROM_ANOTHER {
        name: "should modify volume that already has a VAC",
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        let used = Used::new(scene, Some(&attributes)).await?;
        scene.modify(&used.claim, &scene.attributes_class().await?).await?;
        used.ends().await
    }
}

test! {
    /// The driver refuses a parameter that it cannot know. With a good class the volume goes on as if nothing had been.
    RECOVERS {
        name: "should recover from invalid target VAC by updating PVC to new valid VAC",
    }
    async |scene| {
        let used = Used::new(scene, None).await?;
        let mut invalid = scene.attributes_class_copy()?;
        invalid.parameters = [("xxInvalidParameterKey".to_owned(), "xxInvalidParameterValue".to_owned())].into();
        scene.cluster().create_attributes_class(&invalid).await?;
        scene.cluster().set_attributes_class(&used.claim, &invalid.name).await?;
        scene.modification_fails(&used.claim, &invalid).await?;
        scene.modify(&used.claim, &scene.attributes_class().await?).await?;
        used.ends().await
    }
}

test! {
    /// A class stays as long as a claim or a volume refers to it. The API server sees to that.
    PROTECTED {
        name: "should be protected by vac-protection finalizer",
        needs: [Need::Offers(Feature::Orchestrator)],
    }
    async |_scene| {
        Err(Stop::skip("finalizers are the API server's; no driver has a part in them"))
    }
}

/// A volume with data that a pod uses.
struct Used<'a> {
    claim: String,
    block: bool,
    pod: RunningPod<'a>,
    content: Content,
}

impl Used<'_> {
    async fn new<'a>(scene: &'a Scene, attributes: Option<&AttributesClass>) -> Done<Used<'a>> {
        let class = scene.class().await?;
        let attributes_class = attributes.map(|attributes| attributes.name.clone());
        let spec = ClaimSpec { attributes_class, ..scene.claim_spec(&class) };
        let volume = scene.claim(&spec, &class).await?;
        let (pod, content) = (scene.run(scene.pod(&[&volume])).await?, scene.content());
        pod.write(&path_of(0), volume.block, &content).await?;
        Ok(Used { claim: spec.name, block: volume.block, pod, content })
    }

    /// The data are there still, and the pod goes.
    async fn ends(self) -> Done {
        self.pod.holds(&path_of(0), self.block, &self.content).await?;
        self.pod.delete().await
    }
}
