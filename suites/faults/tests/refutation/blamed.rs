//! The check blames the driver for its mistake alone, also in the faults that it tries after the one that showed it.

use csi_harness::config::AccessType;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_test_support::run::{Run, outcomes};
use libtest_mimic::Failed;

use crate::bench::{self, Played, Tries};

const CHECK: &str = "faults/power";
/// Time for the faults, which are all tried.
const BUDGET_MS: u64 = 240_000;
/// How long what was healed may take: this driver needs no time at all.
const SETTLES_MS: u64 = 4_000;
/// Takes the power of a driver that does not start then, and gives it back what it lost.
const REFUSED: &str = "power/create-volume/answer/keeps-names";
/// Nothing is lost here, where nothing is written yet, whether it is tried before the other one or after it.
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

/// The other volume is mounted again also after a start that was refused: its mounts are nothing that the next fault leaves.
fn one_that_refuses_to_start_leaves_nothing() -> Result<(), Failed> {
    let mistake = bench::mistake("plain/syncs-nothing")?;
    let only = [&[REFUSED], &HARMLESS[..]].concat().into_iter().map(str::to_owned).collect();
    let (access, budget_ms, settle_ms) = (vec![AccessType::Mount], BUDGET_MS, SETTLES_MS);
    let tries = Tries { only, budget_ms, settle_ms, seed: 1, access, ..Tries::default() };
    let Some(run) = bench::play(Played::Plain(Some(mistake)), &tries)? else { return Ok(()) };
    if let [Outcome::Skipped(why)] = run.outcomes_of(CHECK)[..] {
        bench::skip(why);
        return Ok(());
    }
    match rules(&run)[..] {
        ["FAULT-HEAL-001"] => Ok(()),
        _ => Err(Failed::from(run.stories_of(CHECK).join("\n"))),
    }
}

/// The rules by which something is said.
fn rules(run: &Run) -> Vec<&'static str> {
    let rules = run.reports.iter().flat_map(outcomes).filter_map(|outcome| match outcome {
        Outcome::Failed(Finding { violation, .. }) | Outcome::Warned(Finding { violation, .. }) => {
            violation.requirement
        }
        _ => None,
    });
    rules.map(|rule| rule.id).collect()
}
