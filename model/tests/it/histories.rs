//! Calls run at the same time: there is an order for the answers of a right driver, and none for those of a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use csi_model::Span;
use csi_model::answer::{Answer, Listed, Response, VolumeFacts, VolumeResponse};
use csi_model::call::{Call, CreateSpec, List, Size};
use csi_model::history::{Doubt, Entry, History, Outcome, Parts, Report, Timeline, Treatment, check, search};
use csi_model::names::{Id, Name};
use csi_model::state_set::{Bound, STEPS_MAX};
use tonic::Code;

use csi_test_support::histories::plain::has_order;
use csi_test_support::histories::simulation::{Dice, Plan, Race, simulate};
use csi_test_support::histories::story::*;
use csi_test_support::histories::toy::Trait;

/// Makes a history of entries with the worker, the begin and the end in milliseconds, the call and the answer.
fn history(calls: Vec<(u16, u64, u64, Call, Answer<Response>)>) -> History {
    let entry = |(worker, from, to, call, answer)| Entry {
        worker,
        call,
        answer,
        span: Span { invoked: Duration::from_millis(from), returned: Duration::from_millis(to) },
    };
    let mut profile = profile();
    profile.settle = Duration::from_millis(10);
    History { profile, entries: calls.into_iter().map(entry).collect() }
}

fn rules(report: &Report) -> Vec<&'static str> {
    report.unordered.iter().map(|unordered| unordered.breach.rule.id).collect()
}

fn second() -> Id {
    Name::volume(0).id(1)
}

#[test]
fn equal_calls_at_the_same_time_make_one_volume() {
    let create = || create(v(1), wanted()).into();
    let one = history(vec![
        (1, 0, 10, create(), made(facts(v(1)))),
        (2, 1, 11, create(), made(facts(v(1)))),
        (3, 2, 5, create(), no(Code::Aborted)),
    ]);
    assert_eq!(check(&one), Report { calls: 3, objects: 1, ..Report::default() });
    let two = history(vec![
        (1, 0, 10, create(), made(facts(v(1)))),
        (2, 1, 11, create(), made(facts(second()))),
        (3, 2, 5, create(), no(Code::Aborted)),
        (1, 20, 25, create(), made(facts(v(1)))),
    ]);
    let report = check(&two);
    assert_eq!(rules(&report), ["CTRL-CREATEVOL-002"]);
    assert_eq!(report.unordered[0].calls, [0, 1]);
}

/// The driver rightly answers the other caller with ALREADY_EXISTS: the only fault is that the volume is too small.
#[test]
fn a_wrong_answer_is_not_held_against_another() {
    let larger = CreateSpec { size: Size::at_least(2 * GIB), source: Some(s(4)), ..wanted() };
    let other = CreateSpec { size: Size::at_least(2 * GIB), ..wanted() };
    let history = history(vec![
        (1, 0, 10, create(v(1), larger.clone()).into(), made(facts(v(1)))),
        (5, 1, 5, create(v(1), other).into(), no(Code::AlreadyExists)),
        (1, 20, 25, create(v(1), larger).into(), made(facts(v(1)))),
    ]);
    let report = check(&history);
    assert_eq!(rules(&report), ["MSG-CAPRANGE-005"]);
    assert_eq!((&report.unordered[0].calls, report.unordered[0].by_itself), (&vec![0], Some(0)));
}

