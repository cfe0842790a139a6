//! Defects that hurt the workload of a volume in use, or the copies that are made beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::lock::Mutex;
use csi_proto::v1::Snapshot;
use tonic::Status;

use crate::contents::Contents;
use crate::kept::{TARGETS, UNFINISHED};
use crate::target::{change, detach_mount, is_device, refuse_writes, run};
use crate::{Defect, Faults, Seen};

/// The time for which a file system stays frozen. It is limited, so that tests end.
const FROZEN: Duration = Duration::from_secs(3);
/// The duration of a call during which its caller can give up, another call can come, or the driver can be killed.
pub(crate) const CALL_TIME: Duration = Duration::from_millis(150);
/// The driver stood still during a call that takes longer than this.
const LATE: Duration = Duration::from_millis(1_500);

/// The sign between the name of an unfinished call and its target.
const SEPARATOR: char = '\t';

/// The moments at which a driver can hurt the workload of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// CreateSnapshot of the volume.
    Snapshot,
    /// CreateSnapshot with the name of an existing snapshot.
    RepeatedSnapshot,
    /// CreateSnapshot, while another one is in progress.
    OverlappingSnapshot,
    /// CreateSnapshot, while the volume is expanded.
    SnapshotBesideExpansion,
    /// CreateSnapshot, which the caller gives up.
    GivenUpSnapshot,
    /// CreateSnapshot, during which the driver stood still.
    LateSnapshot,
    /// CreateSnapshot, which the driver answers with an error.
    FailedSnapshot,
    DeletedSnapshot,
    GivenUpDeletion,
    /// DeleteSnapshot of a snapshot that is gone.
    RepeatedDeletion,
    /// DeleteSnapshot, while the volume is cloned.
    DeletionBesideClone,
    /// CreateVolumeGroupSnapshot, for its first volume.
    GroupOfFirst,
    /// CreateVolumeGroupSnapshot, for its second volume.
    GroupOfSecond,
    /// CreateVolume with the volume as the source.
    Clone,
    RepeatedClone,
    /// CreateVolume with the volume as the source, while a snapshot of it is taken.
    CloneBesideSnapshot,
    GivenUpClone,
    /// CreateVolume with the volume as the source, which the driver answers with an error.
    FailedClone,
    /// CreateVolume from a snapshot of the volume.
    Restore,
    /// ControllerExpandVolume of the volume.
    Expansion,
    RepeatedExpansion,
    GivenUpExpansion,
    /// ControllerExpandVolume, which the driver answers with an error.
    FailedExpansion,
    /// ControllerExpandVolume, while the volume is cloned.
    ExpansionBesideClone,
    /// ControllerExpandVolume of a copy of the volume.
    ExpansionOfCopy,
    NodeExpansion,
    RepeatedNodeExpansion,
    Modification,
    Statistics,
    /// NodeGetVolumeHealth of the volume.
    HealthQuestion,
    RepeatedStaging,
    RepeatedPublication,
    /// NodePublishVolume at a second target.
    SecondTarget,
    /// NodeUnpublishVolume at another target.
    OtherTargetGone,
    /// ControllerPublishVolume for a node other than the one that has the volume.
    AttachElsewhere,
    /// ControllerUnpublishVolume for a node other than the one that has the volume.
    DetachElsewhere,
    /// ControllerUnpublishVolume for a node that had the volume before another one got it.
    LateDetach,
    /// ControllerUnpublishVolume for a node that has the volume published.
    ForcedDetach,
    /// ControllerUnpublishVolume for a node whose workload writes to the volume.
    ForcedDetachOfWriter,
    /// ControllerUnpublishVolume for one of two nodes that have the volume published.
    ForcedDetachOfShared,
    /// ControllerUnpublishVolume for a node that has the volume published, which the driver answers with an error.
    FailedDetach,
    /// NodeUnstageVolume on a node that had the volume before another one got it.
    LateUnstaging,
    /// NodeStageVolume of another volume.
    OtherStaged,
    /// NodeUnstageVolume of another volume.
    OtherUnstaged,
    /// The driver starts while the volume is in use.
    Start,
    /// The driver starts after it was killed while it took a snapshot.
    StartAfterSnapshot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// Writes fail, as to a device that has gone away.
    Breaks,
    /// The file system is frozen for a while.
    Freezes,
    /// The file system stays frozen.
    FreezesForGood,
    /// Bytes of the volume are changed.
    Damages,
    /// The volume loses everything.
    Empties,
    /// The volume holds what it held when its last snapshot was taken.
    Reverts,
    /// The volume is no longer mounted.
    Unmounts,
}

