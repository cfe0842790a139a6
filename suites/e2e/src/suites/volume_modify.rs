use std::time::Duration;

use csi_proto::{Call as _, v1};
use csi_workload::beside::Action;

use crate::cluster::{AttributesClass, Done, Feature, PvcSpec, ReclaimPolicy};
use crate::pattern;
use crate::scene::{Content, RunningPod, Scene, Seen, Volume, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volume-modify",
    tags: &["FeatureGate:VolumeAttributesClass", "Feature:VolumeAttributesClass"],
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK, &pattern::NTFS],
    size_min_bytes: 1 << 30,
    needs: &[Need::AttributesClass, Need::BlockIfAsked, Need::Offers(Feature::AttributesClasses)],
    tests: &[&CREATED_WITH, &FROM_NONE, &FROM_ANOTHER, &RECOVERS, &PROTECTED],
    ..Suite::PLAIN
};

test! {
    /// A volume is created with the attributes of a class.
    CREATED_WITH {
        name: "should create a volume with VAC",
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        let used = Used::new(scene, Some(&attributes)).await?;
        scene.has_attributes(used.volume.claim(), &attributes).await?;
        used.ends().await
    }
}

test! {
    /// A volume in use gets the attributes of a class, and keeps its data.
    FROM_NONE {
        name: "should modify volume with no VAC",
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        let used = Used::new(scene, None).await?;
        used.modified(scene.modify(used.volume.claim(), &attributes)).await?;
        used.ends().await
    }
}

test! {
    /// A volume with the attributes of a class gets those of another class with equal contents: the driver accepts
    /// the change that is already done.
    FROM_ANOTHER {
        name: "should modify volume that already has a VAC",
    }
    async |scene| {
        let (first, second) = (scene.attributes_class().await?, scene.attributes_class().await?);
        let used = Used::new(scene, Some(&first)).await?;
        used.modified(scene.modify(used.volume.claim(), &second)).await?;
        used.ends().await
    }
}

test! {
    /// The driver rejects an unknown parameter. With a valid class the volume then continues normally.
    RECOVERS {
        name: "should recover from invalid target VAC by updating PVC to new valid VAC",
    }
    async |scene| {
        let mut invalid = scene.attributes_class_copy()?;
        invalid.parameters = [("xxInvalidParameterKey".to_owned(), "xxInvalidParameterValue".to_owned())].into();
        scene.cluster().create_attributes_class(&invalid).await?;
        let attributes = scene.attributes_class().await?;
        let used = Used::new(scene, None).await?;
        let rejected_then_modified = async {
            scene.cluster().set_attributes_class(used.volume.claim(), &invalid.name).await?;
            scene.modification_fails(used.volume.claim(), &invalid).await?;
            scene.modify(used.volume.claim(), &attributes).await
        };
        used.modified(rejected_then_modified).await?;
        used.ends().await
    }
}

/// The finalizer that protects a class.
const PROTECTION: &str = "kubernetes.io/vac-protection";
/// Limits the protection controller.
const PROTECTION_LIMIT: Duration = Duration::from_secs(300);
/// The time for which a class that must not be deleted is observed.
const STAYS: Duration = Duration::from_secs(10);

test! {
    /// A class exists as long as a claim refers to it. Kubernetes ensures that.
    PROTECTED {
        name: "should be protected by vac-protection finalizer",
        needs: [Need::Offers(Feature::Orchestrator)],
    }
    async |scene| {
        let attributes = scene.attributes_class().await?;
        let name = &attributes.name;
        scene.until("the class is protected", PROTECTION_LIMIT, || async {
            let finalizers = scene.cluster().attributes_class_finalizers(name).await?.unwrap_or_default();
            Ok(match finalizers.iter().any(|one| one == PROTECTION) {
                true => Seen::There(()),
                false => Seen::NotYet(format!("its finalizers are {finalizers:?}")),
            })
        })
        .await?;
        // A retained volume would refer to the class forever.
        let class = scene.class_with(|class| class.reclaim_policy = ReclaimPolicy::Delete).await?;
        let spec = PvcSpec { attributes_class: Some(name.clone()), ..scene.claim_spec(&class) };
        let volume = scene.claim(&spec, &class).await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        scene.cluster().delete_attributes_class(name).await?;
        scene.stays("the class stays while a claim refers to it", STAYS, || async {
            let is_there = scene.cluster().attributes_class_finalizers(name).await?.is_some();
            Ok((!is_there).then(|| "it is gone".to_owned()))
        })
        .await?;
        pod.delete().await?;
        scene.delete_pvc(&spec.name, scene.timeouts().pv_delete).await?;
        scene.until("the class goes when nothing refers to it", PROTECTION_LIMIT, || async {
            Ok(match scene.cluster().attributes_class_finalizers(name).await? {
                None => Seen::There(()),
                Some(finalizers) => Seen::NotYet(format!("its finalizers are {finalizers:?}")),
            })
        })
        .await
    }
}

const MODIFICATION: Action =
    Action { name: "ControllerModifyVolume", rpcs: &[v1::ControllerModifyVolumeRequest::RPC] };

/// A volume in use with data.
struct Used<'a> {
    scene: &'a Scene,
    volume: Volume,
    pod: RunningPod<'a>,
    content: Content,
}

impl Used<'_> {
    async fn new<'a>(scene: &'a Scene, attributes: Option<&AttributesClass>) -> Done<Used<'a>> {
        let attributes_class = attributes.map(|attributes| attributes.name.clone());
        let volume = scene.claim_with(|spec| spec.attributes_class = attributes_class).await?;
        let (pod, content) = (scene.run(scene.pod(&[&volume])).await?, scene.content());
        pod.write(&path_of(0), volume.block, &content).await?;
        Ok(Used { scene, volume, pod, content })
    }

    /// Changes the attributes while a workload writes to the volume.
    async fn modified(&self, change: impl Future<Output = Done>) -> Done {
        let user = self.pod.start_workload(&path_of(0)).await;
        self.scene.beside(MODIFICATION, &[&user], change).await?;
        user.end(MODIFICATION).await;
        Ok(())
    }

    /// Checks that the data are still there, and deletes the pod.
    async fn ends(self) -> Done {
        self.pod.holds(&path_of(0), self.volume.block, &self.content).await?;
        self.pod.delete().await
    }
}
