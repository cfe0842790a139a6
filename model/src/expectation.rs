//! The closed list of answers that a driver may give to a call, and the rule that any other answer breaks.

use std::collections::BTreeMap;
use std::fmt;

use csi_harness::protocol::effect::is_not_now;
use csi_harness::spec::faults::FaultKey;
use csi_harness::spec::requirements::{Requirement, req};
use csi_harness::spec::verdict::{Damage, Violation};
use csi_proto::{RPCS, Rpc, code_name};
use tonic::Code;

use super::answer::Answer;

/// The answers that a driver may give to a call in one certain state.
#[derive(Clone, Debug)]
pub struct Expectation {
    rule: &'static Requirement,
    /// Reads after "must", or after the name of the call where it has to be rejected.
    what: &'static str,
    done: Done,
    refusals: Vec<Refusal>,
    any_refusal: bool,
}

/// The judgement on OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Due,
    Permitted,
    Tolerated(&'static str),
    Wrong,
}

/// A code that is as good as the best answer, or almost.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    code: Code,
    because: &'static str,
    tolerated: bool,
}

/// The call has to be done: `what` says so, and reads after "has to".
pub fn must(rule: &'static Requirement, what: &'static str) -> Expectation {
    Expectation { rule, what, done: Done::Due, refusals: Vec::new(), any_refusal: false }
}

/// The call has to be refused with this code: `what` says which call, and reads after its name.
pub fn must_be_refused(rule: &'static Requirement, code: Code, what: &'static str) -> Expectation {
    let best = Refusal { code, because: "", tolerated: false };
    Expectation { rule, what, done: Done::Wrong, refusals: vec![best], any_refusal: false }
}

/// Permits any answer: `rule` is the one that would apply otherwise.
pub fn anything(rule: &'static Requirement, what: &'static str) -> Expectation {
    Expectation { rule, what, done: Done::Permitted, refusals: Vec::new(), any_refusal: true }
}

impl Expectation {
    /// Permits another code as well, because.
    #[must_use]
    pub fn or(mut self, code: Code, because: &'static str) -> Expectation {
        self.refusals.push(Refusal { code, because, tolerated: false });
        self
    }

    /// Only remarks on another code, for this reason.
    #[must_use]
    pub fn or_remark(mut self, code: Code, because: &'static str) -> Expectation {
        self.refusals.push(Refusal { code, because, tolerated: true });
        self
    }

    /// Permits any rejection.
    #[must_use]
    pub fn or_any_refusal(mut self) -> Expectation {
        self.any_refusal = true;
        self
    }

    /// Permits that it is done.
    #[must_use]
    pub fn or_done(mut self) -> Expectation {
        self.done = Done::Permitted;
        self
    }

    /// Only remarks on it if it is done, for this reason.
    #[must_use]
    pub fn or_done_remark(mut self, because: &'static str) -> Expectation {
        self.done = Done::Tolerated(because);
        self
    }

    /// The rule that a driver breaks which answers otherwise.
    pub fn rule(&self) -> &'static Requirement {
        self.rule
    }

    /// Returns true if the call may take effect without breaking a rule that binds.
    pub fn may_be_done(&self) -> bool {
        self.done != Done::Wrong || !self.rule.is_binding()
    }

    /// Judges the code of an answer; its content is judged elsewhere.
    pub fn of<S>(&self, method: &str, answer: &Answer<S>) -> Finding {
        match answer {
            Answer::Unknown => Finding::Fits,
            Answer::Done(_) => self.of_done(method),
            Answer::Refused(code) if is_not_now(method, *code) => Finding::Fits,
            Answer::Refused(code) => self.of_refusal(method, *code),
            // ABORTED can be wrong, if nothing is pending. A busy or full back end is never wrong.
            Answer::PutOff(Code::Aborted) => self.of_refusal(method, Code::Aborted),
            Answer::PutOff(_) => Finding::Fits,
        }
    }

    fn of_done(&self, method: &str) -> Finding {
        // A call that should have been refused may have changed anything.
        let breach = |message| Breach { message, leaves_doubt: true, ..self.breach(Code::Ok) };
        match self.done {
            Done::Due | Done::Permitted => Finding::Fits,
            Done::Tolerated(because) => {
                Finding::UnusualInput(breach(format!("{method} {} succeeded ({because})", self.what)))
            }
            Done::Wrong => {
                breach(format!("{method} {} must be rejected, but succeeded", self.what)).weighed()
            }
        }
    }

    fn of_refusal(&self, method: &str, code: Code) -> Finding {
        let listed = self.refusals.iter().find(|refusal| refusal.code == code);
        let message = match self.done {
            Done::Due => format!("{method} must {}, but failed", self.what),
            _ => format!("{method} {} is rejected with the wrong code", self.what),
        };
        let breach = Breach { message, code: Some(code), actual: refused(method, code), ..self.breach(code) };
        match listed {
            Some(Refusal { tolerated: false, .. }) => Finding::Fits,
            _ if self.any_refusal => Finding::Fits,
            Some(Refusal { because, .. }) => {
                Finding::UnusualInput(Breach { message: format!("{} ({because})", breach.message), ..breach })
            }
            None => breach.weighed(),
        }
    }

    fn breach(&self, actual: Code) -> Breach {
        Breach {
            rule: self.rule,
            message: String::new(),
            expected: self.to_string(),
            actual: code_name(actual).to_owned(),
            code: None,
            leaves_doubt: false,
            damage: None,
        }
    }
}

