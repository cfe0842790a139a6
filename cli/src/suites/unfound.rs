//! Every defect of the mock driver is found by a check of some suite, as its refutation tests hold, or stands with a reason in
//! `suites/unfound.txt`.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::spec::requirements::req;
use csi_mock_driver::Defect;

use super::{all, all_accused};

const LISTED: &str = include_str!("../../../suites/unfound.txt");

/// The defects that no check finds, with the reasons.
pub(crate) fn unfound() -> BTreeMap<&'static str, &'static str> {
    let lines = LISTED.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).collect()
}

#[test]
fn what_no_check_names_has_a_reason() {
    let registry = all();
    let named: BTreeSet<&str> =
        registry.checks().flat_map(|(_, check)| check.refuted_by.iter().copied()).collect();
    let unnamed: BTreeSet<&str> =
        Defect::ALL.iter().map(|defect| defect.id()).filter(|id| !named.contains(id)).collect();
    let listed: BTreeSet<&str> = unfound().into_keys().collect();
    assert_eq!(unnamed, listed, "left: what no check names; right: suites/unfound.txt");
}

/// A check that a driver only crashes on, or that only says what another one judges, has never shown that it can judge.
#[test]
fn every_check_has_accused_by_a_rule_of_its_own() {
    let judges: BTreeSet<&str> = all_accused()
        .filter(|accused| accused.rule != &req::GEN_ERR_001)
        .map(|accused| accused.check)
        .collect();
    let registry = all();
    let others = registry.checks().filter(|(suite, check)| {
        // These suites go by rules of their own, and their tests hold what they find.
        !["hostile", "faults", "in-use", "nodes", "upgrade", "load"].contains(suite)
            && check.requirements[0] != &req::GEN_ERR_001
            && !judges.contains(&*check.id)
    });
    let others: Vec<_> = others.map(|(_, check)| &*check.id).collect();
    assert!(others.is_empty(), "no defect makes these blame a driver for what they judge: {others:?}");
}
