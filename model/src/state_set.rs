//! All states that an object may be in, after the answers so far.
//!
//! A call without an answer may take effect at any later time, or never, until a later call settles it. A call whose
//! answer is known takes effect once, between its beginning and its end. [`StateSet`] keeps every state that some order
//! of such moments leads to, and an answer that fits none of them is a breach: each answer narrows the set, and each
//! missing answer widens it. For calls one after another this is an auditor's treatment of requests in flight; for
//! parallel calls it is Lowe's just-in-time search for a linearization.

use std::collections::{HashMap, HashSet, VecDeque};

use csi_harness::spec::requirements::req;
use tonic::Code;

use super::answer::{Answer, leaves_open};
use super::call_context::{CallContext, Time};
use super::expectation::{Breach, Finding};
use super::object::Object;

/// Largest number of states, with the calls that have taken effect in each, that are kept of one object.
pub const CONFIGURATIONS_MAX: usize = 4096;
/// Largest number of calls of one object that are open at one time.
pub const OPEN_MAX: usize = 128;
/// Largest number of judgements made for one object.
pub const STEPS_MAX: u64 = 50_000_000;

/// A call with how it ended, and what was known beside.
#[derive(Clone, Debug)]
pub struct Operation<O: Object> {
    pub call: O::Call,
    /// The end of the call.
    pub answer: Answer<O::Response>,
    /// The facts beside the object.
    pub context: CallContext,
}

/// The reason why an answer leaves no possible state.
#[derive(Clone, Debug, PartialEq)]
pub enum Impossible {
    /// It fits no state: a rule is broken.
    Wrong(Box<Breach>),
    /// It fits a state only if a known fault showed again, after which the state is unknown.
    Known(Box<Breach>),
    /// There are too many possible states to judge.
    TooMany(Bound),
}

/// A bound that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bound {
    /// [`CONFIGURATIONS_MAX`].
    #[error("more than {CONFIGURATIONS_MAX} states are possible")]
    Configurations,
    /// [`OPEN_MAX`].
    #[error("more than {OPEN_MAX} calls are open at one time")]
    Open,
    /// [`STEPS_MAX`].
    #[error("too many judgements would be needed")]
    Steps,
}

/// All states that an object may be in.
#[derive(Clone, Debug)]
pub struct StateSet<O: Object> {
    configurations: Vec<Configuration<O>>,
    open: Vec<Option<Open<O>>>,
    steps_left: u64,
    /// A known fault that may have shown, so that later faults may follow from it.
    excuse: Option<Breach>,
    /// The fault of an excused call.
    excused: Option<Breach>,
}

/// A state, and the open calls that may still take effect in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Configuration<O> {
    state: O,
    open: Slots,
    /// The calls that only look and whose answer was tolerable at some moment.
    tolerable: Slots,
}

impl<O> Configuration<O> {
    /// The configuration without a call that has ended.
    fn without(self, call: Slots) -> Configuration<O> {
        Configuration { open: self.open.without(call), tolerable: self.tolerable.without(call), ..self }
    }
}

/// A call that has begun and, as far as is known, not taken effect for good.
#[derive(Clone, Debug)]
struct Open<O: Object> {
    step: Operation<O>,
    fate: Fate,
    /// Open calls equal to this one that began and end before it: there is an order in which they come first.
    ahead: Slots,
    /// The remark that is made if the answer is only tolerable.
    remark: Option<Breach>,
    /// True if it may be answered wrongly.
    is_excused: bool,
}

impl<O: Object> Open<O> {
    /// True if the answer gives the id of something that the call made or found by its name.
    fn makes(&self) -> bool {
        O::id_given(&self.step.answer).is_some()
    }

    /// Returns true if it changes nothing: it only looks, or was rejected.
    fn only_looks(&self) -> bool {
        let refused = matches!(self.step.answer, Answer::Refused(_) | Answer::PutOff(_));
        self.fate == Fate::Known && (refused || O::only_looks(&self.step.call))
    }
}

/// The moment at which an open call takes effect, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It takes effect once, before it ends, and as it was answered.
    Known,
    /// It takes effect at any time, or never.
    Unanswered,
    /// It takes effect at any time before it ends, or never.
    Optional,
}

/// A set of open calls, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Slots(u128);

impl Slots {
    fn has(self, slot: usize) -> bool {
        self.0 >> slot & 1 == 1
    }

