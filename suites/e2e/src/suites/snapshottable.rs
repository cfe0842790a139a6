use csi_driver_definitions::Capability;

use crate::cluster::{Done, Feature, PodSpec, Snapshot, VolumeSource};
use crate::pattern::{self, Pattern, VolumeType};
use crate::scene::{Content, RunningPod, Scene, Volume, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "snapshottable",
    tags: &["Feature:VolumeSnapshotDataSource"],
    context: "volume snapshot controller",
    patterns: &[
        &pattern::SNAPSHOT_DELETE,
        &pattern::SNAPSHOT_RETAIN,
        &pattern::EPHEMERAL_SNAPSHOT_DELETE,
        &pattern::EPHEMERAL_SNAPSHOT_RETAIN,
        &pattern::PREPROVISIONED_SNAPSHOT_DELETE,
        &pattern::PREPROVISIONED_SNAPSHOT_RETAIN,
    ],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Can(Capability::SnapshotDataSource),
        Need::SnapshotClass,
        Need::Offers(Feature::Snapshots),
    ],
    tests: &[&EPHEMERAL, &PERSISTENT],
    ..Suite::PLAIN
};

fn is_ephemeral(pattern: &Pattern) -> bool {
    pattern.volume == VolumeType::GenericEphemeral
}

test! {
    /// A snapshot is taken of the volume of a pod that ended and still exists. Another pod gets a volume made from
    /// it, with the data. In the end the snapshot is deleted or retained as its class says.
    ///
    /// Upstream does not check the data.
    EPHEMERAL {
        name: "should check snapshot fields, check restore correctly works, check deletion (ephemeral)",
        needs: [Need::Fits(|pattern, _| is_ephemeral(pattern), "for volumes that live as long as their pod")],
    }
    async |scene| {
        let content = scene.content();
        let class = scene.class().await?;
        let writer = writer(scene, &scene.volume_of(&class).await?, &content);
        scene.succeeds(&writer, scene.timeouts().pod_start_slow).await?;
        let claim = format!("{}-volume1", writer.name);
        scene.claim_detached(&claim).await?;

        let snapshot = scene.pattern_snapshot(&claim).await?;
        has_policy(scene, &snapshot)?;
        let source = VolumeSource::Ephemeral(Box::new(scene.restored_spec(&class, &snapshot)));
        let pod = restored(scene, &Volume { source, block: false }, &content).await?;

        scene.cluster().delete_pod(&pod.name, false).await?;
        ends(scene, &snapshot).await?;
        scene.pod_gone(&pod.name).await?;
        scene.delete_pod(&writer.name).await
    }
}

test! {
    /// A snapshot is taken of an unused volume, whose data then change. A volume made from the snapshot has the
    /// earlier data. In the end the snapshot is deleted or retained as its class says.
    PERSISTENT {
        name: "should check snapshot fields, check restore correctly works after modifying source data, check deletion (persistent)",
        needs: [Need::Fits(|pattern, _| !is_ephemeral(pattern), "for volumes that outlive their pod")],
    }
    async |scene| {
        let content = scene.content();
        let class = scene.class().await?;
        let volume = scene.volume_of(&class).await?;
        write(scene, &volume, &content).await?;
        scene.claim_detached(volume.claim()).await?;

        let snapshot = scene.pattern_snapshot(volume.claim()).await?;
        has_policy(scene, &snapshot)?;
        write(scene, &volume, &scene.content()).await?;
        let restored_spec = scene.restored_spec(&class, &snapshot);
        let copy = scene.claim(&restored_spec, &class).await?;
        let pod = restored(scene, &copy, &content).await?;

        // Some systems require that the snapshot is deleted first, and others the copy.
        scene.cluster().delete_pod(&pod.name, false).await?;
        scene.cluster().delete_pvc(&restored_spec.name).await?;
        ends(scene, &snapshot).await?;
        scene.pod_gone(&pod.name).await
    }
}

/// Describes a pod that writes and ends.
fn writer(scene: &Scene, volume: &Volume, content: &Content) -> PodSpec {
    let mut spec = PodSpec { restarts: false, ..scene.pod(&[volume]) };
    spec.containers.iter_mut().for_each(|container| container.script = Some(content.script(&path_of(0))));
    spec
}

/// Writes in a pod and deletes the pod.
async fn write(scene: &Scene, volume: &Volume, content: &Content) -> Done {
    let pod = writer(scene, volume, content);
    scene.succeeds(&pod, scene.timeouts().pod_start_slow).await?;
    scene.delete_pod(&pod.name).await
}

/// Checks in a pod that a volume made from the snapshot has the content.
async fn restored<'a>(scene: &'a Scene, volume: &Volume, content: &Content) -> Done<RunningPod<'a>> {
    let pod = scene.run_within(scene.pod(&[volume]), scene.timeouts().pod_start_slow).await?;
    pod.holds(&path_of(0), false, content).await?;
    Ok(pod)
}

/// Checks that the snapshot content has the policy of the class.
fn has_policy(scene: &Scene, snapshot: &Snapshot) -> Done {
    let expected = scene.pattern.deletion;
    match snapshot.deletion == expected {
        true => Ok(()),
        false => {
            let actual = format!("{:?}", snapshot.deletion);
            Err(failed(
                "the deletion policy of a snapshot differs from that of its class",
                format!("{expected:?}"),
                actual,
            ))
        }
    }
}

/// Deletes the snapshot, and checks that the driver retains it only if the class says so; then it is deleted
/// afterwards.
async fn ends(scene: &Scene, snapshot: &Snapshot) -> Done {
    scene.delete_snapshot(snapshot).await?;
    match scene.retains_snapshots() {
        true => scene.is_retained(snapshot).await,
        false => Ok(()),
    }
}
