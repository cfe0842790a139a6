//! A run without named faults has the same result with every seed, and does not accuse the driver of effects of chance, of the machine, or
//! of a wrong request.

use std::collections::BTreeMap;

use csi_harness::results::outcome::Outcome;
use csi_harness::spec::verdict::Plays;
use csi_test_support::run::{Run, outcomes};
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, Played, Tries};

/// The budget is so small that the seed adds no fault to the plain ones.
const PLAIN_ONLY_MS: u64 = 1;
/// A call may take this time once nothing is broken. The drivers need none, but a busy machine may.
const SETTLES_MS: u64 = 10_000;
/// The plain driver answers UNKNOWN once in a directory with this file.
const UNKNOWN_ONCE: &str = "unknown-once";
/// The plain driver does not start in a directory with this file once its state could not be written.
const NO_REPAIR: &str = "no-repair";
/// The plain driver cannot stage a restored volume in a directory with this file.
const NO_COPIES: &str = "no-copies";

/// DeleteVolume of the plain driver fails in a directory with this file after two other calls of the volume have failed.
const TWO_ERRORS: &str = "two-errors";

/// Each entry has a mistake, the check that has to find it with every seed, and the rule.
const FOUND_BY_EVERY_SEED: &[(&str, &str, &str)] = &[
    ("plain/formats-what-it-cannot-read", "faults/commands", "FAULT-DATA-001"),
    ("plain/believes-umount", "faults/commands", "NODE-UNPUBLISH-002"),
    ("plain/writes-in-place", "faults/crash-points", "FAULT-DONE-001"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let found = FOUND_BY_EVERY_SEED.iter().map(|(mistake, check, rule)| {
        let name = format!("default-run/every-seed-finds/{mistake}");
        Trial::test(name, || every_seed_finds(mistake, check, rule))
    });
    let trial = |name: &str, run: fn() -> Result<(), Failed>| Trial::test(format!("default-run/{name}"), run);
    found
        .chain([
            trial("what-does-not-come-again-is-flaky", what_does_not_come_again_is_flaky),
            trial("what-comes-again-is-confirmed", what_comes_again_is_confirmed),
            trial("copies-that-never-can-be-staged", copies_that_never_can_be_staged),
            trial("an-error-that-ends-all-starts", an_error_that_ends_all_starts),
            trial("only-the-needed-faults-are-named", only_the_needed_faults_are_named),
            trial("the-way-to-a-failure-is-short", the_way_to_a_failure_is_short),
            trial("a-wrong-request-is-made-once", a_wrong_request_is_made_once),
        ])
        .collect()
}

fn tries(only: &[&str]) -> Tries {
    Tries::new(only.iter().copied(), PLAIN_ONLY_MS, SETTLES_MS)
}

fn every_seed_finds(id: &str, check: &'static str, rule: &str) -> Result<(), Failed> {
    let played = Played::wrong(id)?;
    let mut before: Option<Vec<String>> = None;
    for seed in [1, 2] {
        let tries = Tries { seed, check: Some(check), ..tries(&[]) };
        let Some(run) = bench::play(played, &tries)? else { return Ok(()) };
        let found = confirmed(&run);
        let is_found = found.iter().any(|known| known == rule);
        if !is_found || before.as_ref().is_some_and(|before| *before != found) {
            let story = run.stories_of(check).join("\n");
            return Err(Failed::from(format!("seed {seed}: {found:?}, before {before:?}\n{story}")));
        }
        before = Some(found);
    }
    Ok(())
}

/// Returns the rules of the findings that occurred again when they were repeated.
fn confirmed(run: &Run) -> Vec<String> {
    let findings = run.reports.iter().flat_map(outcomes).filter_map(Outcome::finding);
    let again = findings.filter(|one| one.plays.is_none_or(|plays| !plays.is_flaky()));
    let mut rules: Vec<String> =
        again.filter_map(|one| one.violation.requirement).map(|rule| rule.id.to_owned()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

const MOUNT_FAILS: &str = "commands/node-publish/mount:1/code-32";
/// With this mistake, the plain driver answers UNKNOWN to each call that meets the fault.
const SAYS_UNKNOWN: &str = "plain/says-unknown";

fn what_does_not_come_again_is_flaky() -> Result<(), Failed> {
    let tries = Tries { files: vec![UNKNOWN_ONCE], ..tries(&[MOUNT_FAILS]) };
    is_played(Played::Plain(None), &tries, Plays { failed: 1, of: 4 })
}

fn what_comes_again_is_confirmed() -> Result<(), Failed> {
    is_played(Played::wrong(SAYS_UNKNOWN)?, &tries(&[MOUNT_FAILS]), Plays { failed: 2, of: 2 })
}

/// Asserts that the run has one finding, which was played so often.
fn is_played(played: Played, tries: &Tries, wanted: Plays) -> Result<(), Failed> {
    let Some(run) = bench::play(played, tries)? else { return Ok(()) };
    let findings = run.reports.iter().flat_map(outcomes).filter_map(Outcome::finding);
    let plays: Vec<Option<Plays>> = findings.map(|one| one.plays).collect();
    match plays == [Some(wanted)] {
        true => Ok(()),
        false => Err(Failed::from(format!("{plays:?}\n{}", run.stories_of("faults/commands").join("\n")))),
    }
}

/// The report has the fault right before the call that meets it, after only the calls of that volume.
fn the_way_to_a_failure_is_short() -> Result<(), Failed> {
    let Some(run) = bench::play(Played::wrong(SAYS_UNKNOWN)?, &tries(&[MOUNT_FAILS]))? else { return Ok(()) };
    let mut findings = run.reports.iter().flat_map(outcomes).filter_map(Outcome::finding);
    let steps = findings.next().map(|one| one.violation.reproduction.to_vec()).unwrap_or_default();
    let fault = steps.iter().position(|step| step.rpc.is_none() && step.what.contains(MOUNT_FAILS));
    let met = fault.and_then(|at| steps.get(at + 1)).and_then(|step| step.rpc.as_deref());
    match met {
        Some("NodePublishVolume") if steps.len() < 20 => Ok(()),
        _ => Err(Failed::from(format!("{steps:#?}"))),
    }
}

/// If the machine cannot stage any restored volume, that is no fault of CreateVolume.
fn copies_that_never_can_be_staged() -> Result<(), Failed> {
    let check = "faults/crash-points";
    let only = ["crash-points/create-volume-from-snapshot/answer/killed"];
    let tries = Tries { files: vec![NO_COPIES], check: Some(check), ..tries(&only) };
    let Some(run) = bench::play(Played::Plain(None), &tries)? else { return Ok(()) };
    let said = run.reports.iter().flat_map(|report| report.notes.iter());
    let is_said = said.into_iter().any(|note| note.contains("that fails even without a fault"));
    match run.outcomes_of(check)[..] {
        [Outcome::Passed] if is_said => Ok(()),
        _ => Err(Failed::from(format!("{:?}\n{}", run.outcomes_of(check), run.stories_of(check).join("\n")))),
    }
}

/// The driver does not start any more after this error. Without --state-dir, the check can try no other fault and repeat no call.
fn an_error_that_ends_all_starts() -> Result<(), Failed> {
    let (check, fault) = ("faults/system-calls", "system-calls/create-volume/rename:1/EIO");
    let tries = Tries { files: vec![NO_REPAIR], check: Some(check), ..tries(&[fault]) };
    let Some(run) = bench::play(Played::Plain(None), &tries)? else { return Ok(()) };
    let stories = run.stories_of(check).join("\n");
    match run.outcomes_of(check)[..] {
        [Outcome::Failed(finding)]
            if finding.violation.message.contains("does not answer after it was killed") =>
        {
            stories.contains(fault).then_some(()).ok_or_else(|| Failed::from(stories))
        }
        _ => Err(Failed::from(stories)),
    }
}

/// The check leaves out the faults that are not needed for the failure, one by one.
fn only_the_needed_faults_are_named() -> Result<(), Failed> {
    let check = "faults/commands";
    let tries = Tries { files: vec![TWO_ERRORS], check: Some(check), settle_ms: 1_000, ..tries(&[]) };
    let Some(run) = bench::play(Played::Plain(None), &tries)? else { return Ok(()) };
    let lines: Vec<&String> = run
        .reports
        .iter()
        .flat_map(outcomes)
        .filter_map(Outcome::finding)
        .flat_map(|one| &one.violation.transcript)
        .skip_while(|line| !line.starts_with("only these faults together"))
        .skip(1)
        .collect();
    match &lines[..] {
        [one, other]
            if [one, other].iter().any(|line| line.contains("in node-stage"))
                && [one, other].iter().any(|line| line.contains("in node-publish")) =>
        {
            Ok(())
        }
        _ => Err(Failed::from(format!("{lines:?}\n{}", run.stories_of(check).join("\n")))),
    }
}

/// A driver that rejects a request as wrong does not put it off, so that the call is not repeated.
fn a_wrong_request_is_made_once() -> Result<(), Failed> {
    let check = "faults/commands";
    let parameters = BTreeMap::from([("backend".to_owned(), "none-of-these".to_owned())]);
    let tries = Tries { check: Some(check), parameters, ..tries(&[]) };
    let Some(run) = bench::play(Played::Reference("directory"), &tries)? else { return Ok(()) };
    let calls: Vec<&str> = run
        .reports
        .iter()
        .flat_map(|report| report.calls.iter())
        .filter(|call| !call.cleanup)
        .map(|call| call.rpc.method)
        // Each volume begins with the id of the node, which is read without effect.
        .filter(|method| *method != "NodeGetInfo")
        .collect();
    match (&run.outcomes_of(check)[..], &calls[..]) {
        ([Outcome::Broken(why)], ["CreateVolume"]) if why.contains("INVALID_ARGUMENT") => Ok(()),
        (outcomes, calls) => Err(Failed::from(format!("{outcomes:?} after {calls:?}"))),
    }
}
