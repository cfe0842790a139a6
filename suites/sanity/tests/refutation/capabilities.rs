//! A capability taken away: exactly the checks that need it are skipped, and nothing is accused.

use csi_harness::results::outcome::Outcome;
use csi_mock_driver::Capability;
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, JOBS, everything_on, everything_set};

pub(crate) fn trials() -> Vec<Trial> {
    Capability::ALL
        .iter()
        .map(|capability| {
            Trial::test(format!("without/{capability}"), move || skips_what_needs_it(*capability))
        })
        .collect()
}

fn skips_what_needs_it(capability: Capability) -> Result<(), Failed> {
    let mut mock = everything_on();
    mock.without = vec![capability];
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
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}
