//! Checks that each check passes on a correct driver with all features, that none is skipped, and that each makes the
//! call of its id.

use std::sync::{Arc, OnceLock};

use csi_harness::checks::check::Runs;
use csi_harness::config::Config;
use csi_harness::protocol::version::CsiVersion;
use csi_harness::results::outcome::Outcome;
use csi_harness::run::refutation::is_of_preview;
use csi_mock_driver::Defect;
use csi_proto::RPCS;
use csi_test_support::run::{Run, called};
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, JOBS, everything_on, everything_set, lacks, registry};

type Shared = Arc<OnceLock<Result<Run, String>>>;

pub(crate) fn trials() -> Vec<Trial> {
    let shared = Shared::default();
    let (a, b) = (shared.clone(), shared);
    vec![
        Trial::test("healthy/all-pass", move || all_pass(played(&a)?)),
        Trial::test("healthy/all-call-what-they-speak-of", move || all_call(played(&b)?)),
        Trial::test("healthy/preview-passes", preview_passes),
        Trial::test("healthy/none-is-accused-by-another-version", none_is_accused_by_another_version),
        Trial::test("healthy/few-volumes-on-a-node", all_find_room),
        Trial::test("healthy/empty-ids-come-last", empty_ids_come_last),
        Trial::test("healthy/little-space-is-no-limit-on-a-volume", little_space_is_no_limit),
    ]
}

fn played(shared: &Shared) -> Result<&Run, Failed> {
    let play = || {
        bench::play(JOBS, everything_on(), everything_set())
            .map_err(|failed| failed.message().unwrap_or("no message").to_owned())
    };
    shared.get_or_init(play).as_ref().map_err(Failed::from)
}

fn all_pass(played: &Run) -> Result<(), Failed> {
    let mut wrong = played.accusations();
    for (label, report) in played.by_label() {
        match &report.outcome {
            Outcome::Passed | Outcome::Failed(_) | Outcome::Broken(_) => {}
            // It runs on another driver.
            Outcome::Skipped(_) if needs_another_driver(&label) => {}
            other => wrong.push(format!("{label}: {other:?}")),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// Checks that the checks of a draft pass if the user names its version, and are skipped otherwise.
fn preview_passes() -> Result<(), Failed> {
    let (mut mock, mut config) = (everything_on(), everything_set());
    mock.csi_version = csi_mock_driver::CsiVersion::V1_14Preview;
    let skipped = bench::play_those(JOBS, mock.clone(), config.clone(), is_of_preview)?;
    bench::preview(&mut mock, &mut config);
    let passed = bench::play_those(JOBS, mock, config, is_of_preview)?;
    let are =
        |run: &Run, wanted: fn(&Outcome) -> bool| run.reports.iter().all(|report| wanted(&report.outcome));
    let is_noted =
        |run: &Run| run.target.remarks().iter().any(|remark| remark.contains("1.14-preview tests it"));
    let is_right = !passed.reports.is_empty()
        && is_noted(&skipped)
        && !is_noted(&passed)
        && are(&skipped, |outcome| matches!(outcome, Outcome::Skipped(why) if why.contains("later version")))
        && are(&passed, |outcome| matches!(outcome, Outcome::Passed));
    if is_right {
        Ok(())
    } else {
        Err(Failed::from(format!("{:#?}\n{:#?}", skipped.by_label(), passed.by_label())))
    }
}

/// Checks that a driver with everything of all versions is right whichever of them it is judged by.
fn none_is_accused_by_another_version() -> Result<(), Failed> {
    for version in [CsiVersion::V1_12, CsiVersion::V1_13, CsiVersion::V1_14Preview] {
        let config = Config { csi_version: version, ..everything_set() };
        let accusations = bench::play(JOBS, everything_on(), config)?.accusations();
        if !accusations.is_empty() {
            return Err(Failed::from(format!("{version:?}: {}", accusations.join("\n"))));
        }
    }
    Ok(())
}

/// Checks that concurrent checks do not fill a node with space for fewer volumes than there are checks.
fn all_find_room() -> Result<(), Failed> {
    let mock = csi_mock_driver::Config { max_volumes_per_node: 5, ..everything_on() };
    all_pass(&bench::play(JOBS, mock, everything_set())?)
}

/// Checks that checks with empty ids run last, because a driver may treat an empty id as all objects and lose
/// everything.
fn empty_ids_come_last() -> Result<(), Failed> {
    let empty = [
        "no-volume-id",
        "no-snapshot-id",
        "no-group-snapshot-id",
        "no-target-path",
        "no-staging-target-path",
    ];
    let undoing = ["delete-", "controller-unpublish-", "node-unpublish-", "node-unstage-"];
    let names_nothing = |id: &str| {
        let mut parts = id.split('/').skip(1);
        let (rpc, what) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        undoing.iter().any(|start| rpc.starts_with(start)) && empty.contains(&what)
    };
    let registry = registry();
    let found: Vec<_> =
        registry.checks().map(|(_, check)| check).filter(|one| names_nothing(&one.id)).collect();
    let early: Vec<&str> =
        found.iter().filter(|one| one.course() != Runs::LosesData).map(|check| &*check.id).collect();
    if found.len() >= 8 && early.is_empty() { Ok(()) } else { Err(Failed::from(format!("{early:?}"))) }
}

/// Checks that a driver which is not able to make a volume larger than its space is not said to have a limit on one volume.
fn little_space_is_no_limit() -> Result<(), Failed> {
    let defects = vec![Defect::GetCapacityHidesSizeLimits];
    let mock = csi_mock_driver::Config { capacity_bytes: 1 << 40, defects, ..everything_on() };
    let check = "controller/get-capacity/maximum-reported";
    let run = bench::play_those(1, mock, everything_set(), |one| one.id == check)?;
    match run.outcomes_of(check)[..] {
        [Outcome::Passed, ..] => Ok(()),
        ref other => Err(Failed::from(format!("{other:?}"))),
    }
}

fn all_call(played: &Run) -> Result<(), Failed> {
    let wrong: Vec<String> = played
        .by_label()
        .into_iter()
        .filter_map(|(label, report)| {
            let rpc = rpc_of(&label).filter(|_| !needs_another_driver(&label))?;
            (!called(report).any(|method| method == rpc)).then(|| format!("{label} does not call {rpc}"))
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// Returns whether a check needs a driver that lacks a capability, or one of a version that is not released.
fn needs_another_driver(label: &str) -> bool {
    registry().find(label).is_ok_and(|check| !lacks(check).is_empty() || is_of_preview(check))
}

/// Returns the RPC in an id such as `controller/create-volume/no-name`.
fn rpc_of(label: &str) -> Option<&'static str> {
    let kebab = label.split('/').nth(1)?;
    let camel: String = kebab.split('-').map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect();
    RPCS.iter().map(|rpc| rpc.method).find(|method| *method == camel)
}
