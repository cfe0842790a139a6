//! The model knows the rules and freedoms of snapshots.

use csi_harness::protocol::capability::Capability;
use csi_model::answer::{Answer, Listed, Response, SnapshotFacts, SnapshotResponse, Text, VolumeResponse};
use csi_model::call::{Call, CreateSpec, List, SnapshotCall};
use csi_model::names::{Id, Name};
use tonic::Code;

use csi_test_support::histories::story::*;

fn of_a_snapshot() -> Story {
    let mut story = Story::of_a_volume();
    story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
    story
}

fn get(snapshot: Id) -> SnapshotCall {
    SnapshotCall::GetSnapshot { snapshot }
}

fn with(change: fn(&mut SnapshotFacts)) -> Answer<Response> {
    let mut facts = snapshot_facts(s(1), v(1));
    change(&mut facts);
    cut_ok(facts)
}

#[test]
fn a_new_snapshot_is_complete() {
    Story::of_a_volume().judges(
        cut(s(1), v(1)),
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.ready = false), "fits"),
            (with(|facts| facts.size_bytes = 0), "fits"),
            (with(|facts| facts.size_bytes = -1), "MSG-SNAPSHOT-002"),
            (with(|facts| facts.id = None), "MSG-SNAPSHOT-003"),
            (with(|facts| facts.source = None), "MSG-SNAPSHOT-006"),
            (with(|facts| facts.creation_time = None), "MSG-SNAPSHOT-007"),
            (no(Code::FailedPrecondition), "fits"),
            (no(Code::Internal), "CTRL-CREATESNAP-001"),
        ],
    );
}

#[test]
fn a_name_belongs_to_one_snapshot() {
    let mut story = of_a_snapshot();
    story.judges(
        cut(s(1), v(1)),
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.id = Some(Name::snapshot(0).id(1))), "CTRL-CREATESNAP-002"),
            (with(|facts| facts.creation_time = Some((1, 0))), "CTRL-CREATESNAP-002"),
            (with(|facts| facts.size_bytes = 1), "CTRL-CREATESNAP-002"),
            (with(|facts| facts.ready = false), "MSG-SNAPSHOT-008"),
            (no(Code::AlreadyExists), "CTRL-CREATESNAP-002"),
        ],
    );
    story.right(create(v(2), wanted()), made(facts(v(2))));
    story.judges(
        cut(s(1), v(2)),
        [(no(Code::AlreadyExists), "fits"), (cut_ok(snapshot_facts(s(1), v(2))), "CTRL-CREATESNAP-024")],
    );
    story.judges(cut(s(2), v(1)), [(with(|_| {}), "MSG-SNAPSHOT-003")]);
}

#[test]
fn a_size_may_become_known_once_a_snapshot_is_ready() {
    let mut story = Story::of_a_volume();
    story.right(cut(s(1), v(1)), with(|facts| (facts.ready, facts.size_bytes) = (false, 0)));
    story.right(cut(s(1), v(1)), with(|_| {}));
    story.judges(cut(s(1), v(1)), [(with(|facts| facts.size_bytes = 1), "CTRL-CREATESNAP-002")]);
}

#[test]
fn a_snapshot_needs_a_volume() {
    let mut story = Story::of_a_volume();
    story.done([delete(v(1))]);
    story.judges(cut(s(1), v(1)), [(with(|_| {}), "fits"), (no(Code::NotFound), "fits")]);
    story.wait();
    story.judges(
        cut(s(1), v(1)),
        [(no(Code::NotFound), "fits"), (no(Code::Internal), "fits"), (with(|_| {}), "CTRL-CREATESNAP-013")],
    );
}

#[test]
fn snapshots_outlive_their_volumes() {
    let mut story = of_a_snapshot();
    story.done([delete(v(1))]);
    story.wait();
    // The driver may look for the volume, which is gone, before it looks for the name.
    story.judges(cut(s(1), v(1)), [(with(|_| {}), "fits"), (no(Code::NotFound), "fits")]);
    story.judges(get(s(1)), [(with(|_| {}), "fits"), (no(Code::NotFound), "CTRL-GETSNAP-001")]);
    story.judges(
        create(v(2), CreateSpec { source: Some(s(1)), ..wanted() }),
        [(made(facts(v(2))), "fits"), (no(Code::NotFound), "MSG-VOLSOURCE-004")],
    );
}

/// Kubernetes restores a snapshot into a claim of the size that the snapshot reports, even if its source has grown since.
#[test]
fn a_snapshot_can_be_restored_at_its_own_size() {
    let restored = || create(v(2), CreateSpec { source: Some(s(1)), ..wanted() });
    let mut story = of_a_snapshot();
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, false)));
    story.judges(restored(), [(made(facts(v(2))), "fits"), (no(Code::OutOfRange), "MSG-VOLSOURCE-004")]);
    let mut unmeasured = Story::of_a_volume();
    unmeasured.right(cut(s(1), v(1)), with(|facts| facts.size_bytes = 0));
    unmeasured.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, false)));
    unmeasured.judges(restored(), [(no(Code::OutOfRange), "fits")]);
}

