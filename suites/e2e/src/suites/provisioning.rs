use std::collections::BTreeSet;

use csi_driver_definitions::Capability;
use csi_harness::text::size::sized;

use crate::cluster::{
    AccessMode, DataSource, Done, PersistentVolume, PvcSpec, ReclaimPolicy, StorageClass, VolumeBindingMode,
};
use crate::pattern;
use crate::scene::{Content, Scene, Volume, all, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

/// The number of concurrent clones.
const CLONES: usize = 5;
/// The additional size of a restored volume, in bytes.
const LARGER_BYTES: i64 = 1 << 30;

pub(crate) static SUITE: Suite = Suite {
    name: "provisioning",
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK, &pattern::NTFS],
    size_min_bytes: 1 << 20,
    needs: &[Need::BlockIfAsked],
    tests: &[
        &MOUNT_OPTIONS,
        &FROM_SNAPSHOT,
        &FROM_SNAPSHOT_ROX,
        &FROM_ANYTHING,
        &LARGER_FROM_SNAPSHOT,
        &FROM_CLAIM,
        &FROM_CLAIM_ROX,
        &FROM_CLAIM_IN_PARALLEL,
        &SAME_STORAGE,
    ],
    ..Suite::PLAIN
};

test! {
    /// A pod's mount has the mount options of the class.
    MOUNT_OPTIONS {
        name: "should provision storage with mount options",
        needs: [
            Need::Says(
                |definition| definition.driver_info.supported_mount_option.is_some(),
                "the definition has no SupportedMountOption",
            ),
            Need::FileSystem,
        ],
    }
    async |scene| {
        let info = &scene.driver().driver_info;
        let options = info.supported_mount_option.iter().chain(&info.required_mount_option).flatten();
        let options: BTreeSet<String> = options.cloned().collect();
        let class = scene.class_with(|class| class.mount_options = options.into_iter().collect()).await?;
        let spec = plain_claim(scene, &class);
        let (_, made) = scene.provisions(&class, &spec).await?;
        let volume = Volume::of_claim(&spec.name, false);
        let (path, content) = ("/mnt/test", scene.content());
        let writer = scene.run(scene.pod_at(&[(&volume, path.to_owned())])).await?;
        writer.write(path, false, &content).await?;
        let mut reader = scene.pod_at(&[(&volume, path.to_owned())]);
        reader.node = Some(writer.node.clone());
        writer.delete().await?;
        let reader = scene.run(reader).await?;
        reader.holds(path, false, &content).await?;
        let found = reader.mount_options(path).await?;
        let has = |option: &str| found.split(',').any(|one| one == option);
        if let Some(missing) = class.mount_options.iter().find(|option| !has(option)) {
            return Err(failed("a mount option of the class is not one of the mount", missing, found));
        }
        reader.delete().await?;
        goes_with_claim(scene, &spec.name, &made).await
    }
}

test! {
    /// A volume made from a snapshot has the data of the source.
    FROM_SNAPSHOT {
        name: "should provision storage with snapshot data source",
        tags: ["Feature:VolumeSnapshotDataSource"],
        needs: [Need::Can(Capability::SnapshotDataSource), Need::SnapshotClass],
    }
    async |scene| {
        let source = Source::of_snapshot(scene).await?;
        source.is_in(scene, &source.copy(scene)).await
    }
}

test! {
    /// A volume for many readers made from a snapshot has the data of the source.
    FROM_SNAPSHOT_ROX {
        name: "should provision storage with snapshot data source (ROX mode)",
        tags: ["Feature:VolumeSnapshotDataSource"],
        needs: [
            Need::Can(Capability::SnapshotDataSource),
            Need::Can(Capability::CapReadOnlyMany),
            Need::SnapshotClass,
        ],
    }
    async |scene| {
        let source = Source::of_snapshot(scene).await?;
        source.is_in(scene, &for_many_readers(source.copy(scene))).await
    }
}

/// The reason why the test of populators does nothing.
const POPULATOR: &str =
    "needs a volume populator, which is a separate controller; the driver is not involved";

