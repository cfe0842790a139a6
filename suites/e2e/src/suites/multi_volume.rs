use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;
use csi_proto::{Call as _, v1};
use csi_workload::beside::Action;

use crate::cluster::{AccessMode, DataSource, Done, VolumeBindingMode, VolumeMode};
use crate::pattern;
use crate::scene::{Content, Place, Scene, Volume, path_of};
use crate::test;
use crate::test::{LARGE_DATA_BYTES, Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "multiVolume",
    tags: &["Slow"],
    patterns: &[&pattern::FS_MODE, &pattern::BLOCK, &pattern::EXT4, &pattern::XFS, &pattern::NTFS],
    size_min_bytes: 1 << 20,
    data_bytes: LARGE_DATA_BYTES,
    needs: &[Need::BlockIfAsked],
    tests: &[
        &TWO_SAME_MODE,
        &TWO_SAME_MODE_ELSEWHERE,
        &TWO_MODES,
        &TWO_MODES_ELSEWHERE,
        &SHARED,
        &WITH_RESTORED,
        &WITH_CLONE,
        &SHARED_READ_ONLY,
        &SHARED_ELSEWHERE,
    ],
    ..Suite::PLAIN
};

test! {
    /// Two volumes of a pod keep their own data when the pod is recreated.
    TWO_SAME_MODE {
        name: "should access to two volumes with the same volume mode and retain data across pod recreation on the same node",
    }
    async |scene| {
        let volumes = [scene.volume().await?, scene.volume().await?];
        keep_data(scene, &volumes, Place::SameNode).await
    }
}

test! {
    /// Two volumes of a pod keep their data when the pod moves to another node.
    TWO_SAME_MODE_ELSEWHERE {
        name: "should access to two volumes with the same volume mode and retain data across pod recreation on different node",
        needs: [Need::Cannot(Capability::SingleNodeVolume), Need::TwoNodes],
    }
    async |scene| {
        let volumes = [scene.volume().await?, scene.volume().await?];
        keep_data(scene, &volumes, Place::OtherNode).await
    }
}

test! {
    /// A file system and a block device of a pod keep their data when the pod is recreated.
    TWO_MODES {
        name: "should access to two volumes with different volume mode and retain data across pod recreation on the same node",
        needs: [Need::Can(Capability::Block), NOT_FS_MODE],
    }
    async |scene| {
        let volumes = [volume_of_mode(scene, VolumeMode::Filesystem).await?, volume_of_mode(scene, VolumeMode::Block).await?];
        keep_data(scene, &volumes, Place::SameNode).await
    }
}

test! {
    /// A file system and a block device of a pod keep their data when the pod moves to another node.
    TWO_MODES_ELSEWHERE {
        name: "should access to two volumes with different volume mode and retain data across pod recreation on different node",
        needs: [
            Need::Can(Capability::Block),
            Need::Cannot(Capability::SingleNodeVolume),
            NOT_FS_MODE,
            Need::TwoNodes,
        ],
    }
    async |scene| {
        let volumes = [volume_of_mode(scene, VolumeMode::Filesystem).await?, volume_of_mode(scene, VolumeMode::Block).await?];
        keep_data(scene, &volumes, Place::OtherNode).await
    }
}

test! {
    /// Pods on one node that share a volume see the data of the others, and keep it when one of them is deleted.
    SHARED {
        name: "should concurrently access the single volume from pods on the same node",
        needs: [Need::Can(Capability::Multipods)],
    }
    async |scene| {
        let volume = scene.volume().await?;
        share(scene, &volume, Place::SameNode).await
    }
}

test! {
    /// A volume and a copy from its snapshot can be used on one node concurrently; file systems with equal UUIDs
    /// cannot.
    WITH_RESTORED {
        name: "should concurrently access the volume and restored snapshot from pods on the same node [LinuxOnly]",
        tags: ["Feature:VolumeSnapshotDataSource", "Feature:VolumeSourceXFS"],
        needs: [Need::Can(Capability::SnapshotDataSource), Need::SnapshotClass, HAS_SNAPSHOTS],
    }
    async |scene| {
        let (volume, content) = written(scene, scene.large_content()).await?;
        let class = scene.snapshot_class().await?;
        let snapshot = scene.snapshot(volume.claim(), &class).await?;
        beside_copy(scene, &volume, &content, DataSource::Snapshot(snapshot.spec.name)).await
    }
}

