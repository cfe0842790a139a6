//! Random sequences never accuse right drivers, find mistakes, and shrink to fewer calls.

use std::time::Duration;

use csi_model::answer::{Answer, Response};
use csi_model::call::{Call, GroupCall, Size, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::generate::{Op, Verb, ops};
use csi_model::names::{Id, Name};
use csi_model::state_set::Impossible;
use csi_model::{Model, Span, generate};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use csi_test_support::histories::story;
use csi_test_support::histories::toy::{Toy, Trait};

const STEPS: usize = 100;

/// The driver has deleted a volume 100 ms after it says so, which is before the next step.
fn profile() -> DriverProfile {
    DriverProfile { settle: Duration::from_millis(100), ..story::profile() }
}

/// An answer reaches the caller, or gets lost on one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The answer arrives.
    There,
    /// The driver does the call, and its answer is lost.
    Lost,
    /// The call never reaches the driver.
    NotSent,
    /// The caller gives up, and the driver does the call before the next one.
    Late,
}

/// Makes the generated calls to a driver, and returns them with the rule that the driver broke.
fn run(ops: &[Op], toy: Toy, ways: impl Fn(usize) -> Way) -> (Vec<Call>, Option<String>) {
    let mut toy = toy;
    let mut model = Model::new(profile());
    let mut calls = Vec::new();
    let mut late: Option<Call> = None;
    for (nth, op) in ops.iter().enumerate() {
        let now = Duration::from_secs(nth as u64);
        let Some(call) = generate(&model, *op, nth as u32, now) else { continue };
        let way = ways(nth);
        if let Some(late) = late.take() {
            toy.call(&late);
        }
        let answer: Answer<Response> = match way {
            Way::There => toy.call(&call),
            Way::Lost => {
                toy.call(&call);
                Answer::Unknown
            }
            Way::NotSent => Answer::Unknown,
            Way::Late => {
                late = Some(call.clone());
                Answer::Unknown
            }
        };
        let taken =
            model.take(&call, &answer, Span { invoked: now, returned: now + Duration::from_millis(5) });
        calls.push(call);
        match taken.stop {
            Some(Impossible::Wrong(breach) | Impossible::Known(breach)) => {
                return (calls, Some(breach.rule.id.to_owned()));
            }
            Some(Impossible::TooMany(bound)) => panic!("{bound}"),
            None => {}
        }
    }
    (calls, None)
}

fn runner(cases: u32, seed: u8) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4096, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
}

fn traits() -> impl Strategy<Value = Vec<Trait>> {
    proptest::sample::subsequence(Trait::LEGAL.to_vec(), 0..=Trait::LEGAL.len())
}

#[test]
fn a_right_driver_is_never_accused() {
    let strategy = (ops(&profile(), &Verb::ALL, STEPS), traits());
    let verdict = runner(200, 1).run(&strategy, |(ops, traits)| {
        prop_assert_eq!(run(&ops, Toy::with(traits), |_| Way::There).1, None);
        Ok(())
    });
    assert_eq!(verdict, Ok(()));
}

#[test]
fn nor_is_one_whose_answers_get_lost() {
    let way = prop_oneof![6 => Just(Way::There), 1 => Just(Way::Lost), 1 => Just(Way::NotSent), 1 => Just(Way::Late)];
    let strategy = (ops(&profile(), &Verb::ALL, STEPS), traits(), proptest::collection::vec(way, STEPS));
    let verdict = runner(200, 2).run(&strategy, |(ops, traits, ways)| {
        prop_assert_eq!(run(&ops, Toy::with(traits), |nth| ways[nth]).1, None);
        Ok(())
    });
    assert_eq!(verdict, Ok(()));
}

#[test]
fn every_mistake_is_found_and_shrinks_to_a_few_calls() {
    for mistake in Trait::MISTAKES {
        let verdict = runner(400, 3).run(&ops(&profile(), &Verb::ALL, STEPS), |ops| {
            prop_assert_eq!(run(&ops, Toy::with([mistake]), |_| Way::There).1, None);
            Ok(())
        });
        let Err(TestError::Fail(_, ops)) = verdict else { panic!("{mistake:?} is not found: {verdict:?}") };
        let (calls, rule) = run(&ops, Toy::with([mistake]), |_| Way::There);
        assert!(calls.len() <= 16, "{mistake:?}: {rule:?} {calls:#?}");
    }
}

