//! The suites that are linked in.

#[cfg(test)]
mod ids;
#[cfg(test)]
mod rules;
#[cfg(test)]
pub(crate) mod unfound;

use std::collections::BTreeSet;

use csi_harness::checks::check::Check;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::run::refutation::{Accused, accused};
use csi_harness::spec::requirements::{Basis, Requirement};
use csi_suite_sanity::untested::ONLY_WARNED;

pub(crate) static SUITES: [Suite; 14] = [
    csi_suite_sanity::SUITE,
    csi_suite_data::SUITE,
    csi_suite_in_use::SUITE,
    csi_suite_in_use::nodes::SUITE,
    csi_suite_stateful::idempotency::SUITE,
    csi_suite_stateful::property::SUITE,
    csi_suite_stateful::concurrency::SUITE,
    csi_suite_stateful::after_error::SUITE,
    csi_suite_stateful::growth::SUITE,
    csi_suite_stateful::restart::SUITE,
    csi_suite_hostile::SUITE,
    csi_suite_faults::SUITE,
    csi_suite_upgrade::SUITE,
    csi_suite_load::SUITE,
];

/// Their names, as `--suite` takes them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|suite| suite.name)
}

/// All suites.
pub(crate) fn all() -> Registry {
    Registry::new(SUITES.iter().cloned())
}

/// The ids of the rules that checks are proven to judge.
pub(crate) fn proven() -> BTreeSet<&'static str> {
    all_accused().filter(is_judged).map(|accused| accused.rule.id).collect()
}

/// Returns true if checks are proven to judge this rule. Where the rule is csi-sanity's own, a defect that a check of it finds is the proof.
pub(crate) fn is_proven(rule: &Requirement, registry: &Registry) -> bool {
    let is_refuted = |check: &Check| check.requirements.contains(&rule) && !check.refuted_by.is_empty();
    proven().contains(rule.id)
        || rule.basis == Basis::Own && registry.checks().any(|(_, check)| is_refuted(check))
}

/// The accusations that the refutation tests have seen.
pub(crate) fn all_accused() -> impl Iterator<Item = Accused> {
    let matrices = [csi_suite_sanity::PROVEN, csi_suite_data::PROVEN, csi_suite_faults::PROVEN];
    matrices.into_iter().flat_map(accused).chain(csi_suite_stateful::proven::accused())
}

/// Returns true if the accusation has the strength of the rule: a failure if the rule binds, unless checks only warn of it for a reason,
/// and otherwise a warning.
fn is_judged(accused: &Accused) -> bool {
    let fails = accused.rule.is_binding() && !ONLY_WARNED.iter().any(|(rule, _)| *rule == accused.rule);
    accused.warns != fails
}
