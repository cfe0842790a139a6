//! Runs cases that earlier runs have stored before new ones are generated, so that a fixed fault stays fixed.

use std::path::PathBuf;

use csi_harness::prelude::*;

use crate::budget::Budget;
use crate::case::Case;
use crate::case_runner::{CaseRunner, SequenceOutcome};
use crate::sequence::PlannedStep;

/// Runs the cases of this check that are in the folder of the configuration, and notes the result of each.
pub(crate) async fn try_again(cx: &Cx, trial: &mut CaseRunner<'_>, budget: &Budget) -> CheckResult {
    let probed = trial.probed;
    for (path, case) in of_check(cx)? {
        let file = path.display();
        if let Some(why) = case.unfit_for(&probed.profile, probed.has_workloads) {
            cx.note(format!("{file}: not tried, {why}"));
        } else {
            let outcome = trial.run(&calls(case), budget).await?;
            cx.note(format!(
                "{file}: {}",
                if outcome == SequenceOutcome::Passed { "fixed" } else { "still failing" }
            ));
        }
    }
    Ok(())
}

fn calls(case: Case) -> Vec<PlannedStep> {
    case.steps.into_iter().map(PlannedStep::from).collect()
}

/// The cases that this check has found, with their files.
fn of_check(cx: &Cx) -> CheckResult<Vec<(PathBuf, Case)>> {
    let Some(folder) = &cx.config().effort.regressions else { return Ok(Vec::new()) };
    let mut cases = Case::load_all(folder)
        .map_err(|error| Stop::broken(csi_harness::text::message::error_chain(&error)))?;
    cases.retain(|(_, case)| case.check == cx.label());
    Ok(cases)
}