test! {
    /// Drivers have no part in volume populators.
    FROM_ANYTHING {
        name: "should provision storage with any volume data source",
        tags: ["Serial"],
        needs: [Need::FileSystem, Need::Never(POPULATOR)],
    }
    async |_scene| {
        Err(csi_harness::prelude::Stop::skip(POPULATOR))
    }
}

test! {
    /// The file system of a larger volume made from a snapshot fills the volume.
    LARGER_FROM_SNAPSHOT {
        name: "should provision correct filesystem size when restoring snapshot to larger size pvc",
        tags: ["Feature:VolumeSnapshotDataSource"],
        needs: [
            Need::Can(Capability::SnapshotDataSource),
            Need::Cannot(Capability::FsResizeFromSourceNotSupported),
            Need::FileSystem,
            Need::SnapshotClass,
        ],
    }
    async |scene| {
        let source = Source::of_snapshot(scene).await?;
        let path = path_of(0);
        let pod = scene.run(scene.pod(&[&source.volume])).await?;
        let before = pod.size_bytes(&path, false).await?;
        pod.delete().await?;
        let claim = scene.existing_claim(source.volume.claim()).await?;
        let mut spec = source.copy(scene);
        spec.request_bytes = claim.capacity_bytes.saturating_add(LARGER_BYTES);
        let larger = scene.claim(&spec, &source.class).await?;
        let pod = scene.run_within(scene.pod(&[&larger]), scene.timeouts().pod_start_slow).await?;
        let after = pod.size_bytes(&path, false).await?;
        if after <= before {
            let grown = format!("more than the {} of its source", sized(before));
            return Err(failed("the file system of a larger copy has not grown", grown, sized(after).to_string()));
        }
        pod.holds(&path, false, &source.content).await?;
        pod.delete().await
    }
}

test! {
    /// A clone has the data of the source.
    FROM_CLAIM {
        name: "should provision storage with pvc data source",
        needs: [Need::Can(Capability::PvcDataSource)],
    }
    async |scene| {
        let source = Source::of_claim(scene).await?;
        source.is_in(scene, &source.copy(scene)).await
    }
}

test! {
    /// A clone for many readers has the data of the source.
    FROM_CLAIM_ROX {
        name: "should provision storage with pvc data source (ROX mode)",
        needs: [Need::Can(Capability::PvcDataSource), Need::Can(Capability::CapReadOnlyMany)],
    }
    async |scene| {
        let source = Source::of_claim(scene).await?;
        source.is_in(scene, &for_many_readers(source.copy(scene))).await
    }
}

test! {
    /// Concurrent clones all have the data of the source.
    FROM_CLAIM_IN_PARALLEL {
        name: "should provision storage with pvc data source in parallel",
        tags: ["Slow"],
        needs: [Need::Can(Capability::PvcDataSource)],
    }
    async |scene| {
        let source = Source::of_claim(scene).await?;
        let copies: Vec<PvcSpec> = (0..CLONES).map(|_| source.copy(scene)).collect();
        all(copies.iter().map(|copy| source.is_in(scene, copy))).await?;
        Ok(())
    }
}

test! {
    /// Two PersistentVolumes for one volume are used on one node concurrently: it is staged once, or twice at one
    /// path, and published twice. Both pods see equal data, which upstream does not check.
    SAME_STORAGE {
        name: "should mount multiple PV pointing to the same storage on the same node",
        needs: [Need::Can(Capability::MultiplePvsSameId), Need::FileSystem],
    }
    async |scene| {
        let class = scene.class().await?;
        let first_spec = plain_claim(scene, &class);
        let first = scene.claim(&first_spec, &class).await?;
        let path = path_of(0);
        let one = scene.run(scene.pod(&[&first])).await?;
        let made = scene.volume_behind(&scene.existing_claim(&first_spec.name).await?).await?;
        let second_spec = PvcSpec {
            name: scene.name("claim"),
            class: String::new(),
            volume: Some(scene.name("volume")),
            ..first_spec
        };
        let second = PersistentVolume {
            name: second_spec.volume.clone().unwrap_or_default(),
            class: String::new(),
            reclaim: ReclaimPolicy::Retain,
            claim: Some(second_spec.name.clone()),
            ..made
        };
        scene.cluster().create_volume(&second).await?;
        scene.cluster().create_pvc(&second_spec).await?;
        scene.bound(&second_spec.name, scene.timeouts().claim_bound).await?;
        let second_volume = Volume::of_claim(&second_spec.name, false);
        let two = scene.run(scene.pod_on(&one.node, &[&second_volume])).await?;
        let content = scene.content();
        one.write(&path, false, &content).await?;
        two.holds(&path, false, &content).await?;
        two.delete().await?;
        one.holds(&path, false, &content).await?;
        one.delete().await?;
        scene.cluster().delete_pvc(&second_spec.name).await?;
        scene.cluster().delete_volume(&second.name).await
    }
}

