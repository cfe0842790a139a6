use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;
use csi_workload::beside::Action;

use crate::cluster::{Done, DriverVersion, Feature, PvcSpec, Snapshot, StorageClass};
use crate::pattern;
use crate::scene::{Content, RunningPod, Scene, Volume, path_of};
use crate::test;
use crate::test::{Need, Suite};

/// Upstream never replaces a driver.
pub(crate) static SUITE: Suite = Suite {
    name: "driver-upgrade",
    tags: &["Disruptive"],
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK],
    needs: &[Need::BlockIfAsked, Need::Offers(Feature::DriverUpgrade)],
    tests: &[&KEPT],
    ..Suite::PLAIN
};

const UPGRADE: Action = Action { name: "the upgrade of the driver", rpcs: &[] };
const DOWNGRADE: Action = Action { name: "the downgrade of the driver", rpcs: &[] };

test! {
    /// A pod runs while the driver is replaced by its next version. Then its volume is used by another pod, expanded,
    /// and copied by a new snapshot and by one of the version before. With a command for the way back, the same is
    /// done with what the next version has made.
    KEPT {
        name: "should keep volumes, snapshots and running pods when the driver is replaced by its next version",
    }
    async |scene| {
        let back = scene.cluster().offers(Feature::DriverDowngrade);
        if scene.pattern.is_block() && let Err(why) = &back {
            return Err(Stop::skip(format!("the test for file systems has already replaced the driver, and cannot go back: {why}")));
        }
        let old = Stock::made(scene).await?;
        old.is_kept(scene, UPGRADE, DriverVersion::Next).await?;
        old.use_up(scene).await?;
        if back.is_ok() {
            let new = Stock::made(scene).await?;
            new.is_kept(scene, DOWNGRADE, DriverVersion::Before).await?;
            new.use_up(scene).await?;
        }
        Ok(())
    }
}

/// The objects that one version of the driver has made.
struct Stock<'a> {
    class: StorageClass,
    claim: PvcSpec,
    volume: Volume,
    content: Content,
    pod: RunningPod<'a>,
    snapshot: Option<Snapshot>,
}

impl<'a> Stock<'a> {
    /// Makes a volume in use and, if the driver can, a snapshot of it.
    async fn made(scene: &'a Scene) -> Done<Stock<'a>> {
        let class = scene.class_with(|class| class.allow_volume_expansion = grows(scene)).await?;
        let claim = scene.claim_spec(&class);
        let volume = scene.claim(&claim, &class).await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        let content = scene.content();
        pod.write(&path_of(0), volume.block, &content).await?;
        let snapshot = snapshot(scene, &claim).await?;
        Ok(Stock { class, claim, volume, content, pod, snapshot })
    }

    /// Replaces the driver beside the pod, which still has its data then.
    async fn is_kept(&self, scene: &Scene, action: Action, version: DriverVersion) -> Done {
        let user = self.pod.start_workload(&path_of(0)).await;
        scene.beside(action, &[&user], scene.cluster().replace_driver(version)).await?;
        user.end(action).await;
        self.pod.holds(&path_of(0), self.volume.block, &self.content).await
    }

    /// Uses everything with the present version of the driver.
    async fn use_up(self, scene: &Scene) -> Done {
        let (path, block) = (path_of(0), self.volume.block);
        self.pod.delete().await?;
        let next = scene.run(scene.pod(&[&self.volume])).await?;
        next.holds(&path, block, &self.content).await?;
        if grows(scene) {
            let wanted_bytes = scene.grow(&self.claim.name).await?;
            scene.has_grown(&self.claim.name, wanted_bytes).await?;
            next.holds(&path, block, &self.content).await?;
        }
        let new = snapshot(scene, &self.claim).await?;
        next.delete().await?;
        for snapshot in self.snapshot.iter().chain(&new) {
            let copy = scene.claim(&scene.restored_spec(&self.class, snapshot), &self.class).await?;
            let reader = scene.run_within(scene.pod(&[&copy]), scene.timeouts().pod_start_slow).await?;
            reader.holds(&path, block, &self.content).await?;
            reader.delete().await?;
            scene.delete_snapshot(snapshot).await?;
        }
        Ok(())
    }
}

/// Returns whether volumes of the driver can grow while a pod uses them.
fn grows(scene: &Scene) -> bool {
    [Capability::ControllerExpansion, Capability::OnlineExpansion]
        .into_iter()
        .all(|one| scene.driver().can(one))
}

/// Takes a snapshot of a claim, if the driver and the cluster have snapshots.
async fn snapshot(scene: &Scene, claim: &PvcSpec) -> Done<Option<Snapshot>> {
    let has_snapshots = scene.driver().can(Capability::SnapshotDataSource)
        && scene.cluster().offers(Feature::Snapshots).is_ok();
    if !has_snapshots {
        return Ok(None);
    }
    let class = scene.snapshot_class().await?;
    scene.snapshot(&claim.name, &class).await.map(Some)
}
