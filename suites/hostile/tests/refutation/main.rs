//! Shows that the suite can be trusted: a correct driver passes, however unusual it is, and each check finds the
//! defects that it names.

mod defects;
mod mounts;
mod process;
mod unknown_fields;

use std::process::ExitCode;

use csi_harness::checks::registry::Registry;
use csi_test_support::mock::little;
use csi_test_support::quirks;
use libtest_mimic::Arguments;

const TRIALS_AT_ONCE: usize = 4;

fn main() -> ExitCode {
    if let Some(code) = csi_test_support::process::serve_if_asked() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    // Some defects crash the mock driver; the run reports that.
    std::panic::set_hook(Box::new(|_| {}));
    let mut trials = quirks::trials(registry, &little());
    trials.extend(defects::trials());
    trials.extend(process::trials());
    trials.push(mounts::trial());
    trials.extend(unknown_fields::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

pub(crate) fn registry() -> Registry {
    Registry::new([csi_suite_hostile::SUITE])
}
