//! The calls that matter where there is no order.

use csi_harness::faults::Fault;

use crate::model::object::Object;

use super::parts::Part;
use super::search::{Outcome, Treatment, search};

/// Judgements made to find the calls that matter, at the most.
pub const CORE_STEPS_MAX: u64 = 5_000_000;

/// Calls that have no order and that what is wrong with the last one rests on: loosening any of some of them gives them an
/// order, and without any of the others something else would be wrong; as far as [`CORE_STEPS_MAX`] allows.
///
/// Loosened calls are not left out at first: without the creation of a volume every call to it would be at fault.
pub(super) fn core<O: Object>(parts: &[Part<O>], last: usize, fault: &Fault) -> Vec<usize> {
    let mut core = Core { parts, last, fault, steps: CORE_STEPS_MAX };
    let end = parts[last].step.around.returned;
    let mut all: Vec<usize> =
        (0..parts.len()).filter(|place| parts[*place].step.around.invoked <= end).collect();
    all.sort_by_key(|place| parts[*place].step.around.invoked);
    let contradicting = core.shrunk(all.clone(), |core, kept| {
        kept.contains(&last)
            && core
                .is_wrong(|place| if kept.contains(&place) { Treatment::Kept } else { Treatment::Loosened })
    });
    all.retain(|place| !contradicting.contains(place));
    let also = core.shrunk(all, |core, also| {
        core.is_wrong(|place| match (contradicting.contains(&place), also.contains(&place)) {
            (true, _) => Treatment::Kept,
            (false, true) => Treatment::Loosened,
            (false, false) => Treatment::LeftOut,
        })
    });
    let mut calls = [contradicting, also].concat();
    calls.sort_by_key(|place| parts[*place].step.around.invoked);
    calls
}

/// The search for the calls that matter.
struct Core<'a, O: Object> {
    parts: &'a [Part<O>],
    last: usize,
    fault: &'a Fault,
    steps: u64,
}

impl<O: Object> Core<'_, O> {
    /// Whether the last call is wrong in the same way if each call that had begun by its end is taken in so.
    fn is_wrong(&mut self, treat: impl Fn(usize) -> Treatment) -> bool {
        let end = self.parts[self.last].step.around.returned;
        let treat = |place: usize| match self.parts[place].step.around.invoked <= end {
            true => treat(place),
            false => Treatment::LeftOut,
        };
        match search(self.parts, treat, &mut self.steps) {
            Outcome::Unordered { last, breach } => last == self.last && breach.fault() == *self.fault,
            _ => false,
        }
    }

    /// Ever fewer of these places, as long as that makes no difference.
    fn shrunk(&mut self, places: Vec<usize>, is_enough: impl Fn(&mut Self, &[usize]) -> bool) -> Vec<usize> {
        let mut kept = places;
        let mut chunk = kept.len().max(1);
        loop {
            let mut at = 0;
            let mut smaller = false;
            while at < kept.len() && self.steps > 0 {
                let mut fewer = kept.clone();
                fewer.drain(at..(at + chunk).min(kept.len()));
                if is_enough(self, &fewer) {
                    kept = fewer;
                    smaller = true;
                } else {
                    at += chunk;
                }
            }
            if self.steps == 0 || kept.is_empty() || (chunk == 1 && !smaller) {
                return kept;
            }
            chunk = if smaller { chunk.min(kept.len()).max(1) } else { chunk.div_ceil(2) };
        }
    }
}
