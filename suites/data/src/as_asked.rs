//! Volumes are published as they were asked for, and what is said of them is what can be measured.

use csi_harness::prelude::*;
use csi_harness::resources::read_back::{BARE_STAGING, MISSES_FLAGS, Mismatch};
use v1::volume_capability::{AccessType as Kind, MountVolume};
use v1::volume_usage::Unit;

use crate::used::{Usage, Used};

/// File systems and flags that are requested beside the configured ones. A driver that does not support them may
/// refuse. The flags harm no workload.
const ASKED: [(&str, &[&str], ForReading); 4] = [
    ("", &["noatime"], false),
    ("ext4", &["nodev", "noatime"], false),
    ("xfs", &["nosuid"], false),
    // A driver that makes a mount refuse writes may set its flags again.
    ("", &["nodev", "noexec"], true),
];
/// True if it is published with readonly.
type ForReading = bool;
/// Statistics of a file system may leave out what it keeps for itself, or for root.
const LEAST_PERCENT: u64 = 50;
/// The number of bytes written so that the statistics change.
const FILL_BYTES: u64 = 64 << 20;
/// The largest excess that rounding may cause, with 100 for an exact value.
const MOST_PERCENT: u64 = 110;

check! {
    /// A mount with other properties works until a workload needs the requested ones: a database runs on
    /// another file system than it was tested on, or a second pod writes elsewhere. Every NodePublishVolume
    /// of the run is examined.
    AS_ASKED {
        id: "data/mounts/as-asked",
        title: "a mount has the requested file system, options and device",
        spec: [req::NODE_PUBLISH_026, req::NODE_PUBLISH_027, req::NODE_PUBLISH_032],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/hides-from-second-pod",
            "hostpath/ignores-fs-type",
            "hostpath/ignores-mount-flags",
            "hostpath/readonly-drops-flags",
            "hostpath/mounts-for-reading-only",
            "hostpath/publishes-files-for-devices",
            "hostpath/takes-first-flag-only",
            "hostpath/publishes-bare-staging",
            "hostpath/publishes-bare-target",
        ],
        runs: Finally,
    }
    async |cx| {
        let asked = match cx.access() {
            AccessType::Mount => publish_all(cx).await,
            AccessType::Block => Ok(()),
        };
        let asked = asked.and(publish_what_is_not_staged(cx).await);
        let (flags, mut others): (Vec<Mismatch>, Vec<Mismatch>) =
            cx.target().mismatches().into_iter().partition(|one| one.what == MISSES_FLAGS);
        flags.into_iter().for_each(|one| cx.warn(mismatched(cx, one)));
        let Some(last) = others.pop() else { return asked };
        others.into_iter().for_each(|one| cx.blame(mismatched(cx, one)));
        Err(mismatched(cx, last).into())
    }
}

fn mismatched(cx: &Cx, one: Mismatch) -> Violation {
    let actual = match one.what == BARE_STAGING && one.check == cx.label() {
        true => format!("{}, after {UNMOUNTED}", one.actual),
        false => one.actual,
    };
    Violation::new(one.what)
        .of(one.requirement)
        .expected(one.expected)
        .actual(actual)
        .along_with(Some(&one.check))
        .reproduction(one.steps)
        .transcript(vec![format!("published by {}", one.check), format!("{} → OK", one.call)])
}

async fn publish_all(cx: &Cx) -> CheckResult {
    for (fs_type, mount_flags, published_readonly) in ASKED {
        let mut capability = cx.capability();
        let Some(Kind::Mount(MountVolume { fs_type: own, mount_flags: flags, .. })) =
            &mut capability.access_type
        else {
            continue;
        };
        if !fs_type.is_empty() {
            fs_type.clone_into(own);
        }
        flags.extend(mount_flags.iter().map(|flag| (*flag).to_owned()));
        let usage = Usage { published_readonly, ..Usage::with(capability) };
        let Ok(volume) = cx.create_volume(usage.request(cx).await?).await.any_answer()? else { continue };
        // A driver that refuses a call on the way acts correctly.
        match Used::begin_with(cx, &volume.into(), usage).await {
            Ok(used) => {
                used.once_more().await.map(drop).or_else(unless_refused)?;
                used.end().await?;
            }
            Err(stop) => unless_refused(stop)?,
        }
    }
    Ok(())
}

const UNMOUNTED: &str = "csi-sanity has unmounted the staging directory, as a reboot of the node does";

