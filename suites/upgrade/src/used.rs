//! Volumes and snapshots of one version, used under the other one.

use csi_harness::prelude::*;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_suite_in_use::beside::{Action, InUse, beside, judge_copy, judge_moved};
use csi_suite_in_use::expansion::larger;
use csi_suite_in_use::make::{Source, copy_of, snapshot};
use csi_workload::beside::Written;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};

use crate::rules::{UPGRADE_001, UPGRADE_004, UPGRADE_010};
use crate::{DOWNGRADE, NEXT_VERSION, Replacement, publish};

const FIRST_USE: Action = Action { name: "the first use of the volume", rpcs: &[] };
const EXPANSION: Action = Action { name: "the expansion of the volume by the other version", rpcs: &[] };
const SNAPSHOT: Action = Action { name: "CreateSnapshot of the other version", rpcs: &[] };

check! {
    /// Most volumes are idle when a driver is updated, and their pods come back later. Everything that can be
    /// done with a new volume has to be possible with them, because their users do not know which version has
    /// created them.
    pub(super) USED {
        id: "upgrade/objects-used",
        title: "volumes, clones and snapshots of the version before keep their data and work under the next version",
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
    async |cx| { used(cx, Replacement::Upgrade).await }
}

check! {
    /// Volumes that were created, expanded or written to after an update are still used when it is rolled
    /// back.
    pub(super) DOWNGRADE_USED {
        id: "upgrade/downgrade-used",
        title: "volumes, clones and snapshots of the next version keep their data and work after a downgrade",
        spec: [UPGRADE_010, UPGRADE_001, IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT, NEXT_VERSION, DOWNGRADE],
        refuted_by: ["hostpath/downgrade-empties-new-volumes"],
        duplicate_of: "upgrade/downgrade",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| { used(cx, Replacement::Downgrade).await }
}

/// Makes volumes and a snapshot with one version, and uses them under the other one.
async fn used(cx: &Cx, by: Replacement) -> CheckResult {
    by.begin(cx).await?;
    let old = Old::make(cx, by).await?;
    by.replace(cx).await?;
    for (noun, volume) in &old.volumes {
        old.use_again(cx, noun, volume).await?;
    }
    let Some(taken) = &old.snapshot else { return Ok(()) };
    let maker = by.maker();
    let restored = match copy_of(cx, Source::snapshot(&taken.snapshot_id), old.bytes()).await {
        Ok(restored) => restored,
        Err(Stop::Declined(_, why)) => {
            return Err(old.rejected(&format!("a snapshot of {maker} is not restored"), why));
        }
        Err(other) => return Err(other),
    };
    old.holds(cx, &format!("a volume restored from a snapshot of {maker}"), &restored).await
}

/// Objects of one version that hold what a workload has written, as that version has shown. The other version is judged by them.
struct Old {
    by: Replacement,
    volumes: Vec<(String, NodeVolume)>,
    snapshot: Option<v1::Snapshot>,
    written: Written,
}

impl Old {
    async fn make(cx: &Cx, by: Replacement) -> CheckResult<Old> {
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
        let maker = by.maker();
        let mut copies = Vec::new();
        if has(Capability::CloneVolume) {
            copies.push((format!("a clone of {maker}"), Source::volume(&volume.id)));
        }
        if let Some(taken) = &snapshot {
            copies
                .push((format!("a volume that {maker} has restored"), Source::snapshot(&taken.snapshot_id)));
        }
        let mut old = Old { by, volumes: Vec::new(), snapshot, written };
        for (noun, source) in copies {
            old.volumes.push((noun, copy_of(cx, source, volume.size_bytes).await?));
        }
        old.volumes.push((format!("a volume of {maker}"), volume));
        for (noun, volume) in &old.volumes {
            old.holds(cx, noun, volume).await.map_err(|stop| match stop {
                Stop::Violation(lost) => Stop::skip(format!("{maker} has lost it already: {}", lost.message)),
                other => other,
            })?;
        }
        Ok(old)
    }

    /// The size of the largest volume.
    fn bytes(&self) -> i64 {
        self.volumes.iter().map(|(_, volume)| volume.size_bytes).max().unwrap_or_default()
    }

    /// Publishes a volume, and judges whether it holds what the workload has written.
    async fn published(&self, cx: &Cx, noun: &str, volume: &NodeVolume) -> CheckResult<TrackedVolume> {
        let of_old = |stop: Stop| stop.of(self.by.rule(&UPGRADE_004)).of_a_plain_call();
        let published = publish(cx, volume.clone()).await.map_err(of_old)?;
        judge_moved(&self.written, &published, noun).await.map_err(of_old)?;
        Ok(published)
    }

    /// Judges whether a volume holds what the workload has written.
    async fn holds(&self, cx: &Cx, noun: &str, volume: &NodeVolume) -> CheckResult {
        let scope = cx.scope();
        self.published(&scope, noun, volume).await?;
        scope.undo().await
    }

    /// Reads, writes, expands and copies a volume of the other version.
    async fn use_again(&self, cx: &Cx, noun: &str, volume: &NodeVolume) -> CheckResult {
        let scope = cx.scope();
        let published = self.published(&scope, noun, volume).await?;
        let user = InUse::resume(scope, published, &self.written).await?;
        if Operation::ControllerExpandVolume.is_offered(cx) {
            beside(EXPANSION, [&user], self.expand(cx, user.volume())).await?;
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
        let copy = copy_of(cx, Source::snapshot(&taken.snapshot_id), bytes).await?;
        let origin = format!("a new snapshot of a volume of {}", self.by.maker());
        judge_copy(cx, &evidence, copy, &origin).await.map(drop)
    }

    /// Expands a volume of the other version. A driver that does not expand its own volumes in use either is not judged.
    async fn expand(&self, cx: &Cx, volume: &TrackedVolume) -> CheckResult {
        let mut old = larger(volume);
        let Err(why) = try_to_expand(cx, &mut old).await? else { return Ok(()) };
        let scope = cx.scope();
        let own = publish(&scope, scope.writable_volume().await?).await?;
        let does_own = try_to_expand(&scope, &mut larger(&own)).await?.is_ok();
        scope.undo().await?;
        let (judged, maker) = (self.by.judged(), self.by.maker());
        match does_own {
            true => {
                let message = format!("{judged} expands its own volumes, but not one of {maker}");
                Err(self.rejected(&message, why))
            }
            false => {
                cx.note(format!(
                    "the expansion is not judged, since {judged} does not expand its own volumes either: {why}"
                ));
                Ok(())
            }
        }
    }

    fn rejected(&self, message: &str, why: String) -> Stop {
        Violation::new(message).of(self.by.rule(&UPGRADE_004)).expected("OK").actual(why).into()
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
