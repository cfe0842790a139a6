//! Shows that the suites can be trusted: a right driver passes, however unusual it is, and each check finds the defects
//! that it names.

mod bench;
mod quirks;

use std::process::ExitCode;

use libtest_mimic::Arguments;

const TRIALS_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Some of the time is spent waiting for what a defective driver never does.
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    libtest_mimic::run(&arguments, quirks::trials()).exit_code()
}