/// The answer to the expansion may be about the volume that was deleted before, and then the answer of CreateVolume would have to be wrong.
/// An expansion of another volume shows which of the two answers is wrong.
#[test]
fn a_fault_is_not_held_against_other_calls() {
    let create = |volume| create(volume, CreateSpec { size: Size::at_least(2 * GIB), ..wanted() }).into();
    let of_size = |volume, capacity_bytes| made(VolumeFacts { capacity_bytes, ..facts(volume) });
    let expand = |volume| expand(volume, 3 * GIB).into();
    let old_size = || said(VolumeResponse::Grown(2 * GIB, false));
    let contradicting = vec![
        (1, 95, 96, create(v(4)), of_size(v(4), 2 * GIB)),
        (1, 97, 99, delete(v(4)).into(), ok()),
        (5, 100, 114, create(v(4)), of_size(v(4), 2 * GIB)),
        (2, 106, 127, expand(v(4)), old_size()),
        (0, 119, 127, create(v(4)), of_size(v(4), 3 * GIB)),
    ];
    assert_eq!(rules(&check(&history(contradicting.clone()))), ["CTRL-CREATEVOL-002"]);
    let certain =
        vec![(3, 100, 114, create(v(5)), of_size(v(5), 2 * GIB)), (3, 115, 117, expand(v(5)), old_size())];
    let mut history = history([contradicting, certain].concat());
    let report = check(&history);
    assert_eq!(rules(&report), ["CTRL-EXPAND-011"], "{report:#?}");
    let fault = report.unordered[0].breach.fault();
    history.profile.known = BTreeMap::from([(fault, "another/check".to_owned())]).into();
    assert_eq!(rules(&check(&history)), [] as [&str; 0]);
}

/// The volume is made again while it is expanded. The answer is about a volume, so that its fault is not that there was no volume before.
#[test]
fn a_wrong_answer_is_taken_to_be_about_what_is_there() {
    let create = || create(v(1), wanted()).into();
    let history = history(vec![
        (1, 0, 1, create(), made(facts(v(1)))),
        (1, 2, 3, delete(v(1)).into(), ok()),
        (1, 20, 40, create(), made(facts(v(1)))),
        (2, 21, 30, expand(v(1), 2 * GIB).into(), said(VolumeResponse::Grown(GIB, false))),
    ]);
    assert_eq!(rules(&check(&history)), ["CTRL-EXPAND-011"]);
}

#[test]
fn a_name_taken_meanwhile_is_not_free() {
    let create = || create(v(1), wanted()).into();
    let history =
        history(vec![(0, 1, 9, create(), no(Code::AlreadyExists)), (1, 0, 10, create(), made(facts(v(1))))]);
    let report = check(&history);
    assert_eq!(rules(&report), ["CTRL-CREATEVOL-002"]);
    assert_eq!(report.unordered[0].by_itself, Some(0));
    assert_eq!(
        Timeline::new(&history, &report.unordered[0]).to_string(),
        "\
CreateVolume must return the existing volume, but failed
  worker 1   CreateVolume v1 1Gi  ├────────────────────────────────────────┤  OK
> worker 0   CreateVolume v1 1Gi      ├────────────────────────────────┤      ALREADY_EXISTS
  the marked answer is wrong, in whichever order the calls took effect
  (a call takes effect at some moment between its beginning and its end)
  expected  OK
  actual    ALREADY_EXISTS
  CTRL-CREATEVOL-002"
    );
}

/// Each of the two calls may have taken effect before the volume was made. That the other one is equal does not exclude this.
#[test]
fn equal_calls_may_both_fail_before_the_volume() {
    let refused = |worker| (worker, 0, 28, detach(v(1), N1).into(), no(Code::NotFound));
    let create = (1, 0, 10, create(v(1), wanted()).into(), made(facts(v(1))));
    assert_eq!(rules(&check(&history(vec![create, refused(2), refused(3)]))), [] as [&str; 0]);
}

#[test]
fn calls_at_the_same_time_may_come_in_any_order() {
    let create = (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1))));
    let overlapping = |answer| {
        history(vec![
            create.clone(),
            (1, 10, 20, delete(v(1)).into(), ok()),
            (2, 11, 19, attach(v(1), N1).into(), answer),
        ])
    };
    // The volume may have been attached first and deleted although it was in use, or may have been deleted first.
    for answer in [ok(), no(Code::NotFound)] {
        assert_eq!(rules(&check(&overlapping(answer))), [] as [&str; 0]);
    }
    // The attachment may still succeed for a moment after the deletion, but not later.
    let after = |from, answer| {
        history(vec![
            create.clone(),
            (1, 10, 20, delete(v(1)).into(), ok()),
            (2, from, from + 1, attach(v(1), N1).into(), answer),
        ])
    };
    assert_eq!(rules(&check(&after(25, ok()))), [] as [&str; 0]);
    let report = check(&after(31, ok()));
    assert_eq!(rules(&report), ["CTRL-PUBLISH-024"]);
    assert_eq!(report.unordered[0].calls, [1, 2], "that it was made does not matter");
}

