//! An error that occurs now and then, but not when the call is repeated alone, is no fault in the answer to that request.

use csi_harness::config::Config;
use csi_harness::results::outcome::Outcome;
use csi_test_support::mock::{self, everything_set, little};
use csi_test_support::run::outcomes;
use libtest_mimic::{Failed, Trial};

use crate::registry;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(method, times, check): (&'static str, u32, &'static str)| {
        Trial::test(format!("refused-once/{method}/{times}/{check}"), move || {
            is_no_fault_once(method, times, check)
        })
    };
    REFUSED_ONCE.into_iter().map(trial).collect()
}

/// Each entry has an RPC, the number of calls that it answers with an error, and the check that meets the error: once, or again while it
/// shrinks the case, but not when it repeats the call alone.
const REFUSED_ONCE: [(&str, u32, &str); 3] = [
    ("NodeGetVolumeStats", 1, "idempotency/after-an-error"),
    ("NodeGetVolumeStats", 1, "idempotency/each-call-repeated"),
    ("NodeGetVolumeStats", 4, "idempotency/each-call-repeated"),
];

/// An error that does not occur again when all calls are repeated may be due to other calls at that time.
fn is_no_fault_once(method: &str, times: u32, check: &'static str) -> Result<(), Failed> {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert(method.parse()?, format!("INTERNAL:{times}").parse()?);
    let config = Config { effort: little(), ..everything_set() };
    let run = mock::run(registry(), mock, config, 1, |one| one.id == check)?;
    let warned = run.reports.iter().flat_map(outcomes);
    let is_reported = warned
        .filter_map(Outcome::violation)
        .any(|violation| violation.requirement.is_some_and(|rule| rule.id == "GEN-CONC-003"));
    match run.accusations() {
        wrong if !wrong.is_empty() => Err(Failed::from(wrong.join("\n"))),
        _ if !is_reported => Err(Failed::from("nobody says that it was rejected")),
        _ => Ok(()),
    }
}
