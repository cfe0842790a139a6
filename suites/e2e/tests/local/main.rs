//! The emulated cluster runs on the reference driver, which needs root for its mounts, and on the driver in memory.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod claims;
mod copies;
mod installed;
mod pods;
mod retries;
mod special;
mod stage;
mod upstream;

use std::process::ExitCode;

use csi_suite_e2e::emulated_cluster::sandbox;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    // This program also runs as the sandboxes of pods and their workloads.
    if csi_workload::run_if_asked() {
        return ExitCode::SUCCESS;
    }
    if std::env::args().nth(1).is_some_and(|argument| argument == sandbox::ARGUMENT) {
        return if sandbox::serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let tests = [
        claims::TESTS,
        pods::TESTS,
        copies::TESTS,
        installed::TESTS,
        retries::TESTS,
        special::TESTS,
        upstream::TESTS,
    ]
    .concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
