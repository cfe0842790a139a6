//! The check blames the driver only for its mistake, even in the faults that it tries after the fault that showed the mistake.

use csi_harness::results::outcome::{Finding, Outcome};
use csi_test_support::run::{Run, outcomes};
use libtest_mimic::Failed;

use crate::bench::{self, Played, Tries};

const CHECK: &str = "faults/power";
/// The check tries all faults within this time.
const BUDGET_MS: u64 = 240_000;
/// The driver may take this time to recover, but needs none.
const SETTLES_MS: u64 = 4_000;
/// This fault cuts the power of the driver, which then does not start, and gives back what was lost.
const REFUSED: &str = "power/create-volume/answer/keeps-names";
/// These faults lose nothing, because nothing is written yet, whether they are tried before the other fault or after it.
const HARMLESS: [&str; 3] = [
    "power/create-volume/change:1/keeps-none",
    "power/create-volume/change:1/keeps-names",
    "power/create-volume/change:1/torn",
];

pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
    vec![libtest_mimic::Trial::test(
        "blamed/one-that-refuses-to-start-leaves-nothing",
        one_that_refuses_to_start_leaves_nothing,
    )]
}

/// The check mounts the other volume again even after a start that the driver refused. Its mounts must not count as left by the next fault.
fn one_that_refuses_to_start_leaves_nothing() -> Result<(), Failed> {
    let tries = Tries::new([REFUSED].into_iter().chain(HARMLESS), BUDGET_MS, SETTLES_MS);
    let Some(run) = bench::play(Played::wrong("plain/syncs-nothing")?, &tries)? else { return Ok(()) };
    if let [Outcome::Skipped(why)] = run.outcomes_of(CHECK)[..] {
        bench::skip(why);
        return Ok(());
    }
    match rules(&run)[..] {
        ["FAULT-HEAL-001"] => Ok(()),
        _ => Err(Failed::from(run.stories_of(CHECK).join("\n"))),
    }
}

/// Returns the rules of all failures and warnings.
fn rules(run: &Run) -> Vec<&'static str> {
    let rules = run.reports.iter().flat_map(outcomes).filter_map(|outcome| match outcome {
        Outcome::Failed(Finding { violation, .. }) | Outcome::Warned(Finding { violation, .. }) => {
            violation.requirement
        }
        _ => None,
    });
    rules.map(|rule| rule.id).collect()
}
