//! The model knows the rules and freedoms of group snapshots.

use csi_harness::protocol::capability::Capability;
use csi_model::answer::{Answer, GroupFacts, Response};
use csi_model::call::{CreateSpec, GroupCall};
use csi_model::names::{Id, Name};
use tonic::Code;

use csi_test_support::histories::story::*;

fn of_two_volumes() -> Story {
    let mut story = Story::of_a_volume();
    story.right(create(v(2), wanted()), made(facts(v(2))));
    story
}

fn of_a_group() -> Story {
    let mut story = of_two_volumes();
    story.right(cut_group(g(1), &[v(1), v(2)]), with(|_| {}));
    story
}

fn with(change: fn(&mut GroupFacts)) -> Answer<Response> {
    let mut facts = group_facts(g(1), &[v(1), v(2)]);
    change(&mut facts);
    group_ok(facts)
}

fn without_a_member(facts: &mut GroupFacts) {
    facts.members.pop_first();
}

fn member(nth: u16) -> Id {
    Name::group(0).members().id(nth)
}

const GET: GroupCall = GroupCall::GetVolumeGroupSnapshot { group: Name::group(0).id(0) };
const DELETE: GroupCall = GroupCall::DeleteVolumeGroupSnapshot { group: Name::group(0).id(0) };

fn delete_member(nth: u16) -> GroupCall {
    GroupCall::DeleteMember { group: g(1), member: member(nth) }
}

#[test]
fn a_new_group_is_complete() {
    of_two_volumes().judges(
        cut_group(g(1), &[v(1), v(2)]),
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.id = None), "GROUP-CREATE-020"),
            (with(|facts| facts.members.clear()), "GROUP-CREATE-022"),
            (with(|facts| facts.creation_time = None), "GROUP-CREATE-023"),
            (with(|facts| facts.members.values_mut().for_each(|one| one.ready = false)), "GROUP-CREATE-024"),
            (with(without_a_member), "GROUP-CREATE-010"),
            (no(Code::FailedPrecondition), "fits"),
            (no(Code::Internal), "GROUP-CREATE-001"),
        ],
    );
}

#[test]
fn a_name_belongs_to_one_group() {
    let story = of_a_group();
    story.judges(
        cut_group(g(1), &[v(2), v(1)]),
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.id = Some(Name::group(0).id(1))), "GROUP-CREATE-003"),
            (with(|facts| facts.creation_time = Some((1, 0))), "GROUP-CREATE-003"),
            (no(Code::AlreadyExists), "GROUP-CREATE-003"),
        ],
    );
    story.judges(
        cut_group(g(1), &[v(1)]),
        [(no(Code::AlreadyExists), "fits"), (with(|_| {}), "GROUP-CREATE-029")],
    );
}

#[test]
fn a_group_needs_all_its_volumes() {
    let mut story = of_two_volumes();
    story.done([delete(v(2))]);
    story.wait();
    story.judges(
        cut_group(g(1), &[v(1), v(2)]),
        [(no(Code::NotFound), "fits"), (no(Code::Internal), "fits"), (with(|_| {}), "GROUP-CREATE-011")],
    );
}

#[test]
fn a_group_is_found_until_it_is_deleted() {
    let mut story = of_a_group();
    story.judges(
        GET,
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.id = Some(g(2))), "GROUP-GET-010"),
            (with(without_a_member), "GROUP-CREATE-003"),
            (no(Code::NotFound), "GROUP-GET-002"),
        ],
    );
    story.judges(DELETE, [(ok(), "fits"), (no(Code::FailedPrecondition), "GROUP-DELETE-001")]);
    story.right(DELETE, ok());
    story.judges(DELETE, [(ok(), "fits"), (no(Code::NotFound), "GROUP-DELETE-003")]);
    story.judges(GET, [(with(|_| {}), "fits"), (no(Code::NotFound), "fits")]);
    story.wait();
    story.judges(GET, [(with(|_| {}), "GROUP-GET-014"), (no(Code::NotFound), "fits")]);
    let restored = create(v(3), CreateSpec { source: Some(member(0)), ..wanted() });
    story.judges(restored, [(made(facts(v(3))), "CTRL-CREATEVOL-039"), (no(Code::NotFound), "fits")]);
}

#[test]
fn a_member_stays_with_its_group_or_goes_alone() {
    let mut story = of_a_group();
    story.judges(
        delete_member(0),
        [(ok(), "fits"), (no(Code::InvalidArgument), "fits"), (no(Code::Internal), "CTRL-DELETESNAP-011")],
    );
    story.right(delete_member(0), ok());
    // The specification does not say what a group snapshot is after it has lost a member.
    story.judges(GET, [(with(|_| {}), "fits"), (no(Code::NotFound), "fits")]);
    story.judges(
        cut_group(g(1), &[v(1), v(2)]),
        [(with(|_| {}), "fits"), (with(without_a_member), "fits"), (no(Code::AlreadyExists), "fits")],
    );
    story.judges(DELETE, [(ok(), "fits"), (no(Code::InvalidArgument), "fits")]);
    story.judges(delete_member(0), [(ok(), "fits"), (no(Code::NotFound), "CTRL-DELETESNAP-003")]);
}

#[test]
fn volumes_are_made_from_members() {
    let mut story = of_a_group();
    let restored = create(v(3), CreateSpec { source: Some(member(1)), ..wanted() });
    story.judges(restored.clone(), [(made(facts(v(3))), "fits"), (no(Code::NotFound), "MSG-VOLSOURCE-004")]);
    story.right(restored, made(facts(v(3))));
    story.judges(DELETE, [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
}

#[test]
fn group_snapshots_alone_need_no_copies() {
    let mut story = Story::without(&[Capability::CreateDeleteSnapshot]);
    for volume in [v(1), v(2)] {
        story.right(create(volume, wanted()), made(facts(volume)));
    }
    story.right(cut_group(g(1), &[v(1), v(2)]), with(|_| {}));
    let copy = create(v(3), CreateSpec { source: Some(member(0)), ..wanted() });
    story.judges(copy, [(no(Code::InvalidArgument), "fits"), (made(facts(v(3))), "fits")]);
}
