//! Judges parallel calls afterwards: is there an order of them, each at some moment between its beginning and its end,
//! in which a driver that does one thing after another gives the answers that came?
//!
//! An order of all calls exists if there is one for each object alone (Herlihy and Wing), so a history falls into
//! [`parts`] that are searched one by one. If a call says something about a second object, such as the source of a
//! copy, that counts as a look at that object. Where no order exists, the [`core`] is the smallest set of calls found
//! that has none, shown as a [`timeline`].

mod minimal_history;
mod partition;
mod search;
mod single_call;
mod timeline;

use std::collections::BTreeSet;

use csi_harness::spec::faults::FaultKey;
use csi_harness::spec::requirements::req;
use tonic::Code;

use crate::Span;
use crate::answer::{Answer, Response};
use crate::call::Call;
use crate::call_context::DriverProfile;
use crate::expectation::Breach;
use crate::names::Name;
use crate::object::Object;
use crate::state_set::{Bound, STEPS_MAX};

pub use self::minimal_history::CORE_STEPS_MAX;
pub use self::partition::{Part, Parts};
pub use self::search::{Outcome, Treatment, search};
pub use self::timeline::{Row, Timeline};

/// Objects whose calls without an order are reported in full.
pub const UNORDERED_REPORTED_MAX: usize = 8;

/// The calls of several workers that worked in parallel.
#[derive(Clone, Debug)]
pub struct History {
    /// The capabilities and settings of the driver.
    pub profile: DriverProfile,
    /// The calls, in no particular order.
    pub entries: Vec<Entry>,
}

/// One call of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The worker that made it.
    pub worker: u16,
    pub call: Call,
    /// The end of the call.
    pub answer: Answer<Response>,
    /// The times of its beginning and end.
    pub span: Span,
}

/// The judgement on a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Calls that were judged.
    pub calls: usize,
    /// Objects that they were about.
    pub objects: usize,
    /// Objects whose calls have no order.
    pub unordered: Vec<Unordered>,
    /// Objects of which nothing can be said, because.
    pub undecided: Vec<Undecided>,
    /// Recommendations that were not kept, and answers that are only tolerated; one for each rule and object.
    pub remarks: Vec<(Name, Breach)>,
}

/// Calls about one object that no order explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Unordered {
    /// The name of the object.
    pub name: Name,
    /// The fault of the last call, after all that could be ordered.
    pub breach: Breach,
    /// The calls, as places in the history.
    pub calls: Vec<usize>,
    /// The call that is answered wrongly in any order, if there is one.
    pub by_itself: Option<usize>,
}

/// An object of which nothing can be said.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecided {
    /// The name of the object.
    pub name: Name,
    /// The reason.
    pub because: Doubt,
}

/// The reason why nothing can be said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// The search met a bound.
    #[error(transparent)]
    Bound(#[from] Bound),
    /// Calls by an id may be about either of two objects.
    #[error("an id was returned for another name as well, so calls with it may refer to either")]
    SharedId,
    /// A fault showed, and later faults may follow from it.
    #[error("a fault showed in it, or in what it has to do with")]
    Fault,
}

impl Report {
    fn remark(&mut self, name: Name, remark: Breach) {
        if self.remarks.iter().all(|(other, before)| *other != name || before.fault() != remark.fault()) {
            self.remarks.push((name, remark));
        }
    }
}

/// Judges a history. An answer that is wrong by itself shows a fault for certain. Calls that contradict each other only unless the driver
/// has this fault are not reported: one of them may show it again.
pub fn check(history: &History) -> Report {
    let mut report = judge(history);
    let is_certain = |unordered: &Unordered| unordered.by_itself.is_some();
    let faults = report.unordered.iter().filter(|one| is_certain(one)).map(|one| one.breach.fault());
    let faults: BTreeSet<FaultKey> = faults.collect();
    if faults.is_empty() || report.unordered.iter().all(is_certain) {
        return report;
    }
    let mut tolerant = history.clone();
    tolerant.profile.known.extend(faults);
    let again = judge(&tolerant);
    let recurs = |one: &Unordered| {
        again
            .unordered
            .iter()
            .any(|other| other.name == one.name && other.breach.fault() == one.breach.fault())
    };
    let (kept, explained): (Vec<Unordered>, Vec<Unordered>) =
        report.unordered.into_iter().partition(|one| is_certain(one) || recurs(one));
    report.unordered = kept;
    report
        .undecided
        .extend(explained.into_iter().map(|one| Undecided { name: one.name, because: Doubt::Fault }));
    report
}

fn judge(history: &History) -> Report {
    let Parts { volumes, snapshots, groups, shared, remarks } = Parts::of(history);
    let mut report = Report { calls: history.entries.len(), ..Report::default() };
    remarks.into_iter().for_each(|(name, remark)| report.remark(name, remark));
    for shared in shared {
        match shared.breach {
            Some(breach) => {
                let (name, calls) = (shared.name, shared.calls);
                report.unordered.push(Unordered { name, breach, calls, by_itself: None })
            }
            None => report.undecided.push(Undecided { name: shared.name, because: Doubt::SharedId }),
        }
    }
    volumes.into_iter().for_each(|(name, parts)| check_object(&mut report, name, parts));
    snapshots.into_iter().for_each(|(name, parts)| check_object(&mut report, name, parts));
    groups.into_iter().for_each(|(name, parts)| check_object(&mut report, name, parts));
    leave_out_dependent(history, &mut report);
    report
}

