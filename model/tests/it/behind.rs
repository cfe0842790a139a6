//! A reported fault is tolerated, objects that depend on it are not judged, and all other objects are.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_harness::protocol::capability::Capability;
use csi_model::Span;
use csi_model::answer::{
    Answer, Listed, Response, SnapshotFacts, SnapshotResponse, VolumeFacts, VolumeResponse,
};
use csi_model::call::{Call, CreateSpec, List, Size, SnapshotCall, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::expectation::{Breach, Known};
use csi_model::history::{Doubt, Entry, History, Report, check};
use csi_model::names::Name;
use csi_model::state_set::Impossible;
use tonic::Code;

use csi_test_support::histories::story::*;

fn known<'a>(breaches: impl IntoIterator<Item = &'a Breach>) -> Known {
    let reported = breaches.into_iter().map(|breach| (breach.fault(), "another/check".to_owned()));
    reported.collect::<BTreeMap<_, _>>().into()
}

/// Returns the fault of an answer that the story must find wrong.
#[track_caller]
fn breach(mut story: Story, call: impl Into<Call>, answer: Answer<Response>) -> Breach {
    match story.take(call, answer).stop {
        Some(Impossible::Wrong(breach)) => *breach,
        other => panic!("{other:?}"),
    }
}

/// Begins a story of a driver with a known fault, in which there is a volume.
fn beside(fault: &Breach) -> Story {
    let mut story = Story::with(DriverProfile { known: known([fault]), ..profile() });
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story
}

fn elsewhere() -> VolumeFacts {
    VolumeFacts { topology: "{somewhere else}".into(), ..facts(v(1)) }
}

#[test]
fn a_known_fault_hides_no_other_in_its_answer() {
    let topology = breach(Story::of_a_volume(), create(v(1), wanted()), made(elsewhere()));
    let mut story = beside(&topology);
    assert_eq!(story.take(create(v(1), wanted()), made(elsewhere())).remarks, [topology]);
    story.judges(
        create(v(1), wanted()),
        [
            (made(facts(v(1))), "fits"),
            (made(VolumeFacts { context: "{}".into(), ..elsewhere() }), "MSG-VOLUME-008"),
            (made(VolumeFacts { id: Some(Name::volume(0).id(1)), ..elsewhere() }), "CTRL-CREATEVOL-002"),
            (no(Code::AlreadyExists), "CTRL-CREATEVOL-002"),
        ],
    );
    story.judges(look_up(v(1)), [(no(Code::NotFound), "CTRL-GETVOL-002")]);
}

#[test]
fn a_known_fault_is_recognised_beside_a_call_without_an_answer() {
    let again = |mut story: Story| {
        story.right(stage(v(1), N1), Answer::Unknown);
        let remarks = story.take(stage(v(1), N1), no(Code::Internal)).remarks;
        remarks.into_iter().map(|breach| breach.rule.id).collect::<Vec<_>>()
    };
    let mut never = Story::of_a_volume();
    never.right(attach(v(1), N1), ok());
    let fault = breach(never, stage(v(1), N1), no(Code::Internal));
    let of = |mut story: Story| {
        story.right(attach(v(1), N1), ok());
        again(story)
    };
    assert_eq!(of(beside(&fault)), ["NODE-STAGE-001"]);
    assert_eq!(of(Story::of_a_volume()), ["GEN-CONC-003"]);
}

/// The model keeps one object for each name. A driver that wrongly gives a taken name to a second object has two objects: the model must
/// not take the second one for an object that was deleted.
#[test]
fn a_second_snapshot_of_a_name_is_no_deleted_one() {
    let first = || cut_ok(snapshot_facts(s(1), v(1)));
    let other = Name::snapshot(0).id(1);
    let second = || cut_ok(snapshot_facts(other, v(2)));
    let two = |mut story: Story| {
        story.right(create(v(2), wanted()), made(facts(v(2))));
        story.right(cut(s(1), v(1)), first());
        story
    };
    let given = breach(two(Story::of_a_volume()), cut(s(1), v(2)), second());
    let mut story = two(beside(&given));
    assert_eq!(story.take(cut(s(1), v(2)), second()).stop, None);
    let both = [(s(1), snapshot_facts(s(1), v(1))), (other, snapshot_facts(other, v(2)))];
    let entries = both.map(|(id, facts)| (id, SnapshotResponse::Seen(facts))).into();
    story.right(Call::List(List::Snapshots), Answer::Done(Response::Snapshots(Listed { pages: 1, entries })));
    story.right(SnapshotCall::GetSnapshot { snapshot: other }, second());

    let copy = CreateSpec { source: Some(v(2)), ..wanted() };
    let other = VolumeFacts { id: Some(Name::volume(0).id(1)), ..facts(v(1)) };
    let given = breach(two(Story::of_a_volume()), create(v(1), copy.clone()), made(other.clone()));
    let mut story = two(beside(&given));
    assert_eq!(story.take(create(v(1), copy), made(other.clone())).stop, None);
    story.right(look_up(Name::volume(0).id(1)), seen(other));
}