/// A call that fails in the end may have made something before, which it then undoes.
#[test]
fn what_a_rejected_call_has_made_may_be_seen() {
    let larger = CreateSpec { size: Size::at_least(2 * GIB), ..wanted() };
    let seen_at = |from| {
        history(vec![
            (1, 0, 10, create(v(1), wanted()).into(), made(facts(v(1)))),
            (1, 20, 30, delete(v(1)).into(), ok()),
            (2, 50, 90, create(v(1), larger.clone()).into(), no(Code::OutOfRange)),
            (3, from, from + 5, look_up(v(1)).into(), seen(facts(v(1)))),
            (3, from + 100, from + 105, look_up(v(1)).into(), no(Code::NotFound)),
        ])
    };
    let report = check(&seen_at(60));
    assert_eq!(rules(&report), [] as [&str; 0]);
    let remarks: Vec<_> =
        report.remarks.iter().map(|(_, breach)| (breach.rule.id, &*breach.message)).collect();
    let message = "ControllerGetVolume of a deleted volume must be rejected, but succeeded, while CreateVolume was under way, \
                which was rejected";
    assert_eq!(remarks, [("GEN-CONC-003", message)]);
    assert_eq!(rules(&check(&seen_at(95))), ["AFTER-ERROR-003"], "it was over by then");
}

/// If a rejected call took effect, the calls that see the effect are not to blame.
#[test]
fn a_rejected_call_that_took_effect_is_reported() {
    let larger = CreateSpec { size: Size::at_least(2 * GIB), ..wanted() };
    let mut history = history(vec![
        (1, 0, 10, create(v(1), wanted()).into(), made(facts(v(1)))),
        (1, 20, 30, delete(v(1)).into(), ok()),
        (2, 50, 60, create(v(1), larger).into(), no(Code::OutOfRange)),
        (3, 70, 75, look_up(v(1)).into(), seen(facts(v(1)))),
        (3, 80, 85, look_up(v(1)).into(), seen(facts(v(1)))),
    ]);
    let report = check(&history);
    assert_eq!(rules(&report), ["AFTER-ERROR-003"]);
    assert_eq!(report.unordered[0].breach.message, "CreateVolume is rejected, but takes effect");
    assert_eq!(report.unordered[0].calls, [1, 2, 3]);
    history.profile.was_ended = true;
    assert_eq!(
        rules(&check(&history)),
        ["CTRL-GETVOL-015"],
        "a driver that was ended may have forgotten the deletion"
    );
}

#[test]
fn publish_beside_unpublish_leaves_one_of_the_two() {
    let both = |answer| {
        history(vec![
            (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1)))),
            (1, 10, 20, attach(v(1), N1).into(), ok()),
            (2, 10, 20, detach(v(1), N1).into(), ok()),
            (1, 30, 31, delete(v(1)).into(), answer),
        ])
    };
    assert_eq!(rules(&check(&both(ok()))), [] as [&str; 0]);
    assert_eq!(rules(&check(&both(no(Code::FailedPrecondition)))), [] as [&str; 0]);
    assert_eq!(rules(&check(&both(no(Code::NotFound)))), ["CTRL-DELETEVOL-001"]);
}

