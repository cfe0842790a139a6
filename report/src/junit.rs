//! The run as JUnit XML, a test suite for each area.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite, XmlString};

use csi_harness::outcome::Kind;
use csi_harness::story::shortened;

use crate::journal::{CheckEntry, Run};

pub(crate) fn render(run: &Run) -> String {
    let mut report = quick_junit::Report::new("csi-sanity");
    report.set_time(Duration::from_millis(run.duration_ms));
    let conclusion = run.conclude();
    for area in &run.areas {
        let mut suite = TestSuite::new(area.name.as_str());
        suite.add_property(Property::new("endpoint", run.target.endpoint.as_str()));
        suite.add_property(Property::new("driver", run.target.name.as_str()));
        suite.add_property(Property::new("driver-version", run.target.vendor_version.as_str()));
        suite.add_property(Property::new("seed", run.seed.to_string()));
        suite.add_property(Property::new("verdict", run.verdict.name()));
        suite.add_property(Property::new("conclusion", conclusion.name.name()));
        suite.add_property(Property::new("conclusion-words", conclusion.words.as_str()));
        let inside = |check: &&CheckEntry| {
            check.id.rsplit_once('/').map_or(check.id.as_str(), |(name, _)| name) == area.name
        };
        suite.add_test_cases(run.checks.iter().filter(inside).map(|check| case(check, &area.name)));
        report.add_test_suite(suite);
    }
    // Writing into memory cannot fail.
    report.to_string().unwrap_or_default()
}

fn case(check: &CheckEntry, area: &str) -> TestCase {
    let mut status = match check.outcome() {
        // A warning is no failure: CI systems know no third colour.
        Kind::Passed | Kind::Warned => TestCaseStatus::success(),
        Kind::Failed | Kind::UnexpectedPass => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Kind::Broken => TestCaseStatus::non_success(NonSuccessKind::Error),
        Kind::SameFault | Kind::Skipped | Kind::KnownFailure => TestCaseStatus::skipped(),
    };
    if !matches!(check.outcome(), Kind::Passed | Kind::Warned) {
        status.set_message(message(check));
        status.set_type(check.outcome().name());
        if !check.findings.is_empty() {
            status.set_description(check.story());
        }
    }
    let mut case = TestCase::new(check.known_as.as_deref().unwrap_or(&check.id), status);
    case.set_classname(area);
    case.set_time(Duration::from_millis(check.duration_ms));
    case.add_property(Property::new("requirements", check.requirements.join(" ")));
    if check.outcome() == Kind::Warned {
        case.set_system_out(XmlString::new(format!("warning:\n{}", check.story())));
    }
    case
}

fn message(check: &CheckEntry) -> String {
    match &check.known_because {
        Some(reason) => format!("{} (known: {reason})", shortened(&check.message)),
        None => shortened(&check.message),
    }
}
