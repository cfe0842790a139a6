//! Faults of the driver that checks of a run tell, so that others look behind them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::requirements::{Requirement, req};

/// What tells one fault of a driver from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// The id of the rule that is broken.
    pub rule: &'static str,
    /// How, in words that are the same each time: no ids, no sizes.
    pub what: String,
}

impl Fault {
    /// What the fault is called that calls get in each other's way, whichever they are.
    pub const BESIDE_ANOTHER_CALL: &str = "beside another call";
}

/// Rules that ask for several things, of which a driver may do one and not the other.
const OF_SEVERAL: [&Requirement; 3] =
    [&req::CTRL_CREATEVOL_002, &req::CTRL_CREATESNAP_002, &req::GROUP_CREATE_003];

/// Whether two checks that accuse a driver by this rule mean the same fault only if they use the same words.
pub fn asks_for_several(rule: &str) -> bool {
    OF_SEVERAL.iter().any(|one| one.id == rule)
}

/// The faults that the checks of a run tell, each with the label of the check.
#[derive(Debug, Default)]
pub struct Faults(Mutex<BTreeMap<Fault, String>>);

impl Faults {
    /// Leaves it to this check to tell a fault.
    ///
    /// # Errors
    /// The check that tells it already.
    pub fn claim(&self, fault: &Fault, check: &str) -> Result<(), String> {
        let mut told = self.lock();
        match told.get(fault) {
            Some(other) => Err(other.clone()),
            None => {
                told.insert(fault.clone(), check.to_owned());
                Ok(())
            }
        }
    }

    /// It was none.
    pub fn release(&self, fault: &Fault) {
        self.lock().remove(fault);
    }

    /// All of them, with the checks that tell them.
    pub fn all(&self) -> BTreeMap<Fault, String> {
        self.lock().clone()
    }

    /// Releases what a check meant to tell, and did not.
    pub(crate) fn keep_told(&self, check: &str, told: &[&Fault]) {
        self.lock().retain(|fault, by| by != check || told.contains(&fault));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fault, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_tells_a_fault_and_what_it_did_not_tell_another_one_may() {
        let faults = Faults::default();
        let fault = |what: &str| Fault { rule: "A-1", what: what.to_owned() };
        assert_eq!(faults.claim(&fault("a"), "one"), Ok(()));
        assert_eq!(faults.claim(&fault("a"), "two"), Err("one".to_owned()));
        assert_eq!(faults.claim(&fault("b"), "one"), Ok(()));
        faults.keep_told("one", &[&fault("a")]);
        assert_eq!(faults.all(), [(fault("a"), "one".to_owned())].into());
        assert_eq!(faults.claim(&fault("b"), "two"), Ok(()));
        faults.release(&fault("b"));
        assert_eq!(faults.claim(&fault("b"), "one"), Ok(()));
    }
}