/// The defects that hurt a workload at one moment.
const HARMS: &[(Defect, Moment, Harm)] = &[
    (Defect::SnapshotBreaksWriter, Moment::Snapshot, Harm::Breaks),
    (Defect::SnapshotFreezesWriter, Moment::Snapshot, Harm::Freezes),
    (Defect::SnapshotLeavesFrozen, Moment::Snapshot, Harm::FreezesForGood),
    (Defect::SnapshotDamagesSource, Moment::Snapshot, Harm::Damages),
    (Defect::RepeatedSnapshotFreezes, Moment::RepeatedSnapshot, Harm::Freezes),
    (Defect::OverlappingSnapshotsStayFrozen, Moment::OverlappingSnapshot, Harm::Freezes),
    (Defect::OverlappingSnapshotsBreakWriter, Moment::OverlappingSnapshot, Harm::Breaks),
    (Defect::SnapshotBesideExpansionBreaks, Moment::SnapshotBesideExpansion, Harm::Breaks),
    (Defect::GivenUpSnapshotStaysFrozen, Moment::GivenUpSnapshot, Harm::Freezes),
    (Defect::GivenUpSnapshotBreaks, Moment::GivenUpSnapshot, Harm::Breaks),
    (Defect::LateSnapshotBreaks, Moment::LateSnapshot, Harm::Breaks),
    (Defect::FailedSnapshotStaysFrozen, Moment::FailedSnapshot, Harm::Freezes),
    (Defect::FailedSnapshotBreaks, Moment::FailedSnapshot, Harm::Breaks),
    (Defect::FailedCloneBreaks, Moment::FailedClone, Harm::Breaks),
    (Defect::FailedExpansionBreaks, Moment::FailedExpansion, Harm::Breaks),
    (Defect::DeletedSnapshotBreaksSource, Moment::DeletedSnapshot, Harm::Breaks),
    (Defect::DeletedSnapshotReverts, Moment::DeletedSnapshot, Harm::Reverts),
    (Defect::GivenUpDeletionFreezes, Moment::GivenUpDeletion, Harm::Freezes),
    (Defect::RepeatedDeletionBreaks, Moment::RepeatedDeletion, Harm::Breaks),
    (Defect::DeletionBesideCloneBreaks, Moment::DeletionBesideClone, Harm::Breaks),
    (Defect::GroupBreaksFirst, Moment::GroupOfFirst, Harm::Breaks),
    (Defect::GroupStaysFrozen, Moment::GroupOfSecond, Harm::Freezes),
    (Defect::CloneBreaksSource, Moment::Clone, Harm::Breaks),
    (Defect::CloneFreezesSource, Moment::Clone, Harm::Freezes),
    (Defect::RepeatedCloneBreaks, Moment::RepeatedClone, Harm::Breaks),
    (Defect::CloneBesideSnapshotFreezes, Moment::CloneBesideSnapshot, Harm::Freezes),
    (Defect::GivenUpCloneBreaks, Moment::GivenUpClone, Harm::Breaks),
    (Defect::RestoreBreaksSource, Moment::Restore, Harm::Breaks),
    (Defect::ExpansionFreezes, Moment::Expansion, Harm::Freezes),
    (Defect::ExpansionDamages, Moment::Expansion, Harm::Damages),
    (Defect::RepeatedExpansionBreaks, Moment::RepeatedExpansion, Harm::Breaks),
    (Defect::GivenUpExpansionBreaks, Moment::GivenUpExpansion, Harm::Breaks),
    (Defect::ExpansionBesideCloneDamages, Moment::ExpansionBesideClone, Harm::Damages),
    (Defect::ExpansionOfCopyBreaksSource, Moment::ExpansionOfCopy, Harm::Breaks),
    (Defect::NodeExpansionBreaks, Moment::NodeExpansion, Harm::Breaks),
    (Defect::RepeatedNodeExpansionFreezes, Moment::RepeatedNodeExpansion, Harm::Freezes),
    (Defect::ModificationBreaksWriter, Moment::Modification, Harm::Breaks),
    (Defect::ModificationFreezes, Moment::Modification, Harm::Freezes),
    (Defect::ModificationLosesWrites, Moment::Modification, Harm::Empties),
    (Defect::StatisticsBreakWriter, Moment::Statistics, Harm::Breaks),
    (Defect::StatisticsFreeze, Moment::Statistics, Harm::Freezes),
    (Defect::HealthQuestionBreaks, Moment::HealthQuestion, Harm::Breaks),
    (Defect::RepeatedStagingBreaks, Moment::RepeatedStaging, Harm::Breaks),
    (Defect::RepeatedPublicationEmpties, Moment::RepeatedPublication, Harm::Empties),
    (Defect::SecondTargetEmpties, Moment::SecondTarget, Harm::Empties),
    (Defect::SecondTargetFreezes, Moment::SecondTarget, Harm::Freezes),
    (Defect::SecondTargetBreaksFirst, Moment::OtherTargetGone, Harm::Breaks),
    (Defect::AttachElsewhereBreaks, Moment::AttachElsewhere, Harm::Breaks),
    (Defect::DetachElsewhereBreaks, Moment::DetachElsewhere, Harm::Breaks),
    (Defect::LateDetachWipes, Moment::LateDetach, Harm::Empties),
    (Defect::ForcedDetachEmpties, Moment::ForcedDetach, Harm::Empties),
    (Defect::ForcedDetachDamages, Moment::ForcedDetachOfWriter, Harm::Damages),
    (Defect::ForcedDetachBreaksOther, Moment::ForcedDetachOfShared, Harm::Breaks),
    (Defect::FailedDetachEmpties, Moment::FailedDetach, Harm::Empties),
    (Defect::LateUnstagingBreaks, Moment::LateUnstaging, Harm::Breaks),
    (Defect::LateUnstagingEmpties, Moment::LateUnstaging, Harm::Empties),
    (Defect::StagingBreaksOthers, Moment::OtherStaged, Harm::Breaks),
    (Defect::UnstagingBreaksOthers, Moment::OtherUnstaged, Harm::Breaks),
    (Defect::UnstagingFreezesOthers, Moment::OtherUnstaged, Harm::Freezes),
    (Defect::StartBreaksUsed, Moment::Start, Harm::Breaks),
    (Defect::StartEmptiesUsed, Moment::Start, Harm::Empties),
    (Defect::StartUnmountsUsed, Moment::Start, Harm::Unmounts),
    (Defect::StartBreaksSnapshotSource, Moment::StartAfterSnapshot, Harm::Breaks),
    (Defect::StartLeavesFrozen, Moment::StartAfterSnapshot, Harm::Freezes),
];

