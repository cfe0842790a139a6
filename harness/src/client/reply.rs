//! The answer to one call, which a check has to judge with a sentence: there is no way from a gRPC status to a
//! failed check but through [`Reply::must`] and its siblings.

use std::fmt;
use std::sync::Arc;

use csi_proto::{Rpc, code_name};
use tonic::Code;

use crate::client::answer::{Answer, Exists, NoAnswer, Refused};
use crate::client::record::CallLog;
use crate::protocol::effect::{self, Effect};
use crate::resources::machine;
use crate::spec::requirements::{Requirement, req};
use crate::spec::verdict::{Stop, Violation};

/// The answer to one call.
#[derive(Debug)]
#[must_use = "an answer that is not judged tests nothing"]
pub struct Reply<T> {
    rpc: Rpc,
    answer: Answer<T>,
    /// A field without which nothing can be built on the response.
    lacks: Option<&'static str>,
    log: Arc<CallLog>,
}

/// The closed list of codes with which a call may be refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    best: Code,
    named_by: Option<&'static Requirement>,
    accepted: Vec<(Code, &'static str)>,
    tolerated: Vec<(Code, &'static str)>,
}

/// The call has to be refused with this code.
pub fn refused_with(best: Code) -> Refusal {
    Refusal { best, named_by: None, accepted: Vec::new(), tolerated: Vec::new() }
}

/// The code for a request that lacks a mandatory field, which the general table names.
pub fn missing_field() -> Refusal {
    refused_with(Code::InvalidArgument).named_by(&req::GEN_ERR_004)
}

/// The code for a field with an invalid value, which the general table names.
pub fn invalid_value() -> Refusal {
    refused_with(Code::InvalidArgument).named_by(&req::GEN_ERR_005)
}

impl Refusal {
    /// Says which rule names the code, where that is another one than asks for the refusal.
    #[must_use]
    pub fn named_by(mut self, rule: &'static Requirement) -> Refusal {
        self.named_by = Some(rule);
        self
    }

    /// Accepts another code as well, because.
    #[must_use]
    pub fn or(mut self, code: Code, because: &'static str) -> Refusal {
        self.accepted.push((code, because));
        self
    }

    /// Only warns about another code, for this reason.
    #[must_use]
    pub fn or_warn(mut self, code: Code, because: &'static str) -> Refusal {
        self.tolerated.push((code, because));
        self
    }

    fn accepts(&self, code: Code) -> bool {
        code == self.best || self.accepted.iter().any(|(other, _)| *other == code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(code_name(self.best))?;
        for (code, because) in &self.accepted {
            write!(f, ", or {} ({because})", code_name(*code))?;
        }
        Ok(())
    }
}

impl<T> Reply<T> {
    pub(crate) fn new(rpc: Rpc, answer: Answer<T>, log: Arc<CallLog>) -> Reply<T> {
        Reply { rpc, answer, lacks: None, log }
    }

    /// Makes the response useless as a precondition, unless the field is there.
    pub(crate) fn needs(mut self, field: &'static str, is_there: impl FnOnce(&T) -> bool) -> Reply<T> {
        if let Answer::Ok(response) = &self.answer
            && !is_there(response)
        {
            self.lacks = Some(field);
        }
        self
    }

    /// The answer itself, for checks that treat several answers differently.
    pub fn answer(&self) -> &Answer<T> {
        &self.answer
    }

    pub(crate) fn into_answer(self) -> Answer<T> {
        self.answer
    }

    /// States if the object that the call was to make exists.
    pub(crate) fn makes(&self) -> Exists {
        match &self.answer {
            Answer::Ok(_) => Exists::Yes,
            Answer::Refused(refused) => match effect::of(self.rpc, refused.code) {
                Effect::None => Exists::No,
                Effect::Unsure => Exists::Unlikely,
                Effect::Pending => Exists::Perhaps,
            },
            Answer::Unknown(NoAnswer::NotSent(_)) => Exists::No,
            Answer::Unknown(_) => Exists::Perhaps,
        }
    }

    /// The RPC that was called.
    pub fn rpc(&self) -> Rpc {
        self.rpc
    }

    /// The gRPC code.
    ///
    /// # Errors
    /// There is no answer, which proves nothing.
    pub fn code(&self) -> Result<Code, Stop> {
        match &self.answer {
            Answer::Ok(_) => Ok(Code::Ok),
            Answer::Refused(refused) => Ok(refused.code),
            Answer::Unknown(no_answer) => Err(unanswered(self.rpc, no_answer)),
        }
    }

    /// Turns the response into something else.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        let Reply { rpc, answer, lacks, log } = self;
        Reply { rpc, answer: answer.map(f), lacks, log }
    }

    /// Judges the response once more: it may be no answer after all.
    pub(crate) fn and_then<U>(self, f: impl FnOnce(T) -> Answer<U>) -> Reply<U> {
        let Reply { rpc, answer, lacks, log } = self;
        let answer = match answer {
            Answer::Ok(response) => f(response),
            Answer::Refused(refused) => Answer::Refused(refused),
            Answer::Unknown(no_answer) => Answer::Unknown(no_answer),
        };
        Reply { rpc, answer, lacks, log }
    }

    /// The driver has to do it: `what` says so, and reads after "the driver has to".
    ///
    /// # Errors
    /// A violation if it refused; broken if there is no answer, which proves nothing.
    pub fn must(self, what: &str) -> Result<T, Stop> {
        self.done().map_err(|failure| failure.of_what_must_be_done(what))
    }

    /// The check builds on it, but does not judge it: another check does. `what` names what is missing without it.
    ///
    /// # Errors
    /// Broken, so that one fault of the driver is one failure.
    pub fn setup(self, what: &str) -> Result<T, Stop> {
        let (rpc, lacks) = (self.rpc, self.lacks);
        let response = self.done().map_err(|failure| failure.of_setup(what))?;
        match lacks {
            None => Ok(response),
            Some(field) => Err(lacking(what, rpc, &format!("answered without {field}"))),
        }
    }

    /// The driver may refuse, and then the check does not apply: `because` says why.
    ///
    /// # Errors
    /// Declined if it refused; broken if there is no answer.
    pub fn or_skip(self, because: &str) -> Result<T, Stop> {
        match self.answer {
            Answer::Refused(refused) => {
                // The reason shows the first line of the answer, and the missing right may be in a later one.
                let right = machine::lacks_right(&refused.message);
                let right = right.map(|right| format!("; {right}")).unwrap_or_default();
                Err(Stop::Declined(
                    self.rpc,
                    format!("{because}: {} was rejected: {refused}{right}", self.rpc),
                ))
            }
            _ => self.setup("an answer"),
        }
    }

    /// The driver has to refuse, with a code of the list; `what` reads after "must be rejected".
    ///
    /// # Errors
    /// A violation for OK and for any code outside the list.
    pub fn must_be_refused(self, what: &str, refusal: Refusal) -> Result<Refused, Stop> {
        let rpc = self.rpc;
        match self.done() {
            Ok(_) => Err(succeeded(rpc, what, &refusal)),
            Err(failure) => failure.judged_by(what, &refusal, refusal.to_string()),
        }
    }

    /// The driver may do it, or refuse with a code of the list; `what` says which call is meant.
    ///
    /// # Errors
    /// A violation for any code outside the list.
    pub fn may_be_refused(self, what: &str, refusal: Refusal) -> Result<Option<T>, Stop> {
        match self.done() {
            Ok(response) => Ok(Some(response)),
            Err(failure) => failure.judged_by(what, &refusal, format!("OK, or {refusal}")).map(|_| None),
        }
    }

    /// The driver should refuse, with a code of the list, and OK is only remarked on; `what` says which call is meant.
    ///
    /// # Errors
    /// A violation for any code outside the list.
    pub fn should_be_refused(self, what: &str, refusal: Refusal) -> Result<(), Stop> {
        let (rpc, log) = (self.rpc, self.log.clone());
        match self.done() {
            Ok(_) => {
                let done = Violation::new(format!("{rpc} {what} succeeded"));
                log.warn(done.expected(&refusal).actual("OK"));
                Ok(())
            }
            Err(failure) => failure.judged_by(what, &refusal, refusal.to_string()).map(drop),
        }
    }

    /// Any definite answer will do: what is looked for is a crash or a hang.
    ///
    /// # Errors
    /// Broken if there is no answer; the runner then looks whether the driver is still alive.
    pub fn any_answer(self) -> Result<Result<T, Refused>, Stop> {
        match self.done() {
            Ok(response) => Ok(Ok(response)),
            Err(failure) => failure.refused().map(Err),
        }
    }

    /// The response, or what is known of the end of the call without one: from there on it does not matter of which type it would have
    /// been, and one code serves all RPCs.
    fn done(self) -> Result<T, Failure> {
        let Reply { rpc, answer, log, .. } = self;
        let how = match answer {
            Answer::Ok(response) => return Ok(response),
            Answer::Refused(refused) => Ok(refused),
            Answer::Unknown(no_answer) => Err(no_answer),
        };
        Err(Failure { rpc, how, log })
    }
}

/// A call that was not done, as far as is known.
struct Failure {
    rpc: Rpc,
    how: Result<Refused, NoAnswer>,
    log: Arc<CallLog>,
}

impl Failure {
    fn refused(self) -> Result<Refused, Stop> {
        self.how.map_err(|no_answer| unanswered(self.rpc, &no_answer))
    }

    fn of_what_must_be_done(self, what: &str) -> Stop {
        let rpc = self.rpc;
        match self.refused() {
            Ok(refused) => Violation::new(format!("{rpc} must {what}, but failed"))
                .expected("OK")
                .actual(&refused)
                .refused(rpc, refused.code)
                .into(),
            Err(stop) => stop,
        }
    }

    fn of_setup(self, what: &str) -> Stop {
        let how = match self.how {
            Ok(refused) => format!("was rejected: {refused}"),
            Err(no_answer) => format!("failed: {no_answer}"),
        };
        lacking(what, self.rpc, &how)
    }

    fn judged_by(self, what: &str, refusal: &Refusal, expected: String) -> Result<Refused, Stop> {
        let (rpc, log) = (self.rpc, self.log.clone());
        let refused = self.refused()?;
        if refusal.accepts(refused.code) {
            return Ok(refused);
        }
        let mut wrong = Violation::new(format!("{rpc} {what} is rejected with the wrong code"))
            .expected(expected)
            .actual(&refused)
            .refused(rpc, refused.code);
        wrong.requirement = refusal.named_by;
        match refusal.tolerated.iter().find(|(code, _)| *code == refused.code) {
            Some((_, because)) => {
                log.warn(Violation { message: format!("{} ({because})", wrong.message), ..wrong });
                Ok(refused)
            }
            None => Err(wrong.into()),
        }
    }
}

fn succeeded(rpc: Rpc, what: &str, refusal: &Refusal) -> Stop {
    let message = format!("{rpc} {what} must be rejected, but succeeded");
    Violation::new(message).expected(refusal).actual("OK").into()
}

fn lacking(what: &str, rpc: Rpc, how: &str) -> Stop {
    Stop::broken(format!("needs {what}, but {rpc} {how}"))
}

fn unanswered(rpc: Rpc, no_answer: &NoAnswer) -> Stop {
    Stop::Unanswered(format!("{rpc} cannot be judged: {no_answer}"))
}
