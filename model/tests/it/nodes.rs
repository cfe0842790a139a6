//! The model knows the rules and freedoms of the Node service, and of the contents that workloads find in volumes.

use csi_harness::config::AccessType;
use csi_harness::prelude::Mode;
use csi_harness::protocol::capability::Capability;
use csi_model::answer::{Answer, Found, VolumeFacts, VolumeResponse};
use csi_model::call::{CreateSpec, Size, Usage, VolumeCall};
use csi_model::names::{Id, Slot, Stamp};
use csi_model::state_set::Impossible;
use tonic::Code;

use csi_test_support::histories::story::*;

fn attached() -> Story {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), ok());
    story
}

fn staged() -> Story {
    let mut story = attached();
    story.done([stage(v(1), N1)]);
    story
}

fn published() -> Story {
    let mut story = staged();
    story.done([publish(v(1), N1, T1)]);
    story
}

fn readonly(readonly: bool, usage: Usage) -> VolumeCall {
    VolumeCall::NodePublishVolume { volume: v(1), node: N1, target: T1, usage, readonly }
}

fn write(slot: u8, stamp: u32) -> VolumeCall {
    VolumeCall::Write { volume: v(1), node: N1, target: T1, slot: Slot(slot), stamp: Stamp(stamp) }
}

fn read(volume: Id) -> VolumeCall {
    VolumeCall::Read { volume, node: N1, target: T1 }
}

fn found(stamps: &[(u8, u32)]) -> Answer<csi_model::answer::Response> {
    let found = stamps.iter().map(|(slot, stamp)| (Slot(*slot), Found::Stamp(Stamp(*stamp))));
    said(VolumeResponse::Read(found.collect(), None))
}

#[test]
fn staging_is_repeatable() {
    attached().judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "NODE-STAGE-001")]);
    let story = staged();
    story.judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::AlreadyExists), "NODE-STAGE-006")]);
    let other = |usage| VolumeCall::NodeStageVolume { volume: v(1), node: N1, usage };
    story.judges(
        other(Usage { access: AccessType::Block, ..WRITER }),
        [
            (no(Code::AlreadyExists), "fits"),
            (no(Code::FailedPrecondition), "fits"),
            (no(Code::InvalidArgument), "fits"),
            (ok(), "odd NODE-STAGE-022"),
            (no(Code::Internal), "NODE-STAGE-022"),
        ],
    );
    // The specification does not say what to answer for a capability that is neither equal nor incompatible.
    story.judges(
        other(MANY),
        [(ok(), "fits"), (no(Code::AlreadyExists), "fits"), (no(Code::Internal), "fits")],
    );
}