    fn with(self, slot: usize) -> Slots {
        Slots(self.0 | 1 << slot)
    }

    fn without(self, other: Slots) -> Slots {
        Slots(self.0 & !other.0)
    }

    fn only(slot: usize) -> Slots {
        Slots(1 << slot)
    }

    fn or(self, other: Slots) -> Slots {
        Slots(self.0 | other.0)
    }

    fn and(self, other: Slots) -> Slots {
        Slots(self.0 & other.0)
    }

    fn meets(self, other: Slots) -> bool {
        self.and(other) != Slots::default()
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..OPEN_MAX).filter(move |slot| self.has(*slot))
    }
}

/// The place of a call that has begun, unless there is nothing to be learnt from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSlot(Option<usize>);

impl<O: Object> Default for StateSet<O> {
    fn default() -> StateSet<O> {
        StateSet::from(O::default())
    }
}

impl<O: Object> From<O> for StateSet<O> {
    /// An object of which everything is known.
    fn from(state: O) -> StateSet<O> {
        let configuration = Configuration { state, open: Slots::default(), tolerable: Slots::default() };
        StateSet {
            configurations: vec![configuration],
            open: Vec::new(),
            steps_left: STEPS_MAX,
            excuse: None,
            excused: None,
        }
    }
}

impl<O: Object> StateSet<O> {
    /// The set of states of an object that does not exist. It allows this many judgements.
    pub fn with_steps(steps: u64) -> StateSet<O> {
        StateSet { steps_left: steps.min(STEPS_MAX), ..StateSet::default() }
    }

    /// The number of judgements that may still be made.
    pub fn steps_left(&self) -> u64 {
        self.steps_left
    }

    /// Applies a call that was made while no other was under way. Returns a remark, if there is one.
    ///
    /// # Errors
    /// The answer fits no possible state, or too many states are possible.
    pub fn take(&mut self, step: Operation<O>) -> Result<Option<Breach>, Impossible> {
        let begun = self.begin(step).map_err(Impossible::TooMany)?;
        self.end(begun)
    }

    /// Applies the beginning of a call.
    ///
    /// # Errors
    /// Too many calls are open.
    pub fn begin(&mut self, step: Operation<O>) -> Result<CallSlot, Bound> {
        let fate = match step.answer {
            Answer::Unknown if O::only_looks(&step.call) => return Ok(CallSlot(None)),
            Answer::Unknown => Fate::Unanswered,
            _ => Fate::Known,
        };
        self.open(step, fate)
    }

    /// Applies the beginning of a call that may or may not have been made.
    ///
    /// # Errors
    /// Too many calls are open.
    pub fn begin_optional(&mut self, step: Operation<O>) -> Result<CallSlot, Bound> {
        self.open(step, Fate::Optional)
    }

    /// Applies the beginning of a call whose answer may be wrong.
    ///
    /// # Errors
    /// Too many calls are open.
    pub fn begin_excused(&mut self, step: Operation<O>) -> Result<CallSlot, Bound> {
        let begun = self.begin(step)?;
        if let Some(open) = begun.0.and_then(|slot| self.open[slot].as_mut()) {
            open.is_excused = true;
        }
        Ok(begun)
    }

    /// The fault of an excused call.
    pub fn excused(&self) -> Option<&Breach> {
        self.excused.as_ref()
    }

    fn open(&mut self, mut step: Operation<O>, fate: Fate) -> Result<CallSlot, Bound> {
        let slot = self.place(&step, fate)?;
        if let Some(twin) = &self.open[slot] {
            step.context.returned = step.context.returned.max(twin.step.context.returned);
        }
        let ahead = match fate {
            Fate::Known if !O::only_looks(&step.call) => {
                self.set(|open| open.fate == Fate::Known && goes_first(&open.step, &step))
            }
            Fate::Known | Fate::Unanswered | Fate::Optional => Slots::default(),
        };
        self.open[slot] = Some(Open { step, fate, ahead, remark: None, is_excused: false });
        self.configurations
            .iter_mut()
            .for_each(|configuration| configuration.open = configuration.open.with(slot));
        Ok(CallSlot(Some(slot)))
    }

