//! After a call without an answer, everything stays possible that no later answer excludes.

use csi_harness::protocol::capability::Capability;
use csi_model::Span;
use csi_model::answer::{Answer, VolumeFacts, VolumeResponse};
use csi_model::call::{CreateSpec, Size};
use csi_model::names::{Name, Node};
use csi_model::state_set::CONFIGURATIONS_MAX;
use tonic::Code;

use csi_test_support::histories::story::*;

#[test]
fn a_volume_may_have_been_made() {
    for unanswered in [Answer::Unknown, no(Code::Internal), no(Code::Aborted), no(Code::ResourceExhausted)] {
        let mut story = Story::new();
        story.take(create(v(1), wanted()), unanswered.clone());
        // After a definite breach the model judges nothing, which is the case after INTERNAL on a driver that is not busy.
        if story.model.is_lost(Name::volume(0)) {
            assert_eq!(unanswered.to_string(), "INTERNAL");
            continue;
        }
        assert_eq!(story.model.volume(Name::volume(0)).len(), 2, "{unanswered}");
        story.judges(
            create(v(1), wanted()),
            [(made(facts(v(1))), "fits"), (no(Code::NotFound), "CTRL-CREATEVOL-001")],
        );
        // The volume may have been made for the first request, with which the larger size is in conflict.
        let larger = CreateSpec { size: Size::at_least(2 * GIB), ..wanted() };
        story.judges(
            create(v(1), larger),
            [(no(Code::AlreadyExists), "fits"), (no(Code::NotFound), "CTRL-CREATEVOL-001")],
        );
        // A driver that answers ALREADY_EXISTS has made the volume, and must return it for an equal request.
        story.judges(create(v(1), wanted()), [(no(Code::AlreadyExists), "CTRL-CREATEVOL-002")]);
        story.right(create(v(1), wanted()), made(facts(v(1))));
        assert_eq!(story.model.volume(Name::volume(0)).len(), 1);
        story.judges(look_up(v(1)), [(no(Code::NotFound), "CTRL-GETVOL-002")]);
    }
}

#[test]
fn a_repeated_call_picks_up_where_the_first_one_stood() {
    let mut story = Story::new();
    story.right(create(v(1), wanted()), Answer::Unknown);
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story.done([delete(v(1))]);
    story.wait();
    // The answer to the second call settles the first one too, so that it must not make the volume once more.
    story.judges(look_up(v(1)), [(no(Code::NotFound), "fits"), (seen(facts(v(1))), "CTRL-GETVOL-015")]);
}

#[test]
fn a_volume_may_have_been_deleted() {
    let mut story = Story::of_a_volume();
    story.right(delete(v(1)), Answer::Unknown);
    story.judges(look_up(v(1)), [(no(Code::NotFound), "fits"), (seen(facts(v(1))), "fits")]);
    let mut there = story.clone();
    there.right(look_up(v(1)), seen(facts(v(1))));
    // The deletion may still be in progress.
    there.judges(look_up(v(1)), [(no(Code::NotFound), "fits")]);
    story.right(look_up(v(1)), no(Code::NotFound));
    story.judges(attach(v(1), N1), [(no(Code::NotFound), "fits")]);
    story.done([delete(v(1))]);
    story.wait();
    story.judges(attach(v(1), N1), [(ok(), "CTRL-PUBLISH-024")]);
}

#[test]
fn a_name_may_be_free_or_taken() {
    let mut story = Story::of_a_volume();
    story.right(delete(v(1)), Answer::Unknown);
    let second = made(facts(Name::volume(0).id(1)));
    story.judges(create(v(1), wanted()), [(made(facts(v(1))), "fits"), (second.clone(), "fits")]);
    story.right(create(v(1), wanted()), second);
    story.judges(look_up(Name::volume(0).id(1)), [(no(Code::NotFound), "CTRL-GETVOL-002")]);
}

