//! The health of a volume in use, as its driver reports it, beside what the workload meets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::mounts;
use csi_harness::resources::workload::play;
use csi_ops::volume::TrackedVolume;
use csi_proto::{Call as _, Rpc};
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_011};
use rustix::mount::{MountFlags, mount_remount};
use v1::volume_capability::AccessType as Access;

use crate::beside::{Action, InUse, beside};

const ASKED: Action = Action {
    name: "questions about the health of the volume",
    rpcs: &[
        v1::NodeGetVolumeStatsRequest::RPC,
        v1::ControllerGetVolumeRequest::RPC,
        v1::NodeGetVolumeHealthRequest::RPC,
    ],
};
/// kubelet and external-health-monitor ask about once a minute.
const ASKED_EVERY: Duration = Duration::from_secs(1);
const ASKED_COUNT: u32 = 3;
/// The only file system that can be made read-only from outside.
const FS_TYPE: &str = "ext4";

/// One answer about the health of a volume.
struct Report {
    rpc: Rpc,
    /// The problem, if the driver sees one.
    problem: Option<String>,
    /// The call was rejected.
    is_rejection: bool,
}

/// Asks for the health of the volume by each RPC that the driver has for it, except for some.
async fn ask(cx: &Cx, user: &InUse, except: &[Rpc]) -> CheckResult<Vec<Report>> {
    let is_asked = |rpc| !except.contains(&rpc);
    let has = |capability| cx.target().capabilities().has(capability);
    let Published { staged, target_path } = user.volume().published();
    let mut reports = Vec::new();
    let mut add = |rpc, problem: Result<Option<String>, Refused>| {
        let is_rejection = problem.is_err();
        let problem = problem.unwrap_or_else(|refused| Some(refused.to_string()));
        reports.push(Report { rpc, problem, is_rejection });
    };
    if has(Capability::NodeVolumeCondition) && is_asked(v1::NodeGetVolumeStatsRequest::RPC) {
        let answer = cx.call(cx.stats_request(&staged, &target_path)).await.any_answer()?;
        add(v1::NodeGetVolumeStatsRequest::RPC, answer.map(|stats| problem_of(stats.volume_condition)));
    }
    let is_in_get_volume = has(Capability::VolumeCondition) && has(Capability::GetVolume);
    if is_in_get_volume && is_asked(v1::ControllerGetVolumeRequest::RPC) {
        let request = v1::ControllerGetVolumeRequest { volume_id: user.id().to_owned() };
        let answer = cx.call(request).await.any_answer()?;
        let condition =
            |found: v1::ControllerGetVolumeResponse| found.status.unwrap_or_default().volume_condition;
        add(v1::ControllerGetVolumeRequest::RPC, answer.map(|found| problem_of(condition(found))));
    }
    if has(Capability::NodeGetVolumeHealth) && is_asked(v1::NodeGetVolumeHealthRequest::RPC) {
        let answer = cx.call(cx.health_request(&staged, &target_path)).await.any_answer()?;
        let first = |found: v1::NodeGetVolumeHealthResponse| {
            let problems = found.volume_health.unwrap_or_default().health_statuses;
            problems.into_iter().next().map(|problem| problem.message)
        };
        add(v1::NodeGetVolumeHealthRequest::RPC, answer.map(first));
    }
    Ok(reports)
}

fn problem_of(condition: Option<v1::VolumeCondition>) -> Option<String> {
    condition.filter(|condition| condition.abnormal).map(|condition| condition.message)
}

/// Asks every second. Returns the RPCs by which the driver has reported a problem, each with that problem.
async fn ask_regularly(cx: &Cx, user: &InUse, except: &[Rpc]) -> CheckResult<Vec<(Rpc, String)>> {
    let mut ticks = tokio::time::interval(ASKED_EVERY);
    let mut problems: Vec<(Rpc, String)> = Vec::new();
    for _ in 0..ASKED_COUNT {
        ticks.tick().await;
        for Report { rpc, problem, is_rejection } in ask(cx, user, except).await? {
            // Other checks judge rejections.
            if let Some(problem) = problem
                && !is_rejection
                && !problems.iter().any(|(known, _)| *known == rpc)
            {
                problems.push((rpc, problem));
            }
        }
    }
    Ok(problems)
}