/// Publishes a volume whose staging directory has lost its mount, as after a reboot of the node. A driver may mount it again or
/// refuse; one that hands out the bare directory makes its workload write to the disk of the node.
async fn publish_what_is_not_staged(cx: &Cx) -> CheckResult {
    let is_tried = cx.access() == AccessType::Mount
        && cx.target().capabilities().has(Capability::StageUnstageVolume)
        && cx.shares_files_with_driver().await;
    if !is_tried {
        return Ok(());
    }
    let scope = cx.scope();
    let staged = scope.staged(scope.attached(scope.node_volume().await?).await?).await?;
    if scope.unmount_below([staged.staging_path.as_str()])? > 0 {
        scope.happened(UNMOUNTED);
        let target_path = scope.target_path().await?;
        scope.node_publish(scope.publish_request(&staged, &target_path)).await.any_answer()?.ok();
        scope.node_unpublish(&staged.attached.volume.id, &target_path).await.any_answer()?.ok();
        // Kubelet stages again, too, and a staged volume can be unstaged.
        let request = scope.stage_request(&staged.attached, &staged.staging_path);
        scope.node_stage(request).await.any_answer()?.ok();
    }
    // Other checks judge if a driver can undo a mount that someone else has removed.
    scope.undo_best_effort().await;
    Ok(())
}

fn unless_refused(stop: Stop) -> CheckResult {
    match stop {
        Stop::Broken(_) => Ok(()),
        other => Err(other),
    }
}

check! {
    /// Alerts and evictions use these numbers. A driver may measure in another way than the file system does,
    /// for example by quotas, but the result must not differ by half.
    MEASURED {
        id: "data/stats/measured",
        title: "NodeGetVolumeStats reports the size that a workload finds",
        spec: [req::MSG_USAGE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, GET_VOLUME_STATS, ROOT],
        refuted_by: ["hostpath/stats-of-the-host", "hostpath/stats-doubled"],
        access: Each,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let capacity = u64::try_from(volume.size_bytes).unwrap_or_default();
        let used = Used::begin(cx, &volume).await?;
        let stats = cx.call(used.stats_request()).setup("statistics of a published volume").await?;
        let measured = used.measured_bytes().await?;
        for usage in stats.usage.iter().filter(|usage| usage.unit == Unit::Bytes as i32 && usage.total > 0) {
            let total = usage.total.unsigned_abs();
            let is_right = match cx.access() {
                AccessType::Block => total == measured,
                AccessType::Mount => {
                    let (least, most) = (measured.min(capacity.max(1)), measured.max(capacity));
                    total >= least / 100 * LEAST_PERCENT && total <= most.saturating_mul(MOST_PERCENT) / 100
                }
            };
            if is_right {
                continue;
            }
            let violation = Violation::new("the total bytes are not the size that a workload finds")
                .of(&req::MSG_USAGE_002)
                .expected(format!("about {}", sized(measured)))
                .actual(sized(total).to_string());
            match cx.access() {
                AccessType::Block => return Err(violation.into()),
                // The specification does not say what the total of a shared file system means.
                AccessType::Mount => cx.warn(violation),
            }
        }
        used.end().await
    }
}

check! {
    /// If the first numbers are returned forever, a user never sees that a volume fills up. There is no
    /// verdict if the file system does not show the written data either, for example because it compresses
    /// them. The specification leaves open how old the numbers may be.
    FOLLOWS {
        id: "data/stats/follows-writes",
        title: "NodeGetVolumeStats reports data that were written since the previous call",
        spec: [req::MSG_USAGE_003],
        needs: [NODE, CREATE_DELETE_VOLUME, GET_VOLUME_STATS, ROOT, MOUNT_ACCESS],
        refuted_by: ["hostpath/stats-remembered"],
    }
    async |cx| {
        let used = Used::begin(cx, &cx.node_volume().await?).await?;
        let (reported, in_use) = (reported_used_bytes(cx, &used).await?, used.in_use_bytes().await?);
        let Some(reported) = reported else { return Err(Stop::skip("the driver does not report how many bytes are used")) };
        let written = FILL_BYTES.min(used.measured_bytes().await? / 4);
        used.fill(written).await?;
        if used.in_use_bytes().await?.saturating_sub(in_use) < written / 2 {
            return Err(Stop::skip("the file system does not show what was written"));
        }
        let follows = |now: Option<u64>| now.is_none_or(|now| now.saturating_sub(reported) >= written / 2);
        let seen = cx.eventually(Settles::Everything, || async {
            Ok(follows(reported_used_bytes(cx, &used).await?).then_some(()))
        });
        if seen.await?.is_none() {
            let now = reported_used_bytes(cx, &used).await?.unwrap_or_default();
            cx.warn(
                Violation::new("the used bytes do not change although a workload has written")
                    .expected(format!("about {} more than {}", sized(written), sized(reported)))
                    .actual(sized(now).to_string()),
            );
        }
        used.end().await
    }
}

/// The number of used bytes, as the driver reports it.
async fn reported_used_bytes(cx: &Cx, used: &Used) -> CheckResult<Option<u64>> {
    let stats = cx.call(used.stats_request()).setup("statistics of a published volume").await?;
    let of_bytes = stats.usage.iter().find(|usage| usage.unit == Unit::Bytes as i32);
    Ok(of_bytes.map(|usage| usage.used.unsigned_abs()))
}

pub(crate) static CHECKS: &[&Check] = &[&AS_ASKED, &MEASURED, &FOLLOWS];