#[test]
fn an_attachment_is_possible_until_it_is_undone() {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), Answer::Unknown);
    story.judges(delete(v(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
    story.done([detach(v(1), N1)]);
    story.judges(delete(v(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "CTRL-DELETEVOL-001")]);
}

#[test]
fn an_opposite_call_settles_no_pending_call() {
    let mut story = Story::of_a_volume();
    let detached = Span::default();
    story.right(attach(v(1), N1), Answer::Unknown);
    // The detachment counts as if it had begun before the caller gave up on the attachment.
    story.model.take(&detach(v(1), N1).into(), &ok(), detached);
    story.judges(delete(v(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
}

#[test]
fn each_node_is_in_doubt_for_itself() {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), Answer::Unknown);
    story.right(attach(v(1), N2), Answer::Unknown);
    // The volume may be attached to neither node, to either of them, or to both, which would only be a remark.
    assert_eq!(story.model.volume(Name::volume(0)).len(), 4);
    story.done([detach(v(1), N1)]);
    assert_eq!(story.model.volume(Name::volume(0)).len(), 2);
    story.done([detach(v(1), N2)]);
    assert_eq!(story.model.volume(Name::volume(0)).len(), 1);
}

#[test]
fn a_size_is_in_doubt_until_it_is_reported() {
    let mut story = Story::of_a_volume();
    story.right(expand(v(1), 2 * GIB), Answer::Unknown);
    let of = |bytes| {
        let mut facts = facts(v(1));
        facts.capacity_bytes = bytes;
        seen(facts)
    };
    story.judges(look_up(v(1)), [(of(GIB), "fits"), (of(2 * GIB), "fits")]);
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    story.judges(look_up(v(1)), [(of(GIB), "CTRL-GETVOL-004"), (of(2 * GIB), "fits")]);
}

#[test]
fn an_expansion_that_should_be_rejected_may_have_been_done() {
    let mut story = Story::without(&[Capability::OnlineExpansion]);
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story.right(attach(v(1), N1), ok());
    story.right(expand(v(1), 2 * GIB), Answer::Unknown);
    let grown = VolumeFacts { capacity_bytes: 2 * GIB, ..facts(v(1)) };
    story.judges(look_up(v(1)), [(seen(facts(v(1))), "fits"), (seen(grown), "fits")]);
}

#[test]
fn aborted_is_right_only_while_a_call_is_pending() {
    let mut story = Story::of_a_volume();
    let for_ever = Answer::PutOff(Code::Aborted);
    story.judges(create(v(1), wanted()), [(for_ever.clone(), "CTRL-CREATEVOL-002")]);
    story.right(attach(v(1), N1), Answer::Unknown);
    story.judges(create(v(1), wanted()), [(for_ever.clone(), "fits")]);
    story.done([detach(v(1), N1)]);
    story.judges(create(v(1), wanted()), [(for_ever, "CTRL-CREATEVOL-002")]);
}

#[test]
fn equal_calls_without_an_answer_count_as_one() {
    let mut story = Story::of_a_volume();
    for _ in 0..1000 {
        story.right(attach(v(1), N1), Answer::Unknown);
        story.right(detach(v(1), N1), Answer::Unknown);
        story.right(delete(v(1)), Answer::Unknown);
    }
    assert!(story.model.volume(Name::volume(0)).len() < 10);
}

#[test]
fn what_is_too_much_to_keep_is_given_up_and_said() {
    let mut story = Story::of_a_volume();
    let mut many = profile();
    many.nodes = 100;
    let given_up = (0..100).find_map(|node| {
        let node = Node(node);
        story.take(attach(v(1), node), Answer::Unknown);
        story.take(stage(v(1), node), Answer::Unknown);
        story.take(look_up(v(1)), seen(facts(v(1)))).stop
    });
    let why = given_up.map(|stop| format!("{stop:?}"));
    assert!(why.as_deref().is_some_and(|why| why.starts_with("TooMany")), "{why:?} {CONFIGURATIONS_MAX}");
    // The model does not judge a volume that it has given up.
    story.judges(look_up(v(1)), [(no(Code::Internal), "fits")]);
}
