//! Shows that the checks can be trusted: the reference driver passes them when it is replaced by itself, and each finds the defects that it
//! names. The tests need root for mounts and loop devices; without it, they print that they are skipped.
//!
//! On a defect, the checks that name it are run. `UPDATE=1 cargo test -p csi-suite-upgrade --test refutation` runs all of them, and writes
//! the matrix of checks and defects; with `MATRIX=1/1` the matrix is compared.

mod bench;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bench::WayBack;
use csi_faulty_driver::Defect;
use csi_harness::results::outcome::Outcome;
use csi_harness::run::refutation::{Trial, on_a_right_driver};
use csi_suite_upgrade::SUITE;
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::matrix::MatrixFile;
use csi_test_support::proven::Matrix;
use libtest_mimic::{Arguments, Failed};

/// This number of drivers run at the same time, because they wait more than they work.
const TRIALS_AT_ONCE: usize = 4;
/// The names of the checks that need a way back begin with this text.
const DOWNGRADE: &str = "upgrade/downgrade";
/// This check needs two nodes.
const MIXED_NODES: &str = "upgrade/mixed-nodes";

fn main() -> ExitCode {
    if let Some(code) = hostpath::serve_if_asked() {
        return code;
    }
    // This program also runs as the workloads.
    if csi_workload::run_if_asked() {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    let mut trials = vec![libtest_mimic::Trial::test("names-agree", || matrix().names_agree())];
    for (name, backend, way_back) in [
        ("directories", Backend::Directories, WayBack::Downgrade),
        ("images", Backend::Images, WayBack::Downgrade),
        ("images-without-downgrade", Backend::Images, WayBack::EmptyState),
    ] {
        let name = format!("a-right-driver-passes/{name}");
        trials.push(libtest_mimic::Trial::test(name, move || a_right_driver_passes(backend, way_back)));
    }
    trials.push(libtest_mimic::Trial::test(
        "without-a-way-back-one-check-runs",
        without_a_way_back_one_check_runs,
    ));
    trials.extend(matrix().trials(&arguments));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// No check accuses a right driver, and a check is skipped only if it lacks something that it needs.
fn a_right_driver_passes(backend: Backend, way_back: WayBack) -> Result<(), Failed> {
    let begun = Instant::now();
    let Some(played) = bench::play(backend, None, way_back, |_| true)? else { return Ok(()) };
    report_time(begun.elapsed());
    let mut wrong: Vec<String> = played.left().collect();
    for check in SUITE.checks.iter() {
        match on_a_right_driver(&played.outcomes_of(&check.id)) {
            Trial::Good => {}
            Trial::Skipped(_) if check.id.starts_with(DOWNGRADE) && way_back == WayBack::EmptyState => {}
            Trial::Skipped(_) if check.id == MIXED_NODES && backend == Backend::Directories => {}
            Trial::Skipped(why) | Trial::Bad(why) => {
                wrong.push(format!("{}: {why}", check.id));
                wrong.extend(played.stories_of(&check.id));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// A present version that may not be able to read the state of the next version must not be started on that state.
fn without_a_way_back_one_check_runs() -> Result<(), Failed> {
    let Some(played) = bench::play(Backend::Directories, None, WayBack::None, |_| true)? else {
        return Ok(());
    };
    let passed = played.reports.iter().filter(|report| report.outcome == Outcome::Passed).count();
    match (passed, played.accusations().as_slice()) {
        (1, []) => Ok(()),
        (_, wrong) => Err(Failed::from(format!("{passed} checks passed: {wrong:#?}"))),
    }
}

#[expect(clippy::print_stdout, reason = "the time depends on the machine, so it is shown and not judged")]
fn report_time(took: Duration) {
    println!("all checks: {:.1} s", took.as_secs_f64());
}

const HEADER: &str = "\
# The checks that accuse the reference driver with one defect: the defect, then the checks, a line each, with the rule
# that they name.
# UPDATE=1 cargo test -p csi-suite-upgrade --test refutation writes this file; ci/matrix compares it.
";

fn matrix() -> Matrix<Defect> {
    Matrix {
        suite: SUITE,
        defects: Defect::ALL,
        id: |defect| defect.id(),
        file: MatrixFile::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt"), HEADER),
        is_always_compared: false,
        // It depends on the speed of the machine which of two drivers counts as the one that is left.
        varies: |_, line| line.contains("upgrade/side-by-side"),
        play: |defect, is_wanted| bench::play(Backend::Images, Some(*defect), WayBack::Downgrade, is_wanted),
    }
}