/// The second snapshot is a part of the known fault, and not a second fault because the first answer is not repeated.
#[test]
fn second_snapshot_of_a_name_is_reported_once() {
    let second = snapshot_facts(Name::snapshot(0).id(1), v(2));
    let second = || cut_ok(second.clone());
    let two = |mut story: Story| {
        story.right(create(v(2), wanted()), made(facts(v(2))));
        story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
        story
    };
    let given = breach(two(Story::of_a_volume()), cut(s(1), v(2)), second());
    assert_eq!(given.rule.id, "CTRL-CREATESNAP-024");
    let again = two(beside(&given)).take(cut(s(1), v(2)), second());
    assert_eq!((again.remarks, again.stop), (vec![given], None));

    let copy = CreateSpec { source: Some(v(2)), ..wanted() };
    let other = || made(VolumeFacts { id: Some(Name::volume(0).id(1)), ..facts(v(1)) });
    let given = breach(two(Story::of_a_volume()), create(v(1), copy.clone()), other());
    assert_eq!(given.rule.id, "CTRL-CREATEVOL-045");
    let again = two(beside(&given)).take(create(v(1), copy), other());
    assert_eq!((again.remarks, again.stop), (vec![given], None));
}

fn of_size(capacity_bytes: i64) -> VolumeFacts {
    VolumeFacts { capacity_bytes, ..facts(v(1)) }
}

fn grown(bytes: i64) -> Answer<Response> {
    said(VolumeResponse::Grown(bytes, false))
}

#[test]
fn a_wrong_size_is_not_believed() {
    let small = breach(Story::of_a_volume(), expand(v(1), 2 * GIB), grown(GIB));
    assert_eq!(small.rule.id, "CTRL-EXPAND-011");
    let mut story = beside(&small);
    assert_eq!(story.take(expand(v(1), 2 * GIB), grown(GIB)).remarks, [small]);
    for bytes in [GIB, 2 * GIB] {
        story.judges(look_up(v(1)), [(seen(of_size(bytes)), "fits")]);
        story.judges(create(v(1), wanted()), [(made(of_size(bytes)), "fits")]);
    }
    // An answer about the volume with its first size says nothing about its present size.
    story.right(create(v(1), wanted()), made(of_size(GIB)));
    story.judges(look_up(v(1)), [(seen(of_size(2 * GIB)), "fits")]);
    story.right(expand(v(1), 3 * GIB), grown(3 * GIB));
    story.judges(look_up(v(1)), [(seen(of_size(GIB)), "CTRL-GETVOL-004")]);

    let small = breach(Story::new(), create(v(1), wanted()), made(of_size(GIB / 2)));
    assert_eq!(small.rule.id, "MSG-CAPRANGE-005");
    let mut story = Story::with(DriverProfile { known: known([&small]), ..profile() });
    assert_eq!(story.take(create(v(1), wanted()), made(of_size(GIB / 2))).remarks, [small]);
    story.judges(look_up(v(1)), [(seen(of_size(GIB)), "fits"), (seen(of_size(GIB / 2)), "fits")]);
    story.judges(create(v(1), wanted()), [(made(of_size(GIB)), "fits")]);
}

/// The fault is that the size was rounded down, and not that the volume grew while it was published.
#[test]
fn a_volume_rounded_down_may_grow_in_use() {
    let larger = || CreateSpec { size: Size::at_least(2 * GIB), ..wanted() };
    let small = breach(Story::new(), create(v(1), larger()), made(of_size(GIB)));
    let mut profile = DriverProfile { known: known([&small]), ..profile() };
    profile.capabilities.remove(&Capability::OnlineExpansion);
    let mut story = Story::with(profile);
    assert_eq!(story.take(create(v(1), larger()), made(of_size(GIB))).remarks, [small]);
    story.right(attach(v(1), N1), ok());
    let answers = [
        (grown(2 * GIB), "fits"),
        (grown(GIB), "CTRL-EXPAND-011"),
        (no(Code::FailedPrecondition), "fits"),
        (no(Code::Internal), "CTRL-EXPAND-016"),
    ];
    story.judges(expand(v(1), 2 * GIB), answers);
}

#[test]
fn a_negative_size_of_a_snapshot_is_not_believed() {
    let of_size = |size_bytes| cut_ok(SnapshotFacts { size_bytes, ..snapshot_facts(s(1), v(1)) });
    let negative = breach(Story::of_a_volume(), cut(s(1), v(1)), of_size(-1));
    assert_eq!(negative.rule.id, "MSG-SNAPSHOT-002");
    let mut story = beside(&negative);
    assert_eq!(story.take(cut(s(1), v(1)), of_size(-1)).remarks, [negative]);
    story.right(cut(s(1), v(1)), of_size(GIB));
    story.judges(cut(s(1), v(1)), [(of_size(2 * GIB), "CTRL-CREATESNAP-002")]);
}

#[test]
fn a_refusal_with_another_code_is_another_fault() {
    let refused = breach(Story::of_a_volume(), create(v(1), wanted()), no(Code::AlreadyExists));
    beside(&refused).judges(
        create(v(1), wanted()),
        [(no(Code::AlreadyExists), "odd CTRL-CREATEVOL-002"), (no(Code::NotFound), "CTRL-CREATEVOL-002")],
    );
}

