//! Volumes in use while the driver is killed: with their mounts still there, as after an update of the driver, and
//! without, as after a reboot of the node.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::driver_directory::is_recorded_in_memory;
use csi_harness::resources::mounts;
use csi_harness::resources::workload::{self, WriteLocation, whereabouts};
use csi_harness::spec::requirements::Requirement;
use csi_nemesis::disruption;
use csi_nemesis::restart::driver;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;

use super::unless_forgotten;
use crate::rules::RESTART_003;

/// The place that the workload has written.
const PLACE: WriteLocation = WriteLocation::near(0);

check! {
    /// Plugins are updated while pods run. kubelet publishes again for pods that continue, and unpublishes
    /// the volumes of pods that ended in the meantime without publishing them before.
    pub(super) IN_USE {
        id: "restart/in-use",
        title: "volumes that were in use when the driver was killed can be used further, and released",
        spec: [
            req::NODE_STAGE_007,
            req::NODE_PUBLISH_005,
            req::NODE_UNPUBLISH_002,
            req::NODE_UNSTAGE_002,
            req::NODE_UNPUBLISH_007,
            req::NODE_UNSTAGE_007,
            req::GEN_ERR_001,
        ],
        needs: [NODE, VOLUME, RESTARTS],
        refuted_by: [
            "restart-forgets-published",
            "restart-forgets-staged",
            "restart-refuses-published",
            "restart-refuses-unstaging",
            "hostpath/forgets-publications-at-start",
        ],
        duplicate_of: "*",
        access: Each,
        varies: true,
    }
    async |cx| {
        let volumes = Volumes::in_use(cx).await?;
        if volumes.are_served_by_processes() {
            return Err(Stop::skip("the processes that serve its mounts may have ended with the driver"));
        }
        volumes.end_driver(false).await?;
        unless_forgotten(driver(cx)?, volumes.after_kill().await)
    }
}

check! {
    /// After a reboot the directories of pods exist, but the mounts do not. kubelet stages and publishes
    /// again for pods that continue, and releases the volumes of the others, which are not mounted.
    pub(super) REBOOT {
        id: "restart/reboot",
        title: "after a reboot volumes can be staged and published again, and volumes of other pods can be released",
        spec: [
            req::NODE_UNPUBLISH_001,
            req::NODE_UNSTAGE_001,
            req::NODE_UNPUBLISH_002,
            req::NODE_UNSTAGE_002,
            req::NODE_UNPUBLISH_006,
            req::NODE_UNSTAGE_006,
            req::NODE_UNPUBLISH_007,
            req::NODE_UNSTAGE_007,
            req::NODE_STAGE_007,
            req::NODE_PUBLISH_005,
            req::GEN_ERR_001,
            RESTART_003,
        ],
        needs: [NODE, VOLUME, RESTARTS],
        refuted_by: [
            "restart-forgets-published",
            "restart-forgets-staged",
            "hostpath/trusts-its-records-after-reboot",
        ],
        duplicate_of: "restart/in-use",
        access: Each,
        varies: true,
    }
    async |cx| {
        let volumes = Volumes::in_use(cx).await?;
        let taken = volumes.end_driver(true).await?;
        unless_forgotten(driver(cx)?, volumes.after_reboot(taken).await)
    }
}

/// The requirements to unpublish and to unstage.
type Rules = [&'static Requirement; 2];

const AFTER_KILL: Rules = [&req::NODE_UNPUBLISH_007, &req::NODE_UNSTAGE_007];
const MOUNTED_AGAIN: Rules = [&req::NODE_UNPUBLISH_001, &req::NODE_UNSTAGE_001];
const WITHOUT_MOUNTS: Rules = [&req::NODE_UNPUBLISH_006, &req::NODE_UNSTAGE_006];

/// A volume of a pod that stays on the node, and one of a pod that goes while the driver is away.
struct Volumes<'a> {
    cx: &'a Cx,
    stays: InUse,
    goes: InUse,
}

impl Volumes<'_> {
    async fn in_use(cx: &Cx) -> CheckResult<Volumes<'_>> {
        Ok(Volumes { cx, stays: InUse::begin(cx).await?, goes: InUse::begin(cx).await? })
    }

    /// Kills the driver and starts it, on request without the mounts that there were: how many were taken away.
    async fn end_driver(&self, takes_mounts: bool) -> CheckResult<usize> {
        let takes_mounts = takes_mounts && self.cx.shares_files_with_driver().await;
        disruption::KILLED.inject(self.cx).await?;
        let taken = match takes_mounts {
            true => self.cx.unmount_below(self.paths())?,
            false => 0,
        };
        if taken > 0 {
            self.cx.happened("the mounts of both volumes are removed, as by a reboot");
        }
        disruption::KILLED.heal(self.cx).await?;
        Ok(taken)
    }

    async fn after_kill(&self) -> CheckResult {
        self.stays.again(self.cx).await?;
        self.stays.back(self.cx, AFTER_KILL).await?;
        self.goes.back(self.cx, AFTER_KILL).await
    }

    /// Checks the volume after this many mounts were removed.
    async fn after_reboot(&self, taken: usize) -> CheckResult {
        if taken == 0 {
            self.cx.note("no mount could be removed, so only the driver was started again");
            return self.after_kill().await;
        }
        let rules = match self.stays.again(self.cx).await {
            // All calls were answered with OK, and the workload still does not get its volume.
            Err(Stop::Violation(violation))
                if violation.refused.is_none()
                    && keeps_records_over_reboot(self.cx, &self.stays.volume.volume.id).await =>
            {
                return Err(violation.of(&RESTART_003).into());
            }
            // A driver's records in memory, such as below /run, are still there; a true reboot deletes them.
            Err(Stop::Violation(violation)) => {
                self.cx.warn(*violation);
                WITHOUT_MOUNTS
            }
            other => other.map(|()| MOUNTED_AGAIN)?,
        };
        self.stays.back(self.cx, rules).await?;
        self.goes.back(self.cx, WITHOUT_MOUNTS).await
    }

    /// Target paths before those that they may be bound from.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let volumes = [&self.stays.volume, &self.goes.volume];
        let targets = volumes.into_iter().map(|volume| volume.target_path.as_str());
        targets.chain(volumes.into_iter().map(|volume| volume.staging_path.as_str()))
    }

    /// Returns true if the file systems end with processes, which may be those of the driver.
    fn are_served_by_processes(&self) -> bool {
        self.paths().any(|path| workload::is_fuse(Path::new(path)))
    }
}

