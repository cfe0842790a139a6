//! The calls that matter where there is no order.

use crate::model::object::Object;

use super::parts::Part;
use super::search::{Outcome, Treatment, search};

/// Searches made to find the calls that matter, at the most.
pub const CORE_SEARCHES_MAX: usize = 400;

/// Calls that have no order, such that loosening any one of them gives them one, as far as [`CORE_SEARCHES_MAX`] allows.
///
/// Loosened calls are not left out: without the creation of a volume every call to it would be at fault.
pub(super) fn core<O: Object>(parts: &[Part<O>], last: usize) -> Vec<usize> {
    let end = parts[last].step.around.returned;
    let mut kept: Vec<usize> =
        (0..parts.len()).filter(|place| parts[*place].step.around.invoked <= end).collect();
    kept.sort_by_key(|place| parts[*place].step.around.invoked);
    let is_unordered = |kept: &[usize]| {
        let mut treatments = vec![Treatment::LeftOut; parts.len()];
        for (place, treatment) in treatments.iter_mut().enumerate() {
            if parts[place].step.around.invoked <= end {
                *treatment = if kept.contains(&place) { Treatment::Kept } else { Treatment::Loosened };
            }
        }
        matches!(search(parts, |place| treatments[place]), Outcome::Unordered { .. })
    };
    let mut searches_left = CORE_SEARCHES_MAX;
    let mut chunk = kept.len().div_ceil(2);
    loop {
        let mut at = 0;
        let mut smaller = false;
        while at < kept.len() && searches_left > 0 {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + chunk).min(kept.len()));
            searches_left -= 1;
            if fewer.contains(&last) && is_unordered(&fewer) {
                kept = fewer;
                smaller = true;
            } else {
                at += chunk;
            }
        }
        if searches_left == 0 || (chunk == 1 && !smaller) {
            return kept;
        }
        chunk = if smaller { chunk.min(kept.len()).max(1) } else { chunk.div_ceil(2) };
    }
}
