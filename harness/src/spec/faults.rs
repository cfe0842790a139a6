//! Faults of the driver that checks of a run report, so that others look behind them.

use std::collections::BTreeMap;

use csi_proto::lock::Mutex;

use crate::spec::requirements::{Requirement, req};

/// Identifies one fault of a driver among all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultKey {
    /// The id of the rule that is broken.
    pub rule: &'static str,
    /// The way in which it is broken, in words without ids and sizes, so that equal faults have equal words.
    pub what: String,
}

impl FaultKey {
    /// The name of the fault that calls disturb each other, whichever they are.
    pub const BESIDE_ANOTHER_CALL: &str = "beside another call";
    /// The name of the fault that a mount stays at a path that is unusual. It says nothing about mounts at other paths.
    pub const AT_AN_UNUSUAL_PATH: &str = "at an unusual path";
}

/// Rules that ask for several things, of which a driver may do one and not the other.
const OF_SEVERAL: [&Requirement; 5] = [
    &req::CTRL_CREATEVOL_002,
    &req::CTRL_CREATESNAP_002,
    &req::GROUP_CREATE_003,
    // The right kind of target, and in it what was written.
    &req::NODE_PUBLISH_026,
    &req::NODE_PUBLISH_027,
];

/// Returns true if two checks that accuse a driver by this rule mean one fault only if they use equal words.
pub fn asks_for_several(rule: &str) -> bool {
    OF_SEVERAL.iter().any(|one| one.id == rule)
}

/// A check that reports a fault, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The label of the check.
    pub check: String,
    /// True if the check has met the fault only in inputs that depend on the seed.
    pub by_chance: bool,
}

impl Claim {
    /// A claim of a check that meets the fault whatever the seed is.
    pub fn of(check: impl Into<String>) -> Claim {
        Claim { check: check.into(), by_chance: false }
    }
}

/// The faults that the checks of a run report.
///
/// Checks run in parallel, and chance decides which of them meets a fault first. So that the same checks fail in every
/// run, the claim of a check gives way to that of an earlier check in the order of the run, and a claim by chance to
/// one that is not.
#[derive(Debug, Default)]
pub struct Faults {
    reported: Mutex<BTreeMap<FaultKey, Claim>>,
    /// The places of the checks in the order of the run, by their labels.
    places: Mutex<BTreeMap<String, usize>>,
    /// Rules by which a check that looks for nothing else has failed.
    rules: Mutex<BTreeMap<&'static str, String>>,
}

impl Faults {
    /// Appends checks to the order of the run, by their labels.
    pub(crate) fn run_next(&self, checks: impl IntoIterator<Item = String>) {
        let mut places = self.places.lock();
        for check in checks {
            let place = places.len();
            places.entry(check).or_insert(place);
        }
    }

    /// The place of a check in the order of the run. Checks that are in none come last.
    pub(crate) fn place(&self, check: &str) -> usize {
        self.places.lock().get(check).copied().unwrap_or(usize::MAX)
    }

    /// Leaves it to this check to report a fault.
    ///
    /// # Errors
    /// The check that reports it already, perhaps this one.
    pub fn claim(&self, fault: &FaultKey, claim: &Claim) -> Result<(), String> {
        let mut reported = self.reported.lock();
        match reported.get(fault) {
            Some(first) if self.holds_against(first, claim) => Err(first.check.clone()),
            _ => {
                reported.insert(fault.clone(), claim.clone());
                Ok(())
            }
        }
    }

    fn holds_against(&self, first: &Claim, other: &Claim) -> bool {
        let rank = |claim: &Claim| (claim.by_chance, self.place(&claim.check));
        first.check == other.check || rank(first) <= rank(other)
    }

    /// Withdraws a check's claim to something that was no fault.
    pub fn release(&self, fault: &FaultKey, check: &str) {
        self.reported.lock().retain(|one, claim| one != fault || claim.check != check);
    }

    /// The check that reports a fault.
    pub fn claimed_by(&self, fault: &FaultKey) -> Option<String> {
        self.reported.lock().get(fault).map(|claim| claim.check.clone())
    }