/// The kinds of calls that are counted while they are in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Snapshot,
    Deletion,
    Clone,
    Expansion,
    Creation,
}

/// The calls of one driver that are in progress, each with its volume, with its snapshot for a deletion, or with its name for a creation.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    in_progress: Mutex<Vec<(Kind, String)>>,
    /// The names of clones that stay pending, and the ids of volumes that no other node gets.
    stuck: Mutex<BTreeSet<String>>,
}

/// A call in progress. Another one that is in progress at the beginning or at the end is beside it.
pub(crate) struct InProgress {
    calls: Arc<Calls>,
    own: (Kind, String),
    before: Vec<(Kind, String)>,
    begun: Instant,
}

impl InProgress {
    /// Returns true if a call of that kind is beside this one, about the volume if one is named.
    pub(crate) fn is_beside(&self, kind: Kind, volume: Option<&str>) -> bool {
        self.others().iter().any(|(other, id)| *other == kind && volume.is_none_or(|volume| id == volume))
    }

    /// Returns true if a snapshot of the volume was being taken when this call began.
    fn began_beside_snapshot(&self, volume: &str) -> bool {
        self.before.iter().any(|(kind, id)| *kind == Kind::Snapshot && id == volume)
    }

    /// The name of another volume that was being created when this call began.
    pub(crate) fn other_name(&self) -> Option<&str> {
        let others = self.before.iter().filter(|(kind, name)| *kind == Kind::Creation && *name != self.own.1);
        others.map(|(_, name)| name.as_str()).next()
    }

