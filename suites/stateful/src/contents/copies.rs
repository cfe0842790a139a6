//! Copies, and what is done to their sources.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_model::generate::CopySize;
use csi_model::names::Name;
use csi_nemesis::disruption::{DISCONNECTED, GIVEN_UP};

use super::script::{Script, ScriptContext, s, v};
use super::undisturbed::spread;
use crate::how::CallMode;
use crate::sequence::PlannedStep;

/// Moments at which each kind of copy is given up.
const MOMENTS: u32 = 2;

pub(super) fn all(context: &ScriptContext<'_>) -> Vec<Vec<PlannedStep>> {
    let mut all = vec![asked_twice(context), under_a_taken_name(context)];
    if context.has(Capability::CreateDeleteGetVolumeGroupSnapshot) {
        all.push(members(context.script()));
    }
    if context.has(Capability::CreateDeleteSnapshot) && context.has(Capability::CloneVolume) {
        all.push(chain(context.script()));
    }
    if context.has(Capability::CreateDeleteSnapshot) {
        all.extend([
            written_after_snapshot(context.script()),
            two_snapshots(context.script()),
            grown_source(context.script(), context.profile.larger_bytes),
            restored_twice(context.script()),
            name_again(context.script()),
        ]);
        let moments = spread(context.undisturbed.restore, MOMENTS);
        all.extend(moments.into_iter().map(|after| given_up_restore(context.script(), after)));
    }
    if context.has(Capability::CloneVolume) {
        all.push(source_of_a_clone(context.script()));
        let moments = spread(context.undisturbed.clone, MOMENTS);
        all.extend(moments.into_iter().map(|after| given_up_clone(context.script(), after)));
    }
    all.into_iter().map(Script::done).collect()
}

/// Each kind of copy is requested twice, because the caller has not heard the first answer, and the driver makes one
/// copy.
fn asked_twice<'a>(context: &'a ScriptContext<'a>) -> Script<'a> {
    let mut script = context.script().written(v(0)).unused(v(0));
    if context.has(Capability::CreateDeleteSnapshot) {
        script = script
            .snapshot(s(0), v(0))
            .snapshot(s(0), v(0))
            .copy(v(1), s(0))
            .copy(v(1), s(0))
            .looked_at(v(1));
    }
    if context.has(Capability::CloneVolume) {
        script = script.copy(v(2), v(0)).copy(v(2), v(0)).looked_at(v(2));
    }
    script
}

/// A copy is requested by the name of a volume in use, which is not a copy. The driver has to reject it, and the volume
/// keeps its data. The source has more of it, so that something appears where the volume was empty: a driver that copies
/// only files that seem to differ takes two files of equal size, written in the same second, for equal.
fn under_a_taken_name<'a>(context: &'a ScriptContext<'a>) -> Script<'a> {
    let source = context.script().written(v(0)).unused(v(0));
    let mut script = source.volume(v(1)).used(v(1)).writes_first(v(1)).reads(v(1));
    if context.has(Capability::CloneVolume) {
        script = script.copy(v(1), v(0)).reads(v(1));
    }
    if context.has(Capability::CreateDeleteSnapshot) {
        script = script.snapshot(s(0), v(0)).copy(v(1), s(0)).reads(v(1));
    }
    script.unused(v(1)).looked_at(v(1)).looked_at(v(0))
}

