//! The search for an order of the calls about one object.

use crate::model::answer::Answer;
use crate::model::expectation::Breach;
use crate::model::object::Object;
use crate::model::possible::{Bound, Possible, Stop};

use super::parts::Part;

/// What came of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// There is an order; with what is to be remarked.
    Ordered(Vec<Breach>),
    /// There is none: all calls that ended before this one can be ordered, and not together with it.
    Unordered {
        /// The place of the call.
        last: usize,
        /// What is wrong with it.
        breach: Box<Breach>,
    },
    /// Nobody knows.
    Undecided(Bound),
}

/// How a call is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// As it was made and answered.
    Kept,
    /// As if it may or may not have been made, with any answer. This only ever makes more orders possible.
    Loosened,
    /// Not at all.
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
/// are under way at one time.
pub fn search<O: Object>(parts: &[Part<O>], treat: impl Fn(usize) -> Treatment) -> Outcome {
    let may_matter = |place: &usize| match treat(*place) {
        Treatment::Kept => true,
        Treatment::Loosened => changes_something(&parts[*place]),
        Treatment::LeftOut => false,
    };
    let mut edges: Vec<_> = (0..parts.len())
        .filter(may_matter)
        .flat_map(|place| {
            let around = &parts[place].step.around;
            [(around.invoked, Edge::Begin, place), (around.returned, Edge::End, place)]
        })
        .collect();
    edges.sort_unstable();
    let mut possible = Possible::<O>::default();
    let mut begun = vec![None; parts.len()];
    let mut remarks: Vec<Breach> = Vec::new();
    for (_, edge, place) in edges {
        let step = || parts[place].step.clone();
        let taken = match (edge, begun[place]) {
            (Edge::Begin, _) if treat(place) == Treatment::Loosened => {
                possible.begin_optional(step()).map(Some)
            }
            (Edge::Begin, _) => possible.begin(step()).map(Some),
            (Edge::End, None) => continue,
            (Edge::End, Some(call)) => match possible.end(call) {
                Ok(remark) => {
                    remarks.extend(remark);
                    continue;
                }
                Err(Stop::Wrong(breach)) => return Outcome::Unordered { last: place, breach },
                Err(Stop::TooMany(bound)) => Err(bound),
            },
        };
        match taken {
            Ok(call) => begun[place] = call,
            Err(bound) => return Outcome::Undecided(bound),
        }
    }
    Outcome::Ordered(remarks)
}

/// Whether a call may have changed anything.
fn changes_something<O: Object>(part: &Part<O>) -> bool {
    !O::only_looks(&part.step.call) && !matches!(part.step.answer, Answer::Refused(_))
}