#[test]
fn a_snapshot_is_not_taken_of_what_is_gone() {
    let cut_at = |from| {
        history(vec![
            (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1)))),
            (1, 10, 20, delete(v(1)).into(), ok()),
            (2, from, from + 5, cut(s(1), v(1)).into(), cut_ok(snapshot_facts(s(1), v(1)))),
        ])
    };
    assert_eq!(rules(&check(&cut_at(15))), [] as [&str; 0]);
    assert_eq!(rules(&check(&cut_at(40))), ["CTRL-CREATESNAP-013"]);
    // An earlier call may have taken the snapshot, and this answer may only repeat that.
    let mut again = cut_at(40);
    let mut first = again.entries[2].clone();
    first.span = Span { invoked: Duration::from_millis(5), returned: Duration::from_millis(6) };
    again.entries.push(first);
    assert_eq!(rules(&check(&again)), [] as [&str; 0]);
    // The earlier call may have taken the snapshot even if its answer is unknown.
    again.entries[3].answer = Answer::Unknown;
    assert_eq!(rules(&check(&again)), [] as [&str; 0]);
}

#[test]
fn a_copy_is_not_made_of_what_is_gone() {
    let copy = CreateSpec { source: Some(s(1)), ..wanted() };
    let copied = history(vec![
        (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1)))),
        (1, 2, 3, cut(s(1), v(1)).into(), cut_ok(snapshot_facts(s(1), v(1)))),
        (1, 4, 5, drop_snapshot(s(1)).into(), ok()),
        (2, 20, 21, create(v(2), copy).into(), made(facts(v(2)))),
    ]);
    let report = check(&copied);
    assert_eq!(rules(&report), ["CTRL-CREATEVOL-039"]);
    assert_eq!(report.unordered[0].name, Name::snapshot(0));
    assert_eq!(report.unordered[0].calls, [2, 3]);
}

#[test]
fn a_list_on_one_page_misses_nothing_that_outlived_it() {
    let list = |pages, ids: &[Id]| {
        let entries = ids.iter().map(|id| (*id, VolumeResponse::Seen(facts(*id), None))).collect();
        Answer::Done(Response::Volumes(Listed { pages, entries }))
    };
    let listed = |pages, ids: &[Id]| {
        history(vec![
            (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1)))),
            (1, 5, 15, create(v(2), wanted()).into(), made(facts(v(2)))),
            (2, 10, 20, Call::List(List::Volumes), list(pages, ids)),
            (1, 15, 16, delete(v(3)).into(), ok()),
            (1, 30, 40, delete(v(1)).into(), ok()),
        ])
    };
    for ids in [&[v(1)][..], &[v(1), v(2)][..]] {
        assert_eq!(rules(&check(&listed(1, ids))), [] as [&str; 0]);
    }
    let report = check(&listed(1, &[v(2)]));
    assert_eq!(rules(&report), ["CTRL-LISTVOL-002"]);
    assert_eq!(report.unordered[0].calls, [0, 2]);
    // The specification lets a list of several pages miss volumes while other volumes come and go.
    assert_eq!(rules(&check(&listed(2, &[v(2)]))), [] as [&str; 0]);
}

#[test]
fn two_volumes_may_share_an_id_one_after_the_other() {
    let both = |deleted: bool| {
        let mut calls = vec![
            (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1)))),
            (2, 5, 6, create(v(2), wanted()).into(), made(facts(v(1)))),
        ];
        if deleted {
            calls.push((1, 2, 4, delete(v(1)).into(), ok()));
        }
        check(&history(calls))
    };
    let report = both(false);
    assert_eq!(rules(&report), ["MSG-VOLUME-003"]);
    assert_eq!(report.unordered[0].calls, [0, 1]);
    let report = both(true);
    assert_eq!(rules(&report), [] as [&str; 0]);
    assert_eq!(report.undecided[0].because, Doubt::SharedId);
}

