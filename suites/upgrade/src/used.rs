//! Volumes and snapshots of the version before, used under the next version.

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_suite_in_use::beside::{Action, InUse, beside, judge_copy, judge_moved};
use csi_suite_in_use::copies::{copy_of, from_snapshot, from_volume};
use csi_suite_in_use::expansion::larger;
use csi_suite_in_use::snapshots::snapshot;
use csi_workload::beside::Written;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};

use crate::rules::{UPGRADE_001, UPGRADE_004};
use crate::{NEXT_VERSION, begin, publish, upgrade};

const FIRST_USE: Action = Action { name: "the first use of the volume", rpcs: &[] };
const EXPANSION: Action = Action { name: "the expansion of the volume by the next version", rpcs: &[] };
const SNAPSHOT: Action = Action { name: "CreateSnapshot of the next version", rpcs: &[] };

check! {
    /// Most volumes are idle when a driver is updated, and their pods come back later. Everything that can be done with a new volume has to be
    /// possible with them, since their users do not know which version has made them.
    pub(super) USED {
        id: "upgrade/objects-used",
        title: "volumes, clones and snapshots of the version before hold their data under the next version, and can be used as new ones",
        spec: [UPGRADE_004, UPGRADE_001, IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT, NEXT_VERSION],
        refuted_by: [
            "hostpath/upgrade-empties-old-volumes",
            "hostpath/upgrade-empties-old-snapshots",
            "hostpath/upgrade-does-not-expand-old",
            "hostpath/upgrade-snapshots-of-old-are-empty",
        ],
        duplicate_of: "upgrade/objects-known",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        begin(cx).await?;
        let old = Old::make(cx).await?;
        upgrade(cx).await?;
        for (noun, volume) in &old.volumes {
            use_again(cx, noun, volume, &old.written).await?;
        }
        let Some(taken) = &old.snapshot else { return Ok(()) };
        let restored = match copy_of(cx, from_snapshot(&taken.snapshot_id), old.bytes()).await {
            Ok(restored) => restored,
            Err(Stop::Declined(_, why)) => return Err(rejected("a snapshot of the version before is not restored", why)),
            Err(other) => return Err(other),
        };
        is_held(cx, "a volume restored from a snapshot of the version before", &restored, &old.written).await
    }
}

/// Objects of the version before that hold what a workload has written, as that version has shown.
struct Old {
    volumes: Vec<(&'static str, NodeVolume)>,
    snapshot: Option<v1::Snapshot>,
    written: Written,
}

impl Old {
    async fn make(cx: &Cx) -> CheckResult<Old> {
        let user = InUse::begin(cx).await?;
        beside(FIRST_USE, [&user], async { Ok(()) }).await?;
        let (mut volume, written) = user.leave_node(FIRST_USE).await?;
        if Operation::ControllerUnpublishVolume.is_offered(cx) {
            let request = volume.request(cx, Operation::ControllerUnpublishVolume).await?;
            request.send(cx).setup("a detached volume").await?;
        }
        let volume = volume.volume;
        let has = |capability| cx.target().capabilities().has(capability);
        let snapshot = match has(Capability::CreateDeleteSnapshot) {
            true => Some(snapshot(cx, &volume.id).await?),
            false => None,
        };
        let mut copies = Vec::new();
        if has(Capability::CloneVolume) {
            copies.push(("a clone of the version before", from_volume(&volume.id)));
        }
        if let Some(taken) = &snapshot {
            copies.push(("a volume that the version before has restored", from_snapshot(&taken.snapshot_id)));
        }
        let mut volumes = Vec::new();
        for (noun, source) in copies {
            volumes.push((noun, copy_of(cx, source, volume.size_bytes).await?));
        }
        volumes.push(("a volume of the version before", volume));
        for (noun, volume) in &volumes {
            is_held(cx, noun, volume, &written).await.map_err(|stop| match stop {
                Stop::Violation(lost) => {
                    Stop::skip(format!("the version before has lost it already: {}", lost.message))
                }
                other => other,
            })?;
        }
        Ok(Old { volumes, snapshot, written })
    }

