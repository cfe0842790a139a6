//! A node that is started again while volumes are in use on it.

use std::collections::BTreeSet;
use std::path::Path;

use csi_harness::prelude::*;
use csi_harness::resources::driver_directory::{delete_records_in_memory, loop_device};
use csi_harness::resources::mounts;
use csi_harness::resources::state_dir::detach_loops;
use csi_harness::resources::workload::is_fuse;
use csi_nemesis::disruption::KILLED;
use csi_nemesis::restart::driver;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_suite_stateful::restart::unless_forgotten;
use csi_workload::beside::Written;
use csi_workload::rules::{IN_USE_001, IN_USE_002};

use super::rules::{NODES_004, NODES_005};
use super::takeover::given_back;
use crate::beside::{Action, InUse, beside, judge_moved};
use crate::insist::until_done;

const BEFORE: Action = Action { name: "the use of volumes before their node is started again", rpcs: &[] };
const AFTER: Action = Action { name: "the use of a volume after its node was started again", rpcs: &[] };
const SITUATION: &str = "after its node was started again";

check! {
    /// The processes, mounts and in-memory files of the node are gone, but its directories still exist.
    /// kubelet reads from them which pods existed: one of them continues with its volume, and the other one
    /// was deleted while the node was down.
    REBOOT {
        id: "nodes/reboot",
        title: "after a reboot with volumes in use, pods have their data, and volumes of deleted pods can be unpublished",
        spec: [NODES_004, NODES_005, IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/reboot-formats-anew",
            "hostpath/reboot-rejects-staging",
            "hostpath/reboot-needs-old-device",
            "hostpath/reboot-needs-record-in-memory",
            "hostpath/refuses-unpublish-without-mount",
            "hostpath/refuses-unstage-without-mount",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let users = InUse::begin_two(cx).await?;
        let [stays, goes] = &users;
        beside(BEFORE, [stays, goes], async { Ok(()) }).await?;
        // Targets come before the paths that they may be bound from.
        let volumes = users.each_ref().map(|user| user.volume().clone());
        let targets = volumes.iter().map(|volume| volume.target_path.as_str());
        let paths: Vec<&str> = targets.chain(volumes.iter().map(|volume| volume.staging_path.as_str())).collect();
        if paths.iter().any(|path| is_fuse(Path::new(path))) {
            return Err(Stop::skip("the processes that serve its mounts may have ended with the driver"));
        }
        if !cx.shares_files_with_driver().await {
            return Err(Stop::skip("these tests cannot unmount what is mounted on the driver's node"));
        }
        let [stays, goes] = users;
        let (mut stays, written) = stays.fall_silent(BEFORE).await?;
        let (mut goes, written_by_other) = goes.fall_silent(BEFORE).await?;
        // Both are found by making volumes, which needs the driver.
        let directory = cx.driver_directory().await;
        let keeps_devices = match &directory {
            Some(directory) => attaches_devices(cx, directory).await?,
            None => false,
        };
        KILLED.inject(cx).await?;
        let outcome = take_away(cx, &volumes, &paths, directory.as_deref(), keeps_devices);
        KILLED.heal(cx).await?;
        let is_all = outcome?;
        unless_forgotten(driver(cx)?, again(cx, &mut stays).await)?;
        if !has_data(cx, &stays, &written, is_all).await? {
            return Ok(());
        }
        let user = InUse::resume(cx.scope(), stays, &written).await?;
        beside(AFTER, [&user], given_back(cx, &mut goes, &NODES_005, SITUATION)).await?;
        // The pod that was deleted has a successor, which finds its data as well.
        again(cx, &mut goes).await?;
        has_data(cx, &goes, &written_by_other, is_all).await?;
        user.end(AFTER).await
    }
}

/// Returns true if ControllerPublishVolume attaches loop devices of files in this directory, as the stand-in for a cloud does: the cloud
/// attaches its disks to the node again when that starts, without a call.
async fn attaches_devices(cx: &Cx, directory: &Path) -> CheckResult<bool> {
    if !cx.target().capabilities().has(Capability::PublishUnpublishVolume) {
        return Ok(false);
    }
    let scope = cx.scope();
    let volume = scope.node_volume().await?;
    let before = mounts::loops();
    scope.attached(volume).await?;
    let is_new = |(device, file): (String, String)| {
        before.get(&device) != Some(&file) && Path::new(&file).starts_with(directory)
    };
    let attaches = mounts::loops().into_iter().any(is_new);
    scope.undo().await?;
    Ok(attaches)
}

/// Takes away what a reboot takes from the volumes of a node whose driver has ended: mounts, loop devices unless they stay attached, and files
/// in memory that name the volumes. Returns true if a true reboot would take nothing else.
fn take_away(
    cx: &Cx,
    volumes: &[TrackedVolume; 2],
    paths: &[&str],
    directory: Option<&Path>,
    keeps_devices: bool,
) -> CheckResult<bool> {
    let mounted = paths.iter().flat_map(|path| mounts::at(Path::new(path)));
    let devices: BTreeSet<String> = mounted.filter_map(|mount| loop_device(&mount)).collect();
    let unmounted = cx.unmount_below(paths.iter().copied())?;
    cx.happened(format!("{unmounted} mounts of the two volumes are removed, as by a reboot"));
    // Loop devices and records of others stay: what is the driver's is known by its directory.
    let Some(directory) = directory else {
        cx.note("lost data only warns: it is unknown where the driver keeps its files, so a reboot may take away more than this check did; --state-dir names the directory");
        return Ok(false);
    };
    let used = mounts::table();
    let is_free = |device: &str| {
        !keeps_devices && devices.contains(device) && used.iter().all(|mount| mount.source != device)
    };
    let failed = |error| Stop::broken(format!("failed to detach a loop device: {error}"));
    let detached = detach_loops(directory, is_free).map_err(failed)?;
    if mounts::is_in_memory(directory) {
        return Ok(false);
    }
    let deleted = volumes.each_ref().map(|volume| delete_records_in_memory(&volume.volume.id));
    let deleted_count: usize = deleted.into_iter().flatten().sum();
    cx.happened(format!("{detached} loop devices and {deleted_count} files in memory that name the volumes are removed as well"));
    Ok(deleted.iter().all(Option::is_some))
}

/// Judges whether a volume that is published again has its data. If a true reboot takes more away, it may also make the driver mount the volume:
/// then it is only warned, and the answer is false.
async fn has_data(cx: &Cx, volume: &TrackedVolume, written: &Written, is_all: bool) -> CheckResult<bool> {
    let noun = "a volume that was in use when its node was started again";
    match judge_moved(written, volume, noun).await.map_err(|stop| stop.of(&NODES_004)) {
        Err(Stop::Violation(violation)) if !is_all => {
            cx.warn(*violation);
            Ok(false)
        }
        judged => judged.map(|()| true),
    }
}

/// Stages and publishes a volume at the paths that it had.
async fn again(cx: &Cx, volume: &mut TrackedVolume) -> CheckResult {
    for step in [Operation::NodeStageVolume, Operation::NodePublishVolume] {
        if step.is_offered(cx) {
            let request = volume.request(cx, step).await?;
            until_done(cx, step, &request, &NODES_005, SITUATION).await?;
        }
    }
    Ok(())
}

pub(super) static CHECKS: &[&Check] = &[&REBOOT];