check! {
    /// A file system that gets an error from its device rejects writes from then on. Users have to learn this
    /// before the pod misses data. The specification leaves open which problems a driver detects, and when,
    /// so this check only warns.
    TURNED_READ_ONLY {
        id: "in-use/turned-read-only",
        title: "the health of a volume in use is reported as good, and as bad after its file system became read-only",
        spec: [IN_USE_011, IN_USE_001, IN_USE_002],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::NodeVolumeCondition, Capability::VolumeCondition, Capability::NodeGetVolumeHealth]),
            MOUNT_ACCESS,
            ROOT,
        ],
        refuted_by: [
            "hostpath/health-misses-read-only",
            "hostpath/health-reports-use-as-problem",
            "hostpath/health-question-breaks-writer",
        ],
        varies: true,
    }
    async |cx| {
        let user = begin(cx).await?;
        let asked = async {
            // Other checks judge what is said of a volume that was just published.
            let first = ask(cx, &user, &[]).await?.into_iter();
            let ill: Vec<Rpc> = first.filter(|report| report.problem.is_some()).map(|report| report.rpc).collect();
            let problems = ask_regularly(cx, &user, &ill).await?;
            Ok((ill, problems))
        };
        let ((ill, problems), _) = beside(ASKED, [&user], asked).await?;
        for (rpc, problem) in problems {
            cx.warn(
                Violation::new(format!("{rpc} reports a problem with a volume that a workload uses without errors"))
                    .of(&IN_USE_011)
                    .expected("no problem")
                    .actual(problem),
            );
        }
        let (target, staging) = (user.path().to_owned(), PathBuf::from(&user.volume().staging_path));
        let turned = play(move || turn_read_only(&target, &[&target, &staging])).await?;
        if let Err(why) = turned {
            cx.note(format!("the file system of the volume is not made read-only: {why}"));
            return user.end(ASKED).await;
        }
        if !user.workload().meets_read_only().await {
            cx.note("the workload does not find the file system read-only after an error");
            return user.give_back().await;
        }
        let reported = cx.eventually(Settles::IllnessReported, || async {
            // A rejection is noticed as well.
            let reports = ask(cx, &user, &ill).await?;
            let is_known = reports.is_empty() || reports.iter().any(|report| report.problem.is_some());
            Ok(is_known.then_some(()))
        });
        if reported.await?.is_none() {
            cx.warn(
                Violation::new("the driver reports a volume as healthy whose file system has become read-only")
                    .of(&IN_USE_011)
                    .expected("a problem of the volume")
                    .actual("still none after the time to settle (settle-ms)"),
            );
        }
        user.give_back().await
    }
}

/// A workload on an ext4 file system.
async fn begin(cx: &Cx) -> CheckResult<InUse> {
    let mut capability = cx.capability();
    if let Some(Access::Mount(mount)) = &mut capability.access_type {
        FS_TYPE.clone_into(&mut mount.fs_type);
    }
    let mut request = cx.create_node_volume_request().await?;
    request.volume_capabilities = vec![capability.clone()];
    let volume = cx.create_volume(request).await.or_skip("the driver makes no volumes with ext4")?;
    let volume = TrackedVolume { capability, ..TrackedVolume::new(cx, volume.into()) };
    // A driver may learn only on the node that it cannot use the file system.
    InUse::of(cx, volume).await.map_err(|stop| match stop {
        Stop::Broken(why) => Stop::skip(format!("a volume with ext4 cannot be used: {why}")),
        other => other,
    })
}

pub(crate) static CHECKS: &[&Check] = &[&TURNED_READ_ONLY];

/// Makes the ext4 file system at a target path read-only in the way of the kernel after an error. All of its mounts have to be at or below
/// the paths, which are those of one volume, so that nothing else can be hurt.
fn turn_read_only(target: &Path, paths: &[&Path]) -> io::Result<()> {
    let mount = mounts::alone_at(target, paths)?;
    if mount.fs_type != FS_TYPE {
        return Err(io::Error::other(format!("it is {}, and not {FS_TYPE}", mount.fs_type)));
    }
    let device = fs::canonicalize(&mount.source)?;
    let name = device.file_name().ok_or_else(|| io::Error::other("it is not on a device"))?;
    let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
    // With errors=continue, ext4 would only record the error and still accept writes.
    mount_remount(target, MountFlags::empty(), c"errors=remount-ro")?;
    fs::write(trigger, "csi-sanity")
}
