//! The model knows the rules and freedoms of the Controller service about volumes.

use csi_harness::config::AccessType;
use csi_harness::protocol::capability::Capability;
use csi_model::answer::{Answer, Listed, Response, SourceReported, VolumeFacts, VolumeResponse};
use csi_model::call::{Call, CreateSpec, List, MODES_FOR_MANY_NODES, Size, Usage, VolumeCall};
use csi_model::names::{Id, Name};
use tonic::Code;

use csi_test_support::histories::story::*;

#[test]
fn a_new_volume_is_as_it_was_asked_for() {
    let with = |change: fn(&mut VolumeFacts)| {
        let mut facts = facts(v(1));
        change(&mut facts);
        made(facts)
    };
    let sized = CreateSpec { size: Size { required_bytes: GIB, limit_bytes: GIB }, ..wanted() };
    Story::new().judges(
        create(v(1), sized),
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.capacity_bytes = 0), "fits"),
            (with(|facts| facts.capacity_bytes = GIB - 1), "MSG-CAPRANGE-005"),
            (with(|facts| facts.capacity_bytes = GIB + 1), "MSG-CAPRANGE-008"),
            (with(|facts| facts.capacity_bytes = -1), "MSG-VOLUME-002"),
            (with(|facts| facts.id = None), "MSG-VOLUME-003"),
            (with(|facts| facts.source = SourceReported::Stranger), "odd MSG-VOLUME-013"),
            (no(Code::OutOfRange), "fits"),
            (no(Code::Internal), "CTRL-CREATEVOL-001"),
        ],
    );
}

#[test]
fn a_plain_request_is_granted() {
    Story::new().judges(
        create(v(1), wanted()),
        [
            (no(Code::OutOfRange), "CTRL-CREATEVOL-001"),
            (no(Code::InvalidArgument), "CTRL-CREATEVOL-001"),
            (no(Code::Aborted), "fits"),
            (no(Code::Unavailable), "fits"),
            (no(Code::ResourceExhausted), "fits"),
            (Answer::Unknown, "fits"),
            (Answer::PutOff(Code::ResourceExhausted), "fits"),
            (Answer::PutOff(Code::Aborted), "CTRL-CREATEVOL-001"),
        ],
    );
    let block = Usage { access: AccessType::Block, ..WRITER };
    Story::new()
        .judges(create(v(1), CreateSpec { usage: block, ..wanted() }), [(no(Code::InvalidArgument), "fits")]);
}

#[test]
fn a_name_belongs_to_one_volume() {
    let with = |change: fn(&mut VolumeFacts)| {
        let mut facts = facts(v(1));
        change(&mut facts);
        made(facts)
    };
    Story::of_a_volume().judges(
        create(v(1), wanted()),
        [
            (with(|_| {}), "fits"),
            (with(|facts| facts.id = Some(Name::volume(0).id(1))), "CTRL-CREATEVOL-002"),
            (with(|facts| facts.context = "{}".into()), "MSG-VOLUME-008"),
            (with(|facts| facts.capacity_bytes = 2 * GIB), "CTRL-CREATEVOL-002"),
            (with(|facts| facts.capacity_bytes = 0), "fits"),
            (with(|facts| facts.topology = "elsewhere".into()), "CTRL-CREATEVOL-002"),
            (no(Code::AlreadyExists), "CTRL-CREATEVOL-002"),
            (no(Code::Aborted), "fits"),
        ],
    );
}

#[test]
fn a_volume_has_one_context_whatever_the_request() {
    let other = CreateSpec { parameters: 1, ..wanted() };
    let with = |context: &str| made(VolumeFacts { context: context.into(), ..facts(v(1)) });
    Story::of_a_volume().judges(
        create(v(1), other),
        [(made(facts(v(1))), "fits"), (with("{other}"), "MSG-VOLUME-011"), (no(Code::AlreadyExists), "fits")],
    );
}

#[test]
fn another_volume_context_explains_other_answers_to_it() {
    let mut story = Story::of_a_volume();
    let attached = |text: &str| said(VolumeResponse::Attached(text.into()));
    let validate = VolumeCall::ValidateVolumeCapabilities { volume: v(1), usage: MANY };
    story.right(attach(v(1), N1), attached("a"));
    story.right(validate.clone(), said(VolumeResponse::Confirmed(true)));
    let other = made(VolumeFacts { context: "{other}".into(), ..facts(v(1)) });
    story.take(create(v(1), wanted()), other);
    // The caller passes the new context on.
    story.judges(attach(v(1), N1), [(attached("b"), "fits")]);
    story.judges(validate, [(said(VolumeResponse::Confirmed(false)), "fits")]);
}

