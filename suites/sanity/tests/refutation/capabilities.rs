//! Removes each capability, and checks that exactly the checks that need it are skipped, without accusations.

use csi_harness::results::outcome::Outcome;
use csi_mock_driver::Capability;
use csi_test_support::quirks;
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, JOBS, everything_on, everything_set};

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |without: Vec<Capability>| {
        Trial::test(quirks::title("without", &without), move || skips_what_needs_it(&without))
    };
    quirks::lacking().into_iter().map(trial).collect()
}

fn skips_what_needs_it(without: &[Capability]) -> Result<(), Failed> {
    let mock = csi_mock_driver::Config { without: without.to_vec(), ..everything_on() };
    let played = bench::play(JOBS, mock, everything_set())?;
    let mut wrong = played.accusations();
    for (label, report) in played.by_label() {
        let check = &report.planned.check;
        let access = report.planned.access;
        let unmet = check.needs.iter().find_map(|need| need.unmet(&played.target, access));
        match (&report.outcome, unmet) {
            (Outcome::Skipped(why), None) => {
                wrong.push(format!("{label} is skipped although it could run: {why}"))
            }
            (Outcome::Skipped(_), Some(_)) | (_, None) => {}
            (other, Some(need)) => wrong.push(format!("{label} ran although {need}: {other:?}")),
        }
    }
    quirks::verdict(without, wrong)
}