    /// Returns true if the driver stood still during this call.
    pub(crate) fn is_late(&self) -> bool {
        self.begun.elapsed() > LATE
    }

    /// Another volume of which a snapshot is taken beside this call.
    fn other_source(&self) -> Option<String> {
        let others = self.others().into_iter();
        others.filter(|(kind, id)| *kind == Kind::Snapshot && *id != self.own.1).map(|(_, id)| id).next()
    }

    fn others(&self) -> Vec<(Kind, String)> {
        let mut now = self.calls.in_progress.lock().clone();
        if let Some(own) = now.iter().position(|call| *call == self.own) {
            now.swap_remove(own);
        }
        self.before.iter().cloned().chain(now).collect()
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut calls = self.calls.in_progress.lock();
        if let Some(own) = calls.iter().position(|call| *call == self.own) {
            calls.swap_remove(own);
        }
    }
}

/// A clone that stays pending, or a volume that stays with its node, if a call ends after this time and before it is finished.
pub(crate) struct Pending {
    calls: Arc<Calls>,
    name: Option<String>,
    begun: Instant,
    after: Duration,
}

impl Pending {
    pub(crate) fn is_finished(&mut self) {
        self.name = None;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(name) = self.name.take()
            && self.begun.elapsed() >= self.after
        {
            self.calls.stuck.lock().insert(name);
        }
    }
}

/// A file system that is frozen until this is dropped.
struct FrozenDuringCall(String);

impl FrozenDuringCall {
    fn begin(target: String) -> Option<FrozenDuringCall> {
        Path::new(&target).is_dir().then(|| {
            run("fsfreeze", &["--freeze", &target]);
            FrozenDuringCall(target)
        })
    }
}

impl Drop for FrozenDuringCall {
    fn drop(&mut self) {
        run("fsfreeze", &["--unfreeze", &self.0]);
    }
}

/// Harm to a volume that is done if the call ends before it is finished.
struct UnlessFinished(Option<(Harm, String)>);

impl Drop for UnlessFinished {
    fn drop(&mut self) {
        if let Some((harm, target)) = self.0.take() {
            std::thread::spawn(move || do_harm(harm, &target));
        }
    }
}

/// Returns true if a file of a volume is written to within a moment.
pub(crate) async fn is_written_to(target: &str) -> bool {
    let times = || {
        let files = std::fs::read_dir(target).into_iter().flatten().flatten();
        let time = |file: std::fs::DirEntry| Some((file.file_name(), file.metadata().ok()?.modified().ok()?));
        files.filter_map(time).collect::<BTreeMap<_, _>>()
    };
    let before = times();
    tokio::time::sleep(CALL_TIME).await;
    times() != before
}

impl Faults {
    /// Hurts the workload of a volume if the driver has a defect of that moment.
    pub(crate) fn hurt(&self, moment: Moment, seen: &Seen, id: &str) {
        if let Some(harm) = self.harm(moment)
            && let Some(target) = seen.target_of(id)
        {
            match seen.data.at_snapshot.get(id) {
                Some(contents) if harm == Harm::Reverts => change(&target, |_| contents.clone()),
                _ => do_harm(harm, &target),
            }
        }
    }

    /// Hurts the workloads of all volumes but one.
    pub(crate) fn hurt_others(&self, moment: Moment, seen: &Seen, id: &str) {
        let others = seen.published.iter().filter(|(_, volume)| volume != id);
        others.for_each(|(_, other)| self.hurt(moment, seen, other));
    }

    /// Ends what the defect has frozen before the file system is unmounted at a path: one that is frozen then stays so for good.
    pub(crate) fn thaw(&self, path: &str) {
        if HARMS.iter().any(|(defect, _, harm)| self.has(*defect) && *harm == Harm::Freezes) {
            run("fsfreeze", &["--unfreeze", path]);
        }
    }

