//! Shows that the suites can be trusted: a right driver passes, however unusual it is, and each check finds the defects
//! that it names.

mod defects;
mod elsewhere;
mod growth;
mod leftovers;
mod minimal;
mod pairs;
mod refused_once;
mod unlisted;

use std::process::ExitCode;

use csi_harness::checks::registry::Registry;
use csi_test_support::mock::little;
use csi_test_support::quirks;
use libtest_mimic::Arguments;

const TRIALS_AT_ONCE: usize = 8;
/// Checks of races may try this number of times, because the machine and not the seed decides which calls meet.
const PLAYS_OF_A_RACE: usize = 3;
/// These checks make calls at the same time, or break calls off.
const RACES: [&str; 3] =
    ["concurrency/", "idempotency/given-up-and-repeated", "idempotency/connection-broken-and-repeated"];

fn main() -> ExitCode {
    if let Some(code) = csi_test_support::process::serve_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // The trials spend some time on waiting for answers that a defective driver never sends.
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    // Some defects crash the mock driver; the run reports that.
    std::panic::set_hook(Box::new(|_| {}));
    let mut trials = quirks::trials(registry, &little());
    trials.extend(defects::trials(&arguments));
    trials.extend(growth::trials());
    trials.extend(pairs::trials(&arguments));
    trials.extend(minimal::trials());
    trials.extend(elsewhere::trials());
    trials.extend(leftovers::trials());
    trials.extend(refused_once::trials());
    trials.extend(unlisted::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns the number of times that a check may try.
pub(crate) fn plays_of(check: &str) -> usize {
    if RACES.iter().any(|race| check.starts_with(race)) { PLAYS_OF_A_RACE } else { 1 }
}

pub(crate) fn registry() -> Registry {
    Registry::new([
        csi_suite_stateful::idempotency::SUITE,
        csi_suite_stateful::property::SUITE,
        csi_suite_stateful::concurrency::SUITE,
        csi_suite_stateful::after_error::SUITE,
        csi_suite_stateful::growth::SUITE,
        csi_suite_stateful::restart::SUITE,
    ])
}