#[test]
fn two_names_have_two_volumes() {
    let story = Story::of_a_volume();
    story
        .judges(create(v(2), wanted()), [(made(facts(v(1))), "MSG-VOLUME-003"), (made(facts(v(2))), "fits")]);
    // A driver may use an id again when its volume is gone.
    let mut story = Story::of_a_volume();
    story.done([delete(v(1))]);
    story.wait();
    story.judges(create(v(2), wanted()), [(made(facts(v(1))), "fits")]);
}

#[test]
fn a_request_that_does_not_fit_is_a_conflict() {
    let story = Story::of_a_volume();
    let size =
        |required_bytes, limit_bytes| CreateSpec { size: Size { required_bytes, limit_bytes }, ..wanted() };
    for sized in [size(2 * GIB, 0), size(1, GIB - 1)] {
        story.judges(
            create(v(1), sized),
            [
                (no(Code::AlreadyExists), "fits"),
                (no(Code::OutOfRange), "fits"),
                (made(facts(v(1))), "CTRL-CREATEVOL-041"),
                (no(Code::Internal), "CTRL-CREATEVOL-041"),
            ],
        );
    }
    // The driver decides which requests are compatible.
    story.judges(
        create(v(1), size(GIB / 2, 2 * GIB)),
        [(made(facts(v(1))), "fits"), (no(Code::AlreadyExists), "odd CTRL-CREATEVOL-003")],
    );
    let block = Usage { access: AccessType::Block, ..WRITER };
    story.judges(
        create(v(1), CreateSpec { usage: block, ..wanted() }),
        [(no(Code::AlreadyExists), "fits"), (made(facts(v(1))), "fits"), (no(Code::InvalidArgument), "fits")],
    );
    let with = CreateSpec { parameters: 1, ..wanted() };
    story.judges(
        create(v(1), with),
        [
            (no(Code::AlreadyExists), "fits"),
            (made(facts(v(1))), "fits"),
            (no(Code::InvalidArgument), "fits"),
            (no(Code::Internal), "odd CTRL-CREATEVOL-043"),
            (no(Code::NotFound), "CTRL-CREATEVOL-043"),
        ],
    );
    let with = CreateSpec { mutable_parameters: 1, ..wanted() };
    story.judges(
        create(v(1), with),
        [(no(Code::AlreadyExists), "fits"), (made(facts(v(1))), "odd CTRL-CREATEVOL-002")],
    );
}

#[test]
fn nothing_is_said_of_a_size_that_nobody_knows() {
    let mut story = Story::new();
    let unknown = VolumeFacts { capacity_bytes: 0, ..facts(v(1)) };
    story.right(create(v(1), wanted()), made(unknown.clone()));
    let larger = CreateSpec { size: Size::at_least(2 * GIB), ..wanted() };
    story.judges(create(v(1), larger), [(made(unknown), "fits"), (no(Code::AlreadyExists), "fits")]);
}

#[test]
fn a_volume_of_another_source_is_a_conflict() {
    let mut story = Story::of_a_volume();
    story.right(create(v(2), wanted()), made(facts(v(2))));
    let copy = CreateSpec { source: Some(v(1)), ..wanted() };
    story.judges(
        create(v(2), copy.clone()),
        [(no(Code::AlreadyExists), "fits"), (made(facts(v(2))), "CTRL-CREATEVOL-045")],
    );
    story.right(
        create(v(3), copy.clone()),
        made(VolumeFacts { source: SourceReported::Known(v(1)), ..facts(v(3)) }),
    );
    story.judges(create(v(3), wanted()), [(made(facts(v(3))), "CTRL-CREATEVOL-045")]);
    // The driver may look for the name before or after it looks for the source.
    story.done([delete(v(1))]);
    story.wait();
    story.judges(create(v(3), copy), [(made(facts(v(3))), "fits"), (no(Code::NotFound), "fits")]);
}