/// Describes a claim of this suite, which requests ReadWriteOnce whatever the definition requires.
fn plain_claim(scene: &Scene, class: &StorageClass) -> PvcSpec {
    PvcSpec { access_modes: vec![AccessMode::ReadWriteOnce], ..scene.claim_spec(class) }
}

fn for_many_readers(spec: PvcSpec) -> PvcSpec {
    PvcSpec { access_modes: vec![AccessMode::ReadOnlyMany], ..spec }
}

/// Checks that a volume is deleted with its claim, unless it is to be retained.
async fn goes_with_claim(scene: &Scene, claim: &str, volume: &PersistentVolume) -> Done {
    scene.delete_pvc(claim, scene.timeouts().pv_delete_slow).await?;
    scene.volume_gone(&volume.name, scene.timeouts().pv_delete_slow).await
}

/// The source of volumes, and its data.
struct Source {
    class: StorageClass,
    volume: Volume,
    content: Content,
    source: DataSource,
}

impl Source {
    /// Makes a claim with data that is not attached.
    async fn of_claim(scene: &Scene) -> Done<Source> {
        let class = scene.class().await?;
        let spec = plain_claim(scene, &class);
        let volume = scene.claim(&spec, &class).await?;
        let content = scene.content();
        let writer = scene.run(scene.pod(&[&volume])).await?;
        writer.write(&path_of(0), volume.block, &content).await?;
        writer.delete().await?;
        let claim = scene.existing_claim(&spec.name).await?;
        let made = claim.volume.as_deref().unwrap_or_default();
        scene.detached(made, scene.timeouts().data_source_provision).await?;
        Ok(Source { source: DataSource::Claim(spec.name), class, volume, content })
    }

    /// Makes a snapshot of such a claim.
    async fn of_snapshot(scene: &Scene) -> Done<Source> {
        let of_claim = Source::of_claim(scene).await?;
        let class = scene.snapshot_class().await?;
        let snapshot = scene.snapshot(of_claim.volume.claim(), &class).await?;
        Ok(Source { source: DataSource::Snapshot(snapshot.spec.name), ..of_claim })
    }

    fn copy(&self, scene: &Scene) -> PvcSpec {
        PvcSpec { source: Some(self.source.clone()), ..plain_claim(scene, &self.class) }
    }

    /// Checks that a copy matches its claim, has the data, and can be deleted.
    async fn is_in(&self, scene: &Scene, copy: &PvcSpec) -> Done {
        let (_, made) = if self.class.volume_binding_mode == VolumeBindingMode::Immediate {
            scene.provisions(&self.class, copy).await?
        } else {
            scene.cluster().create_pvc(copy).await?;
            let volume = Volume::of_claim(&copy.name, self.volume.block);
            scene.run_within(scene.pod(&[&volume]), scene.timeouts().pod_start_slow).await?.delete().await?;
            scene.bound(&copy.name, scene.timeouts().claim_provision).await?
        };
        let volume = Volume::of_claim(&copy.name, self.volume.block);
        let reader = scene.run_within(scene.pod(&[&volume]), scene.timeouts().pod_start_slow).await?;
        reader.holds(&path_of(0), volume.block, &self.content).await?;
        reader.delete().await?;
        goes_with_claim(scene, &copy.name, &made).await
    }
}
