//! Checks that no legal but unusual driver is accused, and that a missing capability makes exactly the checks that need it skip.

use csi_harness::checks::shard::Shard;
use csi_harness::config::Config;
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Capability, Quirk};
use csi_test_support::mock::pairs;
use csi_test_support::quirks;
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, JOBS, everything_on, everything_set};

/// The suite is divided into this number of parts for the driver with slow calls, because checks that run alone wait for each other.
const SLOW_PARTS: u32 = 4;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for quirks in quirks::drivers() {
        let title = quirks::title("quirk", &quirks);
        let parts = if quirks.contains(&Quirk::SlowCalls) { SLOW_PARTS } else { 1 };
        trials.extend((1..=parts).map(|index| {
            let name = if parts > 1 { format!("{title}/{index}") } else { title.clone() };
            let quirks = quirks.clone();
            Trial::test(name, move || is_not_accused(&quirks, Shard::new(index, parts)))
        }));
    }
    for (what, parameters) in [("without-parameters", &[][..]), ("another-parameter", &[("tier", "silver")])]
    {
        let name = format!("quirk/{}/{what}", Quirk::ParametersDemanded);
        trials.push(Trial::test(name, move || is_not_blamed_for_the_user(parameters)));
    }
    trials.push(Trial::test("static/readonly", is_published_for_reading));
    trials.extend(quirks::lacking().into_iter().map(|without: Vec<Capability>| {
        Trial::test(quirks::title("without", &without), move || skips_what_needs_it(&without))
    }));
    trials
}

/// Checks that a driver with only a Node service and read-only volumes is judged like any other, without writes.
fn is_published_for_reading() -> Result<(), Failed> {
    let mut mock = csi_mock_driver::Config { quirks: vec![Quirk::NodeOnly], ..everything_on() };
    mock.volumes.iter_mut().for_each(|volume| volume.readonly = true);
    let mut config = everything_set();
    config.volumes.iter_mut().for_each(|volume| volume.readonly = true);
    let played = bench::play(JOBS, mock, config)?;
    let reports = played.by_label();
    let outcome = |id: &str| reports.get(id).map(|report| &report.outcome);
    let mut wrong = played.accusations();
    if !matches!(outcome("node/node-publish-volume/repeated"), Some(Outcome::Passed)) {
        wrong.push("nothing is published".to_owned());
    }
    let needs_to_write = "node/node-publish-volume/other-readonly";
    if !matches!(outcome(needs_to_write), Some(Outcome::Skipped(why)) if why.contains("only for reading")) {
        wrong.push(format!("{needs_to_write}: {:?}", outcome(needs_to_write)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// Checks that a driver is not accused if it rejects all volumes because the user left out a parameter that it
/// demands.
fn is_not_blamed_for_the_user(parameters: &[(&str, &str)]) -> Result<(), Failed> {
    let mock = csi_mock_driver::Config { quirks: vec![Quirk::ParametersDemanded], ..everything_on() };
    let config = Config { parameters: pairs(parameters), ..everything_set() };
    let played = bench::play(JOBS, mock, config)?;
    let blamed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Warned(_));
    let wrong: Vec<String> = played
        .reports
        .iter()
        .filter(|report| blamed(&report.outcome))
        .map(|report| format!("{}: {:?}", report.label(), report.outcome))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

fn is_not_accused(quirks: &[Quirk], part: Option<Shard>) -> Result<(), Failed> {
    let mut driver = everything_on();
    let mut config = everything_set();
    quirks::behave(quirks, &mut driver, &mut config);
    let played =
        bench::play_those(JOBS, driver, config, |check| part.is_none_or(|part| part.has(&check.id)))?;
    let mut wrong = played.accusations();
    if played.reports.iter().all(|report| matches!(report.outcome, Outcome::Skipped(_))) {
        wrong.push("every check was skipped".to_owned());
    }
    quirks::verdict(quirks, wrong)
}

/// Checks that exactly the checks that need the missing capabilities are skipped.
fn skips_what_needs_it(without: &[Capability]) -> Result<(), Failed> {
    let mock = csi_mock_driver::Config { without: without.to_vec(), ..everything_on() };
    let played = bench::play(JOBS, mock, everything_set())?;
    let mut wrong = played.accusations();
    for (label, report) in played.by_label() {
        let check = &report.planned.check;
        let access = report.planned.access;
        let unmet = check.needs.iter().find_map(|need| need.unmet(&played.target, access));
        match (&report.outcome, unmet) {
            (Outcome::Skipped(why), None) => {
                wrong.push(format!("{label} is skipped although it could run: {why}"))
            }
            (Outcome::Skipped(_), Some(_)) | (_, None) => {}
            (other, Some(need)) => wrong.push(format!("{label} ran although {need}: {other:?}")),
        }
    }
    quirks::verdict(without, wrong)
}