/// Describes a refusal; a workload's error has no code of the protocol.
fn refused(method: &str, code: Code) -> String {
    let is_call = RPCS.iter().any(|rpc| rpc.method == method);
    if is_call { code_name(code).to_owned() } else { workload_error(code).to_owned() }
}

/// The error of a workload, which the model keeps as a code.
pub fn workload_error(code: Code) -> &'static str {
    match code {
        Code::PermissionDenied => "no permission",
        Code::NotFound => "nothing there",
        Code::Unknown => "no room",
        _ => "an I/O error",
    }
}

/// The answers that are right: `OK, or FAILED_PRECONDITION (the source may be in use)`.
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = matches!(self.done, Done::Due | Done::Permitted).then(|| "OK".to_owned());
        let refusals = self.refusals.iter().filter(|refusal| !refusal.tolerated).map(|refusal| {
            let code = code_name(refusal.code);
            match refusal.because {
                "" => code.to_owned(),
                because => format!("{code} ({because})"),
            }
        });
        let any = self.any_refusal.then(|| "any rejection".to_owned());
        f.write_str(&done.into_iter().chain(refusals).chain(any).collect::<Vec<_>>().join(", or "))
    }
}

/// The judgement on an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The answer is right.
    Fits,
    /// Worth a remark: a recommendation not kept, or an answer that is only tolerated.
    UnusualInput(Breach),
    /// Rules that bind are broken, the gravest first.
    Wrong(Vec<Breach>),
}

impl Finding {
    /// The finding on a call that met another one, for which there is only a recommendation. A known fault has nothing
    /// to do with the other call.
    #[must_use]
    pub(super) fn beside_another_call(self, known: &Known) -> Finding {
        match self {
            Finding::Wrong(breaches) if breaches.iter().all(|breach| known.has(breach)) => {
                Finding::Wrong(breaches).remarked()
            }
            Finding::Wrong(mut breaches) => {
                Finding::UnusualInput(Breach { rule: &req::GEN_CONC_003, ..breaches.swap_remove(0) })
            }
            other => other,
        }
    }

    /// The finding as a remark, because the specification does not say what is right.
    #[must_use]
    pub(super) fn remarked(self) -> Finding {
        match self {
            Finding::Wrong(mut breaches) if !breaches.is_empty() => {
                Finding::UnusualInput(breaches.swap_remove(0))
            }
            other => other,
        }
    }

    /// The finding, with the state of the driver unknown afterwards.
    #[must_use]
    pub(super) fn in_doubt(mut self) -> Finding {
        let breaches = match &mut self {
            Finding::Fits => &mut [],
            Finding::UnusualInput(breach) => std::slice::from_mut(breach),
            Finding::Wrong(breaches) => &mut breaches[..],
        };
        breaches.iter_mut().for_each(|breach| breach.leaves_doubt = true);
        self
    }

    /// The finding, with the state of the driver known afterwards.
    #[must_use]
    pub(super) fn without_doubt(mut self) -> Finding {
        if let Finding::Wrong(breaches) = &mut self {
            breaches.iter_mut().for_each(|breach| breach.leaves_doubt = false);
        }
        self
    }