#[test]
fn a_source_whose_id_came_again_may_be_another_one() {
    let mut story = Story::of_a_volume();
    let copy = CreateSpec { source: Some(v(1)), ..wanted() };
    story.right(
        create(v(2), copy.clone()),
        made(VolumeFacts { source: SourceReported::Known(v(1)), ..facts(v(2)) }),
    );
    story.judges(create(v(2), copy.clone()), [(no(Code::InvalidArgument), "CTRL-CREATEVOL-002")]);
    story.done([delete(v(1))]);
    story.wait();
    story.right(create(v(1), wanted()), made(facts(v(1))));
    let again = made(VolumeFacts { source: SourceReported::Known(v(1)), ..facts(v(2)) });
    story.judges(create(v(2), copy), [(again, "fits"), (no(Code::InvalidArgument), "fits")]);
}

#[test]
fn a_changed_volume_may_conflict_with_its_request() {
    let mut story = Story::of_a_volume();
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    story.judges(
        create(v(1), wanted()),
        [
            (made(VolumeFacts { capacity_bytes: 2 * GIB, ..facts(v(1)) }), "fits"),
            (made(facts(v(1))), "fits"),
            (no(Code::AlreadyExists), "fits"),
            (no(Code::NotFound), "CTRL-CREATEVOL-002"),
        ],
    );
}

#[test]
fn a_copy_needs_a_source() {
    let mut story = Story::of_a_volume();
    let copy = CreateSpec { source: Some(v(1)), ..wanted() };
    story.judges(
        create(v(2), copy.clone()),
        [
            (made(facts(v(2))), "fits"),
            (no(Code::OutOfRange), "MSG-VOLSOURCE-006"),
            (no(Code::NotFound), "MSG-VOLSOURCE-006"),
            (no(Code::FailedPrecondition), "MSG-VOLSOURCE-006"),
        ],
    );
    let larger = CreateSpec { size: Size::at_least(2 * GIB), ..copy.clone() };
    story.judges(create(v(2), larger), [(no(Code::OutOfRange), "fits")]);
    let mut used = story.clone();
    used.right(attach(v(1), N1), ok());
    used.judges(create(v(2), copy.clone()), [(no(Code::FailedPrecondition), "fits")]);
    story.done([delete(v(1))]);
    // The deletion may continue in the background, so that the source may still be there.
    story.judges(create(v(2), copy.clone()), [(made(facts(v(2))), "fits"), (no(Code::NotFound), "fits")]);
    story.wait();
    story.judges(
        create(v(2), copy),
        [(made(facts(v(2))), "CTRL-CREATEVOL-040"), (no(Code::NotFound), "fits")],
    );
}

#[test]
fn a_deleted_volume_is_gone_after_a_while() {
    let mut story = Story::of_a_volume();
    story.judges(delete(v(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "CTRL-DELETEVOL-001")]);
    story.done([delete(v(1)), delete(v(1))]);
    story.judges(delete(v(1)), [(no(Code::NotFound), "CTRL-DELETEVOL-003")]);
    let (attached, found) = (attach(v(1), N1), look_up(v(1)));
    story.judges(attached.clone(), [(ok(), "fits"), (no(Code::NotFound), "fits")]);
    story.judges(found.clone(), [(seen(facts(v(1))), "fits")]);
    // The name may or may not be free yet.
    let again = made(facts(Name::volume(0).id(1)));
    story.judges(create(v(1), wanted()), [(again.clone(), "fits"), (no(Code::AlreadyExists), "fits")]);
    story.wait();
    story.judges(attached, [(ok(), "CTRL-PUBLISH-024"), (no(Code::NotFound), "fits")]);
    story.judges(found, [(seen(facts(v(1))), "CTRL-GETVOL-015"), (no(Code::NotFound), "fits")]);
    story.judges(create(v(1), wanted()), [(again, "fits"), (no(Code::AlreadyExists), "CTRL-CREATEVOL-001")]);
    // A driver that makes ids from names may return the old id.
    story.judges(create(v(1), wanted()), [(made(facts(v(1))), "fits")]);
    story.judges(expand(v(1), GIB), [(no(Code::NotFound), "fits"), (ok(), "CTRL-EXPAND-015")]);
    let validate = VolumeCall::ValidateVolumeCapabilities { volume: v(1), usage: WRITER };
    story.judges(validate, [(no(Code::NotFound), "fits"), (ok(), "CTRL-VALIDATE-018")]);
    let modify = VolumeCall::ControllerModifyVolume { volume: v(1), mutable_parameters: 0 };
    story.judges(modify, [(no(Code::NotFound), "fits"), (ok(), "CTRL-MODIFYVOL-011")]);
}

