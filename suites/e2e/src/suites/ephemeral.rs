use csi_driver_definitions::{Capability, DriverDefinition, InlineVolume};

use crate::cluster::{Done, PodSpec, VolumeBindingMode};
use crate::pattern::{self, Pattern, VolumeType};
use crate::scene::{Content, RunningPod, Scene, Volume};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "ephemeral",
    patterns: &[
        &pattern::EPHEMERAL_LATE,
        &pattern::EPHEMERAL_IMMEDIATE,
        &pattern::EPHEMERAL_BLOCK,
        &pattern::INLINE,
    ],
    needs: &[
        Need::BlockIfAsked,
        Need::Fits(
            |pattern, definition| !binds_at_once(pattern) || definition.driver_info.topology_keys.is_empty(),
            "the volume may be created where the pod cannot run, since the definition has TopologyKeys",
        ),
    ],
    tests: &[&READ_ONLY, &READ_WRITE, &EXPANDS, &TWO_PODS, &TWO_VOLUMES],
    ..Suite::PLAIN
};

const FIRST_IS_READ_ONLY: &str = "the first of InlineVolumes says ReadOnly";

fn binds_at_once(pattern: &Pattern) -> bool {
    pattern.binding == Some(VolumeBindingMode::Immediate)
}

/// Returns true if pods can write to the definition's inline volumes up to this index. As upstream, most tests need that.
fn is_writable(pattern: &Pattern, definition: &DriverDefinition, last: usize) -> bool {
    (0..=last).all(|index| !inline(pattern, definition, index).read_only)
}

/// Returns the definition's inline volume with this index, or an empty one for volumes with a claim.
fn inline(pattern: &Pattern, definition: &DriverDefinition, index: usize) -> InlineVolume {
    let volumes = &definition.inline_volumes;
    match pattern.volume {
        VolumeType::Inline => volumes.iter().cycle().nth(index).cloned().unwrap_or_default(),
        _ => InlineVolume::default(),
    }
}

test! {
    /// A container with read-only access to its pod's volume finds it mounted read-only, and cannot write.
    READ_ONLY {
        name: "should create read-only inline ephemeral volume",
        needs: [Need::FileSystem],
    }
    async |scene| {
        let volume = volume(scene, 0).await?;
        let mut spec = pod(scene, &[&volume]);
        only_read(&mut spec, 0);
        let pod = scene.run(spec).await?;
        is_mounted(&pod, &path(0), "ro").await?;
        pod.sh_fails("a container can write to a read-only volume", &format!("touch {}/new", path(0))).await?;
        ends(scene, pod).await
    }
}

test! {
    /// A pod writes to a volume of its own and reads the data.
    READ_WRITE {
        name: "should create read/write inline ephemeral volume",
        needs: [Need::Fits(|pattern, definition| is_writable(pattern, definition, 0), FIRST_IS_READ_ONLY)],
    }
    async |scene| {
        let volume = volume(scene, 0).await?;
        let pod = scene.run(pod(scene, &[&volume])).await?;
        pod.has_kind(&path(0), volume.block, scene.pattern.fs_type).await?;
        if !volume.block {
            is_mounted(&pod, &path(0), "rw").await?;
        }
        let content = scene.content();
        pod.write(&path(0), volume.block, &content).await?;
        pod.holds(&path(0), volume.block, &content).await?;
        ends(scene, pod).await
    }
}

test! {
    /// The claim of a pod grows while the pod runs, and the pod sees the new size.
    ///
    /// Upstream only reads the objects; here the block device or the file system is measured.
    EXPANDS {
        name: "should support expansion of pvcs created for ephemeral pvcs",
        needs: [
            Need::Fits(|pattern, _| pattern.volume == VolumeType::GenericEphemeral, "inline volumes have no claim"),
            Need::Can(Capability::OnlineExpansion),
        ],
    }
    async |scene| {
        let volume = volume(scene, 0).await?;
        let pod = scene.run(pod(scene, &[&volume])).await?;
        let before = pod.extent(&path(0), volume.block).await?;
        let claim = claim(&pod.name, 0);
        let wanted_bytes = scene.grow(&claim).await?;
        scene.controller_has_grown(&claim, wanted_bytes).await?;
        scene.has_grown(&claim, wanted_bytes).await?;
        pod.sees_growth(&path(0), volume.block, before, wanted_bytes).await?;
        ends(scene, pod).await
    }
}