/// If faulty objects depend on each other, because one was copied from the other, only the first one is reported: its
/// fault may explain the others.
fn leave_out_dependent(history: &History, report: &mut Report) {
    let doubtful = report.undecided.iter().filter(|one| one.because == Doubt::Fault).map(|one| one.name);
    let mut faulty: BTreeSet<Name> = doubtful.collect();
    // A refusal proves nothing about other objects, unless it is NOT_FOUND.
    let is_evidence =
        |entry: &&Entry| !matches!(entry.answer, Answer::Refused(code) if code != Code::NotFound);
    let links: Vec<Vec<Name>> =
        history.entries.iter().filter(is_evidence).map(|entry| entry.call.names()).collect();
    let is_linked = |one: Name, other: &Name| {
        links.iter().any(|names| one != *other && names.contains(&one) && names.contains(other))
    };
    let mut reported = Vec::new();
    for unordered in std::mem::take(&mut report.unordered) {
        if faulty.iter().any(|other| is_linked(unordered.name, other)) {
            report.undecided.push(Undecided { name: unordered.name, because: Doubt::Fault });
        } else {
            faulty.insert(unordered.name);
            reported.push(unordered);
        }
    }
    report.unordered = reported;
}

/// Searches an order of the calls about one object. Answers that are wrong in any order are reported first and then
/// left out: otherwise the search would blame a right answer that takes such a call into account.
fn check_object<O: Object>(report: &mut Report, name: Name, mut parts: Vec<Part<O>>) {
    report.objects += 1;
    loop {
        let (last, breach) = match search(&parts, |_| Treatment::Kept, &mut { STEPS_MAX }) {
            Outcome::Ordered(remarks) => {
                return remarks.into_iter().for_each(|remark| report.remark(name, remark));
            }
            Outcome::Known(breach) => {
                report.remark(name, *breach);
                return report.undecided.push(Undecided { name, because: Doubt::Fault });
            }
            Outcome::Undecided(bound) => {
                return report.undecided.push(Undecided { name, because: bound.into() });
            }
            Outcome::Unordered { last, breach } => (last, *breach),
        };
        if let Some(rejected) = search::rejected_beside(&parts, last) {
            report.remark(name, beside(breach, O::method(&parts[rejected].step.call)));
            single_call::take_out(&mut parts, &[last]);
            continue;
        }
        let wrong = single_call::wrong(&parts, last);
        let leaves_doubt = wrong.iter().any(|(_, breach)| breach.leaves_doubt);
        let is_over = wrong.is_empty() || leaves_doubt;
        match wrong.is_empty() {
            true => report_unordered(report, name, &parts, last, breach, false),
            false => {
                for (place, breach) in &wrong {
                    report_unordered(report, name, &parts, *place, breach.clone(), true);
                }
            }
        }
        if is_over {
            return;
        }
        let wrong: Vec<usize> = wrong.into_iter().map(|(place, _)| place).collect();
        single_call::take_out(&mut parts, &wrong);
    }
}

/// The specification does not forbid that others see the effect of a call before it fails and is rolled back.
fn beside(breach: Breach, rejected: &str) -> Breach {
    let message = format!("{}, while {rejected} was under way, which was rejected", breach.message);
    Breach { rule: &req::GEN_CONC_003, message, ..breach }
}

/// Enters a call that no order explains, and the others that matter.
fn report_unordered<O: Object>(
    report: &mut Report,
    name: Name,
    parts: &[Part<O>],
    last: usize,
    breach: Breach,
    is_by_itself: bool,
) {
    let is_same = |other: &Unordered| other.name == name && other.breach.fault() == breach.fault();
    if report.unordered.iter().any(is_same) {
        return;
    }
    let has_room = report.unordered.len() < UNORDERED_REPORTED_MAX;
    let mut calls = if has_room { minimal_history::core(parts, last, &breach.fault()) } else { vec![last] };
    let culprit = if has_room && !is_by_itself {
        search::culprit(parts, last).or_else(|| search::rejected_and_done(parts, last))
    } else {
        None
    };
    if is_by_itself && calls == [last] {
        calls.extend(single_call::shown_by(parts, last, &breach));
    }
    let breach = match culprit {
        Some((call, breach)) => {
            calls.extend(Some(call).filter(|call| !calls.contains(call)));
            breach
        }
        None => breach,
    };
    calls.sort_by_key(|part| parts[*part].step.context.invoked);
    let mut calls: Vec<usize> = calls.into_iter().map(|part| parts[part].entry).collect();
    calls.dedup();
    let by_itself = is_by_itself.then(|| parts[last].entry);
    report.unordered.push(Unordered { name, breach, calls, by_itself });
}
