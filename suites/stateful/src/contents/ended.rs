//! The driver is killed while volumes are in use and copies are made.

use std::num::NonZeroU32;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_model::call::{SnapshotCall, VolumeCall};
use csi_nemesis::disruption::KILLED;

use super::script::{NODE, Script, ScriptContext, TARGET, s, v};
use super::undisturbed::spread;
use crate::how::CallMode;
use crate::sequence::PlannedStep;

/// Moments at which the driver is killed in the middle of each kind of copy.
const MOMENTS: u32 = 3;
/// Points at which it is killed instead where the changes that it makes can be seen, so that every run finds what the last one has found.
const POINTS: usize = 4;

pub(super) fn all(context: &ScriptContext<'_>) -> Vec<Vec<PlannedStep>> {
    let mut all = vec![in_use(context), given_back(context)];
    let (took, changes) = (&context.undisturbed, context.changes);
    let mut kinds: Vec<Vec<Script<'_>>> = Vec::new();
    if context.has(Capability::CreateDeleteSnapshot) {
        let kills = points(took.restore, &changes.restore).into_iter();
        kinds.push(kills.map(|kill| restored(context, kill)).collect());
        let kills = points(took.snapshot, &changes.snapshot).into_iter();
        kinds.push(kills.map(|kill| cut(context, kill)).collect());
    }
    if context.has(Capability::CloneVolume) {
        let kills = points(took.clone, &changes.clone).into_iter();
        kinds.push(kills.map(|kill| cloned(context, kill)).collect());
    }
    // One of each kind in turn: a machine so slow that the time is over before the end has met each kind all the same.
    let most = kinds.iter().map(Vec::len).max().unwrap_or_default();
    all.extend((0..most).flat_map(|nth| kinds.iter().filter_map(move |kind| kind.get(nth).cloned())));
    all.into_iter().map(Script::done).collect()
}

/// The points at which the driver is killed during a copy of this duration with these changes. They are spread over the
/// changes from the first to the last one, which often is the driver's record of a complete copy. The first change comes last: before it
/// there is nothing yet.
fn points(took: Duration, changes: &[NonZeroU32]) -> Vec<CallMode> {
    let Some(last) = changes.len().checked_sub(1) else {
        return spread(took, MOMENTS).into_iter().map(|after| KILLED.after(after).into()).collect();
    };
    let mut points: Vec<NonZeroU32> = (0..POINTS).map(|point| changes[last * point / (POINTS - 1)]).collect();
    points.dedup();
    points.rotate_left(1);
    points.into_iter().map(CallMode::KilledAtChange).collect()
}

/// The driver is killed while it has nothing to do, and a workload has just read.
fn killed(script: Script<'_>) -> Script<'_> {
    let read = VolumeCall::Read { volume: v(0), node: NODE, target: TARGET };
    script.how(read, KILLED.after(Duration::from_secs(1)))
}

/// A mount survives the end of the driver, and is unchanged after all calls are repeated.
fn in_use<'a>(context: &'a ScriptContext<'a>) -> Script<'a> {
    let back = killed(context.script().written(v(0)).written(v(1))).reads(v(0)).reads(v(1));
    let again = back.staged(v(0)).published(v(0), TARGET).staged(v(1)).published(v(1), TARGET);
    let read = again.reads(v(0)).reads(v(1)).writes(v(0)).reads(v(1)).unused(v(0)).unused(v(1));
    read.looked_at(v(1)).looked_at(v(0))
}

/// Volumes are given back to the driver that comes after the one that has mounted them.
fn given_back<'a>(context: &'a ScriptContext<'a>) -> Script<'a> {
    let back = killed(context.script().written(v(0)).written(v(1))).unused(v(0)).reads(v(1));
    let third = back.volume(v(2)).used(v(2)).writes(v(2)).reads(v(1)).looked_at(v(0)).reads(v(2));
    third.unused(v(2)).unused(v(1)).looked_at(v(1))
}

fn restored<'a>(context: &'a ScriptContext<'a>, kill: CallMode) -> Script<'a> {
    let cut = context.script().written(v(0)).unused(v(0)).snapshot(s(0), v(0));
    cut.copy_twice(v(1), s(0), kill).looked_at(v(1)).looked_at(v(0))
}

fn cloned<'a>(context: &'a ScriptContext<'a>, kill: CallMode) -> Script<'a> {
    let source = context.script().written(v(0)).unused(v(0));
    source.copy_twice(v(1), v(0), kill).looked_at(v(1)).looked_at(v(0))
}

/// A snapshot that was being taken is asked for again after its source was written.
fn cut<'a>(context: &'a ScriptContext<'a>, kill: CallMode) -> Script<'a> {
    let snapshot = SnapshotCall::CreateSnapshot { name: s(0).name, volume: v(0) };
    let taken = context.script().written(v(0)).unused(v(0)).how(snapshot.clone(), kill);
    let again = taken.how(snapshot, CallMode::Retried).used(v(0)).writes(v(0)).unused(v(0));
    again.copy(v(1), s(0)).looked_at(v(1)).looked_at(v(0))
}