test! {
    /// Two pods with equal volume definitions get one volume each: the second does not find the data of the first.
    /// The definition may say that inline volumes are shared; then both pods only have to run.
    TWO_PODS {
        name: "should support two pods which have the same volume definition",
        needs: [Need::Fits(|pattern, definition| is_writable(pattern, definition, 0), FIRST_IS_READ_ONLY)],
    }
    async |scene| {
        let volume = volume(scene, 0).await?;
        let first = scene.run(pod(scene, &[&volume])).await?;
        let second = scene.run_within(pod(scene, &[&volume]), scene.timeouts().pod_start_slow).await?;
        if !inline(scene.pattern, scene.driver(), 0).shared {
            let content = scene.content();
            first.write(&path(0), volume.block, &content).await?;
            lacks(&second, volume.block, &content).await?;
        }
        ends(scene, second).await?;
        ends(scene, first).await
    }
}

test! {
    /// A pod has two volumes of its own.
    TWO_VOLUMES {
        name: "should support multiple inline ephemeral volumes",
        needs: [
            Need::Fits(
                |pattern, _| !binds_at_once(pattern),
                "volumes that are created together may be in places that no pod can reach both",
            ),
            Need::Fits(
                |pattern, definition| is_writable(pattern, definition, 1),
                "one of the first two of InlineVolumes says ReadOnly",
            ),
        ],
    }
    async |scene| {
        let (first, second) = (volume(scene, 0).await?, volume(scene, 1).await?);
        let pod = scene.run(pod(scene, &[&first, &second])).await?;
        for (index, volume) in [&first, &second].into_iter().enumerate() {
            pod.has_kind(&path(index), volume.block, scene.pattern.fs_type).await?;
        }
        ends(scene, pod).await
    }
}

/// Returns the path of the pod's volume with this index.
fn path(index: usize) -> String {
    format!("/mnt/test-{index}")
}

/// Returns the name of the claim of the pod's volume with this index.
fn claim(pod: &str, index: usize) -> String {
    format!("{pod}-volume{}", index + 1)
}

/// Returns the definition of the pod's volume with this index.
async fn volume(scene: &Scene, index: usize) -> Done<Volume> {
    match scene.pattern.volume {
        VolumeType::Inline => scene.inline_volume(index),
        _ => scene.volume().await,
    }
}

/// Describes a pod with such volumes.
fn pod(scene: &Scene, volumes: &[&Volume]) -> PodSpec {
    let at: Vec<_> = volumes.iter().enumerate().map(|(index, volume)| (*volume, path(index))).collect();
    scene.pod_at(&at)
}

/// Gives the containers of a pod read-only access to a volume. As upstream, the pod itself may write, so the driver
/// does not know.
fn only_read(spec: &mut PodSpec, index: usize) {
    let path = path(index);
    let mounts = spec.containers.iter_mut().flat_map(|container| &mut container.mounts);
    mounts.filter(|mount| mount.path == path).for_each(|mount| mount.read_only = true);
}

/// Checks that the mount has an option.
async fn is_mounted(pod: &RunningPod<'_>, path: &str, option: &str) -> Done {
    let options = pod.mount_options(path).await?;
    csi_harness::ensure!(
        options.split(',').any(|one| one == option),
        "a volume is mounted without a requested option";
        expected: option,
        actual: options,
    );
    Ok(())
}

/// Checks that the volume does not have the content of another one.
async fn lacks(pod: &RunningPod<'_>, block: bool, content: &Content) -> Done {
    let found = match block {
        true => pod.read(&path(0), true).await?,
        false => pod.sh(&format!("cat {}/index.html 2>/dev/null || true", path(0))).await?,
    };
    csi_harness::ensure!(
        !content.is(&found),
        "two pods with a volume each find the same data";
        expected: "the volume of the second pod without the data of the first",
        actual: found,
    );
    Ok(())
}

/// Deletes a pod. Its claims and their volumes are deleted with it.
async fn ends(scene: &Scene, pod: RunningPod<'_>) -> Done {
    let mut volumes = Vec::new();
    let mut claims = Vec::new();
    for volume in scene.existing_pod(&pod.name).await?.spec.volumes {
        let claim = format!("{}-{}", pod.name, volume.name);
        if let Some(found) = scene.cluster().claim(&claim).await? {
            volumes.extend(found.volume);
            claims.push(claim);
        }
    }
    pod.delete().await?;
    for claim in claims {
        scene.claim_gone(&claim, scene.timeouts().pv_delete).await?;
    }
    for volume in volumes {
        scene.volume_gone(&volume, scene.timeouts().pv_delete).await?;
    }
    Ok(())
}