test! {
    /// A volume and its clone can be used on one node concurrently.
    WITH_CLONE {
        name: "should concurrently access the volume and its clone from pods on the same node [LinuxOnly]",
        tags: ["Feature:VolumeSourceXFS"],
        needs: [Need::Can(Capability::PvcDataSource)],
    }
    async |scene| {
        let (volume, content) = written(scene, scene.large_content()).await?;
        let source = DataSource::Claim(volume.claim().to_owned());
        beside_copy(scene, &volume, &content, source).await
    }
}

test! {
    /// Pods on one node share a volume with read-only access. They read its data, and cannot write to a file system,
    /// which upstream does not check.
    SHARED_READ_ONLY {
        name: "should concurrently access the single read-only volume from pods on the same node",
        needs: [Need::Can(Capability::Multipods)],
    }
    async |scene| {
        let (volume, content) = written(scene, scene.content()).await?;
        let read_only = volume.read_only();
        let first = scene.run(scene.pod(&[&read_only])).await?;
        let second = scene.run(scene.pod_on(&first.node, &[&read_only])).await?;
        let path = path_of(0);
        for pod in [&first, &second] {
            pod.has_kind(&path, volume.block, scene.pattern.fs_type).await?;
            pod.holds(&path, volume.block, &content).await?;
            // Kubelet and the container runtime prevent writes to a block device.
            if !volume.block {
                pod.cannot_write(&path).await?;
            }
        }
        first.delete().await?;
        second.delete().await
    }
}

test! {
    /// Pods on two nodes that share a volume see each other's data.
    SHARED_ELSEWHERE {
        name: "should concurrently access the single volume from pods on different node",
        needs: [Need::Can(Capability::Rwx), Need::TwoNodes],
    }
    async |scene| {
        let volume = scene.claim_with(|spec| spec.access_modes = vec![AccessMode::ReadWriteMany]).await?;
        share(scene, &volume, Place::OtherNode).await
    }
}

/// Upstream leaves out the pattern that names the mode, and no other pattern with a file system.
const NOT_FS_MODE: Need = Need::Fits(
    |pattern, _| pattern.mode != Some(VolumeMode::Filesystem),
    "runs with the patterns that do not name the mode",
);

const HAS_SNAPSHOTS: Need =
    Need::Fits(|pattern, _| pattern.snapshot.is_some(), "upstream takes no snapshots with this pattern");

/// The second pod of a node, or a pod of another one, that uses a volume.
const SECOND_POD: Action = Action {
    name: "the use of the volume by a second pod",
    rpcs: &[v1::NodePublishVolumeRequest::RPC, v1::NodeUnpublishVolumeRequest::RPC],
};
const COPY_USED: Action = Action {
    name: "the start of a pod with a copy of the volume",
    rpcs: &[v1::CreateVolumeRequest::RPC, v1::NodeStageVolumeRequest::RPC, v1::NodePublishVolumeRequest::RPC],
};
const COPY_GONE: Action = Action {
    name: "the end of a pod with a copy of the volume",
    rpcs: &[v1::NodeUnpublishVolumeRequest::RPC, v1::NodeUnstageVolumeRequest::RPC],
};

async fn volume_of_mode(scene: &Scene, mode: VolumeMode) -> Done<Volume> {
    scene.claim_with(|spec| spec.mode = mode).await
}

