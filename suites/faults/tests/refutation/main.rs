//! Shows that the checks can be trusted: the reference driver and a plain driver pass them, and each mistake of the plain driver is found
//! by the check that names it. The tests need root for mounts and loop devices; without it, they print that they are skipped.
//!
//! `UPDATE=1 cargo test -p csi-suite-faults --test refutation` writes the matrix of checks and mistakes.

mod bench;
mod blamed;
mod default_run;
mod matrix;
mod power_device;

use std::path::Path;
use std::process::ExitCode;

use bench::{Played, Tries};
use csi_harness::client::unmet::FORGETFUL;
use csi_harness::config::AccessType;
use csi_harness::results::outcome::Outcome;
use csi_harness::run::refutation::{Trial, on_a_right_driver};
use csi_suite_faults::SUITE;
use csi_test_support::run::from_environment;
use libtest_mimic::{Arguments, Failed};

/// This number of drivers run at the same time, because they wait more than they work.
const TRIALS_AT_ONCE: usize = 10;
/// All checks have this time for their faults on a right driver; `FAULTS_RIGHT_MS` gives them more, as ci/matrix does.
const RIGHT_MS: u64 = 12_000;
/// The drivers need no time to recover, but a busy machine may pause them for a while.
const RIGHT_SETTLES_MS: u64 = 30_000;

fn main() -> ExitCode {
    if let Some(root) = std::env::var_os(bench::DIRECTORY) {
        return bench::serve(Path::new(&root));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    // Right drivers come first, because their trials take longest. The plain faults take nearly all of the time, and do not depend on the
    // seed.
    let mut trials = Vec::new();
    for (name, access, seed) in [
        ("plain", AccessType::Mount, 1),
        ("plain", AccessType::Block, 1),
        ("directory", AccessType::Mount, 2),
        ("image", AccessType::Mount, 3),
        ("image", AccessType::Block, 3),
    ] {
        let title = format!("a-right-driver-passes/{name}@{access}/{seed}");
        let test = move || a_right_driver_passes(name, access, seed);
        trials.push(libtest_mimic::Trial::test(title, test));
    }
    trials.extend(matrix::trials(&arguments));
    trials.push(libtest_mimic::Trial::test(
        "what-is-forgotten-is-told-once",
        what_is_forgotten_is_reported_once,
    ));
    trials.extend(power_device::trials());
    trials.extend(blamed::trials());
    trials.extend(default_run::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// If another check has reported that a driver keeps nothing, it is not killed to see that again.
fn what_is_forgotten_is_reported_once() -> Result<(), Failed> {
    let check = "faults/crash-points";
    let tries = Tries { forgets: true, check: Some(check), ..Tries::new([], 1, RIGHT_SETTLES_MS) };
    let Some(run) = bench::play(Played::Plain(None), &tries)? else { return Ok(()) };
    let outcomes = run.outcomes_of(check);
    match outcomes.iter().all(|outcome| matches!(outcome, Outcome::Skipped(why) if why == FORGETFUL)) {
        true if !outcomes.is_empty() => Ok(()),
        _ => Err(Failed::from(format!("{outcomes:?}"))),
    }
}

fn a_right_driver_passes(name: &'static str, access: AccessType, seed: u64) -> Result<(), Failed> {
    let budget_ms = from_environment("FAULTS_RIGHT_MS").unwrap_or(RIGHT_MS);
    let tries = Tries { seed, access: vec![access], ..Tries::new([], budget_ms, RIGHT_SETTLES_MS) };
    let Some(run) = bench::play(Played::right(name), &tries)? else { return Ok(()) };
    let mut wrong: Vec<String> = run.left().collect();
    for check in SUITE.checks.iter() {
        if let Trial::Bad(why) = on_a_right_driver(&run.outcomes_of(&check.id)) {
            wrong.push(format!("{}: {why}", check.id));
            wrong.extend(run.stories_of(&check.id));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}