    /// The finding on a call that may be answered wrongly, as long as that leaves no doubt about the state.
    #[must_use]
    pub(super) fn excused(self) -> Finding {
        match self {
            Finding::Wrong(mut breaches) if breaches.iter().all(|breach| !breach.leaves_doubt) => {
                Finding::UnusualInput(breaches.swap_remove(0))
            }
            other => other,
        }
    }

    /// The finding on a driver with these known faults: they are tolerated, unless they leave doubt about the state.
    #[must_use]
    pub(super) fn beside(self, known: &Known) -> Finding {
        let Finding::Wrong(mut breaches) = self else { return self };
        breaches.sort_by_key(|breach| known.has(breach));
        match breaches.iter().position(|breach| !known.has(breach) || breach.leaves_doubt) {
            Some(at) => Finding::Wrong(vec![breaches.swap_remove(at)]),
            None => Finding::UnusualInput(breaches.swap_remove(0)),
        }
    }

    /// Combines two findings.
    #[must_use]
    pub fn and(self, other: Finding) -> Finding {
        match (self, other) {
            (Finding::Wrong(one), Finding::Wrong(other)) => Finding::Wrong([one, other].concat()),
            (Finding::Wrong(breaches), _) | (_, Finding::Wrong(breaches)) => Finding::Wrong(breaches),
            (Finding::UnusualInput(breach), _) | (_, Finding::UnusualInput(breach)) => {
                Finding::UnusualInput(breach)
            }
            (Finding::Fits, Finding::Fits) => Finding::Fits,
        }
    }
}

/// A rule that was not kept, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    pub rule: &'static Requirement,
    /// The violation, as one sentence.
    pub message: String,
    /// The answer of a right driver.
    pub expected: String,
    /// The answer of this driver.
    pub actual: String,
    /// The code, where a rejection is what is wrong.
    pub code: Option<Code>,
    /// True if the state of the driver is unknown afterwards.
    pub leaves_doubt: bool,
    /// The damage that it proves, if any.
    pub damage: Option<Damage>,
}

impl Breach {
    /// A finding with the severity of the rule.
    pub fn weighed(self) -> Finding {
        if self.rule.is_binding() { Finding::Wrong(vec![self]) } else { Finding::UnusualInput(self) }
    }

    /// The rejection that is wrong, if one is. Its message begins with the RPC.
    fn refused(&self) -> Option<(Rpc, Code)> {
        let method = self.message.split(' ').next()?;
        let rpc = RPCS.iter().find(|rpc| rpc.method == method)?;
        Some((*rpc, self.code?))
    }

    /// The key that distinguishes it from other faults.
    pub fn fault(&self) -> FaultKey {
        // Calls that disturb each other are one fault, whichever calls they are.
        let what = match self.rule == &req::GEN_CONC_003 {
            true => FaultKey::BESIDE_ANOTHER_CALL.to_owned(),
            false => self.failure(),
        };
        FaultKey { rule: self.rule.id, what }
    }

    /// Describes the failure, with the code, whichever rule it breaks.
    pub fn failure(&self) -> String {
        let code = self.code.map_or(String::new(), |code| format!(" as {}", code_name(code)));
        format!("{}{code}", self.message)
    }
}

impl From<Breach> for Violation {
    fn from(breach: Breach) -> Violation {
        let (fault, refused) = (Some(Box::new(breach.fault())), breach.refused().map(Box::new));
        let violation =
            Violation::new(breach.message).of(breach.rule).expected(breach.expected).actual(breach.actual);
        Violation { fault, refused, damage: breach.damage, ..violation }
    }
}

/// The faults of a driver that were reported, with the checks that report them. The driver is judged as one that has
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known(BTreeMap<FaultKey, String>);

impl Known {
    /// Returns true if this is a known fault.
    pub fn has(&self, breach: &Breach) -> bool {
        !self.0.is_empty() && self.0.contains_key(&breach.fault())
    }

    /// Adds faults that are about to be reported, by a check that is not named.
    pub(crate) fn extend(&mut self, faults: impl IntoIterator<Item = FaultKey>) {
        for fault in faults {
            self.0.entry(fault).or_default();
        }
    }