    fn harm(&self, moment: Moment) -> Option<Harm> {
        let row = HARMS.iter().find(|(defect, at, _)| self.has(*defect) && *at == moment);
        row.map(|(_, _, harm)| *harm)
    }

    pub(crate) fn begin_call(&self, kind: Kind, volume: &str) -> InProgress {
        let own = (kind, volume.to_owned());
        let mut calls = self.calls.in_progress.lock();
        let before = calls.clone();
        calls.push(own.clone());
        InProgress { calls: self.calls.clone(), own, before, begun: Instant::now() }
    }

    /// Takes some time, so that a caller can give the call up and other calls can come. If the call is cancelled before that, the workload of
    /// the volume is hurt by the defect of that moment.
    pub(crate) async fn take_time(&self, if_given_up: Moment, seen: &Seen, id: &str) {
        let harm = self.harm(if_given_up);
        if harm.is_none() && !self.is_about_several_calls() {
            return;
        }
        let holds = self.has(Defect::StoppedSnapshotHoldsWriter) && if_given_up == Moment::GivenUpSnapshot;
        let _frozen = seen.target_of(id).filter(|_| holds).and_then(FrozenDuringCall::begin);
        let mut unless = UnlessFinished(harm.zip(seen.target_of(id)));
        tokio::time::sleep(CALL_TIME).await;
        unless.0 = None;
    }

    fn is_about_several_calls(&self) -> bool {
        let about_copies = [
            Defect::OverlappingSnapshotsMixUp,
            Defect::OverlappingSnapshotLiftsBarrier,
            Defect::SnapshotBesideDeletionIsEmpty,
            Defect::CloneBesideSnapshotIsEmpty,
            Defect::GivenUpSnapshotIsTaken,
            Defect::FailedSnapshotIsTaken,
            Defect::StartTakesHalfSnapshot,
            Defect::StoppedSnapshotHoldsWriter,
            Defect::LateSnapshotIsEmpty,
            Defect::LateCloneStaysPending,
        ];
        let moments = [
            Moment::OverlappingSnapshot,
            Moment::SnapshotBesideExpansion,
            Moment::DeletionBesideClone,
            Moment::CloneBesideSnapshot,
            Moment::ExpansionBesideClone,
            Moment::StartAfterSnapshot,
            Moment::LateSnapshot,
        ];
        about_copies.iter().any(|defect| self.has(*defect))
            || moments.iter().any(|moment| self.harm(*moment).is_some())
    }

    /// Notes that the call for a clone has come.
    pub(crate) fn clone_is_pending(&self, name: &str) -> Pending {
        self.pending_with(Defect::LateCloneStaysPending, name, LATE)
    }

    /// Notes that a volume is being detached.
    pub(crate) fn detach_is_pending(&self, id: &str) -> Pending {
        self.pending_with(Defect::GivenUpDetachKeepsVolume, id, Duration::ZERO)
    }

    fn pending_with(&self, defect: Defect, name: &str, after: Duration) -> Pending {
        let name = self.has(defect).then(|| name.to_owned());
        Pending { calls: self.calls.clone(), name, begun: Instant::now(), after }
    }

    /// Returns true if the clone of this name stays pending, or the volume of this name stays attached to its node.
    pub(crate) fn is_stuck(&self, name: &str) -> bool {
        self.calls.stuck.lock().contains(name)
    }

    /// Takes some time for a detach, so that its caller can give up.
    pub(crate) async fn take_time_to_detach(&self) {
        if self.has(Defect::GivenUpDetachKeepsVolume) {
            tokio::time::sleep(CALL_TIME).await;
        }
    }

    /// Notes that a snapshot is begun. Returns true if the driver takes what an earlier call has left of it for the whole snapshot.
    ///
    /// # Errors
    /// The file system is full.
    pub(crate) fn begin_snapshot(&self, seen: &Seen, name: &str, volume: &str) -> Result<bool, Status> {
        if !self.is_about_several_calls() {
            return Ok(false);
        }
        let is_left = self.note_unfinished_with(name, seen.target_of(volume).unwrap_or_default());
        let is_left = is_left.ok_or_else(|| Status::resource_exhausted("the snapshot cannot be noted"))?;
        Ok(match self.defect {
            Defect::GivenUpSnapshotIsTaken | Defect::FailedSnapshotIsTaken => is_left,
            Defect::StartTakesHalfSnapshot => self.left_at_start.contains(name),
            _ => false,
        })
    }

