//! Faults of the driver that checks of a run report, so that others look behind them.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use csi_proto::lock::Mutex;

use crate::spec::requirements::{Requirement, req};

/// What tells one fault of a driver from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultKey {
    /// The id of the rule that is broken.
    pub rule: &'static str,
    /// How, in words that are the same each time: no ids, no sizes.
    pub what: String,
}

impl FaultKey {
    /// What the fault is called that calls get in each other's way, whichever they are.
    pub const BESIDE_ANOTHER_CALL: &str = "beside another call";
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

/// Whether two checks that accuse a driver by this rule mean the same fault only if they use the same words.
pub fn asks_for_several(rule: &str) -> bool {
    OF_SEVERAL.iter().any(|one| one.id == rule)
}

/// The faults that the checks of a run report, each with the label of the check.
#[derive(Debug, Default)]
pub struct Faults {
    reported: Mutex<BTreeMap<FaultKey, String>>,
    /// Rules by which a check that looks for nothing else has failed.
    rules: Mutex<BTreeMap<&'static str, String>>,
}

impl Faults {
    /// Leaves it to this check to report a fault.
    ///
    /// # Errors
    /// The check that reports it already.
    pub fn claim(&self, fault: &FaultKey, check: &str) -> Result<(), String> {
        let mut reported = self.lock();
        match reported.get(fault) {
            Some(other) => Err(other.clone()),
            None => {
                reported.insert(fault.clone(), check.to_owned());
                Ok(())
            }
        }
    }

    /// It was none.
    pub fn release(&self, fault: &FaultKey) {
        self.lock().remove(fault);
    }

    /// All of them, with the checks that report them.
    pub fn all(&self) -> BTreeMap<FaultKey, String> {
        self.lock().clone()
    }

    /// Notes that a check has failed by a rule. What others find by the same one is told there, unless it asks for several things.
    pub(crate) fn failed_by(&self, rule: &'static Requirement, check: &str) {
        if !asks_for_several(rule.id) && rule != &req::GEN_ERR_001 {
            lock(&self.rules).entry(rule.id).or_insert_with(|| check.to_owned());
        }
    }

    /// The check that has failed by a rule, where that stands for all that others find by it.
    pub fn reported_by(&self, rule: &Requirement) -> Option<String> {
        lock(&self.rules).get(rule.id).cloned()
    }

    /// Releases what a check meant to report, and did not.
    pub(crate) fn keep_reported(&self, check: &str, reported: &[&FaultKey]) {
        self.lock().retain(|fault, by| by != check || reported.contains(&fault));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FaultKey, String>> {
        lock(&self.reported)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_tells_a_fault_and_what_it_did_not_tell_another_one_may() {
        let faults = Faults::default();
        let fault = |what: &str| FaultKey { rule: "A-1", what: what.to_owned() };
        assert_eq!(faults.claim(&fault("a"), "one"), Ok(()));
        assert_eq!(faults.claim(&fault("a"), "two"), Err("one".to_owned()));
        assert_eq!(faults.claim(&fault("b"), "one"), Ok(()));
        faults.keep_reported("one", &[&fault("a")]);
        assert_eq!(faults.all(), [(fault("a"), "one".to_owned())].into());
        assert_eq!(faults.claim(&fault("b"), "two"), Ok(()));
        faults.release(&fault("b"));
        assert_eq!(faults.claim(&fault("b"), "one"), Ok(()));
    }

    #[test]
    fn a_rule_stands_for_what_it_asks_for_unless_that_is_several_things() {
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
