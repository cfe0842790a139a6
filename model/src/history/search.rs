//! The search for an order of the calls about one object.

use crate::answer::Answer;
use crate::call_context::CallContext;
use crate::expectation::Breach;
use crate::object::Object;
use crate::rules::AFTER_ERROR_003;
use crate::state_set::{Bound, Impossible, Operation, StateSet};

use super::partition::Part;

/// Largest number of judgements made to see which call is to blame.
const CULPRIT_STEPS_MAX: u64 = 1_000_000;

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// There is an order, with these remarks.
    Ordered(Vec<Breach>),
    /// There is no order: all calls that ended before this one can be ordered, but not together with it.
    Unordered {
        /// The place of the call.
        last: usize,
        /// The fault of that call.
        breach: Box<Breach>,
    },
    /// There is an order only if a known fault showed again, after which the state is unknown.
    Known(Box<Breach>),
    /// The search met a bound.
    Undecided(Bound),
}

/// The way in which a search treats a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The call counts as it was made and answered.
    Kept,
    /// The call counts as it was made, and its answer may be wrong.
    Excused,
    /// The call may or may not have been made, with any answer. This only ever makes more orders possible.
    Relaxed,
    /// The call is ignored.
    LeftOut,
}

/// The beginning or the end of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// Sorted first: calls that touch are taken to overlap.
    Begin,
    End,
}

/// Looks for an order. The time it takes grows with the number of calls, and exponentially only with how many of them
/// are under way at one time. `steps` are the judgements that may be made, and those that are left.
pub fn search<O: Object>(parts: &[Part<O>], treat: impl Fn(usize) -> Treatment, steps: &mut u64) -> Outcome {
    let mut possible = StateSet::with_steps(*steps);
    let outcome = search_with(&mut possible, parts, treat);
    *steps = possible.steps_left();
    outcome
}

fn search_with<O: Object>(
    possible: &mut StateSet<O>,
    parts: &[Part<O>],
    treat: impl Fn(usize) -> Treatment,
) -> Outcome {
    let may_matter = |place: &usize| match treat(*place) {
        Treatment::Kept | Treatment::Excused => true,
        Treatment::Relaxed => changes_something(&parts[*place]),
        Treatment::LeftOut => false,
    };
    let mut edges: Vec<_> = (0..parts.len())
        .filter(may_matter)
        .flat_map(|place| {
            let context = &parts[place].step.context;
            [(context.invoked, Edge::Begin, place), (context.returned, Edge::End, place)]
        })
        .collect();
    edges.sort_unstable();
    let mut begun = vec![None; parts.len()];
    let mut remarks: Vec<Breach> = Vec::new();
    for (_, edge, place) in edges {
        let step = || parts[place].step.clone();
        let taken = match (edge, begun[place]) {
            (Edge::Begin, _) if treat(place) == Treatment::Relaxed => {
                possible.begin_optional(step()).map(Some)
            }
            (Edge::Begin, _) if treat(place) == Treatment::Excused => {
                possible.begin_excused(step()).map(Some)
            }
            (Edge::Begin, _) => possible.begin(step()).map(Some),
            (Edge::End, None) => continue,
            (Edge::End, Some(call)) => match possible.end(call) {
                Ok(remark) => {
                    remarks.extend(remark);
                    continue;
                }
                Err(Impossible::Wrong(breach)) => return Outcome::Unordered { last: place, breach },
                Err(Impossible::Known(breach)) => return Outcome::Known(breach),
                Err(Impossible::TooMany(bound)) => Err(bound),
            },
        };
        match taken {
            Ok(call) => begun[place] = call,
            Err(bound) => return Outcome::Undecided(bound),
        }
    }
    Outcome::Ordered(remarks)
}

/// The call whose wrong answer prevents an order, with its fault: a caller that only looked saw the state that this
/// call had left.
pub(super) fn culprit<O: Object>(parts: &[Part<O>], last: usize) -> Option<(usize, Breach)> {
    let step = |place: usize| &parts[place].step;
    if !O::only_looks(&step(last).call) {
        return None;
    }
    let end = step(last).context.returned;
    let changed = |place: &usize| {
        let step = step(*place);
        step.context.invoked <= end && !O::only_looks(&step.call) && matches!(step.answer, Answer::Done(_))
    };
    let mut steps = CULPRIT_STEPS_MAX;
    (0..parts.len()).filter(changed).find_map(|one| {
        let treat = |place| if place == one { Treatment::Excused } else { Treatment::Kept };
        let mut possible = StateSet::with_steps(steps);
        let outcome = search_with(&mut possible, parts, treat);
        steps = possible.steps_left();
        match outcome {
            Outcome::Ordered(_) => possible.excused().map(|breach| (one, breach.clone())),
            _ => None,
        }
    })
}

/// A call that was rejected while a caller looked, who may have seen what was made before the call failed.
pub(super) fn rejected_beside<O: Object>(parts: &[Part<O>], look: usize) -> Option<usize> {
    let begin = parts[look].step.context.invoked;
    rejected(parts, look, |call| call.returned >= begin)
}

/// Finds a call that was rejected and took effect all the same, as a later look shows, with its fault. A driver that
/// was ended may have forgotten earlier calls.
pub(super) fn rejected_and_done<O: Object>(parts: &[Part<O>], look: usize) -> Option<(usize, Breach)> {
    let context = &parts[look].step.context;
    if context.profile.was_ended {
        return None;
    }
    let begin = context.invoked;
    let one = rejected(parts, look, |call| call.returned < begin)?;
    let Operation { call, answer, .. } = &parts[one].step;
    let breach = Breach {
        rule: &AFTER_ERROR_003,
        message: format!("{} is rejected, but takes effect", O::method(call)),
        expected: format!("nothing made or changed by a call that is answered {answer}"),
        actual: format!("{} observes its effect", O::method(&parts[look].step.call)),
        code: None,
        leaves_doubt: true,
        damage: None,
    };
    Some((one, breach))
}

/// A call, begun before a caller that only looked had an answer, whose rejection makes that answer wrong.
fn rejected<O: Object>(
    parts: &[Part<O>],
    look: usize,
    is_meant: impl Fn(&CallContext) -> bool,
) -> Option<usize> {
    let end = parts[look].step.context.returned;
    if !O::only_looks(&parts[look].step.call) {
        return None;
    }
    let is_rejected = |place: &usize| {
        let Operation { call, answer, context } = &parts[*place].step;
        let is_rejected = matches!(answer, Answer::Refused(_)) && !O::only_looks(call);
        is_rejected && context.invoked <= end && is_meant(context)
    };
    let mut steps = CULPRIT_STEPS_MAX;
    (0..parts.len()).filter(is_rejected).find(|one| {
        let mut parts = parts.to_vec();
        parts[*one].step.answer = Answer::Unknown;
        let began_later = |place: usize| parts[place].step.context.invoked > end;
        let treat = |place| if began_later(place) { Treatment::LeftOut } else { Treatment::Kept };
        match search(&parts, treat, &mut steps) {
            Outcome::Ordered(_) | Outcome::Known(_) => true,
            Outcome::Unordered { last, .. } => last != look,
            Outcome::Undecided(_) => false,
        }
    })
}

/// Returns true if a call may have changed anything.
fn changes_something<O: Object>(part: &Part<O>) -> bool {
    !O::only_looks(&part.step.call) && !matches!(part.step.answer, Answer::Refused(_))
}