    pub(crate) fn finish_snapshot(&self, name: &str) {
        if self.is_about_several_calls() {
            self.note_finished(name);
        }
    }

    /// Notes that something is not finished. Returns true if that was noted before; `None` if it cannot be noted.
    pub(crate) fn note_unfinished(&self, name: &str) -> Option<bool> {
        self.note_unfinished_with(name, String::new())
    }

    /// Notes something that is not finished, a snapshot with the target of its source.
    fn note_unfinished_with(&self, name: &str, target: String) -> Option<bool> {
        self.kept.change(UNFINISHED, |lines| {
            let is_left = remove_named(lines, name);
            lines.insert(format!("{name}{SEPARATOR}{target}"));
            is_left
        })
    }

    pub(crate) fn note_finished(&self, name: &str) {
        self.kept.change(UNFINISHED, |lines| remove_named(lines, name));
    }

    /// Hurts the source of a new snapshot, or makes the snapshot hold something else, as the defect does.
    pub(crate) async fn alter_snapshot(&self, call: &InProgress, seen: &mut Seen, id: &str, is_left: bool) {
        let volume = call.own.1.as_str();
        let is_again = seen.data.cuts.iter().any(|(other, _)| other == id);
        self.hurt(Moment::Snapshot, seen, volume);
        if is_again {
            self.hurt(Moment::RepeatedSnapshot, seen, volume);
        }
        if call.is_beside(Kind::Snapshot, None) {
            self.hurt(Moment::OverlappingSnapshot, seen, volume);
        }
        if call.is_beside(Kind::Expansion, Some(volume)) {
            self.hurt(Moment::SnapshotBesideExpansion, seen, volume);
        }
        let is_beside_deletion = call.is_beside(Kind::Deletion, None);
        if call.is_late() {
            self.hurt(Moment::LateSnapshot, seen, volume);
        }
        if is_left
            || self.has(Defect::SnapshotBesideDeletionIsEmpty) && is_beside_deletion
            || self.has(Defect::LateSnapshotIsEmpty) && call.is_late()
        {
            seen.data.hollow.insert(id.to_owned());
        }
        if self.has(Defect::RepeatedSnapshotCutsAnew) && is_again {
            self.take_hidden_snapshot(seen, volume).await;
            if let Some(later) = seen.data.staged_as.get(volume).cloned() {
                seen.data.instead.insert(id.to_owned(), later);
            }
        }
        if self.has(Defect::OverlappingSnapshotsMixUp)
            && let Some(other) = call.other_source()
            && let Some((snapshot, _)) = seen.data.cuts.iter().rfind(|(_, source)| *source == other).cloned()
        {
            seen.data.instead.insert(id.to_owned(), snapshot);
        }
        if self.has(Defect::OverlappingSnapshotLiftsBarrier)
            && call.began_beside_snapshot(volume)
            && let Some(target) = seen.target_of(volume)
        {
            // The copy is made while the workload writes.
            tokio::time::sleep(CALL_TIME).await;
            if let Ok(later) = Contents::of(Path::new(&target)) {
                seen.data.after_barrier.insert(id.to_owned(), later);
            }
        }
        if self.harm(Moment::DeletedSnapshot) == Some(Harm::Reverts)
            && let Some(target) = seen.target_of(volume)
            && let Ok(contents) = Contents::of(Path::new(&target))
        {
            seen.data.at_snapshot.insert(volume.to_owned(), contents);
        }
    }

    /// Takes the second member of a group snapshot again, after a moment in which its volume is written to.
    pub(crate) async fn take_second_later(&self, seen: &mut Seen, second: &Snapshot) {
        if self.has(Defect::GroupsOneByOne) && !seen.data.instead.contains_key(&second.snapshot_id) {
            tokio::time::sleep(CALL_TIME).await;
            self.take_hidden_snapshot(seen, &second.source_volume_id).await;
            if let Some(later) = seen.data.staged_as.get(&second.source_volume_id).cloned() {
                seen.data.instead.insert(second.snapshot_id.clone(), later);
            }
        }
    }

