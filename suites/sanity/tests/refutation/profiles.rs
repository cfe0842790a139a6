//! Checks that requirements of Kubernetes bind under the profile kubernetes: for each such rule a defect only causes
//! a warning under the profile csi, and a failure under kubernetes.

use std::collections::BTreeMap;

use csi_harness::checks::check::Check;
use csi_harness::config::Config;
use csi_harness::config::profile::Profile;
use csi_harness::results::outcome::{Outcome, OutcomeKind};
use csi_harness::run::refutation::{Accused, accused};
use csi_harness::spec::requirements::{Requirement, req};
use csi_mock_driver::Defect;
use csi_suite_sanity::PROVEN;
use libtest_mimic::{Failed, Trial};

use crate::bench::{self, everything_on, everything_set};

/// Only on real file systems a check is sure that nothing grew: data/expansion/arrives fails there.
const ONLY_REMARKED_ON: &Requirement = &req::NODE_EXPAND_024;

pub(crate) fn trials() -> Vec<Trial> {
    let mut rules = BTreeMap::<&str, Vec<Accused>>::new();
    for one in accused(PROVEN).filter(is_to_bind) {
        rules.entry(one.rule.id).or_default().push(one);
    }
    let trial = |(rule, by): (&str, Vec<Accused>)| {
        Trial::test(format!("profile/{rule}"), move || binds_under_kubernetes(&by))
    };
    rules.into_iter().map(trial).collect()
}

fn is_to_bind(one: &Accused) -> bool {
    one.warns && one.rule.binds_from() == Profile::Kubernetes && one.rule != ONLY_REMARKED_ON
}

/// At least one of the defects must show that the rule binds; others may end the check early, or cause only a remark.
fn binds_under_kubernetes(all: &[Accused]) -> Result<(), Failed> {
    let mut seen = Vec::new();
    for one in all {
        let [csi, kubernetes] = [played(one, Profile::Csi)?, played(one, Profile::Kubernetes)?];
        let warns = csi.iter().any(|said| matches!(said, Outcome::Warned(_)) && breaks(said, one.rule));
        let fails =
            kubernetes.iter().any(|said| matches!(said, Outcome::Failed(_)) && breaks(said, one.rule));
        if warns && fails {
            return Ok(());
        }
        seen.push(format!(
            "{} on {}: {:?} under csi, {:?} under kubernetes",
            one.check,
            one.defect,
            kinds(&csi),
            kinds(&kubernetes)
        ));
    }
    Err(Failed::from(seen.join("\n")))
}

fn kinds(said: &[Outcome]) -> Vec<OutcomeKind> {
    said.iter().map(Outcome::kind).collect()
}

fn breaks(said: &Outcome, rule: &Requirement) -> bool {
    said.violation().is_some_and(|violation| violation.requirement.is_none_or(|broken| broken == rule))
}

/// Returns the outcomes of the check for the driver with the defect.
fn played(one: &Accused, profile: Profile) -> Result<Vec<Outcome>, Failed> {
    let defect: Defect = one.defect.parse()?;
    let mut config = Config { profile, ..everything_set() };
    config.time_limits.settle_ms = Some(100);
    let lacking = |check: &Check| [bench::lacks(check), bench::lacks_for_rules(check)].concat();
    let registry = bench::registry();
    let check = registry.find(one.check)?;
    let mut said = Vec::new();
    for without in [Vec::new(), lacking(check)] {
        let mock =
            csi_mock_driver::Config { seed: Some(1), defects: vec![defect], without, ..everything_on() };
        let played = bench::play_those(1, mock, config.clone(), |check| check.id == one.check)?;
        said.extend(played.outcomes_of(one.check).into_iter().cloned());
    }
    Ok(said)
}