#[test]
fn steps_that_were_left_out_are_the_callers_fault() {
    let story = Story::of_a_volume();
    story.judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    attached().judges(publish(v(1), N1, T1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    published().judges(unstage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    // A driver that neither attaches nor stages cannot miss these steps.
    let mut bare = Story::without(&[Capability::PublishUnpublishVolume, Capability::StageUnstageVolume]);
    bare.right(create(v(1), wanted()), made(facts(v(1))));
    bare.judges(publish(v(1), N1, T1), [(ok(), "fits"), (no(Code::Internal), "NODE-PUBLISH-001")]);
}

#[test]
fn unstaging_is_always_possible() {
    staged().judges(unstage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "NODE-UNSTAGE-001")]);
    attached().judges(unstage(v(1), N1), [(ok(), "fits"), (no(Code::NotFound), "NODE-UNSTAGE-006")]);
    gone().judges(
        unstage(v(1), N1),
        [(ok(), "fits"), (no(Code::NotFound), "fits"), (no(Code::Internal), "NODE-UNSTAGE-017")],
    );
}

fn gone() -> Story {
    let mut story = Story::of_a_volume();
    story.done([delete(v(1))]);
    story.wait();
    story
}

#[test]
fn a_node_plugin_may_not_know_that_a_volume_is_gone() {
    let story = gone();
    for (call, rule) in [
        (stage(v(1), N1), "odd NODE-STAGE-021"),
        (publish(v(1), N1, T1), "odd NODE-PUBLISH-039"),
        (
            VolumeCall::NodeExpandVolume { volume: v(1), node: N1, target: T1, size: Size::at_least(1) },
            "odd NODE-EXPAND-021",
        ),
        (VolumeCall::NodeGetVolumeStats { volume: v(1), node: N1, target: T1 }, "odd NODE-STATS-017"),
    ] {
        story.judges(call, [(no(Code::NotFound), "fits"), (no(Code::Internal), "fits"), (ok(), rule)]);
    }
}

#[test]
fn publishing_is_repeatable_and_keeps_readonly() {
    staged().judges(publish(v(1), N1, T1), [(ok(), "fits"), (no(Code::Internal), "NODE-PUBLISH-001")]);
    let story = published();
    story.judges(publish(v(1), N1, T1), [(ok(), "fits"), (no(Code::AlreadyExists), "NODE-PUBLISH-004")]);
    story.judges(
        readonly(true, WRITER),
        [
            (no(Code::AlreadyExists), "fits"),
            (ok(), "odd NODE-PUBLISH-040"),
            (no(Code::Internal), "NODE-PUBLISH-040"),
        ],
    );
    // Two sentences of the specification contradict each other about another capability.
    let other = readonly(false, MANY);
    story.judges(
        other,
        [(no(Code::FailedPrecondition), "fits"), (no(Code::AlreadyExists), "fits"), (ok(), "fits")],
    );
}

#[test]
fn what_is_published_readonly_cannot_be_written_to() {
    let mut story = staged();
    story.done([readonly(true, WRITER)]);
    story.judges(
        write(0, 1),
        [(no(Code::PermissionDenied), "fits"), (no(Code::Internal), "fits"), (ok(), "NODE-PUBLISH-034")],
    );
    published().judges(write(0, 1), [(ok(), "fits"), (no(Code::PermissionDenied), "NODE-PUBLISH-027")]);
    // The specification does not say whether a volume that is attached for reading only can be staged for writing.
    let mut story = Story::of_a_volume();
    story.right(
        VolumeCall::ControllerPublishVolume { volume: v(1), node: N1, usage: WRITER, readonly: true },
        ok(),
    );
    story.judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
}

/// The driver should have rejected the second call, which is the only fault. Afterwards either value of readonly may hold.
#[test]
fn after_both_values_of_readonly_writes_may_fail_or_not() {
    for [first, second] in [[false, true], [true, false]] {
        let mut story = staged();
        story.done([readonly(first, WRITER)]);
        assert_eq!(story.take(readonly(second, WRITER), ok()).remarks.len(), 1);
        story.judges(write(0, 1), [(ok(), "fits"), (no(Code::PermissionDenied), "fits")]);
        story.judges(readonly(first, WRITER), [(ok(), "fits"), (no(Code::AlreadyExists), "fits")]);
        story.done([VolumeCall::NodeUnpublishVolume { volume: v(1), node: N1, target: T1 }]);
        story.done([readonly(true, WRITER)]);
        story.judges(write(0, 1), [(ok(), "NODE-PUBLISH-034")]);
    }
}

/// An orchestrator stages a volume before it publishes it, so that no workload ever reads from this path.
#[test]
fn a_path_of_a_volume_that_is_not_staged_may_be_empty() {
    let mut story = published();
    story.done([
        write(0, 1),
        VolumeCall::NodeUnpublishVolume { volume: v(1), node: N1, target: T1 },
        VolumeCall::NodeUnstageVolume { volume: v(1), node: N1 },
    ]);
    story.done([publish(v(1), N1, T1)]);
    story.judges(read(v(1)), [(found(&[(0, 1)]), "fits"), (found(&[]), "fits")]);
    story.done([stage(v(1), N1)]);
    story.judges(read(v(1)), [(found(&[(0, 1)]), "fits"), (found(&[]), "NODE-PUBLISH-027")]);
}

/// A copy may be as large as its snapshot, and all of its space may be in use.
#[test]
fn a_small_file_system_may_be_full() {
    let of_size = |bytes, usage: Usage| {
        let mut story = Story::new();
        let answer = VolumeFacts { capacity_bytes: bytes, ..facts(v(1)) };
        story.right(create(v(1), CreateSpec::of(Size::at_least(bytes), usage)), made(answer));
        story.right(
            VolumeCall::ControllerPublishVolume { volume: v(1), node: N1, usage, readonly: false },
            ok(),
        );
        story.done([VolumeCall::NodeStageVolume { volume: v(1), node: N1, usage }, readonly(false, usage)]);
        story
    };
    let device = Usage { access: AccessType::Block, ..WRITER };
    let full = || no(Code::Unknown);
    of_size(32 << 10, WRITER)
        .judges(write(0, 1), [(full(), "fits"), (no(Code::FailedPrecondition), "NODE-PUBLISH-027")]);
    of_size(GIB, WRITER).judges(write(0, 1), [(full(), "NODE-PUBLISH-027")]);
    of_size(32 << 10, device).judges(write(0, 1), [(full(), "NODE-PUBLISH-026")]);
}

#[test]
fn other_nodes_may_see_late_what_is_written() {
    let mut story = Story::new();
    story.right(create(v(1), CreateSpec { usage: MANY, ..wanted() }), made(facts(v(1))));
    for node in [N1, N2] {
        let attach = VolumeCall::ControllerPublishVolume { volume: v(1), node, usage: MANY, readonly: false };
        story.right(attach, ok());
        story.done([
            VolumeCall::NodeStageVolume { volume: v(1), node, usage: MANY },
            VolumeCall::NodePublishVolume { volume: v(1), node, target: T1, usage: MANY, readonly: false },
        ]);
    }
    story.done([write(0, 1)]);
    story.judges(read(v(1)), [(found(&[]), "fits")]);
    story.done([unpublish(v(1), N2, T1), unstage(v(1), N2), write(0, 2)]);
    story.judges(read(v(1)), [(found(&[(0, 2)]), "fits"), (found(&[]), "NODE-PUBLISH-027")]);
}

#[test]
fn readers_do_not_care_for_readonly() {
    let readers = Usage { mode: Mode::MultiNodeReaderOnly, ..WRITER };
    let mut story = Story::without(&[Capability::PublishUnpublishVolume, Capability::StageUnstageVolume]);
    story.right(create(v(1), CreateSpec { usage: readers, ..wanted() }), made(facts(v(1))));
    story.done([readonly(false, readers)]);
    story.judges(readonly(true, readers), [(ok(), "fits")]);
}

#[test]
fn the_access_mode_decides_on_a_second_path() {
    published().judges(
        publish(v(1), N1, T2),
        [(no(Code::FailedPrecondition), "fits"), (ok(), "odd NODE-PUBLISH-013")],
    );
    let mut story = Story::without(&[Capability::PublishUnpublishVolume, Capability::StageUnstageVolume]);
    story.right(create(v(1), CreateSpec { usage: MANY, ..wanted() }), made(facts(v(1))));
    let at = |target| VolumeCall::NodePublishVolume {
        volume: v(1),
        node: N1,
        target,
        usage: MANY,
        readonly: false,
    };
    story.done([at(T1)]);
    story.judges(at(T2), [(ok(), "fits"), (no(Code::FailedPrecondition), "odd NODE-PUBLISH-007")]);
}

#[test]
fn a_second_path_may_have_another_mode() {
    let mut story = Story::without(&[Capability::PublishUnpublishVolume, Capability::StageUnstageVolume]);
    story.right(create(v(1), CreateSpec { usage: MANY, ..wanted() }), made(facts(v(1))));
    let at = |target, usage| VolumeCall::NodePublishVolume {
        volume: v(1),
        node: N1,
        target,
        usage,
        readonly: false,
    };
    story.done([at(T1, WRITER)]);
    story.judges(at(T2, MANY), [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
}

#[test]
fn unpublishing_is_always_possible() {
    published().judges(unpublish(v(1), N1, T1), [(ok(), "fits"), (no(Code::Internal), "NODE-UNPUBLISH-001")]);
    published().judges(unpublish(v(1), N1, T2), [(ok(), "fits"), (no(Code::NotFound), "NODE-UNPUBLISH-006")]);
    gone().judges(
        unpublish(v(1), N1, T1),
        [(ok(), "fits"), (no(Code::NotFound), "fits"), (no(Code::Internal), "NODE-UNPUBLISH-016")],
    );
}

#[test]
fn what_was_written_stays_in_the_volume() {
    let mut story = published();
    story.done([write(0, 1), write(1, 2)]);
    let both = found(&[(0, 1), (1, 2)]);
    story.right(read(v(1)), both.clone());
    story.judges(
        read(v(1)),
        [
            (found(&[(0, 1)]), "NODE-PUBLISH-027"),
            (found(&[(0, 1), (1, 1)]), "NODE-PUBLISH-027"),
            (found(&[]), "NODE-PUBLISH-027"),
        ],
    );
    // The contents survive all steps of moving and expanding a volume.
    story.done([unpublish(v(1), N1, T1), unstage(v(1), N1), detach(v(1), N1)]);
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    story.right(attach(v(1), N2), ok());
    story.done([stage(v(1), N2), publish(v(1), N2, T1)]);
    let elsewhere = VolumeCall::Read { volume: v(1), node: N2, target: T1 };
    story.judges(elsewhere, [(both, "fits"), (found(&[]), "NODE-PUBLISH-027")]);
}

#[test]
fn different_reads_have_different_messages() {
    let mut story = published();
    story.done([write(0, 1), write(0, 2)]);
    let read_of = |found| said(VolumeResponse::Read([(Slot(0), found)].into(), None));
    let message = |found| match story.clone().take(read(v(1)), read_of(found)).stop {
        Some(Impossible::Wrong(breach)) => breach.message,
        other => format!("{other:?}"),
    };
    for (found, expected) in [
        (Found::Of(v(2), Stamp(2)), "None"),
        (Found::Of(v(2), Stamp(9)), "a volume holds data of another volume"),
        (Found::Of(v(1), Stamp(1)), "a volume holds what was written before"),
        (Found::Of(v(1), Stamp(3)), "a volume holds what was written later"),
        (Found::Empty, "a volume is empty where something was written"),
        (Found::Holes, "a volume holds parts of what was written"),
        (Found::Shifted, "a volume holds what was written in another place"),
        (Found::Mixed, "a volume holds parts of several writes in one place"),
        (Found::Damaged, "a volume holds other bytes than were written"),
        (Found::Strange, "a volume holds something else than what was written"),
    ] {
        assert_eq!(message(found), expected);
    }
}

/// A driver that wrongly publishes a deleted volume may also refuse to publish the next volume with that id. This is one fault, and not
/// two.
#[test]
fn a_volume_that_was_published_after_its_deletion_may_stay_so() {
    let mut story = Story::of_a_volume();
    // The volume may be seen for a while after its deletion.
    story.done([delete(v(1)), attach(v(1), N1)]);
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story.judges(attach(v(1), N1), [(ok(), "fits"), (no(Code::AlreadyExists), "fits")]);
    story.done([detach(v(1), N1)]);
    story.judges(attach(v(1), N1), [(ok(), "fits"), (no(Code::AlreadyExists), "CTRL-PUBLISH-001")]);
}

/// Storage that is used again may contain the data of an earlier volume, but such data must not appear in a place that was read as empty.
#[test]
fn what_appears_where_the_volume_was_empty_is_not_its_own() {
    let of_other = || said(VolumeResponse::Read([(Slot(3), Found::Of(v(2), Stamp(1)))].into(), None));
    let empty = || said(VolumeResponse::Read([(Slot(3), Found::Empty)].into(), None));
    let mut story = published();
    story.judges(read(v(1)), [(of_other(), "odd NODE-PUBLISH-027"), (empty(), "fits")]);
    story.right(read(v(1)), empty());
    story.judges(read(v(1)), [(of_other(), "NODE-PUBLISH-027"), (empty(), "fits")]);
    // The path does not lead to the volume before it is staged, so that it says nothing about places in the volume.
    let mut early = attached();
    early.done([publish(v(1), N1, T1)]);
    early.right(read(v(1)), empty());
    early.done([stage(v(1), N1)]);
    early.judges(read(v(1)), [(of_other(), "odd NODE-PUBLISH-027")]);
}

#[test]
fn only_what_others_unmount_is_given_back() {
    let mut story = published();
    story.done([write(0, 1)]);
    let umount = VolumeCall::Unmount { volume: v(1), node: N1, target: Some(T1) };
    story.right(umount, ok());
    story.judges(read(v(1)), [(no(Code::NotFound), "fits"), (found(&[]), "odd NODE-PUBLISH-027")]);
    story.judges(publish(v(1), N1, T1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    story.judges(unpublish(v(1), N1, T1), [(ok(), "fits"), (no(Code::Internal), "NODE-UNPUBLISH-001")]);
    story.done([unpublish(v(1), N1, T1), publish(v(1), N1, T1)]);
    story.judges(read(v(1)), [(found(&[(0, 1)]), "fits"), (found(&[]), "NODE-PUBLISH-027")]);
}

#[test]
fn a_device_has_the_size_that_was_answered() {
    let mut story = published();
    let of = |bytes| said(VolumeResponse::Read(Default::default(), Some(bytes)));
    story.judges(read(v(1)), [(of(GIB as u64), "fits"), (of(GIB as u64 - 1), "MSG-CAPRANGE-005")]);
    story.done([unpublish(v(1), N1, T1), unstage(v(1), N1), detach(v(1), N1)]);
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, false)));
    story.right(attach(v(1), N1), ok());
    story.done([stage(v(1), N1), publish(v(1), N1, T1)]);
    story.judges(read(v(1)), [(of(2 * GIB as u64), "fits"), (of(GIB as u64), "CTRL-EXPAND-012")]);
}

#[test]
fn an_unfinished_write_may_be_there_or_not() {
    let mut story = published();
    story.done([write(0, 1)]);
    story.right(write(0, 2), Answer::Unknown);
    story.judges(read(v(1)), [(found(&[(0, 1)]), "fits"), (found(&[(0, 2)]), "fits"), (found(&[]), "fits")]);
    story.done([write(0, 3)]);
    story.judges(read(v(1)), [(found(&[(0, 3)]), "fits"), (found(&[(0, 2)]), "NODE-PUBLISH-027")]);
}

#[test]
fn a_copy_has_what_its_source_had() {
    let mut story = published();
    story.done([write(0, 1)]);
    story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
    story.done([write(0, 2)]);
    for (volume, source, stamp, rule) in
        [(v(2), s(1), 1, "MSG-VOLSOURCE-004"), (v(3), v(1), 2, "MSG-VOLSOURCE-006")]
    {
        let mut story = story.clone();
        story.right(create(volume, CreateSpec { source: Some(source), ..wanted() }), made(facts(volume)));
        story.right(attach(volume, N1), ok());
        story.done([stage(volume, N1), publish(volume, N1, T1)]);
        story.judges(read(volume), [(found(&[(0, stamp)]), "fits"), (found(&[]), rule)]);
        if source == s(1) {
            story.judges(read(volume), [(found(&[(0, 2)]), "CTRL-CREATESNAP-015")]);
        }
    }
}

#[test]
fn a_snapshot_cut_late_may_have_later_writes() {
    let mut story = published();
    story.done([write(0, 1), write(1, 1)]);
    story.right(cut(s(1), v(1)), Answer::Unknown);
    story.done([write(0, 2)]);
    story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
    story.right(create(v(2), CreateSpec { source: Some(s(1)), ..wanted() }), made(facts(v(2))));
    story.right(attach(v(2), N1), ok());
    story.done([stage(v(2), N1), publish(v(2), N1, T1)]);
    story.judges(
        read(v(2)),
        [
            (found(&[(0, 1), (1, 1)]), "fits"),
            (found(&[(0, 2), (1, 1)]), "fits"),
            (found(&[(0, 2)]), "MSG-VOLSOURCE-004"),
        ],
    );
}

#[test]
fn a_published_volume_can_be_measured_and_grown() {
    let mut story = published();
    let stats = |target| VolumeCall::NodeGetVolumeStats { volume: v(1), node: N1, target };
    story.judges(stats(T1), [(ok(), "fits"), (no(Code::Internal), "NODE-STATS-001")]);
    story.judges(stats(T2), [(no(Code::NotFound), "fits"), (ok(), "odd NODE-STATS-017")]);
    let grow =
        |target| VolumeCall::NodeExpandVolume { volume: v(1), node: N1, target, size: Size::at_least(GIB) };
    story.judges(
        grow(T1),
        [(ok(), "fits"), (no(Code::FailedPrecondition), "fits"), (no(Code::Internal), "NODE-EXPAND-001")],
    );
    story.judges(grow(T2), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    match story.take(grow(T1), no(Code::Internal)).stop {
        Some(Impossible::Wrong(breach)) => {
            assert!(
                breach.message.contains("to the size that it has"),
                "the volume has not grown: {breach:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// A driver that detaches a device when one of two targets is unpublished has not made the volume smaller.
#[test]
fn a_device_of_no_bytes_has_lost_its_volume() {
    let mut story = published();
    let read = VolumeCall::Read { volume: v(1), node: N1, target: T1 };
    let found = || said(VolumeResponse::Read([].into(), Some(0)));
    story.judges(read.clone(), [(found(), "NODE-PUBLISH-026")]);
    match story.take(read, found()).stop {
        Some(Impossible::Wrong(breach)) => assert!(breach.message.contains("lost its volume"), "{breach:?}"),
        other => panic!("{other:?}"),
    }
}

/// A driver may answer a request without required_bytes with an empty volume, which has lost nothing.
#[test]
fn a_device_of_a_volume_without_a_size_may_be_empty() {
    let mut story = Story::new();
    let size = Size { required_bytes: 0, limit_bytes: GIB };
    let empty = VolumeFacts { capacity_bytes: 0, ..facts(v(1)) };
    story.right(create(v(1), CreateSpec { size, ..wanted() }), made(empty));
    story.done([attach(v(1), N1), stage(v(1), N1), publish(v(1), N1, T1)]);
    let read = VolumeCall::Read { volume: v(1), node: N1, target: T1 };
    story.judges(read, [(said(VolumeResponse::Read([].into(), Some(0))), "fits")]);
}

/// Begins a story in which a volume was deleted while it was staged, and was made again with the same name and id.
fn made_again_while_staged() -> Story {
    let mut story = staged();
    let in_use = story.take(delete(v(1)), ok());
    assert_eq!(in_use.stop, None);
    story.wait();
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story
}

#[test]
fn any_answer_is_right_after_deletion_in_use() {
    let mut story = made_again_while_staged();
    for call in [attach(v(1), N1), attach(v(1), N2), unstage(v(1), N1), look_up(v(1)), delete(v(1))] {
        story.judges(call, [(ok(), "fits"), (no(Code::Internal), "fits")]);
    }
    // Only the new volume has the name, so that calls by name are judged.
    story.judges(create(v(1), wanted()), [(no(Code::Internal), "CTRL-CREATEVOL-002")]);
    story.right(attach(v(1), N1), ok());
    story.judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    story.done([stage(v(1), N1), publish(v(1), N1, T1)]);
    story.right(write(0, 1), ok());
    story.done([unpublish(v(1), N1, T1), unstage(v(1), N1)]);
    // The earlier attachment may belong to the old or to the new volume.
    story.judges(stage(v(1), N1), [(no(Code::Internal), "fits")]);
    story.done([detach(v(1), N1), attach(v(1), N1)]);
    story.judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "NODE-STAGE-001")]);
    story.done([stage(v(1), N1), publish(v(1), N1, T1)]);
    // The write went to the old or to the new volume, whichever was mounted.
    story.judges(read(v(1)), [(found(&[]), "fits"), (found(&[(0, 1)]), "fits")]);
    let other_volume = v(2);
    story.right(create(other_volume, wanted()), made(facts(other_volume)));
    story.judges(attach(other_volume, N1), [(no(Code::Internal), "CTRL-PUBLISH-001")]);
}

/// The caller deleted it too early, and a back end may keep the old volume for as long as it is in use.
#[test]
fn a_name_may_be_rejected_after_deletion_in_use() {
    let mut story = staged();
    assert_eq!(story.take(delete(v(1)), ok()).stop, None);
    story.wait();
    story.judges(create(v(1), wanted()), [(made(facts(v(1))), "fits"), (no(Code::Internal), "fits")]);
}

#[test]
fn a_reboot_undoes_leftovers_of_a_deleted_volume() {
    let mut story = made_again_while_staged();
    story.model.reboot(N1);
    story.done([detach(v(1), N1), attach(v(1), N1)]);
    story.judges(stage(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "NODE-STAGE-001")]);
}
