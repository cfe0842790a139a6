//! Each fault once, with the checks that show it.

use std::collections::BTreeMap;

use csi_harness::results::outcome::OutcomeKind;

use crate::entry::CheckEntry;
use crate::journal::Run;

/// A fault: the first check that met it, and the ids of the others.
pub(crate) struct FaultGroup<'a> {
    pub(crate) first: &'a CheckEntry,
    pub(crate) others: Vec<&'a str>,
}

/// Each fault of the checks that ended so, once. A check that only shows again what another one reports is with that one.
pub(crate) fn each(run: &Run, ended: OutcomeKind) -> Vec<FaultGroup<'_>> {
    let mut faults: Vec<FaultGroup<'_>> = Vec::new();
    for check in run.checks.iter().filter(|check| check.outcome() == ended) {
        match faults.iter_mut().find(|fault| fault.first.fault == check.fault) {
            Some(fault) => fault.others.push(&check.id),
            None => faults.push(FaultGroup { first: check, others: Vec::new() }),
        }
    }
    let firsts = run.checks.iter().filter_map(|check| Some((check.id.as_str(), check.reported_in()?)));
    let firsts: BTreeMap<&str, &str> = firsts.collect();
    for id in firsts.keys() {
        let first = reported(&firsts, id);
        let shows = |fault: &&mut FaultGroup<'_>| fault.first.id == first || fault.others.contains(&first);
        if let Some(fault) = faults.iter_mut().find(shows) {
            fault.others.push(id);
        }
    }
    faults
}

/// Each fault that is flaky and counts so, once.
pub(crate) fn flaky(run: &Run, counts_as: OutcomeKind) -> Vec<FaultGroup<'_>> {
    let mut faults = each(run, OutcomeKind::Flaky);
    faults.retain(|fault| fault.first.counts_as() == counts_as);
    faults
}

/// Follows references to the check that reports the fault in full: the check that is named may refer to a further one.
pub(crate) fn reported<'a>(firsts: &BTreeMap<&'a str, &'a str>, id: &'a str) -> &'a str {
    let mut at = id;
    for _ in 0..firsts.len() {
        match firsts.get(at) {
            Some(first) => at = first,
            None => break,
        }
    }
    at
}
