//! Shows that Kubernetes' storage tests, as they run here, can be trusted: the reference driver passes them, and they find mistakes that
//! show only in Kubernetes' own order of calls, with pods that look at their volumes.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod bench;
mod document;
mod table;

use std::process::ExitCode;

use csi_suite_e2e::emulated_cluster::sandbox;
use csi_test_support::hostpath;
use csi_test_support::matrix::{Row, sampled};
use libtest_mimic::{Arguments, Trial};

/// This number of drivers run at the same time, because they wait more than they work.
const TRIALS_AT_ONCE: usize = 12;

fn main() -> ExitCode {
    // This program also runs as the sandboxes of pods and their workloads.
    if csi_workload::run_if_asked() {
        return ExitCode::SUCCESS;
    }
    if let Some(code) = hostpath::serve_if_asked() {
        return code;
    }
    if std::env::args().nth(1).is_some_and(|argument| argument == sandbox::ARGUMENT) {
        return if sandbox::serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    let mut trials = vec![trial("the_document_has_the_table".to_owned(), document::has_the_table)];
    trials.push(trial("a_right_driver_passes".to_owned(), bench::a_right_driver_passes));
    let name = "a_workload_does_not_keep_a_test_from_passing".to_owned();
    trials.push(trial(name, bench::a_workload_does_not_keep_a_test_from_passing));
    // Tests of one suite differ in their pattern, so that the sample has to prove each suite.
    let row = |row: &'static table::Row| Row {
        proves: row.test.split('/').next().map(str::to_owned).into_iter().collect(),
        trial: trial(row.label(), || bench::is_found(row)),
    };
    trials.extend(sampled(&arguments, table::ROWS.iter().map(row).collect()));
    trials.extend(table::ROWS.iter().filter_map(|row| {
        let (_, harmless) = row.versions?;
        let name = format!("{}/harmless in {harmless}", row.label());
        Some(trial(name, || bench::is_right_in_another_version(row)))
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}
