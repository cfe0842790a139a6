//! A check neither shrinks nor confirms a fault that another check reports by the same rule, even in other words.

use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::prelude::*;
use csi_harness::results::outcome::{Outcome, Source};
use csi_mock_driver::Defect;
use csi_test_support::mock::{self, everything_set, little};
use libtest_mimic::{Failed, Trial};

const SUITE: Suite = Suite { name: "elsewhere", checks: Checks::Declared(&[&[&TELLS]]), retired: &[] };

check! {
    /// A check that looks for one thing.
    TELLS {
        id: "elsewhere/tells",
        title: "accuses the driver by a rule that random calls find broken as well",
        spec: [req::CTRL_EXPAND_011],
        refuted_by: ["controller-expand-answers-old-size"],
    }
    async |_cx| {
        Err(Violation::new("the answer tells the size before").into())
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("elsewhere/controller-calls", is_left_to_the_other)]
}

fn is_left_to_the_other() -> Result<(), Failed> {
    let defects = vec![Defect::ControllerExpandAnswersOldSize];
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let suites = [SUITE, csi_suite_stateful::concurrency::SUITE];
    let wanted = |check: &Check| ["elsewhere/tells", "concurrency/controller-calls"].contains(&&*check.id);
    let mut config = everything_set();
    // On a busy machine, a round of fewer calls may contain no expansion.
    config.effort = csi_harness::config::Effort { operations: 400, check_budget_ms: 3_000, ..little() };
    let run = mock::run(Registry::new(suites), mock, config, 1, wanted)?;
    let reports = run.by_label();
    let said = reports.get("concurrency/controller-calls").ok_or("it was not run")?;
    // If a repeated CreateVolume meets the expansion, its answer differs in size, which is a fault of its own.
    let is_met_again = matches!(
        &said.outcome,
        Outcome::Failed(finding)
            if finding.source == Source::MetAgain || finding.violation.requirement == Some(&req::CTRL_CREATEVOL_002)
    );
    let is_left = said
        .notes
        .iter()
        .any(|note| note.contains("met faults that other checks report") && note.contains("elsewhere/tells"));
    match is_met_again && is_left {
        true => Ok(()),
        false => Err(Failed::from(format!("{:#?}\n{:#?}", said.outcome, said.notes))),
    }
}