#[test]
fn what_was_made_from_something_in_doubt_is_in_doubt() {
    let second = VolumeFacts { id: Some(Name::volume(0).id(1)), ..facts(v(1)) };
    let doubled = breach(Story::of_a_volume(), create(v(1), wanted()), made(second.clone()));
    let mut story = beside(&doubled);
    story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
    let copy = CreateSpec { source: Some(s(1)), ..wanted() };
    story.right(create(v(2), copy), made(facts(v(2))));
    story.right(create(v(3), wanted()), made(facts(v(3))));
    let again = story.take(create(v(1), wanted()), made(second));
    assert_eq!((again.remarks, again.stop), (vec![doubled], None));
    for name in [v(1).name, s(1).name, v(2).name] {
        assert!(story.model.is_lost(name), "{name}");
    }
    story.judges(look_up(v(1)), [(no(Code::NotFound), "fits")]);
    story.judges(look_up(v(3)), [(no(Code::NotFound), "CTRL-GETVOL-002")]);
    let listed = |ids: &[_]| {
        let entries = ids.iter().map(|id| (*id, csi_model::answer::VolumeResponse::Seen(facts(*id), None)));
        Answer::Done(Response::Volumes(Listed { pages: 1, entries: entries.collect::<BTreeMap<_, _>>() }))
    };
    story.judges(Call::List(List::Volumes), [(listed(&[]), "CTRL-LISTVOL-002")]);
}

/// The driver makes a volume although a copy has the name, another worker deletes it, and a list does not contain it.
fn granted_and_deleted(known: Known) -> Report {
    let copy = CreateSpec { source: Some(s(1)), ..wanted() };
    let nothing = Answer::Done(Response::Volumes(Listed { pages: 1, entries: BTreeMap::new() }));
    let calls: Vec<(u16, u64, u64, Call, Answer<Response>)> = vec![
        (1, 0, 1, create(v(1), copy).into(), made(facts(v(1)))),
        (2, 10, 14, create(v(1), wanted()).into(), made(facts(v(1)))),
        (3, 11, 13, delete(v(1)).into(), ok()),
        (4, 40, 41, Call::List(List::Volumes), nothing),
    ];
    let entry = |(worker, from, to, call, answer)| Entry {
        worker,
        call,
        answer,
        span: Span { invoked: Duration::from_millis(from), returned: Duration::from_millis(to) },
    };
    let profile = DriverProfile { settle: Duration::from_millis(10), known, ..profile() };
    check(&History { profile, entries: calls.into_iter().map(entry).collect() })
}

#[test]
fn a_list_is_not_blamed_for_another_call() {
    let report = granted_and_deleted(Known::default());
    let [unordered] = &report.unordered[..] else { panic!("{report:#?}") };
    assert_eq!(unordered.breach.rule.id, "CTRL-CREATEVOL-045");
    assert!(unordered.calls.contains(&1) && unordered.calls.contains(&3), "{unordered:#?}");
    let report = granted_and_deleted(known([&unordered.breach]));
    assert!(report.unordered.is_empty(), "{report:#?}");
    assert!(report.undecided.iter().all(|one| one.because != Doubt::Fault), "{report:#?}");
}

/// The caller has made one call at a time, so the rule on concurrent calls does not apply, even if the driver still works on the failed call.
#[test]
fn a_call_after_a_failed_one_is_not_beside_it() {
    let odd = || create(v(1), CreateSpec { size: Size { required_bytes: 0, limit_bytes: GIB }, ..wanted() });
    let failed = breach(Story::new(), odd(), no(Code::Unknown));
    let mut story = Story::with(DriverProfile { known: known([&failed]), ..profile() });
    for _ in 0..2 {
        assert_eq!(story.take(odd(), no(Code::Unknown)).remarks, std::slice::from_ref(&failed));
    }
}

/// The check after-error/nothing-made reports an expansion that was rejected and took effect. CreateVolume has kept the limit.
#[test]
fn a_rejected_expansion_is_not_held_against_create_volume() {
    let limited = |mut story: Story| {
        let size = Size { required_bytes: GIB, limit_bytes: GIB };
        story.right(create(v(1), CreateSpec { size, ..wanted() }), made(facts(v(1))));
        story
    };
    let published = |mut story: Story| {
        story.done([attach(v(1), N1), stage(v(1), N1), publish(v(1), N1, T1)]);
        story
    };
    let read = VolumeCall::Read { volume: v(1), node: N1, target: T1 };
    let larger = || said(VolumeResponse::Read([].into(), Some(2 << 30)));
    published(limited(Story::new())).judges(read.clone(), [(larger(), "MSG-CAPRANGE-008")]);

    let (grow, rejected) = (|| expand(v(1), 2 * GIB), || no(Code::InvalidArgument));
    let fault = breach(limited(Story::new()), grow(), rejected());
    let mut story = limited(Story::with(DriverProfile { known: known([&fault]), ..profile() }));
    assert_eq!(story.take(grow(), rejected()).remarks, [fault]);
    published(story).judges(read, [(larger(), "fits")]);
}