#[test]
fn an_unanswered_call_acts_before_the_next_one() {
    let after = |answer| {
        history(vec![
            (1, 0, 1, create(v(1), wanted()).into(), made(facts(v(1)))),
            (1, 10, 20, attach(v(1), N1).into(), Answer::Unknown),
            (1, 21, 25, detach(v(1), N1).into(), ok()),
            (1, 30, 31, delete(v(1)).into(), answer),
        ])
    };
    assert_eq!(rules(&check(&after(ok()))), [] as [&str; 0]);
    let report = check(&after(Answer::PutOff(Code::Aborted)));
    assert_eq!(rules(&report), [] as [&str; 0]);
    // The attachment may have taken effect after the detachment, so that the volume may be in use. NOT_FOUND is still wrong.
    let mut late = after(no(Code::NotFound));
    late.entries[2].span.invoked = Duration::from_millis(15);
    assert_eq!(rules(&check(&late)), ["CTRL-DELETEVOL-001"]);
}

#[test]
fn internal_errors_under_load_are_remarked_on() {
    let create = || create(v(1), wanted()).into();
    let remarks = |other: Option<(u64, u64, Answer<Response>)>| -> Vec<(Name, &str)> {
        let other = other.map(|(from, to, answer)| (2, from, to, look_up(v(2)).into(), answer));
        let report =
            check(&history([(1, 10, 20, create(), no(Code::Internal))].into_iter().chain(other).collect()));
        assert_eq!(rules(&report), [] as [&str; 0]);
        report.remarks.iter().map(|(name, remark)| (*name, remark.rule.id)).collect()
    };
    let remark = (Name::volume(0), "GEN-CONC-003");
    assert_eq!(remarks(Some((15, 25, no(Code::NotFound)))), [remark]);
    assert_eq!(remarks(Some((0, 5, Answer::Unknown))), [remark], "the driver may still be at work on it");
    assert_eq!(remarks(Some((0, 5, no(Code::NotFound)))), [], "one call after the other");
    assert_eq!(remarks(None), []);
}

#[test]
fn an_error_for_a_deleted_object_has_no_other_cause() {
    let remarks = |deleted_at: u64| {
        let report = check(&history(vec![
            (1, 0, 10, create(v(1), wanted()).into(), made(facts(v(1)))),
            (2, 15, deleted_at, delete(v(1)).into(), ok()),
            (1, 30, 40, cut(s(1), v(1)).into(), no(Code::Internal)),
            (2, 35, 45, look_up(v(2)).into(), no(Code::NotFound)),
        ]));
        report.remarks.len()
    };
    assert_eq!(remarks(20), 0);
    assert_eq!(remarks(32), 1, "the deletion is one of the calls under way");
}

#[test]
fn where_too_much_is_possible_nothing_is_said() {
    let mut calls = vec![(0, 0, 1, create(v(1), wanted()).into(), made(facts(v(1))))];
    for node in 0..100 {
        let node = csi_model::names::Node(node);
        calls.push((1, 10, 20, attach(v(1), node).into(), Answer::Unknown));
        calls.push((2, 10, 20, stage(v(1), node).into(), Answer::Unknown));
    }
    calls.push((0, 30, 31, look_up(v(1)).into(), seen(facts(v(1)))));
    let report = check(&history(calls));
    assert!(
        matches!(report.undecided[0].because, Doubt::Bound(Bound::Open | Bound::Configurations)),
        "{report:?}"
    );
    assert!(report.unordered.is_empty());
}

#[test]
fn the_histories_of_right_drivers_have_an_order() {
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let traits = Trait::LEGAL.into_iter().filter(|_| dice.below(3) == 0).collect();
        let report = check(&simulate(&Plan { traits, ..Plan::new(seed) }));
        assert_eq!((report.unordered, report.undecided), (Vec::new(), Vec::new()), "seed {seed}");
    }
}