    /// A place for a call: that of an equal one, if neither has an answer, since one may take effect as often as both.
    fn place(&mut self, step: &Operation<O>, fate: Fate) -> Result<usize, Bound> {
        let is_twin = |open: &Open<O>| {
            open.fate == Fate::Unanswered
                && open.step.call == step.call
                && open.step.context.is_like(&step.context)
        };
        let twin =
            self.slots().find(|(_, open)| fate == Fate::Unanswered && is_twin(open)).map(|(slot, _)| slot);
        if let Some(slot) = twin.or_else(|| self.open.iter().position(Option::is_none)) {
            return Ok(slot);
        }
        if self.open.len() == OPEN_MAX {
            return Err(Bound::Open);
        }
        self.open.push(None);
        Ok(self.open.len() - 1)
    }

    /// The open calls that are like this.
    fn set(&self, is_like: impl Fn(&Open<O>) -> bool) -> Slots {
        let like = self.slots().filter(|(_, open)| is_like(open));
        like.fold(Slots::default(), |set, (slot, _)| set.with(slot))
    }

    fn slots(&self) -> impl Iterator<Item = (usize, &Open<O>)> {
        self.open.iter().enumerate().filter_map(|(slot, open)| Some((slot, open.as_ref()?)))
    }

    /// Applies the end of a call: its answer, or that the caller has given up. Returns a remark, if there is one.
    ///
    /// # Errors
    /// The answer fits no possible state, or too many states are possible.
    pub fn end(&mut self, CallSlot(begun): CallSlot) -> Result<Option<Breach>, Impossible> {
        let Some((slot, open)) = begun.and_then(|slot| Some((slot, self.open[slot].as_ref()?))) else {
            return Ok(None);
        };
        let remark = match open.fate {
            Fate::Unanswered => None,
            Fate::Known => {
                let may_go_on = open.step.answer.leaves_open() && !O::only_looks(&open.step.call);
                let reopened = may_go_on.then(|| open.step.clone());
                let remark = self.narrow(slot)?;
                self.close(slot);
                if let Some(step) = reopened {
                    self.open(step, Fate::Unanswered).map_err(Impossible::TooMany)?;
                }
                remark
            }
            Fate::Optional => {
                let Orders { ends, .. } = self.orders(slot).map_err(Impossible::TooMany)?;
                let mut seen: HashSet<Configuration<O>> = self.configurations.iter().cloned().collect();
                self.configurations.extend(
                    ends.into_iter()
                        .map(|(configuration, _)| configuration)
                        .filter(|configuration| seen.insert(configuration.clone())),
                );
                self.close(slot);
                None
            }
        };
        self.forget_settled();
        Ok(remark)
    }

    /// Keeps the states that the answer fits.
    fn narrow(&mut self, slot: usize) -> Result<Option<Breach>, Impossible> {
        let Orders { mut ends, wrong } = self.orders(slot).map_err(Impossible::TooMany)?;
        if ends.is_empty() {
            let excuse = self.excuse.clone().map(|known| Impossible::Known(Box::new(known)));
            let stop = excuse.or(wrong.map(|breach| Impossible::Wrong(Box::new(breach))));
            return stop.map_or(Ok(None), Err);
        }
        let remark = match ends.iter().all(|(_, odd)| odd.is_some()) {
            true => ends.first_mut().and_then(|(_, odd)| odd.take()),
            false => None,
        };
        self.configurations = ends.into_iter().map(|(configuration, _)| configuration).collect();
        Ok(remark)
    }

    /// Frees the place of a call that has ended for good.
    fn close(&mut self, slot: usize) {
        let closed = Slots::only(slot);
        self.open[slot] = None;
        self.open.iter_mut().flatten().for_each(|open| open.ahead = open.ahead.without(closed));
        let mut seen = HashSet::with_capacity(self.configurations.len());
        let configurations = std::mem::take(&mut self.configurations)
            .into_iter()
            .map(|configuration| configuration.without(closed));
        self.configurations =
            configurations.filter(|configuration| seen.insert(configuration.clone())).collect();
    }

    /// Frees the places of calls without an answer that will not take effect any more.
    fn forget_settled(&mut self) {
        let live = self
            .configurations
            .iter()
            .fold(Slots::default(), |live, configuration| live.or(configuration.open));
        for slot in self.set(|open| open.fate == Fate::Unanswered).without(live).iter() {
            self.open[slot] = None;
        }
    }