#[test]
fn a_deleted_snapshot_is_gone_after_a_while() {
    let mut story = of_a_snapshot();
    story
        .judges(drop_snapshot(s(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "CTRL-DELETESNAP-001")]);
    story.right(drop_snapshot(s(1)), ok());
    story.judges(drop_snapshot(s(1)), [(ok(), "fits"), (no(Code::NotFound), "CTRL-DELETESNAP-003")]);
    story.judges(get(s(1)), [(with(|_| {}), "fits"), (no(Code::NotFound), "fits")]);
    story.wait();
    story.judges(get(s(1)), [(with(|_| {}), "CTRL-GETSNAP-010"), (no(Code::NotFound), "fits")]);
    let restored = create(v(2), CreateSpec { source: Some(s(1)), ..wanted() });
    story.judges(restored, [(made(facts(v(2))), "CTRL-CREATEVOL-039"), (no(Code::NotFound), "fits")]);
}

#[test]
fn a_snapshot_that_volumes_were_made_from_may_be_kept() {
    let mut story = of_a_snapshot();
    story.right(create(v(2), CreateSpec { source: Some(s(1)), ..wanted() }), made(facts(v(2))));
    story.judges(
        drop_snapshot(s(1)),
        [(ok(), "fits"), (no(Code::FailedPrecondition), "fits"), (no(Code::Internal), "CTRL-DELETESNAP-001")],
    );
}

#[test]
fn nothing_is_said_of_a_copy_of_what_is_not_ready() {
    let mut story = Story::of_a_volume();
    story.right(cut(s(1), v(1)), with(|facts| facts.ready = false));
    let restored = create(v(2), CreateSpec { source: Some(s(1)), ..wanted() });
    story.judges(restored, [(made(facts(v(2))), "fits"), (no(Code::FailedPrecondition), "fits")]);
}

#[test]
fn a_snapshot_stays_usable_from_where_it_is() {
    let at = |zones: &'static [&'static str]| {
        let topology = zones.iter().map(|zone| Text::from(*zone)).collect();
        cut_ok(SnapshotFacts { topology, ..snapshot_facts(s(1), v(1)) })
    };
    let mut story = Story::of_a_volume();
    story.right(cut(s(1), v(1)), at(&["a", "b"]));
    story.judges(
        cut(s(1), v(1)),
        [
            (at(&["a", "b"]), "fits"),
            (at(&["a", "b", "c"]), "fits"),
            (at(&["a"]), "odd CTRL-CREATESNAP-035"),
            (at(&[]), "odd CTRL-CREATESNAP-035"),
        ],
    );
    story.judges(get(s(1)), [(at(&["a", "b"]), "fits"), (at(&["b"]), "odd MSG-SNAPSHOT-019")]);
    // A snapshot without any topology is available everywhere.
    let everywhere = of_a_snapshot();
    everywhere.judges(cut(s(1), v(1)), [(at(&[]), "fits"), (at(&["a"]), "odd CTRL-CREATESNAP-035")]);
}

#[test]
fn topology_may_come_with_readiness() {
    let mut story = Story::of_a_volume();
    story.right(cut(s(1), v(1)), with(|facts| facts.ready = false));
    story.right(cut(s(1), v(1)), with(|facts| facts.topology = ["a".into()].into()));
    story.judges(cut(s(1), v(1)), [(with(|_| {}), "odd CTRL-CREATESNAP-035")]);
}

#[test]
fn topology_is_not_compared_where_it_is_not_offered() {
    let mut story = Story::without(&[Capability::SnapshotAccessibilityConstraints]);
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story.right(cut(s(1), v(1)), with(|facts| facts.topology = ["a".into()].into()));
    story.judges(cut(s(1), v(1)), [(with(|_| {}), "fits")]);
}

#[test]
fn a_list_on_one_page_has_every_snapshot() {
    let mut story = of_a_snapshot();
    let list = |pages, facts: Option<SnapshotFacts>| {
        let entries = facts.into_iter().map(|facts| (s(1), SnapshotResponse::Seen(facts))).collect();
        Answer::Done(Response::Snapshots(Listed { pages, entries }))
    };
    let there = || Some(snapshot_facts(s(1), v(1)));
    story.judges(
        Call::List(List::Snapshots),
        [
            (list(1, there()), "fits"),
            (list(1, None), "CTRL-LISTSNAP-002"),
            (list(2, None), "fits"),
            (list(1, there().map(|facts| SnapshotFacts { source: Some(v(2)), ..facts })), "MSG-SNAPSHOT-006"),
            (no(Code::Internal), "CTRL-LISTSNAP-001"),
        ],
    );
    story.right(drop_snapshot(s(1)), ok());
    story.wait();
    story.judges(
        Call::List(List::Snapshots),
        [(list(1, there()), "CTRL-INTERACT-008"), (list(1, None), "fits")],
    );
}
