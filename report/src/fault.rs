//! Each fault once, with the checks that show it, and the wrong codes that many faults share.

use std::collections::BTreeMap;

use csi_harness::results::outcome::OutcomeKind;

use crate::entry::CheckEntry;
use crate::journal::Run;

/// Failures with one wrong code from which on they are summed up.
const SHARED_MIN: usize = 5;

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

/// Counts the failures in which the driver answered with one code where the rule asks for another error. A driver that makes its errors in one
/// place fails many checks for one mistake there.
#[derive(Debug, Default)]
pub(crate) struct WrongCodes {
    failures: usize,
    /// By the expected code and the actual one.
    by_codes: BTreeMap<(String, String), usize>,
}

impl WrongCodes {
    /// Counts a check if it failed.
    pub(crate) fn add(&mut self, check: &CheckEntry) {
        if check.outcome() != OutcomeKind::Failed {
            return;
        }
        self.failures += 1;
        // Texts about codes begin with one, and only codes are in capitals.
        let code = |text: &str| {
            let word = text.split([' ', ',']).next().unwrap_or_default();
            let is_code =
                word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            is_code.then(|| word.to_owned())
        };
        if let (Some(expected), Some(actual)) = (code(&check.expected), code(&check.actual))
            && expected != actual
            && expected != "OK"
        {
            *self.by_codes.entry((expected, actual)).or_default() += 1;
        }
    }

    /// A sentence for each wrong code that many failures have in common.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let shared = self.by_codes.iter().filter(|(_, failures)| **failures >= SHARED_MIN);
        let sentence = |((expected, actual), failures): (&(String, String), &usize)| {
            format!(
                "{failures} of {} failures are {actual} instead of {expected}, which may be one mistake, in the place where the driver makes \
                 its errors",
                self.failures
            )
        };
        shared.map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_code_in_many_failures_is_one_sentence() {
        let mut codes = WrongCodes::default();
        let ended = |outcome: &str, expected: &str, actual: &str| -> CheckEntry {
            let check = serde_json::json!({
                "id": "a", "outcome": outcome, "message": "", "expected": expected, "actual": actual,
            });
            serde_json::from_value(check).expect("a check")
        };
        let failed = |expected: &str, actual: &str| ended("failed", expected, actual);
        (0..6).for_each(|_| codes.add(&failed("INVALID_ARGUMENT, or OK", "UNKNOWN \"no id\"")));
        (0..4).for_each(|_| codes.add(&failed("NOT_FOUND", "INTERNAL \"gone\"")));
        (0..7).for_each(|_| codes.add(&failed("OK", "INTERNAL \"busy\"")));
        codes.add(&failed("one mount", "two mounts"));
        codes.add(&ended("warned", "INVALID_ARGUMENT", "UNKNOWN"));
        let expected = "6 of 18 failures are UNKNOWN instead of INVALID_ARGUMENT, which may be one mistake, in the place where the driver \
            makes its errors";
        assert_eq!(codes.sentences(), [expected]);
    }
}
