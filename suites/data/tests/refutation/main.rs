//! Shows that the checks can be trusted: the reference driver passes them on directories, file systems and devices, and each finds the
//! defects that it names. The tests need root for mounts and loop devices; without it, they print that they are skipped.
//!
//! On a defect, the checks that name it are run. `UPDATE=1 cargo test -p csi-suite-data --test refutation` runs all of them, and writes the
//! matrix of checks and defects; with `MATRIX=1/1` the matrix is compared.

mod bench;

use std::path::Path;
use std::process::ExitCode;

use csi_faulty_driver::Defect;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_harness::run::refutation::{Trial, on_a_right_driver};
use csi_suite_data::SUITE;
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::matrix::MatrixFile;
use csi_test_support::proven::Matrix;
use libtest_mimic::{Arguments, Failed};

/// This number of drivers run at the same time, because they wait more than they work.
const TRIALS_AT_ONCE: usize = 10;

fn main() -> ExitCode {
    if let Some(code) = hostpath::serve_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    let mut trials = vec![libtest_mimic::Trial::test("names-agree", || matrix().names_agree())];
    for backend in Backend::ALL {
        let name = format!("a-right-driver-passes/{}", backend.name());
        trials.push(libtest_mimic::Trial::test(name, move || a_right_driver_passes(backend)));
    }
    for (defect, check, rule) in AFTER_RESTART {
        let name = format!("after-restart/{}", defect.id());
        trials.push(libtest_mimic::Trial::test(name, move || fails_after_restart(defect, check, rule)));
    }
    trials.push(libtest_mimic::Trial::test("stacked-mounts-are-not-blamed-on-a-rejected-call", || {
        is_not_blamed(Defect::StacksPublications, "after-error/nothing-made")
    }));
    for defect in [None, Some(Defect::StartTakesHalfCopy)] {
        let name = format!("killed-before-a-change/{}", defect.map_or("right", Defect::id));
        trials.push(libtest_mimic::Trial::test(name, move || is_killed_before_a_change(defect)));
    }
    trials.extend(matrix().trials(&arguments));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// This check publishes volumes in other ways than this suite, which judges everything that any check publishes.
const PUBLISHES: &str = "property/nodes";

/// No check accuses a right driver, and none is skipped if volumes are file systems and devices.
fn a_right_driver_passes(backend: Backend) -> Result<(), Failed> {
    let is_wanted = |id: &str| is_own(id) || id == PUBLISHES;
    let Some(played) = bench::play(backend, None, is_wanted)? else { return Ok(()) };
    let mut wrong: Vec<String> = played.left().collect();
    for check in SUITE.checks.iter() {
        match on_a_right_driver(&played.outcomes_of(&check.id)) {
            Trial::Good => {}
            Trial::Skipped(_) if backend == Backend::Directories => {}
            Trial::Skipped(why) | Trial::Bad(why) => {
                wrong.push(format!("{}: {why}", check.id));
                wrong.extend(played.stories_of(&check.id));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// These are defects in the handling of mounts after a driver was killed, each with the check that finds it and the rule.
const AFTER_RESTART: [(Defect, &str, &str); 3] = [
    (Defect::ForgetsPublications, "restart/in-use", "NODE-UNPUBLISH-002"),
    (Defect::UnmountsAtStart, "data/sequences/driver-killed", "NODE-PUBLISH-027"),
    (Defect::TrustsRecords, "restart/reboot", "RESTART-003"),
];

/// The check must fail by this rule even under the mildest profile, because its evidence is certain. The driver is a process, as it is for
/// users.
fn fails_after_restart(defect: Defect, check: &str, rule: &str) -> Result<(), Failed> {
    let Some(played) = bench::play_in_child(Backend::Images, Some(defect), check)? else { return Ok(()) };
    let reports = played.by_label();
    let outcome = &reports.get(check).ok_or("it was not run")?.outcome;
    match outcome {
        Outcome::Failed(Finding { violation, .. })
            if violation.requirement.is_some_and(|found| found.id == rule) =>
        {
            Ok(())
        }
        other => Err(Failed::from(format!("{other:#?}"))),
    }
}

/// A check must not take the effects of its own calls for a fault of another kind.
fn is_not_blamed(defect: Defect, check: &str) -> Result<(), Failed> {
    let Some(played) = bench::play(Backend::Images, Some(defect), |id| id == check)? else { return Ok(()) };
    let is_blamed = |outcome: &&Outcome| outcome.violation().is_some();
    match played.outcomes_of(check).iter().any(is_blamed) {
        true => Err(Failed::from(played.stories_of(check).join("\n"))),
        false => Ok(()),
    }
}

/// The driver is killed before certain changes that it makes for a copy. A right driver is not accused. If the driver takes an unfinished
/// copy for a complete one, the failure must show that kill.
fn is_killed_before_a_change(defect: Option<Defect>) -> Result<(), Failed> {
    let check = "data/sequences/driver-killed";
    let Some(played) = bench::play_in_watched_child(defect, check)? else { return Ok(()) };
    let story = played.stories_of(check).join("\n");
    if defect.is_none() {
        return match on_a_right_driver(&played.outcomes_of(check)) {
            Trial::Good => Ok(()),
            Trial::Skipped(why) | Trial::Bad(why) => Err(Failed::from(format!("{why}\n{story}"))),
        };
    }
    let is_found = played.outcomes_of(check).iter().any(|outcome| matches!(outcome, Outcome::Failed(_)));
    match is_found && story.contains("the driver killed before its change") {
        true => Ok(()),
        false => Err(Failed::from(format!("the copy that was cut off is not found\n{story}"))),
    }
}

fn is_own(id: &str) -> bool {
    SUITE.checks.iter().any(|check| check.id == id)
}

const HEADER: &str = "\
# Which checks say something of the reference driver with one defect: the defect, then the checks, a line each, with the rule
# that they blame it for.
# UPDATE=1 cargo test -p csi-suite-data --test refutation writes this file; ci/matrix compares it.
";

fn matrix() -> Matrix<Defect> {
    Matrix {
        suite: SUITE,
        defects: Defect::ALL,
        id: |defect| defect.id(),
        file: MatrixFile::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt"), HEADER),
        is_always_compared: false,
        varies,
        play: |defect, is_wanted| bench::play(Backend::Images, Some(*defect), is_wanted),
    }
}

/// Returns true for lines that depend on the time, because sequences make random calls until it is over.
fn varies(_: &Defect, line: &str) -> bool {
    line.contains("data/sequences/")
}
