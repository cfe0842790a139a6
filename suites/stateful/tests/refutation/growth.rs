//! What grows shows in the process of a driver alone: this program is the driver then, as a process of its own.

use std::collections::BTreeSet;

use csi_harness::checks::check::{Check, CheckRef};
use csi_harness::results::outcome::CheckReport;
use csi_mock_driver::Defect;
use csi_test_support::process;
use csi_test_support::run::outcomes;
use libtest_mimic::{Failed, Trial};

use crate::registry;

pub(crate) fn trials() -> Vec<Trial> {
    let healthy = checks().map(|check| {
        Trial::test(format!("healthy-process/{}", check.id), move || {
            let accused: Vec<String> = played(&check, "", seed())?
                .iter()
                .flat_map(outcomes)
                .filter_map(|outcome| outcome.violation())
                .map(|violation| format!("{violation:#?}"))
                .collect();
            if accused.is_empty() { Ok(()) } else { Err(Failed::from(accused.join("\n"))) }
        })
    });
    healthy.chain([Trial::test("defect/all-that-grow-are-named", all_are_named)]).collect()
}

fn checks() -> impl Iterator<Item = CheckRef> {
    registry().check_refs().filter(|check| needs_process(check)).collect::<Vec<_>>().into_iter()
}

fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Whether the check sees nothing of a driver in this process.
pub(crate) fn needs_process(check: &Check) -> bool {
    check.id.starts_with("growth/")
}

pub(crate) fn played(check: &Check, defect: &str, seed: u64) -> Result<Vec<CheckReport>, Failed> {
    process::played(registry(), check, defect, seed)
}

fn all_are_named() -> Result<(), Failed> {
    let named: BTreeSet<&str> = checks().flat_map(|check| check.refuted_by.iter().copied()).collect();
    let unnamed: Vec<_> = Defect::OVER_TIME.iter().filter(|defect| !named.contains(defect.id())).collect();
    if unnamed.is_empty() { Ok(()) } else { Err(Failed::from(format!("no check is for {unnamed:?}"))) }
}