/// Returns true if the driver's directory is known and on a disk, and no file in memory names the volume: then a true reboot leaves the
/// driver the same records as its end.
async fn keeps_records_over_reboot(cx: &Cx, volume_id: &str) -> bool {
    let directory = cx.driver_directory().await;
    directory.is_some_and(|directory| !mounts::is_in_memory(&directory)) && !is_recorded_in_memory(volume_id)
}

struct InUse {
    volume: TrackedVolume,
    /// True if the tests could play a workload on it.
    has_data: bool,
}

impl InUse {
    async fn begin(cx: &Cx) -> CheckResult<InUse> {
        let mut volume = TrackedVolume::new(cx, cx.node_volume().await?);
        volume.reach(cx, Operation::NodeUnpublishVolume).await?;
        let path = PathBuf::from(&volume.target_path);
        let has_data = !volume.volume.readonly
            && Need::Root.unmet(cx.target(), cx.access()).is_none()
            && cx.sees_published(&volume.target_path);
        if has_data {
            let stamp = stamp(&volume);
            let written = workload::play(move || workload::write(&path, PLACE, &stamp)).await?;
            written.map_err(|error| Stop::broken(format!("failed to write to the volume: {error}")))?;
        }
        Ok(InUse { volume, has_data })
    }

    /// Stages and publishes once more, and looks for the data.
    async fn again(&self, cx: &Cx) -> CheckResult {
        let stage = "stage a volume that was staged before the driver ended";
        self.call(cx, Operation::NodeStageVolume, stage, &req::NODE_STAGE_007).await?;
        let publish = "publish a volume that was published before the driver ended";
        self.call(cx, Operation::NodePublishVolume, publish, &req::NODE_PUBLISH_005).await?;
        if self.has_data { self.find_data().await } else { Ok(()) }
    }

    /// Makes a call that has to succeed, if the driver has it.
    async fn call(
        &self,
        cx: &Cx,
        operation: Operation,
        what: &str,
        rule: &'static Requirement,
    ) -> CheckResult {
        if !operation.is_offered(cx) {
            return Ok(());
        }
        let request = self.volume.clone().request(cx, operation).await?;
        request.send(cx).await.must(what).map(drop).map_err(|stop| stop.of(rule))
    }

    async fn find_data(&self) -> CheckResult {
        let path = PathBuf::from(&self.volume.target_path);
        let (stamp, place) = (stamp(&self.volume), whereabouts(&path));
        let actual = match workload::play(move || workload::read(&path, PLACE)).await? {
            Ok(Found::Write(found)) if found == stamp => return Ok(()),
            Ok(found) => format!("{found}, at {place}"),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return Err(Violation::new(
                    "reading what was written before the driver ended does not return",
                )
                .of(&req::NODE_PUBLISH_005)
                .expected("what was written")
                .actual(error)
                .into());
            }
            Err(error) => error.to_string(),
        };
        Err(Violation::new("data written before the driver ended are no longer at the target path")
            .of(&req::NODE_PUBLISH_005)
            .expected("what was written")
            .actual(actual)
            .into())
    }

    /// Unpublishes and unstages the volume, and checks that its mounts are gone.
    async fn back(&self, cx: &Cx, [unpublish, unstage]: Rules) -> CheckResult {
        let TrackedVolume { target_path, staging_path, .. } = &self.volume;
        let what = "unpublish a volume that was published before the driver ended";
        self.call(cx, Operation::NodeUnpublishVolume, what, unpublish).await?;
        is_unmounted(cx, target_path, "NodeUnpublishVolume", &req::NODE_UNPUBLISH_002).await?;
        let what = "unstage a volume that was staged before the driver ended";
        self.call(cx, Operation::NodeUnstageVolume, what, unstage).await?;
        is_unmounted(cx, staging_path, "NodeUnstageVolume", &req::NODE_UNSTAGE_002).await
    }
}

/// The stamp of the workload's write.
fn stamp(volume: &TrackedVolume) -> Stamp {
    Stamp { run: 0, volume: volume.volume.id.clone(), number: 1 }
}

async fn is_unmounted(cx: &Cx, path: &str, method: &str, rule: &'static Requirement) -> CheckResult {
    ensure!(
        !cx.is_mount_point(path) || !cx.shares_files_with_driver().await,
        "{method} answers OK after the restart, and the volume stays mounted";
        of: rule,
        expected: "no mount",
        actual: format!("{path} is still a mount point")
    );
    Ok(())
}
