//! The ways in which a check ends: the driver broke a rule, the check does not apply, or the check could not judge.

use std::fmt;

use csi_proto::Rpc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tonic::Code;

use crate::config::profile::Profile;
use crate::spec::faults::FaultKey;
use crate::spec::requirements::Requirement;

/// Number of steps of a reproduction that are kept. A longer one is of no use to a reader, and its check has recorded
/// its calls anyway.
pub const REPRODUCTION_STEPS_MAX: usize = 400;

/// The end of a check's body. Everything but `Ok` states a reason.
pub type CheckResult<T = ()> = Result<T, Stop>;

/// The reason why the body of a check stopped early.
#[derive(Debug)]
pub enum Stop {
    /// The driver broke a rule.
    Violation(Box<Violation>),
    /// The driver broke a rule, which another check reports; this check found nothing else.
    MetAgain(Box<Violation>),
    /// The check found out while running that it makes no sense for this driver.
    Skip(String),
    /// The driver refused what it need not offer, which makes the check pointless, unless it refuses the plain form of the
    /// call as well.
    Declined(Rpc, String),
    /// The check could not judge: a call it builds on failed, or the environment is at fault.
    Broken(String),
    /// The call to judge got no answer, which proves nothing by itself; the driver may have died of it.
    Unanswered(String),
}

impl Stop {
    /// The check does not apply, because.
    pub fn skip(because: impl Into<String>) -> Stop {
        Stop::Skip(because.into())
    }

    /// The check could not judge, for this reason.
    pub fn broken(because: impl Into<String>) -> Stop {
        Stop::Broken(because.into())
    }

    /// Names the rule that a violation breaks, where it is not the first one of the check.
    #[must_use]
    pub fn of(self, requirement: &'static Requirement) -> Stop {
        match self {
            Stop::Violation(violation) => violation.of(requirement).into(),
            other => other,
        }
    }

    /// Holds a refusal against the driver although the plain form of the call may be refused as well: the check is about
    /// just that.
    #[must_use]
    pub fn of_a_plain_call(self) -> Stop {
        match self {
            Stop::Violation(violation) => Violation { refused: None, ..*violation }.into(),
            other => other,
        }
    }
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Stop {
        Stop::Violation(Box::new(violation))
    }
}

/// A rule that the driver broke, as the check states it, with everything that its author needs to fix it. It is not changed after the check
/// has ended; a run keeps what it learns about it in a [`Finding`](crate::results::outcome::Finding).
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The rule; the first one of the check where none is named.
    pub requirement: Option<&'static Requirement>,
    /// The violation, as one sentence.
    pub message: String,
    /// The behaviour of a right driver.
    pub expected: String,
    /// The behaviour of this driver.
    pub actual: String,
    /// Labels of other checks without which it cannot be seen again.
    pub along_with: Vec<String>,
    /// The injected fault, in the form that `--fault` takes.
    pub injected: Option<Box<str>>,
    /// The last lines that the driver printed, if it died.
    pub printed: Box<[String]>,
    /// The call whose refusal is the only evidence. If the plain form of it is refused as well, the refusal proves
    /// nothing.
    pub refused: Option<Box<(Rpc, Code)>>,
    /// The calls that lead to the violation, a line each, if the check describes them better than the record of all its
    /// calls does.
    pub transcript: Box<[String]>,
    /// The calls with their times, if it matters that they overlapped.
    pub timeline: Box<[CallSpan]>,
    /// The shortest way to it that the check has found, step by step, for tools that go it again.
    pub reproduction: Box<[ReproductionStep]>,
    /// Identifies the fault among all others, so that a check can look for faults behind those already reported.
    pub fault: Option<Box<FaultKey>>,
    /// The number of plays of the failing case, if the check has replayed it.
    pub replayed: Option<Plays>,
    /// The damage that it proves, if any.
    pub damage: Option<Damage>,
    /// The mildest profile under which it counts, even where its rule binds under a milder one.
    pub counts_from: Profile,
}

