//! Checks that a correct driver is not accused, whether it is plain, has quirks or lacks capabilities.

use std::fmt::Display;
use std::time::Duration;

use csi_harness::checks::registry::Registry;
use csi_harness::config::{AccessType, Config, Effort, Secret};
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Capability, Delay, Quirk};
use libtest_mimic::{Failed, Trial};

use crate::matrix::{self, distribute};
use crate::mock::{everything_set, pairs, run};
use crate::run::from_environment;

/// The number of drivers among which the combinable quirks are distributed.
const QUIRKY_DRIVERS: usize = 8;
/// Quirks that change all calls, or the features of the driver, and so cannot be combined. The slowest are first, so
/// that they do not run last.
const ALONE: &[Quirk] = &[
    Quirk::SlowCalls,
    Quirk::SlowStart,
    Quirk::ThrottlesEveryFifthCall,
    Quirk::ControllerOnly,
    Quirk::NodeOnly,
    Quirk::BlockOnly,
    Quirk::MountOnly,
];
/// The number of drivers among which the missing capabilities are distributed.
const LACKING_DRIVERS: usize = 8;
/// It is long enough to affect a check that does not wait.
const DELAY: Duration = Duration::from_millis(500);
/// The delay of each call is shorter, because there are many.
const CALL_DELAY: Duration = Duration::from_millis(20);

/// Returns a trial for each such driver, with the checks of these suites.
pub fn trials(registry: fn() -> Registry, effort: &Effort) -> Vec<Trial> {
    let quirky = drivers().into_iter().map(|quirks| {
        let effort = effort.clone();
        Trial::test(title("quirk", &quirks), move || {
            let mut mock = csi_mock_driver::Config::default();
            let mut config = Config { effort, ..everything_set() };
            behave(&quirks, &mut mock, &mut config);
            verdict(&quirks, wrong(registry(), mock, config, false)?)
        })
    });
    let without = lacking().into_iter().map(|without| {
        let effort = effort.clone();
        Trial::test(title("without", &without), move || {
            let mock = csi_mock_driver::Config { without: without.clone(), ..Default::default() };
            let config = Config { effort, ..everything_set() };
            verdict(&without, wrong(registry(), mock, config, true)?)
        })
    });
    // Most drivers are like this one, so it is tried for longer.
    let effort = Effort { check_budget_ms: 3_000, ..effort.clone() };
    let healthy = Trial::test("healthy", move || {
        let config = Config { effort, ..everything_set() };
        verdict::<Quirk>(&[], wrong(registry(), Default::default(), config, false)?)
    });
    quirky.chain(without).chain([healthy]).collect()
}

/// Returns the quirks of each unusual driver.
pub fn drivers() -> Vec<Vec<Quirk>> {
    distribute(Quirk::ALL, ALONE, QUIRKY_DRIVERS)
}

/// Returns the missing capabilities of each incomplete driver.
pub fn lacking() -> Vec<Vec<Capability>> {
    distribute(Capability::ALL, &[], LACKING_DRIVERS)
}

/// Names a trial by its first variant and the number of the others.
pub fn title(kind: &str, ways: &[impl Display]) -> String {
    match ways {
        [] => kind.to_owned(),
        [one] => format!("{kind}/{one}"),
        [first, others @ ..] => format!("{kind}/{first}+{}", others.len()),
    }
}

/// Gives the mock driver these quirks, and makes the settings that a user of such a driver has to make.
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

/// Turns the accusations of a correct driver into a failure that names its variants.
///
/// # Errors
/// Fails if there is an accusation.
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
    let seed = from_environment("SEED").unwrap_or(1);
    // A node service alone makes no volumes, so most checks are skipped.
    let may_be_skipped = may_be_skipped || mock.quirks.contains(&Quirk::NodeOnly);
    let run = run(registry, mock, config, seed, |_| true)?;
    let mut wrong = run.accusations();
    if !may_be_skipped && run.reports.iter().all(|report| matches!(report.outcome, Outcome::Skipped(_))) {
        wrong.push("every check was skipped".to_owned());
    }
    Ok(wrong)
}