/// Writes to the volumes, deletes the pod, reads in a new one, and writes and reads again.
async fn keep_data(scene: &Scene, volumes: &[Volume], place: Place) -> Done {
    let all: Vec<&Volume> = volumes.iter().collect();
    let contents: Vec<Content> = volumes.iter().map(|_| scene.content()).collect();
    let first = scene.run(scene.pod(&all)).await?;
    for (index, (volume, content)) in volumes.iter().zip(&contents).enumerate() {
        let path = path_of(index);
        first.has_kind(&path, volume.block, "").await?;
        first.write(&path, volume.block, content).await?;
    }
    for (index, (volume, content)) in volumes.iter().zip(&contents).enumerate() {
        first.holds(&path_of(index), volume.block, content).await?;
    }
    let node = first.node.clone();
    first.delete().await?;

    let mut spec = scene.pod(&all);
    place.put(&mut spec, node);
    let second = scene.run(spec).await?;
    for (index, (volume, content)) in volumes.iter().zip(&contents).enumerate() {
        let (path, next) = (path_of(index), scene.content());
        second.holds(&path, volume.block, content).await?;
        second.write(&path, volume.block, &next).await?;
        second.holds(&path, volume.block, &next).await?;
    }
    second.delete().await
}

/// Shares a volume between two pods: each reads the last data and writes its own.
async fn share(scene: &Scene, volume: &Volume, place: Place) -> Done {
    let (path, block) = (path_of(0), volume.block);
    let first = scene.run(scene.pod(&[volume])).await?;
    let mut spec = scene.pod(&[volume]);
    place.put(&mut spec, first.node.clone());
    let user = first.start_workload(&path).await;
    let (second, _) = scene.beside(SECOND_POD, &[&user], scene.run(spec)).await?;
    let mut content = scene.content();
    first.write(&path, block, &content).await?;
    for pod in [&second, &first] {
        pod.has_kind(&path, block, "").await?;
        pod.holds(&path, block, &content).await?;
        content = scene.content();
        pod.write(&path, block, &content).await?;
    }
    second.holds(&path, block, &content).await?;
    scene.beside(SECOND_POD, &[&user], second.delete()).await?;
    user.end(SECOND_POD).await;
    first.holds(&path, block, &content).await?;
    let last = scene.content();
    first.write(&path, block, &last).await?;
    first.holds(&path, block, &last).await?;
    first.delete().await
}

/// Makes a volume with data that no pod uses any more.
async fn written(scene: &Scene, content: Content) -> Done<(Volume, Content)> {
    let volume = scene.volume().await?;
    if volume.claim().is_empty() {
        return Err(Stop::broken("the pattern has no claim of its own"));
    }
    let pod = scene.run(scene.pod(&[&volume])).await?;
    pod.write(&path_of(0), volume.block, &content).await?;
    pod.delete().await?;
    Ok((volume, content))
}

/// Uses the volume and a copy of it on one node concurrently, and checks that their data are equal. A copy that waits for its pod is made while
/// the volume is in use.
async fn beside_copy(scene: &Scene, volume: &Volume, content: &Content, source: DataSource) -> Done {
    let claim = scene.existing_claim(volume.claim()).await?;
    let class = scene.class().await?;
    let is_clone = matches!(source, DataSource::Claim(_));
    let mut spec = scene.copy_spec(&class, source);
    spec.request_bytes = claim.capacity_bytes.max(spec.request_bytes);
    let copy = scene.claim(&spec, &class).await?;
    let first = scene.run(scene.pod(&[volume])).await?;
    let spec = scene.pod_on(&first.node, &[&copy]);
    let path = path_of(0);
    let user = first.start_workload(&path).await;
    let started = scene.run_within(spec, scene.timeouts().pod_start_slow);
    let (second, evidence) = scene.beside(COPY_USED, &[&user], started).await?;
    first.holds(&path, volume.block, content).await?;
    second.holds(&path, volume.block, content).await?;
    if class.volume_binding_mode == VolumeBindingMode::WaitForFirstConsumer && is_clone {
        for evidence in evidence.iter().flatten() {
            scene.judge_copy(evidence, &second, &path, volume.block, "a clone of a volume in use").await;
        }
    }
    scene.beside(COPY_GONE, &[&user], second.delete()).await?;
    user.end(COPY_GONE).await;
    first.delete().await
}