#[test]
fn mistakes_leave_histories_without_an_order() {
    let mistakes =
        [Trait::ForgetsNames, Trait::AttachesWhatIsGone, Trait::DeletesNothing, Trait::ListsWithoutTheLast];
    let races = [Race::OnNames, Race::StaleLists, Race::OnAttachments];
    let plans = |seed: u64| {
        let mistakes = mistakes.map(|one| Plan { calls: 200, traits: [one].into(), ..Plan::new(seed) });
        let races = races.map(|one| Plan { calls: 200, races: [one].into(), ..Plan::new(seed) });
        mistakes.into_iter().chain(races).collect::<Vec<_>>()
    };
    let mut unfound: BTreeSet<usize> = (0..mistakes.len() + races.len()).collect();
    for (seed, kind) in
        (0..20).flat_map(|seed| (0..mistakes.len() + races.len()).map(move |kind| (seed, kind)))
    {
        if !unfound.contains(&kind) {
            continue;
        }
        let history = simulate(&plans(seed)[kind]);
        let Some(unordered) = check(&history).unordered.into_iter().next() else { continue };
        unfound.remove(&kind);
        assert!(unordered.calls.len() <= 6, "{kind}: {}", Timeline::new(&history, &unordered));
    }
    assert!(unfound.is_empty(), "{unfound:?}");
}

#[test]
fn the_search_agrees_with_one_that_tries_every_order() {
    let (mut ordered, mut unordered) = (0, 0);
    for seed in 0..1500 {
        let volumes = 1 + (seed % 3 == 2) as u16;
        let plan =
            Plan { calls: 7, workers: 3, volumes, lost_percent: 8, aborted_percent: 4, ..Plan::new(seed) };
        let mut history = simulate(&plan);
        spoil(&mut history, &mut Dice::new(seed));
        let volumes = Parts::of(&history).volumes;
        let plain = has_order(&volumes, u64::MAX);
        let found = volumes.values().all(|parts| {
            matches!(search(parts, |_| Treatment::Kept, &mut { STEPS_MAX }), Outcome::Ordered(_))
        });
        assert_eq!(Some(found), plain, "seed {seed}: {history:#?}");
        if found { ordered += 1 } else { unordered += 1 }
    }
    assert!(ordered > 300 && unordered > 300, "{ordered} ordered, {unordered} not");
}

/// Exchanges some answers, so that there may be no order for the history.
fn spoil(history: &mut History, dice: &mut Dice) {
    let count = history.entries.len() as u64;
    for _ in 0..dice.below(3) {
        let entry = &mut history.entries[dice.below(count) as usize];
        entry.answer = match (dice.below(4), &entry.call) {
            (0, _) => no(Code::NotFound),
            (1, _) => no(Code::FailedPrecondition),
            (2, _) => Answer::Unknown,
            (_, Call::Volume(call))
                if matches!(entry.answer, Answer::Refused(_)) && call.subject().id().is_some() =>
            {
                ok()
            }
            _ => no(Code::AlreadyExists),
        };
    }
}

#[test]
fn a_timeline_is_text_and_data() {
    let history = history(vec![
        (3, 0, 5, create(v(1), wanted()).into(), made(facts(v(1)))),
        (3, 10, 20, delete(v(1)).into(), ok()),
        (12, 40, 50, attach(v(1), N1).into(), ok()),
    ]);
    let report = check(&history);
    let timeline = Timeline::new(&history, &report.unordered[0]);
    assert_eq!(
        timeline.to_string(),
        "\
ControllerPublishVolume of a deleted volume must be rejected, but succeeded
  worker 3   DeleteVolume v1                       ├──────────┤                                OK
  worker 12  ControllerPublishVolume v1 to node 1                                ├──────────┤  OK
  the two answers cannot both be right, whichever of the calls took effect first
  (a call takes effect at some moment between its beginning and its end)
  expected  NOT_FOUND
  actual    OK
  CTRL-PUBLISH-024"
    );
    let data = serde_json::to_value(&timeline).unwrap();
    assert_eq!(data["requirement"], "CTRL-PUBLISH-024");
    assert_eq!(data["rows"][1]["from-us"], 30_000);
    assert_eq!(data["rows"][1]["call"], "ControllerPublishVolume v1 to node 1");
    let spans = timeline.into_spans();
    assert_eq!(spans.iter().map(|span| span.worker).collect::<Vec<_>>(), [3, 12]);
    assert_eq!((spans[1].from_us, spans[1].to_us), (30_000, 40_000));
}
