//! The plain search of Wing and Gong, with which the tests compare the product's search: it tries every order of all
//! calls on all objects together, and caches nothing.

use std::cell::Cell;
use std::collections::BTreeMap;

use csi_model::Object;
use csi_model::answer::Answer;
use csi_model::call_context::Time;
use csi_model::expectation::Finding;
use csi_model::history::Part;
use csi_model::names::Name;
use csi_model::state::Volume;

/// Returns whether some order of all calls explains the answers, or `None` if that is unknown after this number of
/// steps.
pub fn has_order(volumes: &BTreeMap<Name, Vec<Part<Volume>>>, steps_max: u64) -> Option<bool> {
    let calls: Vec<(Name, &Part<Volume>)> =
        volumes.iter().flat_map(|(name, parts)| parts.iter().map(|part| (*name, part))).collect();
    let states = volumes.keys().map(|name| (*name, Volume::default())).collect();
    let plain = Plain { calls, steps: Cell::new(steps_max) };
    let found = plain.search(&states, &mut Vec::new(), &mut Vec::new());
    (found || plain.steps.get() > 0).then_some(found)
}

struct Plain<'a> {
    steps: Cell<u64>,
    calls: Vec<(Name, &'a Part<Volume>)>,
}

type States = BTreeMap<Name, Volume>;

impl Plain<'_> {
    fn is_known(&self, call: usize) -> bool {
        self.calls[call].1.step.answer != Answer::Unknown
    }

    /// Returns whether some order of the remaining calls explains the answers. `between` are the states since the
    /// last answered call.
    fn search(&self, states: &States, done: &mut Vec<usize>, between: &mut Vec<States>) -> bool {
        if self.is_out_of_steps() {
            return false;
        }
        let known = (0..self.calls.len()).filter(|call| self.is_known(*call));
        let left: Vec<usize> = known.filter(|call| !done.contains(call)).collect();
        if left.is_empty() {
            return true;
        }
        let first_end =
            left.iter().map(|call| self.calls[*call].1.step.context.returned).min().unwrap_or_default();
        for call in left {
            let (name, part) = self.calls[call];
            if part.step.context.invoked > first_end {
                continue;
            }
            for after in as_answered(&states[&name], part) {
                let mut states = states.clone();
                states.insert(name, after);
                done.push(call);
                if self.search(&states, done, &mut Vec::new()) {
                    return true;
                }
                done.pop();
            }
        }
        self.search_unanswered(states, done, between, first_end)
    }

    fn search_unanswered(
        &self,
        states: &States,
        done: &mut Vec<usize>,
        between: &mut Vec<States>,
        first_end: Time,
    ) -> bool {
        between.push(states.clone());
        for call in (0..self.calls.len()).filter(|call| !self.is_known(*call)) {
            let (name, part) = self.calls[call];
            let settled = done.iter().any(|done| self.settles(*done, call));
            if settled || part.step.context.invoked > first_end || Volume::only_looks(&part.step.call) {
                continue;
            }
            for after in as_done(&states[&name], part) {
                if self.is_out_of_steps() {
                    return false;
                }
                let mut states = states.clone();
                states.insert(name, after);
                if !between.contains(&states) && self.search(&states, done, between) {
                    return true;
                }
            }
        }
        false
    }

    /// Counts a step, and returns whether none is left.
    fn is_out_of_steps(&self) -> bool {
        self.steps.update(|steps| steps.saturating_sub(1));
        self.steps.get() == 0
    }

    fn settles(&self, call: usize, earlier: usize) -> bool {
        let ((name, call), (of, earlier)) = (self.calls[call], self.calls[earlier]);
        name == of
            && matches!(call.step.answer, Answer::Done(_))
            && earlier.step.context.returned <= call.step.context.invoked
            && Volume::settles(&call.step.call, &earlier.step.call)
    }
}

fn as_answered(volume: &Volume, part: &Part<Volume>) -> Vec<Volume> {
    let step = &part.step;
    let fits = |mut state: Volume| {
        let mut finding = state.judge(&step.call, &step.context).of("", &step.answer);
        if let Answer::Done(said) = &step.answer {
            finding = finding.and(state.weigh(&step.call, said, &step.context));
            state.apply(&step.call, Some(said), &step.context);
        }
        (!matches!(finding, Finding::Wrong(_))).then_some(state)
    };
    Object::readings(volume, &step.call).into_iter().filter_map(fits).collect()
}

fn as_done(volume: &Volume, part: &Part<Volume>) -> Vec<Volume> {
    let mut context = part.step.context.clone();
    context.returned = Time::MAX;
    let done = |mut state: Volume| {
        state.judge(&part.step.call, &part.step.context).may_be_done().then(|| {
            state.apply(&part.step.call, None, &context);
            state
        })
    };
    Object::readings(volume, &part.step.call).into_iter().filter_map(done).collect()
}
