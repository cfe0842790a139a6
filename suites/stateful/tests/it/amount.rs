//! The amount of work of a check depends on its settings and on nothing else.

use csi_harness::checks::registry::Registry;
use csi_harness::config::Effort;
use csi_harness::protocol::capability::Capability;
use csi_harness::results::outcome::Outcome;
use csi_harness::spec::requirements::req;
use csi_mock_driver::{Config, Defect};
use csi_model::call::Call;
use csi_suite_stateful::case::{BreachText, Case, CaseStep, Driver, FORM, RecordedAnswer};
use csi_suite_stateful::how::CallMode;
use csi_test_support::histories::story::*;
use csi_test_support::mock::{self, everything_set};
use csi_test_support::run::{Run, outcomes};
use serde_json::Value;

const CHECK: &str = "property/volumes";

fn run(defects: &[Defect], effort: Effort, seed: u64) -> Run {
    let mock = Config { defects: defects.to_vec(), ..Config::default() };
    let mut config = everything_set();
    config.access_types.truncate(1);
    config.effort = effort;
    let registry = Registry::new([csi_suite_stateful::property::SUITE]);
    mock::run(registry, mock, config, seed, |check| check.id == CHECK).expect("the mock runs")
}

fn calls(run: &Run) -> Vec<(&'static str, u64)> {
    run.summary.calls.iter().map(|calls| (calls.rpc.method, calls.done + calls.refused)).collect()
}

#[test]
fn the_first_sequences_do_not_depend_on_the_seed() {
    let of = |cases, seed| calls(&run(&[], Effort { cases, ..Effort::default() }, seed));
    assert_eq!(of(1, 1), of(1, 2));
    assert_ne!(of(4, 1), of(4, 2), "the others do");
}

#[test]
fn a_sequence_that_shows_a_fault_goes_on_to_its_end() {
    let calls: [Call; 4] = [
        create(v(1), wanted()).into(),
        create(v(1), wanted()).into(),
        attach(v(1), N1).into(),
        attach(v(1), N1).into(),
    ];
    let step = |call| CaseStep {
        call,
        how: CallMode::Once,
        worker: 0,
        from_us: 0,
        to_us: 0,
        request: Value::Null,
        expected: Vec::new(),
        recorded: RecordedAnswer::new(&ok(), "", Value::Null),
    };
    let case = Case {
        csi_sanity_case: FORM,
        check: CHECK.to_owned(),
        seed: 1,
        breach: BreachText {
            requirement: req::MSG_VOLUME_008.id.to_owned(),
            message: String::new(),
            expected: String::new(),
            actual: String::new(),
        },
        driver: Driver {
            name: String::new(),
            version: String::new(),
            capabilities: Capability::ALL.to_vec(),
        },
        names: Default::default(),
        disruptions: Vec::new(),
        steps: calls.into_iter().map(step).collect(),
    };
    let folder = tempfile::tempdir().unwrap();
    case.store(folder.path()).unwrap();
    // A sequence of one call cannot show either of the defects.
    let effort =
        Effort { cases: 1, steps: 1, regressions: Some(folder.path().to_owned()), ..Effort::default() };
    let defects = [Defect::CreateVolumeRepeatChangesContext, Defect::ControllerPublishRefusesRepeats];
    let run = run(&defects, effort, 1);
    let blamed: Vec<&str> = run
        .reports
        .iter()
        .flat_map(outcomes)
        .filter_map(Outcome::violation)
        .filter_map(|violation| violation.requirement)
        .map(|rule| rule.id)
        .collect();
    let notes: Vec<_> = run.reports.iter().map(|report| &report.notes).collect();
    assert!(blamed.contains(&req::MSG_VOLUME_008.id), "{blamed:?}: {notes:?}");
    assert!(blamed.contains(&req::CTRL_PUBLISH_004.id), "{blamed:?}: {notes:?}");
}
