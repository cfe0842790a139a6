//! The run as JUnit XML, a test suite for each area.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{
    FlakyOrRerun, NonSuccessKind, Property, TestCase, TestCaseStatus, TestRerun, TestSuite, XmlString,
};

use csi_harness::results::outcome::OutcomeKind;
use csi_harness::text::shorten::shortened;

use crate::entry::CheckEntry;
use crate::journal::Run;
use crate::words::in_words;

/// The name of the only suite of the Go csi-sanity.
const GO_SUITE: &str = "CSI Driver Test Suite";
/// Repetitions of a case that are listed.
const RERUNS_MAX: u32 = 10;
/// The prefix of its cases.
const GO_CASE: &str = "[It] ";

pub(crate) fn render(run: &Run) -> String {
    let mut report = begun(run);
    for area in &run.areas {
        let mut suite = suite(run, &area.name);
        let inside = |check: &&CheckEntry| check.area() == area.name;
        suite.add_test_cases(run.checks.iter().filter(inside).map(|check| case(check, &area.name)));
        report.add_test_suite(suite);
    }
    // Writing into memory cannot fail.
    report.to_string().unwrap_or_default()
}

/// Renders the report under the names of the Go csi-sanity: each of its cases once, with the gravest outcome of the
/// checks that replace it. Checks that it does not have keep their names, in suites of their own.
pub(crate) fn render_as_go(run: &Run) -> String {
    let mut report = begun(run);
    let mut theirs = BTreeMap::<&str, Vec<&CheckEntry>>::new();
    for check in &run.checks {
        for name in &check.go_names {
            theirs.entry(name).or_default().push(check);
        }
    }
    let mut go = suite(run, GO_SUITE);
    for (name, checks) in theirs {
        let Some(gravest) = checks.iter().max_by_key(|check| gravity(check.outcome())) else { continue };
        let mut case = case(gravest, GO_SUITE);
        case.name = XmlString::new(format!("{GO_CASE}{name}"));
        case.set_time(Duration::from_millis(checks.iter().map(|check| check.duration_ms).sum()));
        let labels: Vec<&str> = checks.iter().map(|check| check.id.as_str()).collect();
        case.add_property(Property::new("checks", labels.join(" ")));
        go.add_test_case(case);
    }
    report.add_test_suite(go);
    for area in &run.areas {
        let ours = |check: &&CheckEntry| check.area() == area.name && check.go_names.is_empty();
        let cases: Vec<TestCase> =
            run.checks.iter().filter(ours).map(|check| case(check, &area.name)).collect();
        if !cases.is_empty() {
            let mut suite = suite(run, &area.name);
            suite.add_test_cases(cases);
            report.add_test_suite(suite);
        }
    }
    report.to_string().unwrap_or_default()
}

fn begun(run: &Run) -> quick_junit::Report {
    let mut report = quick_junit::Report::new("csi-sanity");
    report.set_time(Duration::from_millis(run.duration_ms));
    report.timestamp = run.started.parse().ok();
    report
}

fn suite(run: &Run, name: &str) -> TestSuite {
    let (conclusion, summary) = (run.conclude(), run.to_summary());
    let mut suite = TestSuite::new(name);
    suite.timestamp = run.started.parse().ok();
    for (name, value) in [
        ("endpoint", run.target.endpoint.as_str()),
        ("driver", run.target.name.as_str()),
        ("driver-version", run.target.vendor_version.as_str()),
        ("seed", &run.seed.to_string()),
        ("profile", run.profile.name()),
        ("verdict", conclusion.name.name()),
        ("verdict-words", conclusion.words.as_str()),
        ("checks", &in_words(&summary)),
    ] {
        suite.add_property(Property::new(name, value));
    }
    for (check, work) in &summary.cut_short {
        suite.add_property(Property::new("less-work", format!("{check}: {work}")));
    }
    suite
}

/// Orders the outcomes of the checks that replace one case: a pass proves nothing against a failure.
fn gravity(outcome: OutcomeKind) -> usize {
    match outcome {
        OutcomeKind::Skipped => 0,
        OutcomeKind::Passed => 1,
        OutcomeKind::Warned => 2,
        OutcomeKind::SameFault => 3,
        OutcomeKind::KnownFailure => 4,
        OutcomeKind::Broken => 5,
        OutcomeKind::UnexpectedPass => 6,
        OutcomeKind::Flaky => 7,
        OutcomeKind::Failed => 8,
    }
}

fn case(check: &CheckEntry, area: &str) -> TestCase {
    let outcome = check.outcome();
    let only_warns =
        outcome == OutcomeKind::Warned || outcome == OutcomeKind::Flaky && check.counts_as().passes();
    let mut status = match outcome {
        // A warning is no failure: CI systems know no third colour.
        OutcomeKind::Passed => TestCaseStatus::success(),
        OutcomeKind::Warned | OutcomeKind::Flaky if only_warns => TestCaseStatus::success(),
        OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::Warned | OutcomeKind::UnexpectedPass => {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        }
        OutcomeKind::Broken => TestCaseStatus::non_success(NonSuccessKind::Error),
        OutcomeKind::SameFault | OutcomeKind::Skipped | OutcomeKind::KnownFailure => {
            TestCaseStatus::skipped()
        }
    };
    if outcome != OutcomeKind::Passed && !only_warns {
        status.set_message(message(check));
        status.set_type(check.outcome().name());
        if !check.findings.is_empty() {
            status.set_description(check.story());
        }
    }
    add_reruns(&mut status, check);
    // Readers put the class before the name, and the class is the rest of the id.
    let own = check.id.strip_prefix(area).and_then(|rest| rest.strip_prefix('/')).unwrap_or(&check.id);
    let mut case = TestCase::new(check.known_as.as_deref().unwrap_or(own), status);
    case.set_classname(area);
    case.set_time(Duration::from_millis(check.duration_ms));
    case.add_property(Property::new("id", check.id.as_str()));
    case.add_property(Property::new("requirements", check.requirements.join(" ")));
    if only_warns {
        let word = if outcome == OutcomeKind::Flaky { "flaky" } else { "warning" };
        case.set_system_out(XmlString::new(format!("{word}:\n{}", check.story())));
    }
    case
}

/// Adds the plays that failed, as nextest and Surefire have them: the one of a flaky failure, and those that confirm another one.
fn add_reruns(status: &mut TestCaseStatus, check: &CheckEntry) {
    let Some(plays) = check.plays else { return };
    let reruns = match check.outcome() {
        OutcomeKind::Flaky => {
            status.set_rerun_kind(FlakyOrRerun::Flaky);
            plays.failed
        }
        _ => plays.failed.saturating_sub(1),
    };
    for _ in 0..reruns.min(RERUNS_MAX) {
        let mut rerun = TestRerun::new(NonSuccessKind::Failure);
        rerun.set_message(format!("{}: {plays}", message(check))).set_type(check.outcome().name());
        status.add_rerun(rerun);
    }
}

fn message(check: &CheckEntry) -> String {
    match &check.known_because {
        Some(reason) => format!("{} (known: {reason})", shortened(&check.message)),
        None => shortened(&check.message),
    }
}
