//! Volumes on a node: beside each other, staged and published again, and of sizes that drivers round.

use csi_harness::prelude::*;
use csi_model::call::{Size, Usage, VolumeCall};
use csi_model::names::Target;

use super::script::{SECOND, Script, ScriptContext, TARGET, s, v};
use crate::lifecycle::VolumeLifecycle;
use crate::sequence::PlannedStep;

pub(super) fn two_volumes(context: &ScriptContext<'_>) -> Vec<Vec<PlannedStep>> {
    let mut all = vec![
        in_turn(context.script()),
        the_other_way_round(context.script()),
        first_one_gone(context.script()),
    ];
    if context.has(Capability::CreateDeleteSnapshot) {
        all.push(each_with_a_copy(context.script()));
    }
    if context.has(Capability::ExpandVolume) {
        all.push(one_grows(context.script(), context.profile.larger_bytes));
    }
    all.into_iter().map(Script::done).collect()
}

fn both_read(script: Script<'_>) -> Script<'_> {
    script.reads(v(0)).reads(v(1))
}

/// Each is written, given back and used again while the other one is in use.
fn in_turn(script: Script<'_>) -> Script<'_> {
    let both = both_read(script.written(v(0)).written(v(1)));
    let first = both_read(both.unused(v(0)).used(v(0)));
    let second = both_read(first.unused(v(1)).used(v(1)).writes(v(1)));
    both_read(second.unpublished(v(0), TARGET).reads(v(1)).published(v(0), TARGET))
}

/// Both are given back, and come again in another order.
fn the_other_way_round(script: Script<'_>) -> Script<'_> {
    let both = script.volume(v(0)).volume(v(1)).attached(v(0)).attached(v(1)).staged(v(1)).staged(v(0));
    let written = both.published(v(0), TARGET).published(v(1), TARGET).writes(v(1)).writes(v(0));
    let back = both_read(written).unused(v(0)).unused(v(1)).attached(v(1)).attached(v(0));
    let staged = back.staged(v(1)).staged(v(0)).published(v(1), TARGET).published(v(0), TARGET);
    both_read(staged).writes(v(0)).reads(v(1))
}

/// A third volume takes the place of the first one.
fn first_one_gone(script: Script<'_>) -> Script<'_> {
    let both = script.written(v(0)).written(v(1)).unused(v(0)).deleted(v(0)).reads(v(1));
    let third = both.volume(v(2)).used(v(2)).reads(v(2)).writes(v(2)).reads(v(1)).reads(v(2));
    third.unused(v(1)).unused(v(2)).looked_at(v(2)).looked_at(v(1))
}

/// Copies of both while both are in use, and all four beside each other.
fn each_with_a_copy(script: Script<'_>) -> Script<'_> {
    let cut = script.written(v(0)).written(v(1)).snapshot(s(0), v(0)).snapshot(s(1), v(1));
    let copies = cut.copy(v(2), s(1)).copy(v(3), s(0)).used(v(2)).used(v(3)).reads(v(2)).reads(v(3));
    let written = both_read(copies.writes(v(2)).writes(v(3)));
    both_read(written.unused(v(2)).unused(v(3)).looked_at(v(3)).looked_at(v(2)))
}

fn one_grows(script: Script<'_>, larger_bytes: i64) -> Script<'_> {
    let grown = script.written(v(0)).written(v(1)).unused(v(0)).expanded(v(0), larger_bytes).reads(v(1));
    let online = both_read(grown.used(v(0)).writes(v(1))).expanded(v(1), larger_bytes);
    both_read(both_read(online).unused(v(1)).used(v(1)))
}

pub(super) fn used_again(context: &ScriptContext<'_>) -> Vec<Vec<PlannedStep>> {
    let mut all = vec![
        older_versions(context.script()),
        asked_again(context.script()),
        at_other_paths(context.script()),
        target_taken_away(context.script()),
    ];
    if context.has(Capability::StageUnstageVolume) {
        all.push(staging_taken_away(context.script()));
    }
    if context.has(Capability::NodeSingleNodeMultiWriter) {
        all.push(several_targets(context));
    }
    all.into_iter().map(Script::done).collect()
}

/// Written each time that it is used, so that it is seen what comes back.
fn older_versions(script: Script<'_>) -> Script<'_> {
    let first =
        script.written(v(0)).unpublished(v(0), TARGET).published(v(0), TARGET).reads(v(0)).writes(v(0));
    let second = first.unused(v(0)).used(v(0)).reads(v(0)).writes(v(0));
    let third =
        second.unpublished(v(0), TARGET).unstaged(v(0)).staged(v(0)).published(v(0), TARGET).reads(v(0));
    third.writes(v(0)).unused(v(0)).looked_at(v(0))
}

/// Every call is made again where it has been done already.
fn asked_again(script: Script<'_>) -> Script<'_> {
    let again =
        script.written(v(0)).attached(v(0)).staged(v(0)).reads(v(0)).published(v(0), TARGET).reads(v(0));
    let made = again.volume(v(0)).reads(v(0)).writes(v(0)).unused(v(0)).unused(v(0)).volume(v(0));
    made.used(v(0)).staged(v(0)).reads(v(0))
}

/// Publishes at one path after the other, some of which exist before.
fn at_other_paths(script: Script<'_>) -> Script<'_> {
    let there = Target::WITH_A_DIRECTORY;
    let moved = script.written(v(0)).unpublished(v(0), TARGET).published(v(0), there).reads_at(v(0), there);
    let back =
        moved.writes_at(v(0), there).unpublished(v(0), there).published(v(0), SECOND).reads_at(v(0), SECOND);
    let second = back.volume(v(1)).attached(v(1)).staged(v(1)).published(v(1), there).writes_at(v(1), there);
    second
        .reads_at(v(0), SECOND)
        .reads_at(v(1), there)
        .unpublished(v(0), SECOND)
        .published(v(0), TARGET)
        .reads(v(0))
}

/// Removes the mount behind the driver's back. After it was given back and used again, the target shows the volume.
fn target_taken_away(script: Script<'_>) -> Script<'_> {
    let taken = script.written(v(0)).written(v(1)).unmounted(v(0), Some(TARGET)).reads(v(1));
    let again = taken.unpublished(v(0), TARGET).published(v(0), TARGET).reads(v(0)).writes(v(0)).reads(v(1));
    again.unmounted(v(0), Some(TARGET)).unused(v(0)).used(v(0)).reads(v(0)).unused(v(0)).looked_at(v(0))
}

/// Removes the staging mounts, as a reboot does.
fn staging_taken_away(script: Script<'_>) -> Script<'_> {
    let back = script.written(v(0)).written(v(1)).unpublished(v(0), TARGET).unmounted(v(0), None).reads(v(1));
    let again = back.unstaged(v(0)).staged(v(0)).published(v(0), TARGET).reads(v(0)).writes(v(0)).reads(v(1));
    let both = again.unmounted(v(0), Some(TARGET)).unmounted(v(0), None).unused(v(0)).used(v(0)).reads(v(0));
    both.unused(v(0)).unused(v(1)).looked_at(v(1)).looked_at(v(0))
}

/// Two workloads of a node, of which one goes and comes again.
fn several_targets<'a>(context: &'a ScriptContext<'a>) -> Script<'a> {
    let usage = Usage { mode: Mode::SingleNodeMultiWriter, ..context.usage };
    let (volume, node, readonly) = (v(0), super::script::NODE, false);
    let at = |target| VolumeCall::NodePublishVolume { volume, node, target, usage, readonly };
    let setup = VolumeLifecycle::new(context.profile, usage, volume).setup();
    let first = setup.into_iter().fold(context.script(), Script::call);
    let both = first.call(at(SECOND)).writes(volume).reads_at(volume, SECOND);
    let one = both.unpublished(volume, TARGET).reads_at(volume, SECOND).writes_at(volume, SECOND);
    let again = one.call(at(TARGET)).reads(volume).unpublished(volume, SECOND).reads(volume).writes(volume);
    again.call(at(SECOND)).reads_at(volume, SECOND)
}

/// Sizes that drivers round, and what is there of them.
pub(super) fn sizes(context: &ScriptContext<'_>) -> Vec<Vec<PlannedStep>> {
    let (bytes, larger) = (context.profile.size_bytes, context.profile.larger_bytes);
    let uneven = bytes.saturating_add(1);
    let exactly = |bytes| Size { required_bytes: bytes, limit_bytes: bytes };
    let mut sizes = vec![
        Size::at_least(uneven),
        exactly(bytes),
        exactly(uneven),
        Size { required_bytes: uneven, limit_bytes: larger },
        Size { required_bytes: 0, limit_bytes: larger },
    ];
    if context.usage.access == AccessType::Block {
        // A file system needs some room of its own, and how much only the driver knows.
        sizes.push(Size::at_least(1));
    }
    sizes.into_iter().map(|size| of_size(context, size, larger).done()).collect()
}

/// Made, filled to the end, grown by a number that is a multiple of nothing, and filled again.
fn of_size<'a>(context: &'a ScriptContext<'a>, size: Size, larger: i64) -> Script<'a> {
    let made =
        context.script().volume_of(v(0), size).used(v(0)).reads(v(0)).writes(v(0)).reads(v(0)).unused(v(0));
    let grown = made.looked_at(v(0)).expanded(v(0), larger.saturating_add(1));
    grown.used(v(0)).reads(v(0)).writes(v(0)).unused(v(0)).looked_at(v(0))
}
