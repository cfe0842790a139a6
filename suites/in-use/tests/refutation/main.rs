//! Shows that the checks can be trusted: the reference driver passes them on directories, file systems and devices, and each finds the
//! defects that it names. The tests need root for mounts and loop devices; without it, they print that they are skipped.
//!
//! On a defect, the checks that name it are run. `UPDATE=1 cargo test -p csi-suite-in-use --test refutation` runs all of them, and writes
//! the matrix of checks and defects; with `MATRIX=1/1` the matrix is compared.

mod bench;
mod frozen;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bench::{CALLS_FAILING, KILLED_IN_SNAPSHOT};
use csi_faulty_driver::Defect;
use csi_harness::checks::registry::Suite;
use csi_harness::run::refutation::{Trial, on_a_right_driver};
use csi_suite_in_use::{SUITE, nodes};
use csi_test_support::hostpath::{self, Backend};
use csi_test_support::matrix::MatrixFile;
use csi_test_support::proven::Matrix;
use libtest_mimic::{Arguments, Failed};

/// A reader can look through this number of rows of a time line at once.
const ROWS_MAX: usize = 24;
/// This number of drivers run at the same time, because they wait more than they work.
const TRIALS_AT_ONCE: usize = 8;

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
    let mut trials = vec![
        libtest_mimic::Trial::test("names-agree", || matrix().names_agree()),
        libtest_mimic::Trial::test("names-agree/nodes", || matrix_of_nodes().names_agree()),
    ];
    for backend in Backend::ALL {
        let name = format!("a-right-driver-passes/{}", backend.name());
        trials.push(libtest_mimic::Trial::test(name, move || a_right_driver_passes(backend)));
        let name = format!("a-right-driver-passes/nodes/{}", backend.name());
        trials.push(libtest_mimic::Trial::test(name, move || {
            let mut wrong = Vec::new();
            passes(&nodes::SUITE, backend, |_| true, &mut wrong)?;
            if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
        }));
    }
    trials.push(libtest_mimic::Trial::test("a-failure-shows-a-time-line", a_failure_shows_a_time_line));
    trials.extend(frozen::trials());
    trials.extend(matrix().trials(&arguments));
    trials.extend(matrix_of_nodes().trials(&arguments));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// No check accuses a right driver, and none is skipped if volumes are file systems and devices.
fn a_right_driver_passes(backend: Backend) -> Result<(), Failed> {
    let begun = Instant::now();
    let mut wrong = Vec::new();
    for is_a_process in [false, true] {
        let is_wanted = |id: &str| match is_a_process {
            true => [CALLS_FAILING, KILLED_IN_SNAPSHOT].contains(&id),
            false => is_own(id) && id != CALLS_FAILING,
        };
        passes(&SUITE, backend, is_wanted, &mut wrong)?;
    }
    report_time(backend, begun.elapsed());
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// Runs the checks of a suite on a right driver, and adds their accusations and skips to `wrong`.
fn passes(
    suite: &Suite,
    backend: Backend,
    is_wanted: impl Fn(&str) -> bool,
    wrong: &mut Vec<String>,
) -> Result<(), Failed> {
    let Some(played) = bench::play(suite.clone(), backend, None, &is_wanted)? else { return Ok(()) };
    wrong.extend(played.left());
    for check in suite.checks.iter().filter(|check| is_wanted(&check.id)) {
        match on_a_right_driver(&played.outcomes_of(&check.id)) {
            Trial::Good => {}
            Trial::Skipped(_) if backend == Backend::Directories => {}
            Trial::Skipped(why) | Trial::Bad(why) => {
                wrong.push(format!("{}: {why}", check.id));
                wrong.extend(played.stories_of(&check.id));
            }
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the time depends on the machine, so it is shown and not judged")]
fn report_time(backend: Backend, took: Duration) {
    println!("all checks on the {} back end: {:.1} s", backend.name(), took.as_secs_f64());
}

/// The report of a wrong copy shows the writes around the call, the moment of the copy, and the call. It shows only as many writes as a
/// reader can look through at once.
fn a_failure_shows_a_time_line() -> Result<(), Failed> {
    let check = "in-use/create-snapshot";
    let defect = Some(Defect::SnapshotsMissUse);
    let Some(played) = bench::play(SUITE, Backend::Images, defect, |id| id == check)? else { return Ok(()) };
    let text = played.stories_of(check).join("\n");
    let rows = ["time line of", "write ", "the copy", "CreateSnapshot", "returned"];
    match rows.into_iter().find(|row| !text.contains(row)) {
        None if text.matches(" durable\n").count() <= 2 * ROWS_MAX => Ok(()),
        None => Err(Failed::from(format!("too many writes are shown:\n{text}"))),
        Some(missing) => Err(Failed::from(format!("{missing:?} is missing:\n{text}"))),
    }
}

/// Returns true for the checks of this suite.
fn is_own(id: &str) -> bool {
    SUITE.checks.iter().any(|check| check.id == id)
}

const HEADER: &str = "\
# The checks that accuse the reference driver with one defect: the defect, then the checks, a line each, with the rule
# that they name.
# UPDATE=1 cargo test -p csi-suite-in-use --test refutation writes this file; ci/matrix compares it.
";

fn matrix() -> Matrix<Defect> {
    Matrix {
        suite: SUITE,
        defects: Defect::ALL,
        id: |defect| defect.id(),
        file: MatrixFile::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt"), HEADER),
        is_always_compared: false,
        varies,
        play: |defect, is_wanted| bench::play(SUITE, Backend::Images, Some(*defect), is_wanted),
    }
}

fn matrix_of_nodes() -> Matrix<Defect> {
    Matrix {
        suite: nodes::SUITE,
        defects: Defect::ALL,
        id: |defect| defect.id(),
        file: MatrixFile::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/nodes.txt"), HEADER),
        is_always_compared: false,
        varies: nodes_vary,
        play: |defect, is_wanted| bench::play(nodes::SUITE, Backend::Images, Some(*defect), is_wanted),
    }
}

/// Returns true for lines of the matrix of nodes that depend on time. Most defects are tried on a driver in this process, which is killed
/// at a random moment and not before a change. A detach that meets an attach may fail, and a read may come before or after a volume is
/// emptied.
fn nodes_vary(defect: &Defect, line: &str) -> bool {
    let is_of = |check: &str| line.contains(check);
    is_of("nodes/killed-in-each-call")
        || *defect == Defect::FailedDetachIsDone && is_of("nodes/waiting-attach")
        || *defect == Defect::LateDetachWipes && is_of("nodes/silent-multi-writer")
}

/// Returns true for lines that depend on the speed of calls and writes. It varies what a call is doing when it is given up, when another
/// call arrives, or when the driver is stopped, and what a workload writes between a call and its repetition. A defect that hurts other
/// volumes may hurt those of any check that runs at the same time.
fn varies(defect: &Defect, line: &str) -> bool {
    let checks = [
        "in-use/calls-given-up",
        "in-use/calls-in-pairs",
        "in-use/calls-repeated",
        "in-use/driver-frozen",
        "in-use/driver-killed-in-snapshot",
    ];
    *defect == Defect::UnstagingBreaksOthers || checks.iter().any(|check| line.contains(check))
}