/// The source is in use, and is written to as soon as CreateSnapshot has answered; later it is deleted, and then the snapshot.
fn written_after_snapshot(script: Script<'_>) -> Script<'_> {
    let restored =
        script.written(v(0)).snapshot(s(0), v(0)).writes(v(0)).copy(v(1), s(0)).used(v(1)).reads(v(1));
    let apart = restored.writes(v(1)).reads(v(0)).writes(v(0)).reads(v(1)).unused(v(0)).unused(v(1));
    let deleted = apart.deleted(v(0)).copy(v(2), s(0)).looked_at(v(2)).looked_at(v(1));
    deleted.snapshot_deleted(s(0)).looked_at(v(2)).looked_at(v(1))
}

/// Two snapshots of one volume, of which the older one is deleted.
fn two_snapshots(script: Script<'_>) -> Script<'_> {
    let older = script.written(v(0)).snapshot(s(0), v(0)).writes(v(0));
    let both = older.snapshot(s(1), v(0)).writes(v(0)).unused(v(0)).copy(v(1), s(1)).copy(v(2), s(0));
    let read = both.looked_at(v(1)).looked_at(v(2)).snapshot_deleted(s(0)).copy(v(3), s(1));
    read.looked_at(v(3)).looked_at(v(2)).looked_at(v(0))
}

/// Restored at the size that the snapshot has, after its source has grown, and larger.
fn grown_source(script: Script<'_>, larger_bytes: i64) -> Script<'_> {
    let cut = script.written(v(0)).unused(v(0)).snapshot(s(0), v(0));
    let grown = cut.expanded(v(0), larger_bytes).used(v(0)).reads(v(0)).writes(v(0)).unused(v(0));
    let own_size = grown.copy_with(v(1), s(0), CopySize::Exactly, CallMode::Once).looked_at(v(1));
    let larger =
        own_size.copy_with(v(2), s(0), CopySize::Larger, CallMode::Once).looked_at(v(2)).looked_at(v(0));
    larger.copy(v(3), s(0)).looked_at(v(3))
}

/// Two volumes from one snapshot, used beside each other.
fn restored_twice(script: Script<'_>) -> Script<'_> {
    let cut = script.written(v(0)).unused(v(0)).snapshot(s(0), v(0)).copy(v(1), s(0)).used(v(1)).writes(v(1));
    let second = cut.copy(v(2), s(0)).used(v(2)).reads(v(2)).writes(v(2)).reads(v(1));
    second
        .unused(v(1))
        .deleted(v(1))
        .reads(v(2))
        .unused(v(2))
        .looked_at(v(2))
        .copy(v(3), s(0))
        .looked_at(v(3))
        .looked_at(v(0))
}

/// The name of a deleted snapshot, used for another moment.
fn name_again(script: Script<'_>) -> Script<'_> {
    let first =
        script.written(v(0)).snapshot(s(0), v(0)).copy(v(1), s(0)).snapshot_deleted(s(0)).writes(v(0));
    let again = first.snapshot(s(0), v(0)).unused(v(0)).copy(v(2), Name::snapshot(0).id(1));
    again.copy(v(3), s(0)).looked_at(v(2)).looked_at(v(3)).looked_at(v(1))
}

fn given_up_restore(script: Script<'_>, after: Duration) -> Script<'_> {
    let cut = script.written(v(0)).unused(v(0)).snapshot(s(0), v(0));
    cut.copy_twice(v(1), s(0), GIVEN_UP.after(after)).looked_at(v(1)).looked_at(v(0))
}

fn given_up_clone(script: Script<'_>, after: Duration) -> Script<'_> {
    let source = script.written(v(0)).unused(v(0));
    source.copy_twice(v(1), v(0), DISCONNECTED.after(after)).looked_at(v(1)).looked_at(v(0))
}

/// The source is used, written and deleted after it was cloned, and the clone as well.
fn source_of_a_clone(script: Script<'_>) -> Script<'_> {
    let cloned =
        script.written(v(0)).unused(v(0)).copy(v(1), v(0)).used(v(0)).writes(v(0)).used(v(1)).reads(v(1));
    let apart = cloned.writes(v(1)).reads(v(0)).unused(v(0)).unused(v(1)).looked_at(v(0)).copy(v(2), v(0));
    let deleted = apart.deleted(v(0)).looked_at(v(1)).looked_at(v(2));
    deleted.deleted(v(1)).looked_at(v(2))
}

/// Snapshots of clones of snapshots, each with something of its own, of which the first ones go.
fn chain(script: Script<'_>) -> Script<'_> {
    let first = script.written(v(0)).unused(v(0)).snapshot(s(0), v(0)).copy(v(1), s(0));
    let second = first.used(v(1)).reads(v(1)).writes(v(1)).unused(v(1)).copy(v(2), v(1)).looked_at(v(2));
    let third =
        second.used(v(2)).writes(v(2)).unused(v(2)).snapshot(s(1), v(2)).copy(v(3), s(1)).looked_at(v(3));
    let gone = third.deleted(v(0)).snapshot_deleted(s(0)).deleted(v(1)).looked_at(v(2)).looked_at(v(3));
    gone.deleted(v(2)).copy(v(4), s(1)).looked_at(v(4))
}

/// Two volumes in one group snapshot, each restored.
fn members(script: Script<'_>) -> Script<'_> {
    let group = Name::group(0).id(0);
    let member = |nth| group.name.members().id(nth);
    let cut = script.written(v(0)).written(v(1)).group(group, &[v(0), v(1)]).writes(v(0)).writes(v(1));
    let restored = cut.unused(v(0)).unused(v(1)).copy(v(2), member(0)).copy(v(3), member(1));
    restored
        .used(v(2))
        .used(v(3))
        .reads(v(2))
        .reads(v(3))
        .unused(v(2))
        .unused(v(3))
        .looked_at(v(0))
        .looked_at(v(1))
}