    /// The check that reports it, if one does.
    pub fn reported_by(&self, breach: &Breach) -> Option<&String> {
        self.0.get(&breach.fault())
    }
}

impl From<BTreeMap<FaultKey, String>> for Known {
    fn from(faults: BTreeMap<FaultKey, String>) -> Known {
        Known(faults)
    }
}

/// Finds fault with what an answer says unless the condition holds: rule, message, what was expected, what came.
pub(super) fn says(
    holds: bool,
    rule: &'static Requirement,
    message: &str,
    expected: impl fmt::Display,
    actual: impl fmt::Display,
) -> Finding {
    if holds {
        return Finding::Fits;
    }
    let (expected, actual) = (expected.to_string(), actual.to_string());
    let message = message.to_owned();
    Breach { rule, message, expected, actual, code: None, leaves_doubt: false, damage: None }.weighed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expectation: &Expectation, answer: Answer<()>) -> &'static str {
        match expectation.of("DeleteVolume", &answer) {
            Finding::Fits => "fits",
            Finding::UnusualInput(_) => "odd",
            Finding::Wrong(_) => "wrong",
        }
    }

    #[test]
    fn what_is_not_in_the_list_is_as_grave_as_the_rule() {
        let binding = must(&req::CTRL_DELETEVOL_003, "succeed");
        assert_eq!(found(&binding, Answer::Done(())), "fits");
        assert_eq!(found(&binding, Answer::Refused(Code::NotFound)), "wrong");
        let soft = must(&req::CTRL_UNPUBLISH_006, "succeed");
        assert_eq!(found(&soft, Answer::Refused(Code::NotFound)), "odd");
        let derived = must(&req::CTRL_LISTSNAP_010, "take the number");
        assert_eq!(found(&derived, Answer::Refused(Code::InvalidArgument)), "odd");
    }

    /// Otherwise FAILED_PRECONDITION would look like an answer of the driver.
    #[test]
    fn a_workload_error_is_not_described_as_a_code() {
        let actual = |method, code| {
            let expectation = must(&req::NODE_PUBLISH_027, "accept what a workload writes");
            match expectation.of(method, &Answer::<()>::Refused(code)) {
                Finding::Wrong(breaches) => breaches[0].actual.clone(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(actual("write", Code::FailedPrecondition), "an I/O error");
        assert_eq!(actual("write", Code::PermissionDenied), "no permission");
        assert_eq!(actual("write", Code::Unknown), "no room");
        assert_eq!(actual("NodePublishVolume", Code::FailedPrecondition), "FAILED_PRECONDITION");
    }

    #[test]
    fn a_driver_may_ask_for_patience_but_not_for_ever() {
        let expectation = must(&req::CTRL_DELETEVOL_003, "succeed");
        for code in [Code::Aborted, Code::Unavailable, Code::ResourceExhausted] {
            assert_eq!(found(&expectation, Answer::Refused(code)), "fits");
        }
        assert_eq!(found(&expectation, Answer::PutOff(Code::Aborted)), "wrong");
        assert_eq!(found(&expectation, Answer::PutOff(Code::Unavailable)), "fits");
        assert_eq!(found(&expectation, Answer::Unknown), "fits");
    }

    #[test]
    fn tolerated_answers_are_remarked_on() {
        let expectation =
            must_be_refused(&req::CTRL_DELETEVOL_011, Code::FailedPrecondition, "of a volume in use")
                .or_remark(Code::Internal, "FAILED_PRECONDITION says more")
                .or_done_remark("nothing says that a driver able to must reject");
        assert_eq!(found(&expectation, Answer::Refused(Code::FailedPrecondition)), "fits");
        assert_eq!(found(&expectation, Answer::Refused(Code::Internal)), "odd");
        assert_eq!(found(&expectation, Answer::Done(())), "odd");
        assert_eq!(found(&expectation, Answer::Refused(Code::NotFound)), "wrong");
        assert_eq!(expectation.to_string(), "FAILED_PRECONDITION");
    }

    #[test]
    fn the_list_is_written_out() {
        let expectation = must(&req::MSG_VOLSOURCE_006, "make a clone")
            .or(Code::FailedPrecondition, "the source may be in use")
            .or_any_refusal();
        assert_eq!(
            expectation.to_string(),
            "OK, or FAILED_PRECONDITION (the source may be in use), or any rejection"
        );
    }
}