#[test]
fn verbs_are_generated_by_capability() {
    let mut runner = runner(1, 4);
    let mut seen: Vec<&str> = Vec::new();
    for _ in 0..60 {
        let ops = ops(&profile(), &Verb::ALL, 2 * STEPS).new_tree(&mut runner).expect("a sequence").current();
        seen.extend(run(&ops, Toy::default(), |_| Way::There).0.iter().map(Call::method));
    }
    for verb in Verb::ALL {
        let method = match verb {
            Verb::CopySnapshot | Verb::CopyVolume | Verb::CopyMember => "CreateVolume".to_owned(),
            Verb::DeleteMember => "DeleteSnapshot".to_owned(),
            Verb::GiveBack => "DeleteVolume".to_owned(),
            Verb::Write | Verb::Read => format!("{verb:?}").to_lowercase(),
            _ => format!("{verb:?}"),
        };
        assert!(seen.iter().any(|seen| **seen == *method), "{method}");
    }
    let mut bare = profile();
    bare.capabilities.clear();
    let enabled: Vec<Verb> = Verb::ALL.into_iter().filter(|verb| verb.is_enabled(&bare)).collect();
    use Verb::*;
    assert_eq!(
        enabled,
        [GiveBack, ValidateVolumeCapabilities, NodePublishVolume, NodeUnpublishVolume, Write, Read]
    );
}

#[test]
fn possible_sizes_are_asked_for_most() {
    let known = Size::at_least(profile().size_bytes);
    let mut runner = runner(1, 5);
    let mut sizes: Vec<Size> = Vec::new();
    for _ in 0..60 {
        let ops = ops(&profile(), &Verb::ALL, STEPS).new_tree(&mut runner).expect("a sequence").current();
        let size = |call: Call| match call {
            Call::Volume(VolumeCall::CreateVolume { wanted, .. }) => Some(wanted.size),
            _ => None,
        };
        sizes.extend(run(&ops, Toy::default(), |_| Way::There).0.into_iter().filter_map(size));
    }
    type ObjectKind = (&'static str, fn(&Size) -> bool);
    let kinds: [ObjectKind; 5] = [
        ("required only", |size| size.required_bytes > 0 && size.limit_bytes == 0),
        ("limit only", |size| size.required_bytes == 0 && size.limit_bytes > 0),
        ("exactly", |size| size.required_bytes == size.limit_bytes),
        ("a range", |size| 0 < size.required_bytes && size.required_bytes < size.limit_bytes),
        ("a multiple of nothing", |size| size.required_bytes % 512 == 1),
    ];
    for (kind, is_it) in kinds {
        assert!(sizes.iter().any(is_it), "{kind}");
    }
    assert!(sizes.iter().all(|size| size.limit_bytes == 0 || size.required_bytes <= size.limit_bytes));
    let often = sizes.iter().filter(|size| **size == known).count();
    assert!(often > sizes.len() / 6, "{often} of {}", sizes.len());
}

/// Returns a model in which there is a group snapshot of these volumes.
fn of_a_group(volumes: &[Id]) -> Model {
    let (mut toy, mut model) = (Toy::default(), Model::new(profile()));
    let create = |volume: &Id| story::create(*volume, story::wanted()).into();
    let cut = GroupCall::CreateVolumeGroupSnapshot { name: Name::group(0), volumes: volumes.to_vec() };
    let calls: Vec<Call> = volumes.iter().map(create).chain([cut.into()]).collect();
    for (nth, call) in (0..).zip(calls) {
        let now = Duration::from_secs(nth);
        let taken = model.take(&call, &toy.call(&call), Span { invoked: now, returned: now });
        assert!(taken.stop.is_none(), "{call}");
    }
    model
}

#[test]
fn members_are_deleted_alone_but_for_the_last_one() {
    let deletes = |model: &Model| {
        (0..1000).any(|pick| {
            let op = Op { verb: Verb::DeleteMember, pick };
            let call = generate(model, op, 9, Duration::from_secs(60));
            matches!(call, Some(Call::Group(GroupCall::DeleteMember { .. })))
        })
    };
    assert!(deletes(&of_a_group(&[story::v(1), story::v(2)])));
    assert!(!deletes(&of_a_group(&[story::v(1)])), "nothing could name the group any more");
}