    /// All orders of open calls that end with one of them. Orders that differ only in calls whose place makes no
    /// difference count once.
    fn orders(&mut self, last: usize) -> Result<Orders<O>, Bound> {
        let before = self.before(last);
        let mut orders = Orders { ends: Vec::new(), wrong: None };
        let mut is_likely = false;
        let mut ended: HashMap<Configuration<O>, usize> = HashMap::new();
        let mut seen: HashMap<Configuration<O>, bool> = HashMap::new();
        let mut queue: VecDeque<(Configuration<O>, Option<Breach>)> =
            self.configurations.iter().map(|configuration| (configuration.clone(), None)).collect();
        while let Some((mut configuration, odd)) = queue.pop_front() {
            self.look(&mut configuration)?;
            if !configuration.open.has(last) {
                end(&mut orders.ends, &mut ended, configuration, odd);
                continue;
            }
            match seen.get(&configuration) {
                Some(was_odd) if !was_odd || odd.is_some() => continue,
                _ => seen.insert(configuration.clone(), odd.is_some()),
            };
            if seen.len() + ended.len() > CONFIGURATIONS_MAX {
                return Err(Bound::Configurations);
            }
            if configuration.tolerable.has(last) {
                let remark = self.open[last].as_ref().and_then(|open| open.remark.clone());
                end(
                    &mut orders.ends,
                    &mut ended,
                    configuration.clone().without(Slots::only(last)),
                    odd.clone().or(remark),
                );
            }
            for slot in configuration.open.and(before).iter() {
                self.count_step()?;
                for next in self.next(&configuration, slot) {
                    if let (Ok((_, Some(odd))), true) = (&next, self.is_excused(slot)) {
                        self.excused.get_or_insert(odd.clone());
                    }
                    match next {
                        Ok((next, also_odd)) if slot == last => {
                            end(&mut orders.ends, &mut ended, next, odd.clone().or(also_odd));
                        }
                        // A call that only looks has looked already.
                        Ok((next, _)) if next.state == configuration.state && self.only_looks(slot) => {}
                        Ok((next, also_odd)) => queue.push_back((next, odd.clone().or(also_odd))),
                        Err(breach) if self.is_known(slot, &breach) => {
                            self.excuse.get_or_insert(breach);
                        }
                        Err(breach) if slot == last => {
                            let more_likely = !is_likely && self.is_likely(&configuration.state, slot);
                            if more_likely || orders.wrong.is_none() {
                                (orders.wrong, is_likely) = (Some(breach), more_likely);
                            }
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        Ok(orders)
    }

    fn count_step(&mut self) -> Result<(), Bound> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Bound::Steps)?;
        Ok(())
    }

    fn is_excused(&self, slot: usize) -> bool {
        self.open[slot].as_ref().is_some_and(|open| open.is_excused)
    }

    fn is_known(&self, slot: usize, breach: &Breach) -> bool {
        self.open[slot].as_ref().is_some_and(|open| open.step.context.profile.known.has(breach))
    }

    /// Returns true if a driver in this state would give such an answer, right or wrong.
    fn is_likely(&self, state: &O, slot: usize) -> bool {
        match self.open[slot].as_ref().map(|open| &open.step.answer) {
            Some(Answer::Refused(Code::AlreadyExists)) => state.is_there(),
            Some(Answer::Refused(Code::NotFound)) => !state.is_there(),
            // Only a call that makes an object can succeed when there was none.
            Some(Answer::Done(_)) => state.is_there() || self.open[slot].as_ref().is_some_and(Open::makes),
            _ => true,
        }
    }

    fn only_looks(&self, slot: usize) -> bool {
        self.open[slot].as_ref().is_some_and(Open::only_looks)
    }

    /// The open calls whose place before one of them may make a difference: any other can as well come later.
    fn before(&self, last: usize) -> Slots {
        let mut before = Slots::only(last);
        loop {
            let depends = |open: &Open<O>| {
                let of = before.iter().filter_map(|slot| self.open[slot].as_ref());
                of.into_iter().any(|other| O::depends(&open.step.call, &other.step.call))
            };
            let more = before.or(self.set(depends));
            if more == before {
                return before;
            }
            before = more;
        }
    }

    /// Calls that only look take effect as soon as their answers fit: no later moment is better.
    fn look(&mut self, configuration: &mut Configuration<O>) -> Result<(), Bound> {
        for slot in configuration.open.and(self.set(Open::only_looks)).iter() {
            self.count_step()?;
            for next in self.next(configuration, slot) {
                match next {
                    Ok((looked, remark)) if looked.state == configuration.state => match remark {
                        None => {
                            *configuration = Configuration {
                                tolerable: configuration.tolerable.without(Slots::only(slot)),
                                ..looked
                            }
                        }
                        Some(remark) => {
                            configuration.tolerable = configuration.tolerable.with(slot);
                            if let Some(open) = &mut self.open[slot] {
                                open.remark.get_or_insert(remark);
                            }
                        }
                    },
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The worlds after an open call takes effect in one, each with what is to be remarked.
    fn next(&self, configuration: &Configuration<O>, slot: usize) -> Vec<Next<O>> {
        let Some(open) = &self.open[slot] else { return Vec::new() };
        // A call whose answer is tolerable already may have come first.
        if configuration.open.without(configuration.tolerable).meets(open.ahead) {
            return Vec::new();
        }
        let readings = configuration.state.readings(&open.step.call).into_iter();
        match open.fate {
            Fate::Known => readings.map(|state| self.as_answered(configuration, state, slot, open)).collect(),
            Fate::Unanswered | Fate::Optional => {
                let changed = readings
                    .filter_map(|state| as_done(state, &open.step))
                    .filter(|state| *state != configuration.state);
                changed.map(|state| Ok((Configuration { state, ..configuration.clone() }, None))).collect()
            }
        }
    }

    fn as_answered(
        &self,
        configuration: &Configuration<O>,
        mut state: O,
        slot: usize,
        open: &Open<O>,
    ) -> Next<O> {
        let Operation { call, answer, context } = &open.step;
        let mut finding = judged(&state, &open.step);
        let pending = context.pending_elsewhere || self.is_something_pending(configuration, slot);
        if *answer == Answer::PutOff(Code::Aborted) && pending {
            finding = Finding::Fits;
        }
        // For a call that meets another one, the specification only recommends a refusal. A call that has failed with such a code may go on,
        // but the caller has its answer, so that calls after it do not overlap with it.
        if let (Answer::Refused(code), true) = (answer, pending)
            && leaves_open(*code)
        {
            let overlaps = context.unanswered_elsewhere || self.is_any_without_answer(configuration, slot);
            let known = &context.profile.known;
            finding = if overlaps { finding.beside_another_call(known) } else { finding.remarked() };
        }
        let mut ended = Slots::only(slot);
        if let Answer::Done(response) = answer {
            finding = finding.and(state.weigh(call, response, context));
            state.apply(call, Some(response), context);
            ended = ended.or(self.settled_by(&open.step));
        }
        if let Answer::Refused(_) = answer {
            state.note_rejected(call);
        }
        let configuration = Configuration { state, ..*configuration }.without(ended);
        match if open.is_excused { finding.excused() } else { finding.beside(&context.profile.known) } {
            Finding::Fits => Ok((configuration, None)),
            Finding::UnusualInput(breach) => Ok((configuration, Some(breach))),
            Finding::Wrong(mut breaches) => Err(breaches.swap_remove(0)),
        }
    }

    /// Returns true if some call without an answer may still be under way in the driver.
    fn is_something_pending(&self, configuration: &Configuration<O>, but: usize) -> bool {
        self.slots()
            .any(|(slot, open)| slot != but && open.fate == Fate::Unanswered && configuration.open.has(slot))
    }

    /// Returns true if a call other than this one may be under way, because it got no answer.
    fn is_any_without_answer(&self, configuration: &Configuration<O>, but: usize) -> bool {
        let got_none = |open: &Open<O>| matches!(open.step.answer, Answer::Unknown);
        self.slots().any(|(slot, open)| slot != but && got_none(open) && configuration.open.has(slot))
    }

    /// The calls without an answer that will not take effect any more once this one is done.
    fn settled_by(&self, step: &Operation<O>) -> Slots {
        self.set(|earlier| {
            earlier.fate == Fate::Unanswered
                && earlier.step.context.returned <= step.context.invoked
                && O::settles(&step.call, &earlier.step.call)
        })
    }

    /// Every state that it may be in now, of which the first is the one without any call whose answer is missing.
    pub fn states(&self) -> Vec<O> {
        let mut states = Vec::new();
        let mut seen = HashSet::new();
        let mut queue: VecDeque<Configuration<O>> = self.configurations.iter().cloned().collect();
        while let Some(configuration) = queue.pop_front() {
            if seen.len() == CONFIGURATIONS_MAX || !seen.insert(configuration.clone()) {
                continue;
            }
            let after = configuration.open.iter().flat_map(|slot| self.next(&configuration, slot)).flatten();
            queue.extend(after.map(|(configuration, _)| configuration));
            if !states.contains(&configuration.state) {
                states.push(configuration.state);
            }
        }
        states
    }

    /// The state, if there is no doubt about it.
    pub fn certain(&self) -> Option<&O> {
        match &self.configurations[..] {
            [only] if self.slots().next().is_none() => Some(&only.state),
            _ => None,
        }
    }

    /// Calls that may still take effect.
    pub fn pending(&self) -> impl Iterator<Item = &O::Call> {
        self.slots().map(|(_, open)| &open.step.call)
    }

    /// Returns true if some call got no answer and may still take effect.
    pub fn has_unanswered(&self) -> bool {
        self.slots().any(|(_, open)| matches!(open.step.answer, Answer::Unknown))
    }

    /// Changes the object by an event that no call asked for.
    pub fn apply_event(&mut self, happens: impl Fn(&mut O)) {
        self.configurations.iter_mut().for_each(|configuration| happens(&mut configuration.state));
        let mut seen = HashSet::new();
        self.configurations.retain(|configuration| seen.insert(configuration.clone()));
    }

    /// Changes what was known beside the calls that may still take effect.
    pub(super) fn touch_pending(&mut self, touch: impl Fn(&mut CallContext)) {
        self.open.iter_mut().flatten().for_each(|open| touch(&mut open.step.context));
    }
}

/// The world after a call took effect, with what is to be remarked, or why it cannot have.
type Next<O> = Result<(Configuration<O>, Option<Breach>), Breach>;

/// The ends of all orders, each with what is to be remarked, and what is wrong with the first order that fails: of those in
/// which the answer is likely, if there are any.
struct Orders<O> {
    ends: Vec<(Configuration<O>, Option<Breach>)>,
    wrong: Option<Breach>,
}

/// Enters an end; one without a remark takes the place of one with.
fn end<O: Object>(
    ends: &mut Vec<(Configuration<O>, Option<Breach>)>,
    ended: &mut HashMap<Configuration<O>, usize>,
    configuration: Configuration<O>,
    odd: Option<Breach>,
) {
    match ended.get(&configuration) {
        Some(at) if odd.is_none() => ends[*at].1 = None,
        Some(_) => {}
        None => {
            ended.insert(configuration.clone(), ends.len());
            ends.push((configuration, odd));
        }
    }
}

/// Returns true if there is an order in which `one`, equal to `other`, comes first.
fn goes_first<O: Object>(one: &Operation<O>, other: &Operation<O>) -> bool {
    one.call == other.call
        && one.answer == other.answer
        && one.context.is_like(&other.context)
        && one.context.invoked <= other.context.invoked
        && one.context.returned <= other.context.returned
}

/// Judges how the call ended. A call that only looks leaves no doubt about what the driver keeps. An answer with
/// an id leaves none either, unless it is the id of a second object under a name that is taken: the model keeps one object for each
/// name, and does not know what became of the first.
fn judged<O: Object>(state: &O, Operation { call, answer, context }: &Operation<O>) -> Finding {
    let finding = state.judge(call, context).of(O::method(call), answer);
    let is_certain = O::id_given(answer).is_some_and(|id| !state.has_another_id(id));
    match O::only_looks(call) || is_certain {
        true => finding.without_doubt(),
        false => finding,
    }
}

/// The state after a call whose effect is unknown, if it did take effect. The answer is the one that was given then, if there was one.
fn as_done<O: Object>(mut state: O, step: &Operation<O>) -> Option<O> {
    let Operation { call, answer, context } = step;
    match answer {
        Answer::Refused(code) if !leaves_open(*code) => None,
        Answer::Done(response) => {
            let finding = judged(&state, step).and(state.weigh(call, response, context));
            // A wrong answer contains no reliable facts.
            let is_wrong = matches!(finding.beside(&context.profile.known), Finding::Wrong(_));
            state.apply(call, Some(response).filter(|_| !is_wrong), context);
            Some(state)
        }
        Answer::Unknown | Answer::Refused(_) | Answer::PutOff(_) => {
            let expectation = state.judge(call, context);
            // A driver may grow a volume in use without advertising it. Where no answer says so, that is no fault.
            let may_be_done = expectation.may_be_done() || expectation.rule() == &req::CTRL_EXPAND_016;
            state.apply(call, None, &CallContext { returned: Time::MAX, ..context.clone() });
            may_be_done.then_some(state)
        }
    }
}