    /// The faults that a check with this claim does not have to report, with the checks that report them.
    pub fn known_to(&self, claim: &Claim) -> BTreeMap<FaultKey, String> {
        let reported = self.reported.lock();
        let known = reported.iter().filter(|(_, first)| self.holds_against(first, claim));
        known.map(|(fault, first)| (fault.clone(), first.check.clone())).collect()
    }

    /// Notes that a check has failed by a rule. Other checks that find a fault of this rule refer to that report,
    /// unless the rule demands several things.
    pub(crate) fn failed_by(&self, rule: &'static Requirement, check: &str) {
        if !asks_for_several(rule.id) && rule != &req::GEN_ERR_001 {
            self.rules.lock().entry(rule.id).or_insert_with(|| check.to_owned());
        }
    }

    /// The check that has failed by a rule, where that stands for all that others find by it.
    pub fn reported_by(&self, rule: &Requirement) -> Option<String> {
        self.rules.lock().get(rule.id).cloned()
    }

    /// Releases what a check meant to report, and did not.
    pub(crate) fn keep_reported(&self, check: &str, reported: &[&FaultKey]) {
        self.reported.lock().retain(|fault, claim| claim.check != check || reported.contains(&fault));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(what: &str) -> FaultKey {
        FaultKey { rule: "A-1", what: what.to_owned() }
    }

    #[test]
    fn a_fault_not_reported_is_free_again() {
        let faults = Faults::default();
        let (one, two) = (Claim::of("one"), Claim::of("two"));
        assert_eq!(faults.claim(&fault("a"), &one), Ok(()));
        assert_eq!(faults.claim(&fault("a"), &two), Err("one".to_owned()));
        assert_eq!(faults.claim(&fault("b"), &one), Ok(()));
        faults.keep_reported("one", &[&fault("a")]);
        assert_eq!(faults.known_to(&two), [(fault("a"), "one".to_owned())].into());
        assert_eq!(faults.claim(&fault("b"), &two), Ok(()));
        faults.release(&fault("b"), "one");
        assert_eq!(faults.claimed_by(&fault("b")).as_deref(), Some("two"));
        faults.release(&fault("b"), "two");
        assert_eq!(faults.claim(&fault("b"), &one), Ok(()));
    }

    #[test]
    fn an_earlier_or_certain_check_takes_the_claim() {
        let faults = Faults::default();
        faults.run_next(["first", "second"].map(str::to_owned));
        let (first, second) = (Claim::of("first"), Claim::of("second"));
        let by_chance = Claim { by_chance: true, ..first.clone() };
        assert_eq!(faults.claim(&fault("a"), &by_chance), Ok(()));
        assert_eq!(faults.known_to(&second), BTreeMap::new());
        assert_eq!(faults.claim(&fault("a"), &second), Ok(()));
        assert_eq!(faults.claim(&fault("a"), &by_chance), Err("second".to_owned()));
        assert_eq!(faults.known_to(&by_chance), [(fault("a"), "second".to_owned())].into());
        assert_eq!(faults.claim(&fault("a"), &first), Ok(()));
        assert_eq!(faults.claim(&fault("a"), &second), Err("first".to_owned()));
        assert_eq!(faults.claimed_by(&fault("a")).as_deref(), Some("first"));
    }

    #[test]
    fn a_rule_with_one_subject_stands_for_it() {
        let faults = Faults::default();
        for rule in
            [&req::CTRL_EXPAND_011, &req::CTRL_CREATEVOL_002, &req::NODE_PUBLISH_027, &req::GEN_ERR_001]
        {
            faults.failed_by(rule, "one");
            faults.failed_by(rule, "two");
        }
        assert_eq!(faults.reported_by(&req::CTRL_EXPAND_011).as_deref(), Some("one"));
        assert_eq!(faults.reported_by(&req::CTRL_CREATEVOL_002), None);
        assert_eq!(faults.reported_by(&req::NODE_PUBLISH_027), None);
        assert_eq!(faults.reported_by(&req::GEN_ERR_001), None);
    }
}