/// Plays of a failing case with the same inputs. The first failure is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plays {
    /// Plays that failed.
    pub failed: u32,
    /// All plays.
    pub of: u32,
}

impl Plays {
    /// Says if the failure never came again.
    pub fn is_flaky(self) -> bool {
        self.failed <= 1 && self.of > 1
    }
}

impl fmt::Display for Plays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed {} of {} times", self.failed, self.of)
    }
}

/// Damage that a failure proves. Such a failure counts even where it does not come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// Data that was written is gone or changed.
    DataLoss,
    /// The driver died.
    Crash,
    /// Something stays that the driver should have removed.
    Leak,
}

/// Work that a check left undone when it met its time limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CutShort {
    /// Work that it did.
    pub done: u64,
    /// Work that it was to do.
    pub planned: u64,
    /// The unit, in the plural: `sequences`, `rounds`, `faults`.
    pub what: String,
}

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.done, self.planned, self.what)
    }
}

/// A call among others that overlapped with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SpanEntry")]
pub struct CallSpan {
    /// The number of the caller that made it.
    pub worker: usize,
    /// The maker if that is no worker of the check, such as `workload`. It makes one after the other, so that one row shows all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<String>,
    /// The request.
    pub call: String,
    /// The end of the call.
    pub answer: String,
    /// The time at which it began, in microseconds after the first call began.
    pub from_us: u64,
    /// The time at which it ended, in microseconds after the first call began.
    pub to_us: u64,
}

impl CallSpan {
    /// The party of a span that stands for the moment of a copy.
    pub const COPY: &str = "copy";

    /// A line of text for it, as long as its share of the time until an end: `   ├──┤`. The columns after it are left out.
    pub fn bar(&self, end_us: u64) -> String {
        let column = |us: u64| {
            let inside = u128::from(us.min(end_us)) * Self::BAR_COLUMNS as u128;
            (inside / u128::from(end_us.max(1))) as usize
        };
        let (from, to) = (column(self.from_us), column(self.to_us));
        format!("{}├{}┤", " ".repeat(from), "─".repeat(to.saturating_sub(from)))
    }

    /// The columns that the whole time takes up.
    pub const BAR_COLUMNS: usize = 40;
}

/// A step on the way to a violation: a call, or something that is done beside calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReproductionEntry")]
pub struct ReproductionStep {
    /// The step in words.
    pub what: String,
    /// The RPC; none if the step is no call, such as an end of the driver or a write to a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<String>,
    /// The request as it was sent, without secrets.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub request: Value,
    /// The code of the answer, such as `OK`; something else, such as `no answer`, if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The response, without secrets.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub response: Value,
    /// The time after which the caller gave the call up, in microseconds, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up_after_us: Option<u64>,
}

impl ReproductionStep {
    /// The code of a call that got no answer.
    pub const NO_ANSWER: &str = "no answer";

    /// A step that is no call.
    pub fn by_hand(what: impl Into<String>) -> ReproductionStep {
        ReproductionStep {
            rpc: None,
            what: what.into(),
            request: Value::Null,
            code: String::new(),
            response: Value::Null,
            given_up_after_us: None,
        }
    }
}

impl Violation {
    /// A violation with the sentence that says what is wrong.
    pub fn new(message: impl Into<String>) -> Violation {
        Violation {
            requirement: None,
            message: message.into(),
            expected: String::new(),
            actual: String::new(),
            along_with: Vec::new(),
            injected: None,
            printed: Box::default(),
            refused: None,
            transcript: Box::default(),
            timeline: Box::default(),
            reproduction: Box::default(),
            fault: None,
            replayed: None,
            damage: None,
            counts_from: Profile::default(),
        }
    }

    /// Names another check without which the violation cannot be seen again.
    #[must_use]
    pub fn along_with(mut self, label: Option<&str>) -> Violation {
        self.along_with.extend(label.map(str::to_owned).filter(|label| !self.along_with.contains(label)));
        self
    }