#[test]
fn a_volume_in_use_or_with_dependants_may_be_kept() {
    let mut story = Story::of_a_volume();
    story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
    story.judges(
        delete(v(1)),
        [(ok(), "fits"), (no(Code::FailedPrecondition), "fits"), (no(Code::Internal), "CTRL-DELETEVOL-001")],
    );
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), ok());
    story.judges(
        delete(v(1)),
        [
            (no(Code::FailedPrecondition), "fits"),
            (ok(), "odd CTRL-DELETEVOL-011"),
            (no(Code::Internal), "CTRL-DELETEVOL-011"),
        ],
    );
    // A controller that does not attach cannot see that the volume is in use.
    let mut story = Story::without(&[Capability::PublishUnpublishVolume]);
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story.done([stage(v(1), N1)]);
    story.judges(delete(v(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
}

#[test]
fn a_volume_is_attached_once_for_one_use() {
    let mut story = Story::of_a_volume();
    let context = |text: &str| said(VolumeResponse::Attached(text.into()));
    story.judges(attach(v(1), N1), [(no(Code::Internal), "CTRL-PUBLISH-001"), (context("a"), "fits")]);
    story.right(attach(v(1), N1), context("a"));
    story.judges(
        attach(v(1), N1),
        [
            (context("a"), "fits"),
            (context("b"), "CTRL-PUBLISH-018"),
            (no(Code::AlreadyExists), "CTRL-PUBLISH-004"),
        ],
    );
    let readonly =
        VolumeCall::ControllerPublishVolume { volume: v(1), node: N1, usage: WRITER, readonly: true };
    story.judges(readonly, [(no(Code::AlreadyExists), "fits"), (context("a"), "CTRL-PUBLISH-026")]);
    // The driver decides whether the attachment serves another access mode.
    let other = VolumeCall::ControllerPublishVolume { volume: v(1), node: N1, usage: MANY, readonly: false };
    story.judges(
        other,
        [(no(Code::AlreadyExists), "fits"), (context("a"), "fits"), (no(Code::InvalidArgument), "fits")],
    );
}

#[test]
fn a_volume_for_one_node_is_on_one_node() {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), ok());
    let validate = VolumeCall::ValidateVolumeCapabilities { volume: v(1), usage: MANY };
    let judged = |story: &Story, done| {
        story.judges(attach(v(1), N2), [(no(Code::FailedPrecondition), "fits"), (ok(), done)]);
    };
    // Some drivers can attach every volume to many nodes.
    judged(&story, "odd CTRL-PUBLISH-027");
    let mut by_nature = story.clone();
    by_nature.right(validate.clone(), said(VolumeResponse::Confirmed(true)));
    judged(&by_nature, "fits");
    // Only a driver that confirms none of the modes for many nodes certainly cannot.
    story.right(validate, said(VolumeResponse::Confirmed(false)));
    judged(&story, "odd CTRL-PUBLISH-027");
    for mode in MODES_FOR_MANY_NODES {
        let validate =
            VolumeCall::ValidateVolumeCapabilities { volume: v(1), usage: Usage { mode, ..WRITER } };
        story.right(validate, said(VolumeResponse::Confirmed(false)));
    }
    judged(&story, "CTRL-PUBLISH-027");

    let mut story = Story::new();
    story.right(create(v(1), CreateSpec { usage: MANY, ..wanted() }), made(facts(v(1))));
    let attach =
        |node| VolumeCall::ControllerPublishVolume { volume: v(1), node, usage: MANY, readonly: false };
    story.right(attach(N1), ok());
    story.judges(attach(N2), [(ok(), "fits"), (no(Code::FailedPrecondition), "CTRL-PUBLISH-006")]);
}

#[test]
fn equal_questions_have_equal_answers() {
    let mut story = Story::of_a_volume();
    let validate = VolumeCall::ValidateVolumeCapabilities { volume: v(1), usage: MANY };
    story.right(validate.clone(), said(VolumeResponse::Confirmed(false)));
    story.judges(validate.clone(), [(said(VolumeResponse::Confirmed(true)), "CTRL-VALIDATE-004")]);
    story.judges(validate.clone(), [(no(Code::InvalidArgument), "fits")]);
    story.right(attach(v(1), N1), ok());
    story.judges(validate, [(said(VolumeResponse::Confirmed(true)), "fits")]);
}

