//! Answers that are wrong by themselves: whatever the other calls did, and whether they were made at all.

use crate::answer::Answer;
use crate::expectation::Breach;
use crate::object::Object;

use super::partition::Part;
use super::search::{Outcome, Treatment, search};

/// Largest number of judgements made to find such answers when one call has no order.
const STEPS_MAX: u64 = 2_000_000;
/// Calls that are tried beside such a one, to show what it is about.
const SHOWN_BY_MAX: usize = 40;

/// The calls with wrong answers that may explain why one of them, which ended first, cannot be ordered: that call
/// itself, or others that had not ended by then. Each comes with its fault.
pub(super) fn wrong<O: Object>(parts: &[Part<O>], last: usize) -> Vec<(usize, Breach)> {
    let end = parts[last].step.context.returned;
    let is_open = |place: &usize| {
        let context = &parts[*place].step.context;
        context.invoked <= end && context.returned >= end
    };
    let open: Vec<usize> = (0..parts.len()).filter(is_open).collect();
    let mut steps = STEPS_MAX;
    let mut all = Vec::new();
    for one in open.iter().copied() {
        let alone = |place| if place == one { Treatment::Kept } else { Treatment::Relaxed };
        let Some(anyhow) = breach(parts, one, alone, &mut steps) else { continue };
        // Judging after the earlier calls describes the fault more exactly.
        let in_place = |place| match place == one || !open.contains(&place) {
            true => Treatment::Kept,
            false => Treatment::Relaxed,
        };
        all.push((one, breach(parts, one, in_place, &mut steps).unwrap_or(anyhow)));
    }
    all
}

/// Treats these calls as calls without an answer, and removes those that changed nothing.
pub(super) fn take_out<O: Object>(parts: &mut Vec<Part<O>>, wrong: &[usize]) {
    let is_one = |place: usize| wrong.contains(&place);
    let mut place = 0..;
    parts.retain_mut(|part| {
        if !place.next().is_some_and(is_one) {
            return true;
        }
        let is_done = matches!(part.step.answer, Answer::Done(_));
        part.step.answer = Answer::Unknown;
        is_done
    });
}

/// The latest call with which alone the answer is wrong in this way, where it is not so without any other.
pub(super) fn shown_by<O: Object>(parts: &[Part<O>], one: usize, wrong: &Breach) -> Option<usize> {
    let mut steps = STEPS_MAX;
    let mut shows = |other: Option<usize>| {
        let kept = |place| match place == one || Some(place) == other {
            true => Treatment::Kept,
            false => Treatment::LeftOut,
        };
        breach(parts, one, kept, &mut steps).is_some_and(|breach| breach.fault() == wrong.fault())
    };
    if shows(None) {
        return None;
    }
    let context = |place: usize| &parts[place].step.context;
    let mut others: Vec<usize> = (0..parts.len())
        .filter(|place| *place != one && context(*place).invoked <= context(one).returned)
        .collect();
    others.sort_by_key(|place| context(*place).invoked);
    others.into_iter().rev().take(SHOWN_BY_MAX).find(|other| shows(Some(*other)))
}

/// The fault of a call if the others are treated like this.
fn breach<O: Object>(
    parts: &[Part<O>],
    one: usize,
    treat: impl Fn(usize) -> Treatment,
    steps: &mut u64,
) -> Option<Breach> {
    match search(parts, treat, steps) {
        Outcome::Unordered { last, breach } if last == one => Some(*breach),
        _ => None,
    }
}