    /// Names what the check has broken, as `--fault` takes it.
    #[must_use]
    pub fn injected(mut self, fault: impl fmt::Display) -> Violation {
        self.injected = Some(fault.to_string().into());
        self
    }

    /// Names the rule that is broken, where it is not the first one of the check.
    #[must_use]
    pub fn of(mut self, requirement: &'static Requirement) -> Violation {
        self.requirement = Some(requirement);
        self
    }

    /// Says what a right driver does.
    #[must_use]
    pub fn expected(mut self, expected: impl fmt::Display) -> Violation {
        self.expected = expected.to_string();
        self
    }

    /// Says what this driver did.
    #[must_use]
    pub fn actual(mut self, actual: impl fmt::Display) -> Violation {
        self.actual = actual.to_string();
        self
    }

    /// Names the call whose refusal is all there is against the driver.
    #[must_use]
    pub fn refused(mut self, rpc: Rpc, code: Code) -> Violation {
        self.refused = Some(Box::new((rpc, code)));
        self
    }

    /// Sets the calls that lead there, line by line. They replace the recorded calls.
    #[must_use]
    pub fn transcript(mut self, lines: Vec<String>) -> Violation {
        self.transcript = lines.into();
        self
    }

    /// Adds the times of the calls that lead there.
    #[must_use]
    pub fn timeline(mut self, calls: Vec<CallSpan>) -> Violation {
        self.timeline = calls.into();
        self
    }

    /// Adds the steps that lead there, unless they are too many.
    #[must_use]
    pub fn reproduction(mut self, steps: Vec<ReproductionStep>) -> Violation {
        if steps.len() <= REPRODUCTION_STEPS_MAX {
            self.reproduction = steps.into();
        }
        self
    }

    /// States that the check has repeated the failing case itself, with unchanged inputs, and how often it failed; the
    /// first failure counts as a repetition. `replayed(2, 2)` confirms a failure, `replayed(1, 4)` makes it flaky, and
    /// the runner repeats neither.
    #[must_use]
    pub fn replayed(mut self, failed: u32, of: u32) -> Violation {
        self.replayed = Some(Plays { failed, of });
        self
    }

    /// States that the violation is a warning under milder profiles, whatever its rule, since the check is about something else.
    #[must_use]
    pub fn counts_from(mut self, profile: Profile) -> Violation {
        self.counts_from = profile;
        self
    }

    /// States that the violation proves damage, so that it counts even if it does not come again.
    #[must_use]
    pub fn damage(mut self, damage: Damage) -> Violation {
        self.damage = Some(damage);
        self
    }

    /// Adds what it printed last.
    #[must_use]
    pub fn printed(mut self, lines: Vec<String>) -> Violation {
        self.printed = lines.into();
        self
    }
}

/// Stops the check with a [`Violation`] unless the condition holds.
///
/// The text after the condition is formatted and says what is wrong; `expected:`, `actual:` and `of:` (a requirement
/// other than the check's first) may follow.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $format:literal $(, $argument:expr)* ; $($key:ident: $value:expr),+ $(,)?) => {
        if !$condition {
            return ::core::result::Result::Err(
                $crate::spec::verdict::Violation::new(::std::format!($format $(, $argument)*))
                    $(.$key($value))+
                    .into(),
            );
        }
    };
    ($condition:expr, $format:literal $(, $argument:expr)* $(,)?) => {
        if !$condition {
            return ::core::result::Result::Err(
                $crate::spec::verdict::Violation::new(::std::format!($format $(, $argument)*)).into(),
            );
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_of_a_call_has_the_share_of_its_time() {
        let bar = |from_us, to_us| {
            let (call, answer) = (String::new(), String::new());
            CallSpan { worker: 0, party: None, call, answer, from_us, to_us }.bar(1_000)
        };
        assert_eq!(bar(0, 100), "├────┤");
        assert_eq!(bar(950, 2_000), format!("{}├──┤", " ".repeat(38)));
        assert_eq!(bar(500, 500), format!("{}├┤", " ".repeat(20)));
        assert_eq!(bar(5, 0), "├┤");
    }
}
