//! Shows that the suite can be trusted: a correct driver passes, each check fails on the defects that it names, a
//! legal but unusual driver is not accused, and a missing capability makes exactly the checks that need it skip.
//!
//! `UPDATE=1 cargo test -p csi-suite-sanity --test refutation` writes the matrix of checks and defects.

mod bench;
mod defects;
mod healthy;
mod profiles;
mod quirks;

use std::process::ExitCode;

use libtest_mimic::Arguments;

const TRIALS_AT_ONCE: usize = 12;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time is spent waiting for answers that a defective driver never sends.
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    // Some defects crash the mock driver. Their panics are expected, and each trial reports its own.
    std::panic::set_hook(Box::new(|_| {}));
    // The slowest trials come first.
    let mut trials = quirks::trials();
    trials.extend(defects::trials(&arguments));
    trials.extend(healthy::trials());
    trials.extend(profiles::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}
