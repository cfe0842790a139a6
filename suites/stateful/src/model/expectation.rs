//! The closed list of answers that a driver may give to a call, and what is wrong with any other.

use std::fmt;

use csi_harness::effect::is_not_now;
use csi_harness::requirements::{Requirement, req};
use csi_harness::verdict::Violation;
use csi_proto::code_name;
use tonic::Code;

use super::answer::Answer;

/// What a driver may answer to a call in one certain state.
#[derive(Clone, Debug)]
pub struct Expectation {
    rule: &'static Requirement,
    /// Reads after "has to", or after the name of the call where it has to be refused.
    what: &'static str,
    done: Done,
    refusals: Vec<Refusal>,
    any_refusal: bool,
}

/// What is to be thought of OK.
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

/// Nothing is said about the call: `rule` is the one that would apply otherwise.
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

    /// Only remarks on another code, because.
    #[must_use]
    pub fn or_remark(mut self, code: Code, because: &'static str) -> Expectation {
        self.refusals.push(Refusal { code, because, tolerated: true });
        self
    }

    /// Permits any refusal.
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

    /// Only remarks on it if it is done, because.
    #[must_use]
    pub fn or_done_remark(mut self, because: &'static str) -> Expectation {
        self.done = Done::Tolerated(because);
        self
    }

    /// The rule that a driver breaks which answers otherwise.
    pub fn rule(&self) -> &'static Requirement {
        self.rule
    }

    /// Whether the call may take effect without breaking a rule that binds.
    pub fn may_be_done(&self) -> bool {
        self.done != Done::Wrong || !self.rule.is_binding()
    }

    /// What is to be thought of an answer; what it says is judged apart.
    pub fn of<S>(&self, method: &str, answer: &Answer<S>) -> Finding {
        match answer {
            Answer::Unknown => Finding::Fits,
            Answer::Done(_) => self.of_done(method),
            Answer::Refused(code) if is_not_now(method, *code) => Finding::Fits,
            Answer::Refused(code) => self.of_refusal(method, *code),
            // That something is pending can be wrong; that the back end is busy or full can not.
            Answer::PutOff(Code::Aborted) => self.of_refusal(method, Code::Aborted),
            Answer::PutOff(_) => Finding::Fits,
        }
    }

    fn of_done(&self, method: &str) -> Finding {
        let breach = |message| Breach { message, ..self.breach(Code::Ok) };
        match self.done {
            Done::Due | Done::Permitted => Finding::Fits,
            Done::Tolerated(because) => {
                Finding::Odd(breach(format!("{method} {} was done ({because})", self.what)))
            }
            Done::Wrong => {
                breach(format!("{method} {} has to be refused, and was done", self.what)).weighed()
            }
        }
    }

    fn of_refusal(&self, method: &str, code: Code) -> Finding {
        let listed = self.refusals.iter().find(|refusal| refusal.code == code);
        let message = match self.done {
            Done::Due => format!("{method} has to {}, and was refused", self.what),
            _ => format!("{method} {} is refused with the wrong code", self.what),
        };
        let breach = Breach { message, ..self.breach(code) };
        match listed {
            Some(Refusal { tolerated: false, .. }) => Finding::Fits,
            _ if self.any_refusal => Finding::Fits,
            Some(Refusal { because, .. }) => {
                Finding::Odd(Breach { message: format!("{} ({because})", breach.message), ..breach })
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
        }
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
        let any = self.any_refusal.then(|| "any refusal".to_owned());
        f.write_str(&done.into_iter().chain(refusals).chain(any).collect::<Vec<_>>().join(", or "))
    }
}

/// What is to be thought of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Nothing.
    Fits,
    /// Worth a remark: a recommendation not kept, or an answer that is only tolerated.
    Odd(Breach),
    /// A rule that binds is broken.
    Wrong(Breach),
}

impl Finding {
    /// The same of a call that met another one, for which there is a recommendation only.
    #[must_use]
    pub fn beside_another_call(self) -> Finding {
        match self {
            Finding::Wrong(breach) => Finding::Odd(Breach { rule: &req::GEN_CONC_003, ..breach }),
            other => other,
        }
    }

    /// The graver of two.
    #[must_use]
    pub fn and(self, other: Finding) -> Finding {
        match (self, other) {
            (Finding::Wrong(breach), _) | (_, Finding::Wrong(breach)) => Finding::Wrong(breach),
            (Finding::Odd(breach), _) | (_, Finding::Odd(breach)) => Finding::Odd(breach),
            (Finding::Fits, Finding::Fits) => Finding::Fits,
        }
    }
}

/// A rule that was not kept, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// Which rule.
    pub rule: &'static Requirement,
    /// What is wrong, as one sentence.
    pub message: String,
    /// What a right driver says.
    pub expected: String,
    /// What this driver said.
    pub actual: String,
}

impl Breach {
    /// As grave as the rule is.
    pub fn weighed(self) -> Finding {
        if self.rule.is_binding() { Finding::Wrong(self) } else { Finding::Odd(self) }
    }
}

impl From<Breach> for Violation {
    fn from(breach: Breach) -> Violation {
        Violation::new(breach.message).of(breach.rule).expected(breach.expected).actual(breach.actual)
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
    Breach { rule, message: message.to_owned(), expected, actual }.weighed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expectation: &Expectation, answer: Answer<()>) -> &'static str {
        match expectation.of("DeleteVolume", &answer) {
            Finding::Fits => "fits",
            Finding::Odd(_) => "odd",
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
        let derived = must(&req::CTRL_CREATEVOL_014, "take the name");
        assert_eq!(found(&derived, Answer::Refused(Code::InvalidArgument)), "odd");
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
                .or_done_remark("nothing says that a driver able to must refuse");
        assert_eq!(found(&expectation, Answer::Refused(Code::FailedPrecondition)), "fits");
        assert_eq!(found(&expectation, Answer::Refused(Code::Internal)), "odd");
        assert_eq!(found(&expectation, Answer::Done(())), "odd");
        assert_eq!(found(&expectation, Answer::Refused(Code::NotFound)), "wrong");
        assert_eq!(expectation.to_string(), "FAILED_PRECONDITION");
    }

    #[test]
    fn the_list_is_told() {
        let expectation = must(&req::MSG_VOLSOURCE_006, "make a clone")
            .or(Code::FailedPrecondition, "the source may be in use")
            .or_any_refusal();
        assert_eq!(
            expectation.to_string(),
            "OK, or FAILED_PRECONDITION (the source may be in use), or any refusal"
        );
    }
}
