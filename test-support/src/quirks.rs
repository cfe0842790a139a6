//! A right driver, plain or unusual, is not accused, and neither is one that lacks a capability.

use std::fmt::Display;
use std::time::Duration;

use csi_harness::checks::registry::Registry;
use csi_harness::config::{AccessType, Config, Effort, Secret};
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Capability, Delay, Quirk};
use libtest_mimic::{Failed, Trial};

use crate::matrix::{self, in_company};
use crate::mock::{everything_set, little, pairs, run};

/// Drivers that have the quirks that can be had together.
const QUIRKY_DRIVERS: usize = 8;
/// What changes all calls, or what can be asked for at all; what takes longest comes first.
const ALONE: &[Quirk] = &[
    Quirk::SlowCalls,
    Quirk::SlowStart,
    Quirk::ThrottlesEveryFifthCall,
    Quirk::ControllerOnly,
    Quirk::NodeOnly,
    Quirk::BlockOnly,
    Quirk::MountOnly,
];
/// Drivers that lack the capabilities that can be lacking together.
const LACKING_DRIVERS: usize = 8;
/// Long enough to be noticed by whoever does not wait.
const DELAY: Duration = Duration::from_millis(500);
/// The same of each call, of which there are many.
const CALL_DELAY: Duration = Duration::from_millis(20);

/// A trial of each such driver by the checks of these suites.
pub fn trials(registry: fn() -> Registry) -> Vec<Trial> {
    let quirky = drivers().into_iter().map(|quirks| {
        Trial::test(title("quirk", &quirks), move || {
            let mut mock = csi_mock_driver::Config::default();
            let mut config = Config { effort: little(), ..everything_set() };
            behave(&quirks, &mut mock, &mut config);
            verdict(&quirks, wrong(registry(), mock, config, false)?)
        })
    });
    let without = lacking().into_iter().map(|without| {
        Trial::test(title("without", &without), move || {
            let mock = csi_mock_driver::Config { without: without.clone(), ..Default::default() };
            let config = Config { effort: little(), ..everything_set() };
            verdict(&without, wrong(registry(), mock, config, true)?)
        })
    });
    let healthy = Trial::test("healthy", move || {
        // What most drivers are like is tried for longer.
        let effort = Effort { check_budget_ms: 3_000, ..little() };
        let config = Config { effort, ..everything_set() };
        verdict::<Quirk>(&[], wrong(registry(), Default::default(), config, false)?)
    });
    quirky.chain(without).chain([healthy]).collect()
}

/// The quirks of each unusual driver.
pub fn drivers() -> Vec<Vec<Quirk>> {
    in_company(Quirk::ALL, ALONE, QUIRKY_DRIVERS)
}

/// What each driver lacks that does not have everything.
pub fn lacking() -> Vec<Vec<Capability>> {
    in_company(Capability::ALL, &[], LACKING_DRIVERS)
}

/// The name of a trial: what it is about, or the first of that and how many more there are.
pub fn title(kind: &str, ways: &[impl Display]) -> String {
    match ways {
        [] => kind.to_owned(),
        [one] => format!("{kind}/{one}"),
        [first, others @ ..] => format!("{kind}/{first}+{}", others.len()),
    }
}

/// Makes the mock driver behave so, and tells the harness what the user of such a driver has to tell it.
pub fn behave(quirks: &[Quirk], mock: &mut csi_mock_driver::Config, config: &mut Config) {
    mock.quirks = quirks.to_vec();
    (mock.start_delay, mock.list_lag) = (Delay(DELAY), Delay(DELAY));
    if matrix::part().is_none() {
        mock.call_delay = Delay(CALL_DELAY);
    }
    for quirk in quirks {
        match quirk {
            Quirk::BlockOnly => config.access_types = vec![AccessType::Block],
            Quirk::MountOnly => config.access_types = vec![AccessType::Mount],
            Quirk::SecretsDemanded => {
                for rpc in csi_proto::RPCS {
                    config.secrets.insert(rpc.method.to_owned(), Secret(pairs(&[("password", "mock")])));
                }
            }
            Quirk::SmallSizesRefused => config.volume_size_bytes = None,
            Quirk::ExactSizesRefused | Quirk::MinimumSize => config.size_min_bytes = Some(1 << 30),
            _ => {}
        }
    }
}

/// What was said of a right driver, and what it is like.
///
/// # Errors
/// That something was said.
pub fn verdict<T: Display>(ways: &[T], wrong: Vec<String>) -> Result<(), Failed> {
    if wrong.is_empty() {
        return Ok(());
    }
    let ways = ways.iter().map(T::to_string).collect::<Vec<_>>().join(" ");
    Err(Failed::from(format!("{ways} (MATRIX=1/1 tries each alone)\n{}", wrong.join("\n"))))
}

fn wrong(
    registry: Registry,
    mock: csi_mock_driver::Config,
    config: Config,
    may_be_skipped: bool,
) -> Result<Vec<String>, Failed> {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    // A node alone makes no volumes.
    let may_be_skipped = may_be_skipped || mock.quirks.contains(&Quirk::NodeOnly);
    let run = run(registry, mock, config, seed, |_| true)?;
    let mut wrong = run.accusations();
    if !may_be_skipped && run.reports.iter().all(|report| matches!(report.outcome, Outcome::Skipped(_))) {
        wrong.push("every check was skipped".to_owned());
    }
    Ok(wrong)
}
