//! A right driver, plain or unusual, is not accused, and neither is one that lacks a capability.

use std::time::Duration;

use csi_harness::checks::registry::Registry;
use csi_harness::config::{Config, Effort};
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Capability, Delay, Quirk};
use libtest_mimic::{Failed, Trial};

use crate::mock::{adapt, everything_set, little, run};

/// A trial of each such driver by the checks of these suites.
pub fn trials(registry: fn() -> Registry) -> Vec<Trial> {
    // What takes longest comes first.
    let (slow, others): (Vec<Quirk>, _) = Quirk::ALL.iter().partition(|quirk| **quirk == Quirk::SlowCalls);
    let quirks = slow.into_iter().chain(others).map(|quirk: Quirk| {
        Trial::test(format!("quirk/{quirk}"), move || {
            // Long enough to be noticed by whoever does not wait.
            let start_delay = Delay(Duration::from_millis(300));
            let mock = csi_mock_driver::Config { quirks: vec![quirk], start_delay, ..Default::default() };
            let mut config = everything_set();
            adapt(quirk, &mut config);
            is_not_accused(registry(), mock, Config { effort: little(), ..config }, false)
        })
    });
    let without = Capability::ALL.iter().map(|capability| {
        Trial::test(format!("without/{capability}"), move || {
            let mock = csi_mock_driver::Config { without: vec![*capability], ..Default::default() };
            is_not_accused(registry(), mock, Config { effort: little(), ..everything_set() }, true)
        })
    });
    let healthy = Trial::test("healthy", move || {
        // What most drivers are like is tried for longer.
        let effort = Effort { check_budget_ms: 3_000, ..little() };
        is_not_accused(registry(), Default::default(), Config { effort, ..everything_set() }, false)
    });
    quirks.chain(without).chain([healthy]).collect()
}

fn is_not_accused(
    registry: Registry,
    mock: csi_mock_driver::Config,
    config: Config,
    may_be_skipped: bool,
) -> Result<(), Failed> {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mock_is_a_node_only = mock.quirks.contains(&Quirk::NodeOnly);
    let run = run(registry, mock, config, seed, |_| true)?;
    let mut wrong = run.accusations();
    let is_skipped = |outcome: &Outcome| matches!(outcome, Outcome::Skipped(_));
    // A node alone makes no volumes.
    let may_be_skipped = may_be_skipped || mock_is_a_node_only;
    if !may_be_skipped && run.reports.iter().all(|report| is_skipped(&report.outcome)) {
        wrong.push("every check was skipped".to_owned());
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}
