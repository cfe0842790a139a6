//! The faults that a check reports, each once in a run, with the number of times that known ones were met again.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::prelude::*;
use csi_harness::spec::faults::{Claim, FaultKey};
use csi_harness::text::message;
use csi_model::expectation::{Breach, Known};
use csi_model::history::Report;

/// A fault that was met again.
#[derive(Debug)]
struct Again {
    breach: Breach,
    reported_by: String,
    times: u32,
    /// True if only tries that depend on the seed have met it.
    by_chance: bool,
}

/// The check that reports a fault by its rule, in words of its own.
pub(crate) fn reported_by_other_check(cx: &Cx, breach: &Breach) -> Option<String> {
    cx.target().faults().reported_by(breach.rule).filter(|_| breach.rule.is_binding())
}

/// The faults that were reported so far.
#[derive(Debug)]
pub(crate) struct Reported {
    cx: Cx,
    own: BTreeSet<FaultKey>,
    /// Descriptions of the faults that this check reports, whatever the rule.
    own_failures: BTreeSet<String>,
    /// Faults that were met again, this check's own and those of other checks.
    again: BTreeMap<FaultKey, Again>,
    remarked: BTreeSet<FaultKey>,
    /// True if something may have been left behind because of a fault.
    leaves_doubt: bool,
    undecided: usize,
    objects: usize,
    /// True while a try is made that depends on the seed.
    is_random: bool,
}

impl Reported {
    pub(crate) fn new(cx: &Cx) -> Reported {
        Reported {
            is_random: false,
            cx: cx.clone(),
            own: BTreeSet::new(),
            own_failures: BTreeSet::new(),
            again: BTreeMap::new(),
            remarked: BTreeSet::new(),
            leaves_doubt: false,
            undecided: 0,
            objects: 0,
        }
    }

    /// The faults that the model tolerates of this driver by now.
    pub(crate) fn known(&self) -> Known {
        self.cx.target().faults().known_to(&self.claim_of(self.cx.label())).into()
    }

    /// Returns true while the check may report more faults. Those that an earlier check has taken over do not count, so that a slow machine
    /// does not change what is looked for.
    pub(crate) fn goes_on(&self) -> bool {
        let faults = self.cx.target().faults();
        let is_own = |fault: &&FaultKey| faults.claimed_by(fault).is_some_and(|by| by == self.cx.label());
        let own = self.own.iter().filter(is_own).count();
        u32::try_from(own).unwrap_or(u32::MAX) < self.cx.config().effort.faults
    }

    fn claim_of(&self, check: &str) -> Claim {
        Claim { check: check.to_owned(), by_chance: self.is_random }
    }

    /// Notes whether the next try depends on the seed. A known fault that only such tries meet does not decide the outcome of the check.
    pub(crate) fn is_random(&mut self, is_random: bool) {
        self.is_random = is_random;
    }

    /// Returns true if no fault was met.
    pub(crate) fn is_all_right(&self) -> bool {
        self.own.is_empty() && self.again.is_empty()
    }

    /// Returns true if objects beyond the known ones could come from a reported fault.
    pub(crate) fn leaves_doubt(&self) -> bool {
        self.leaves_doubt
    }

    /// Claims a fault, to report it. Returns false if that is done already, and then the fault is counted.
    pub(crate) fn claim(&mut self, breach: &Breach) -> bool {
        let elsewhere = reported_by_other_check(&self.cx, breach);
        let reported_by = elsewhere.as_deref().unwrap_or(self.cx.label());
        let claim = self.claim_of(reported_by);
        match (self.cx.target().faults().claim(&breach.fault(), &claim), elsewhere) {
            (Ok(()), None) => true,
            (Err(reported_by), _) | (Ok(()), Some(reported_by)) => {
                self.meet_again(breach, &reported_by);
                false
            }
        }
    }

    /// Releases a claim, because the fault was none.
    pub(crate) fn release(&self, breach: &Breach) {
        self.cx.target().faults().release(&breach.fault(), self.cx.label());
    }

    /// Reports a claimed fault.
    pub(crate) fn blame(&mut self, breach: &Breach, violation: Violation) {
        self.own.insert(breach.fault());
        self.own_failures.insert(breach.failure());
        self.leaves_doubt |= breach.leaves_doubt;
        self.cx.blame(violation);
    }

    /// Warns of a recommendation that was not kept, if that is new.
    pub(crate) fn remark(&mut self, remark: &Breach, known: &Known) {
        if self.is_worth_a_warning(remark, known) {
            self.warn(remark.clone().into());
        }
    }

    /// Counts a remark: a recommendation that was not kept, or a fault that was known by then. Returns true the first time that it has to
    /// be reported.
    pub(crate) fn is_worth_a_warning(&mut self, remark: &Breach, known: &Known) -> bool {
        // A call that fails alone fails beside other calls as well.
        let is_own = self.own_failures.contains(&remark.failure());
        if let Some(reported_by) = known.reported_by(remark) {
            self.meet_again(remark, reported_by);
            return false;
        }
        !is_own && self.remarked.insert(remark.fault())
    }

    /// Reports a remark.
    pub(crate) fn warn(&self, warning: Violation) {
        self.cx.warn(warning);
    }

    /// Counts how much of a history could be judged.
    pub(crate) fn add(&mut self, report: &Report, known: &Known) {
        self.objects += report.objects;
        self.undecided += report.undecided.len();
        report.remarks.iter().for_each(|(_, remark)| self.remark(remark, known));
    }

    fn meet_again(&mut self, breach: &Breach, reported_by: &str) {
        self.leaves_doubt |= breach.leaves_doubt;
        let (breach, reported_by) = (breach.clone(), reported_by.to_owned());
        let fault = breach.fault();
        let first = Again { breach, reported_by, times: 0, by_chance: true };
        let again = self.again.entry(fault).or_insert(first);
        again.times += 1;
        again.by_chance &= self.is_random;
    }

    /// Notes how much could not be judged, and which faults were met again. Fails with the first fault of others
    /// that was met, if there is nothing else to report.
    pub(crate) fn end(self) -> CheckResult {
        if self.undecided > 0 {
            self.cx.note(format!("{} of {} objects were not judged to the end: faults or missing answers leave their states unknown", self.undecided, self.objects));
        }
        let (mut of_others, mut by_others) = (0_u32, Vec::new());
        for (fault, Again { breach, reported_by, times, .. }) in &self.again {
            if !self.own.contains(fault) {
                of_others += times;
                by_others.push(format!("{reported_by} ({})", fault.rule));
                continue;
            }
            let what = match fault.what == FaultKey::BESIDE_ANOTHER_CALL {
                true => "calls are rejected while others are under way",
                false => &breach.message,
            };
            self.cx.note(format!(
                "met again {}, without stopping: {what} ({})",
                message::times((*times).into()),
                fault.rule
            ));
        }
        if of_others > 0 {
            by_others.dedup();
            let (times, faults) = (message::times(of_others.into()), by_others.join(", "));
            self.cx.note(format!("met faults that other checks report {times}, without stopping: {faults}"));
        }
        let others = |again: &Again| !again.by_chance && !self.own.contains(&again.breach.fault());
        match self.again.into_values().find(others) {
            Some(again) if self.own.is_empty() => Err(Stop::MetAgain(Box::new(again.breach.into()))),
            _ => Ok(()),
        }
    }
}