    /// The size of the largest volume.
    fn bytes(&self) -> i64 {
        self.volumes.iter().map(|(_, volume)| volume.size_bytes).max().unwrap_or_default()
    }
}

/// Judges whether a volume holds what the workload has written.
async fn is_held(cx: &Cx, noun: &str, volume: &NodeVolume, written: &Written) -> CheckResult {
    let scope = cx.scope();
    let published = publish(&scope, volume.clone()).await.map_err(of_old)?;
    judge_moved(written, &published, noun).await.map_err(of_old)?;
    scope.undo().await
}

/// Reads, writes, expands and copies a volume of the version before.
async fn use_again(cx: &Cx, noun: &str, volume: &NodeVolume, written: &Written) -> CheckResult {
    let scope = cx.scope();
    let published = publish(&scope, volume.clone()).await.map_err(of_old)?;
    judge_moved(written, &published, noun).await.map_err(of_old)?;
    let user = InUse::resume(scope, published, written).await?;
    if Operation::ControllerExpandVolume.is_offered(cx) {
        beside(EXPANSION, [&user], expand(cx, user.volume())).await?;
    }
    if !Operation::CreateSnapshot.is_offered(cx) {
        return user.end(FIRST_USE).await;
    }
    let (taken, [evidence]) = match beside(SNAPSHOT, [&user], snapshot(cx, user.id())).await {
        Err(Stop::Declined(_, why)) => {
            user.end(SNAPSHOT).await?;
            cx.note(format!("{noun} is not copied while it is in use: {why}"));
            return Ok(());
        }
        taken => taken?,
    };
    user.end(SNAPSHOT).await?;
    let bytes = volume.size_bytes.max(taken.size_bytes).max(cx.expand_size_bytes());
    let copy = copy_of(cx, from_snapshot(&taken.snapshot_id), bytes).await?;
    judge_copy(cx, &evidence, copy, "a new snapshot of a volume of the version before").await.map(drop)
}

/// Expands a volume of the version before. A driver that does not expand its own volumes in use either is not judged.
async fn expand(cx: &Cx, volume: &TrackedVolume) -> CheckResult {
    let mut old = larger(volume);
    let Err(why) = try_to_expand(cx, &mut old).await? else { return Ok(()) };
    let scope = cx.scope();
    let own = publish(&scope, scope.writable_volume().await?).await?;
    let does_own = try_to_expand(&scope, &mut larger(&own)).await?.is_ok();
    scope.undo().await?;
    match does_own {
        true => {
            Err(rejected("the next version expands its own volumes, and not one of the version before", why))
        }
        false => {
            cx.note(format!("the expansion is not judged, since the next version does not expand its own volumes either: {why}"));
            Ok(())
        }
    }
}

async fn try_to_expand(cx: &Cx, volume: &mut TrackedVolume) -> CheckResult<Result<(), String>> {
    for operation in [Operation::ControllerExpandVolume, Operation::NodeExpandVolume] {
        let is_for_node = operation == Operation::NodeExpandVolume;
        let is_required = volume.expanded.as_ref().is_some_and(|answer| answer.node_expansion_required);
        if is_for_node && (!is_required || !operation.is_offered(cx)) {
            continue;
        }
        match volume.request(cx, operation).await?.send(cx).await.any_answer()? {
            Ok(response) => volume.record(response),
            Err(refused) => return Ok(Err(format!("{}: {refused}", operation.method()))),
        }
    }
    Ok(Ok(()))
}

fn rejected(message: &str, why: String) -> Stop {
    Violation::new(message).of(&UPGRADE_004).expected("OK").actual(why).into()
}

fn of_old(stop: Stop) -> Stop {
    stop.of(&UPGRADE_004).of_a_plain_call()
}
