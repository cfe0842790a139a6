//! Checks that every check finds the defects that it names, and that every defect that only attacks show is named.

use std::collections::BTreeSet;

use csi_harness::checks::check::Check;
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_harness::run::refutation::{Trial, on_a_defect};
use csi_mock_driver::Defect;
use csi_test_support::mock::{self, everything_set};
use csi_test_support::run::check_rules;
use libtest_mimic::Failed;

use crate::process::IN_PROCESSES;
use crate::registry;

/// The result does not depend on the seed.
const SEED: u64 = 1;
/// The time limit of calls, one of which gets no answer.
const CALL_MS: u64 = 300;

pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
    let registry = registry();
    let pairs = registry
        .checks()
        .flat_map(|(_, check)| check.refuted_by.iter().map(move |defect| (check.clone(), *defect)))
        .filter(|(_, defect)| !IN_PROCESSES.contains(defect))
        .map(|(check, defect)| {
            libtest_mimic::Trial::test(format!("defect/{defect}/{}", check.id), move || {
                is_found(&check, &played(&check, defect)?)
            })
        });
    pairs
        .chain([
            libtest_mimic::Trial::test("defect/all-are-named", all_are_named),
            libtest_mimic::Trial::test("defect/what-stays-ends-no-check", what_stays_ends_no_check),
            libtest_mimic::Trial::test("defect/no-answer-ends-no-check", no_answer_ends_no_check),
            libtest_mimic::Trial::test("defect/an-rpc-that-fails-anyway", an_rpc_that_fails_anyway),
            libtest_mimic::Trial::test("defect/unknown-ids-that-fail-anyway", unknown_ids_that_fail_anyway),
            libtest_mimic::Trial::test(
                "defect/a-target-that-always-stays-is-not-put-down-to-a-link",
                a_target_that_always_stays_is_not_due_to_a_link,
            ),
        ])
        .collect()
}

/// An RPC that answers INTERNAL to every request says nothing of its answers to hostile ones.
fn an_rpc_that_fails_anyway() -> Result<(), Failed> {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert("NodeExpandVolume".parse()?, "INTERNAL:100000".parse()?);
    passes("hostile/limits/strings", mock)
}

/// A driver that answers INTERNAL to any unknown id says nothing of its answers to ids of another form.
fn unknown_ids_that_fail_anyway() -> Result<(), Failed> {
    let mock = || csi_mock_driver::Config {
        defects: vec![Defect::CreateSnapshotUnknownSourceAsInternal],
        ..Default::default()
    };
    passes("hostile/ids/forms", mock())?;
    passes("hostile/limits/strings", mock())
}

fn passes(check: &str, mock: csi_mock_driver::Config) -> Result<(), Failed> {
    let run = mock::run(registry(), mock, everything_set(), SEED, |planned| planned.id == check)?;
    match &run.reports[..] {
        [said] if said.outcome == Outcome::Passed => Ok(()),
        reports => Err(Failed::from(format!("{reports:#?}"))),
    }
}

/// Checks that a driver which cannot delete unusual names is still sent all requests, and that its leaks are
/// reported.
fn what_stays_ends_no_check() -> Result<(), Failed> {
    let mock =
        csi_mock_driver::Config { defects: vec![Defect::DeleteVolumeRefusesOddNames], ..Default::default() };
    let mut config = everything_set();
    config.time_limits.settle_ms = Some(100);
    let run = mock::run(registry(), mock, config, SEED, |check| check.id == "hostile/commands/texts")?;
    let said = run.reports.first().ok_or("it did not run")?;
    if said.outcome != Outcome::Passed {
        return Err(Failed::from(format!("{:?}", said.outcome)));
    }
    let is_noted = said.notes.iter().any(|note| note.contains("of the requests created was not removed"));
    match is_noted && !run.summary.leaks.is_empty() {
        true => Ok(()),
        false => Err(Failed::from(format!("what stays is not reported: {:?}", said.notes))),
    }
}

/// Checks that a driver which leaves one RPC without an answer is still sent the other requests, the last of which finds the defect.
fn no_answer_ends_no_check() -> Result<(), Failed> {
    let hangs = Defect::NodeGetVolumeStatsHangs;
    let played = |defects: Vec<Defect>| {
        let mock = csi_mock_driver::Config { defects, ..Default::default() };
        let mut config = everything_set();
        config.time_limits.call_ms = CALL_MS;
        mock::run(registry(), mock, config, SEED, |check| check.id == "hostile/paths/ids")
    };
    let both = played(vec![hangs, Defect::DeleteVolumeFollowsEndsOfIds])?;
    let alone = played(vec![hangs])?;
    match (&both.reports[..], &alone.reports[..]) {
        ([both], [alone])
            if both.outcome.violation().is_some() && matches!(alone.outcome, Outcome::Broken(_)) =>
        {
            Ok(())
        }
        reports => Err(Failed::from(format!("{reports:#?}"))),
    }
}

/// A driver that never removes target paths leaves them behind a link as well, but no volume in them.
fn a_target_that_always_stays_is_not_due_to_a_link() -> Result<(), Failed> {
    // With the first defect alone, the mock driver goes through links, and leaves nothing elsewhere.
    let defects = vec![Defect::NodeUnpublishForgetsLinks, Defect::NodeUnpublishLeavesTarget];
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let run = mock::run(registry(), mock, everything_set(), SEED, |check| {
        check.id == "hostile/targets/link-above"
    })?;
    let said = run.reports.first().ok_or("it did not run")?;
    match &said.outcome {
        Outcome::Skipped(why) if why.contains("a target path without a link") => Ok(()),
        outcome => Err(Failed::from(format!("{outcome:?}"))),
    }
}

fn played(check: &Check, defect: &str) -> Result<Vec<CheckReport>, Failed> {
    let defect: Defect = defect.parse().map_err(|_| format!("there is no defect {defect}"))?;
    let mock = csi_mock_driver::Config { defects: vec![defect], ..Default::default() };
    let mut config = everything_set();
    config.time_limits.settle_ms = Some(100);
    // The time is long, so that all requests are sent even on a busy machine.
    config.effort.check_budget_ms = 100_000;
    Ok(mock::run(registry(), mock, config, SEED, |other| other.id == check.id)?.reports)
}

pub(crate) fn is_found(check: &Check, said: &[CheckReport]) -> Result<(), Failed> {
    let outcomes: Vec<&Outcome> = said.iter().map(|said| &said.outcome).collect();
    match on_a_defect(&outcomes) {
        Trial::Good => check_rules(check, said),
        Trial::Bad(why) => Err(Failed::from(why)),
        // Without root nothing can be mounted.
        Trial::Skipped(why) if why.contains("root") => Ok(()),
        Trial::Skipped(why) => Err(Failed::from(why)),
    }
}

fn all_are_named() -> Result<(), Failed> {
    let named: BTreeSet<&str> =
        registry().checks().flat_map(|(_, check)| check.refuted_by.iter().copied()).collect();
    let unnamed: Vec<_> = Defect::UNDER_ATTACK.iter().filter(|defect| !named.contains(defect.id())).collect();
    if unnamed.is_empty() { Ok(()) } else { Err(Failed::from(format!("no check is for {unnamed:?}"))) }
}
