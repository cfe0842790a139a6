//! Shows that the suite can be trusted: a right driver passes, each check fails on the defects it names, a legal but
//! unusual driver is not accused, and a missing capability makes exactly the checks that need it skip.
//!
//! `UPDATE=1 cargo test -p csi-suite-sanity --test refutation` writes the matrix of checks and defects anew.

mod bench;
mod capabilities;
mod defects;
mod healthy;
mod profiles;
mod quirks;

use std::process::ExitCode;

use libtest_mimic::Arguments;

const TRIALS_AT_ONCE: usize = 12;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time is spent waiting for what a defective driver never does.
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    // Some defects crash the mock driver; their panics are not news, and those of a trial are reported by it.
    std::panic::set_hook(Box::new(|_| {}));
    // What takes longest comes first.
    let mut trials = quirks::trials();
    trials.extend(defects::trials());
    trials.extend(healthy::trials());
    trials.extend(capabilities::trials());
    trials.extend(profiles::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}