#[test]
fn detaching_is_always_possible() {
    let mut story = Story::of_a_volume();
    story.judges(detach(v(1), N1), [(ok(), "fits"), (no(Code::NotFound), "CTRL-UNPUBLISH-005")]);
    story.right(attach(v(1), N1), ok());
    story.judges(detach(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "CTRL-UNPUBLISH-001")]);
    let everywhere = VolumeCall::ControllerUnpublishVolume { volume: v(1), node: None };
    story.judges(everywhere, [(ok(), "fits"), (no(Code::InvalidArgument), "CTRL-UNPUBLISH-011")]);
    // The specification does not say what to answer while the node still uses the volume, as a lost node may.
    let mut used = story.clone();
    used.done([stage(v(1), N1)]);
    used.judges(detach(v(1), N1), [(ok(), "fits"), (no(Code::Internal), "fits")]);
    // The detachment from another node leaves this attachment as it is.
    story.done([detach(v(1), N2)]);
    story.judges(delete(v(1)), [(ok(), "odd CTRL-DELETEVOL-011")]);
    story.done([detach(v(1), N1), delete(v(1))]);
    story.wait();
    story.judges(
        detach(v(1), N1),
        [
            (ok(), "fits"),
            (no(Code::NotFound), "odd CTRL-UNPUBLISH-015"),
            (no(Code::Internal), "CTRL-UNPUBLISH-015"),
        ],
    );
}

#[test]
fn a_driver_without_sizes_repeats_the_request() {
    let mut story = Story::new();
    let grown = |bytes| said(VolumeResponse::Grown(bytes, true));
    story.right(create(v(1), wanted()), made(VolumeFacts { capacity_bytes: 0, ..facts(v(1)) }));
    story.right(expand(v(1), 2 * GIB), grown(2 * GIB));
    story.judges(expand(v(1), GIB), [(grown(GIB), "fits"), (grown(0), "CTRL-EXPAND-011")]);
}

#[test]
fn a_volume_grows_and_does_not_shrink() {
    let mut story = Story::of_a_volume();
    let grown = |bytes| said(VolumeResponse::Grown(bytes, true));
    story.judges(
        expand(v(1), 2 * GIB),
        [
            (grown(2 * GIB), "fits"),
            (grown(3 * GIB), "fits"),
            (grown(GIB), "CTRL-EXPAND-011"),
            (grown(0), "CTRL-EXPAND-011"),
            (no(Code::FailedPrecondition), "CTRL-EXPAND-001"),
        ],
    );
    story.judges(expand(v(1), 7 * GIB), [(no(Code::OutOfRange), "fits")]);
    story.right(expand(v(1), 2 * GIB), grown(2 * GIB));
    story.judges(
        expand(v(1), GIB),
        [(grown(GIB), "CTRL-EXPAND-011"), (no(Code::Internal), "odd CTRL-EXPAND-003")],
    );
    let now = seen(VolumeFacts { capacity_bytes: 2 * GIB, ..facts(v(1)) });
    story.judges(look_up(v(1)), [(now, "fits"), (seen(facts(v(1))), "CTRL-GETVOL-004")]);
}

#[test]
fn what_can_grow_in_use_is_what_the_driver_advertises() {
    use Capability::{OfflineExpansion, OnlineExpansion, PublishUnpublishVolume};
    let of = |missing: &[Capability]| {
        let mut story = Story::without(missing);
        story.right(create(v(1), wanted()), made(facts(v(1))));
        if missing.contains(&PublishUnpublishVolume) {
            story.done([stage(v(1), N1)]);
        } else {
            story.right(attach(v(1), N1), ok());
        }
        story
    };
    let grown = said(VolumeResponse::Grown(2 * GIB, true));
    let judged = |missing: &[Capability], done, refused| {
        let answers = [(grown.clone(), done), (no(Code::FailedPrecondition), refused)];
        of(missing).judges(expand(v(1), 2 * GIB), answers);
    };
    judged(&[], "fits", "odd CTRL-EXPAND-004");
    judged(&[OnlineExpansion], "CTRL-EXPAND-016", "fits");
    judged(&[OnlineExpansion, OfflineExpansion], "odd CTRL-EXPAND-016", "fits");
    judged(&[OnlineExpansion, PublishUnpublishVolume], "odd CTRL-EXPAND-016", "fits");
}

