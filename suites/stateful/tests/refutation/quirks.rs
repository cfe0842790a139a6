//! A right driver, plain or unusual, is not accused, and neither is one that lacks a capability.

use std::time::Duration;

use csi_harness::config::{AccessType, Config, Secret};
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Capability, Delay, Quirk};
use libtest_mimic::{Failed, Trial};

use crate::bench::{everything_set, little, pairs, play};

pub(crate) fn trials() -> Vec<Trial> {
    let quirks = Quirk::ALL.iter().map(|quirk| {
        Trial::test(format!("quirk/{quirk}"), move || {
            // Long enough to be noticed by whoever does not wait.
            let start_delay = Delay(Duration::from_millis(300));
            let mock = csi_mock_driver::Config { quirks: vec![*quirk], start_delay, ..Default::default() };
            let mut config = everything_set();
            adapt(*quirk, &mut config);
            is_not_accused(mock, config, false)
        })
    });
    let without = Capability::ALL.iter().map(|capability| {
        Trial::test(format!("without/{capability}"), move || {
            let mock = csi_mock_driver::Config { without: vec![*capability], ..Default::default() };
            is_not_accused(mock, everything_set(), true)
        })
    });
    let healthy = Trial::test("healthy", || is_not_accused(Default::default(), everything_set(), false));
    quirks.chain(without).chain([healthy]).collect()
}

fn is_not_accused(mock: csi_mock_driver::Config, config: Config, may_be_skipped: bool) -> Result<(), Failed> {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mock_is_a_node_only = mock.quirks.contains(&Quirk::NodeOnly);
    let played = play(mock, Config { effort: little(), ..config }, seed, |_| true)?;
    let mut wrong = played.accusations();
    let is_skipped = |outcome: &Outcome| matches!(outcome, Outcome::Skipped(_));
    // A node alone makes no volumes.
    let may_be_skipped = may_be_skipped || mock_is_a_node_only;
    if !may_be_skipped && played.said.values().all(|said| is_skipped(&said.outcome)) {
        wrong.push("every check was skipped".to_owned());
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// What the user of such a driver has to tell the harness.
fn adapt(quirk: Quirk, config: &mut Config) {
    match quirk {
        Quirk::BlockOnly => config.access_types = vec![AccessType::Block],
        Quirk::MountOnly => config.access_types = vec![AccessType::Mount],
        Quirk::SecretsDemanded => {
            for rpc in csi_proto::RPCS {
                config.secrets.insert(rpc.method.to_owned(), Secret(pairs(&[("password", "mock")])));
            }
        }
        _ => {}
    }
}
