//! The calls that matter where there is no order.

use csi_harness::spec::faults::FaultKey;

use crate::object::Object;

use super::partition::Part;
use super::search::{Outcome, Treatment, search};

/// Largest number of judgements made to find the calls that matter.
pub const CORE_STEPS_MAX: u64 = 5_000_000;

/// The largest number of calls of which every choice is tried.
const CHOICES_OF_MAX: usize = 3;
/// Largest number of calls from which such a choice is made.
const CHOICES_FROM_MAX: usize = 40;

/// The smallest set of calls found that has no order, with the fault of the last one unchanged, as far as
/// [`CORE_STEPS_MAX`] allows. Relaxing any one of them gives them an order.
///
/// Relaxed calls are not left out: without the creation of a volume every call to it would be at fault.
pub(super) fn core<O: Object>(parts: &[Part<O>], last: usize, fault: &FaultKey) -> Vec<usize> {
    let mut core = Core::new(parts, last, fault);
    let few = (1..CHOICES_OF_MAX).find_map(|count| core.chosen(count));
    few.unwrap_or_else(|| {
        let kept = core.halved();
        if kept.len() <= CHOICES_OF_MAX { kept } else { core.chosen(CHOICES_OF_MAX).unwrap_or(kept) }
    })
}

struct Core<'a, O: Object> {
    parts: &'a [Part<O>],
    last: usize,
    fault: &'a FaultKey,
    /// The calls that began before the last one had ended, by their beginning.
    before: Vec<usize>,
    steps: u64,
}

impl<'a, O: Object> Core<'a, O> {
    fn new(parts: &'a [Part<O>], last: usize, fault: &'a FaultKey) -> Core<'a, O> {
        let context = |place: usize| &parts[place].step.context;
        let mut before: Vec<usize> =
            (0..parts.len()).filter(|place| context(*place).invoked <= context(last).returned).collect();
        before.sort_by_key(|place| context(*place).invoked);
        Core { parts, last, fault, before, steps: CORE_STEPS_MAX }
    }

    /// Returns true if the last of these calls has the fault while all others are relaxed.
    fn is_wrong(&mut self, kept: &[usize]) -> bool {
        let mut treatments = vec![Treatment::LeftOut; self.parts.len()];
        self.before.iter().for_each(|place| treatments[*place] = Treatment::Relaxed);
        kept.iter().for_each(|place| treatments[*place] = Treatment::Kept);
        match search(self.parts, |place| treatments[place], &mut self.steps) {
            Outcome::Unordered { last, breach } => last == self.last && breach.fault() == *self.fault,
            _ => false,
        }
    }

    /// So many calls that have no order, the last one among them: the latest that there are.
    fn chosen(&mut self, count: usize) -> Option<Vec<usize>> {
        let others: Vec<usize> = self.before.iter().copied().filter(|place| *place != self.last).collect();
        let from = others[others.len().saturating_sub(CHOICES_FROM_MAX)..].to_vec();
        self.chosen_from(count - 1, &from, &mut vec![self.last])
    }

    fn chosen_from(&mut self, more: usize, from: &[usize], kept: &mut Vec<usize>) -> Option<Vec<usize>> {
        if self.steps == 0 {
            return None;
        }
        if more == 0 {
            let calls: Vec<usize> =
                self.before.iter().copied().filter(|place| kept.contains(place)).collect();
            return self.is_wrong(&calls).then_some(calls);
        }
        for at in (0..from.len()).rev() {
            kept.push(from[at]);
            let found = self.chosen_from(more - 1, &from[..at], kept);
            kept.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Relaxes parts of all calls, ever smaller ones, and returns the calls that remain.
    fn halved(&mut self) -> Vec<usize> {
        let mut kept = self.before.clone();
        let mut chunk = kept.len().div_ceil(2);
        loop {
            let mut at = 0;
            let mut smaller = false;
            while at < kept.len() && self.steps > 0 {
                let mut fewer = kept.clone();
                fewer.drain(at..(at + chunk).min(kept.len()));
                if fewer.contains(&self.last) && self.is_wrong(&fewer) {
                    kept = fewer;
                    smaller = true;
                } else {
                    at += chunk;
                }
            }
            if self.steps == 0 || (chunk == 1 && !smaller) {
                return kept;
            }
            chunk = if smaller { chunk.min(kept.len()).max(1) } else { chunk.div_ceil(2) };
        }
    }
}