#[test]
fn a_volume_is_what_it_was_said_to_be() {
    let mut story = Story::of_a_volume();
    story.judges(
        look_up(v(1)),
        [
            (seen(facts(v(1))), "fits"),
            (seen(VolumeFacts { capacity_bytes: 0, ..facts(v(1)) }), "fits"),
            (seen(VolumeFacts { context: "{}".into(), ..facts(v(1)) }), "fits"),
            (seen(VolumeFacts { context: "{\"pool\": \"b\"}".into(), ..facts(v(1)) }), "MSG-VOLUME-011"),
            (seen(facts(v(2))), "CTRL-GETVOL-011"),
            (no(Code::NotFound), "CTRL-GETVOL-002"),
        ],
    );
    story.right(attach(v(1), N1), ok());
    let on = |nodes: &[_]| said(VolumeResponse::Seen(facts(v(1)), Some(nodes.iter().copied().collect())));
    story.judges(look_up(v(1)), [(on(&[N1, N2]), "fits"), (on(&[N2]), "CTRL-GETVOL-007")]);
}

#[test]
fn a_list_on_one_page_has_every_volume() {
    let mut story = Story::of_a_volume();
    let list = |pages, ids: &[Id]| {
        let entries = ids.iter().map(|id| (*id, VolumeResponse::Seen(facts(*id), None))).collect();
        Answer::Done(Response::Volumes(Listed { pages, entries }))
    };
    story.judges(
        Call::List(List::Volumes),
        [
            (list(1, &[v(1)]), "fits"),
            (list(1, &[]), "CTRL-LISTVOL-002"),
            // Other volumes that come and go may move volumes between pages.
            (list(2, &[]), "fits"),
            (no(Code::Internal), "CTRL-LISTVOL-001"),
            (Answer::Unknown, "fits"),
        ],
    );
    story.done([delete(v(1))]);
    story.judges(Call::List(List::Volumes), [(list(1, &[v(1)]), "fits"), (list(1, &[]), "fits")]);
    story.wait();
    story.judges(
        Call::List(List::Volumes),
        [(list(1, &[v(1)]), "odd CTRL-DELETEVOL-002"), (list(1, &[]), "fits")],
    );
}

#[test]
fn a_listed_size_is_judged_by_the_request() {
    let story = Story::of_a_volume();
    let of_size = |capacity_bytes| {
        let facts = VolumeFacts { capacity_bytes, ..facts(v(1)) };
        let entries = [(v(1), VolumeResponse::Seen(facts, None))].into();
        Answer::Done(Response::Volumes(Listed { pages: 1, entries }))
    };
    story.judges(
        Call::List(List::Volumes),
        [
            (of_size(0), "fits"),
            (of_size(2 * GIB), "odd MSG-CAPRANGE-005"),
            (of_size(GIB / 2), "MSG-CAPRANGE-005"),
        ],
    );
}

/// The driver never reports the size of its volumes, so that its answer to a smaller expansion does not show their size.
#[test]
fn too_small_an_expansion_accuses_nothing_else() {
    let mut story = Story::of_a_volume();
    story.right(expand(v(1), 3 * GIB), said(VolumeResponse::Grown(3 * GIB, true)));
    // The driver only repeats the requested size, and the volume keeps its larger size.
    story.take(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    let larger = CreateSpec { size: Size::at_least(3 * GIB), ..wanted() };
    let there = || made(VolumeFacts { capacity_bytes: 3 * GIB, ..facts(v(1)) });
    story.judges(create(v(1), larger), [(there(), "fits")]);
}

#[test]
fn a_size_from_an_expansion_takes_no_name() {
    let mut story = Story::with(profile());
    let unknown = || made(VolumeFacts { capacity_bytes: 0, ..facts(v(1)) });
    story.right(create(v(1), wanted()), unknown());
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    let larger = CreateSpec { size: Size::at_least(3 * GIB), ..wanted() };
    story.judges(create(v(1), larger.clone()), [(unknown(), "fits"), (no(Code::AlreadyExists), "fits")]);
    let mut story = Story::of_a_volume();
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    story.judges(create(v(1), larger), [(made(facts(v(1))), "CTRL-CREATEVOL-041")]);
}