    /// Hurts a volume in use whose size another one gets.
    pub(crate) fn collide(&self, seen: &Seen, id: &str, bytes: i64) {
        let mut others = seen.data.grown.iter().filter(|(other, size)| *other != id && **size == bytes);
        if self.has(Defect::ExpansionsCollide)
            && let Some(target) = others.find_map(|(other, _)| seen.target_of(other))
        {
            change(&target, Contents::damaged);
        }
    }

    /// Empties the copies of a snapshot that were not used yet.
    pub(crate) fn forget_copies_of(&self, seen: &mut Seen, snapshot: &str) {
        let is_unused_copy = |id: &&String| {
            let origin = seen.data.origins.get(*id);
            origin.is_some_and(|origin| origin.snapshot.as_deref() == Some(snapshot))
        };
        let copies: Vec<String> = seen.data.unused.iter().filter(is_unused_copy).cloned().collect();
        if self.has(Defect::CopiesNeedSnapshot) {
            copies.iter().for_each(|copy| self.empty(seen, copy));
        }
    }

    /// Empties a copy that was not used yet.
    pub(crate) fn forget_fresh_copy(&self, seen: &mut Seen, id: &str) {
        let is_fresh = seen.data.unused.contains(id) && seen.data.origins.contains_key(id);
        if is_fresh && self.has(Defect::ExpansionEmptiesFreshCopy) {
            self.empty(seen, id);
        }
    }

    pub(crate) fn remember_target(&self, target: &str) {
        if self.has(Defect::UnmountsAtStart) || self.harm(Moment::Start).is_some() {
            self.kept.change(TARGETS, |targets| targets.insert(target.to_owned()));
        }
    }

    /// Hurts the workloads that a driver finds when it starts, and notes what was not finished.
    pub(crate) fn start(&mut self) {
        if self.has(Defect::UnmountsAtStart) {
            self.kept.take(TARGETS).iter().for_each(|target| detach_mount(target));
        }
        if let Some(harm) = self.harm(Moment::Start) {
            self.kept.take(TARGETS).iter().for_each(|target| do_harm(harm, target));
        }
        let unfinished = self.kept.lines(UNFINISHED);
        let unfinished = unfinished.iter().filter_map(|line| line.split_once(SEPARATOR));
        if let Some(harm) = self.harm(Moment::StartAfterSnapshot) {
            unfinished.clone().for_each(|(_, target)| do_harm(harm, target));
        }
        self.left_at_start = Arc::new(unfinished.map(|(name, _)| name.to_owned()).collect());
    }
}

/// Removes the line of something that is not finished. Returns true if there was one.
fn remove_named(lines: &mut BTreeSet<String>, name: &str) -> bool {
    let before = lines.len();
    lines.retain(|line| line.split_once(SEPARATOR).is_none_or(|(other, _)| other != name));
    lines.len() < before
}

fn do_harm(harm: Harm, target: &str) {
    match harm {
        Harm::Breaks => break_writes(target),
        Harm::Freezes => freeze(target.to_owned()),
        Harm::FreezesForGood if Path::new(target).is_dir() => run("fsfreeze", &["--freeze", target]),
        Harm::FreezesForGood => {}
        Harm::Damages => change(target, Contents::damaged),
        Harm::Empties | Harm::Reverts => change(target, Contents::emptied),
        // A target at which nothing is mounted cannot be hurt in this way.
        Harm::Unmounts => detach_mount(target),
    }
}

/// Ends a file system as a device does that goes away, or makes a device refuse writes. Nothing happens where nothing is mounted.
pub(crate) fn break_writes(target: &str) {
    if is_device(target) {
        refuse_writes(target, true);
    } else if Path::new(target).is_dir() {
        run("xfs_io", &["-x", "-c", "shutdown", target]);
    }
}

fn freeze(target: String) {
    if !Path::new(&target).is_dir() {
        return;
    }
    run("fsfreeze", &["--freeze", &target]);
    std::thread::spawn(move || {
        std::thread::sleep(FROZEN);
        run("fsfreeze", &["--unfreeze", &target]);
    });
}
