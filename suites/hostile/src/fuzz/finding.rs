//! What an input has shown of a driver.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::{Rpc, code_name};
use serde_json::Value;

use super::input::Input;
use super::stage::{Trouble, tells_secret};
use crate::rules::{
    HOSTILE_CODE_001, HOSTILE_COMMAND_001, HOSTILE_EFFECT_001, HOSTILE_PATH_001, HOSTILE_TIME_001,
};

/// Characters of a message that tell one cause from another.
const SHAPE_CHARS_MAX: usize = 60;

/// What came of an input that should not have.
#[derive(Clone, Debug)]
pub(crate) struct Symptom {
    pub(crate) rule: &'static Requirement,
    pub(crate) message: String,
    pub(crate) expected: &'static str,
    pub(crate) actual: String,
    /// The same for whatever has the same cause.
    pub(crate) cause: String,
}

/// A fault, and the input that shows it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) fault: Symptom,
    pub(crate) input: Input,
    /// The other requests that were in progress, where one of them may be at fault instead. None of them was tried alone, or none
    /// of them shows the fault alone.
    pub(crate) other_suspects: Vec<Input>,
}

impl Finding {
    /// For an input that shows the fault alone.
    pub(crate) fn certain(fault: Symptom, input: Input) -> Finding {
        Finding { fault, input, other_suspects: Vec::new() }
    }

    /// For inputs of which one has ended the driver.
    pub(crate) fn among(inputs: &[&Input], why: &str, printed: &[String]) -> Option<Finding> {
        let (&first, others) = inputs.split_first()?;
        let fault = Symptom::ended_by_one_of(inputs, why, printed);
        Some(Finding {
            fault,
            input: first.clone(),
            other_suspects: others.iter().copied().cloned().collect(),
        })
    }
}

impl Symptom {
    /// What the answer to an input alone shows. Where its bytes were twisted, the code is the gRPC library's choice.
    pub(crate) fn of_answer(input: &Input, answer: &Answer<Value>) -> Option<Symptom> {
        let rpc = input.rpc;
        if tells_secret(answer) {
            return Some(Symptom {
                rule: &req::GEN_SECRET_001,
                message: format!("{rpc} gives back a secret"),
                expected: "secrets neither in responses nor in errors",
                actual: "the value of a secret in the answer".to_owned(),
                cause: format!("{rpc} secret"),
            });
        }
        let Answer::Refused(refused) = answer else { return None };
        let is_vague =
            matches!(refused.code, Code::Internal | Code::Unknown | Code::DataLoss) && input.wire.is_empty();
        is_vague.then(|| Symptom {
            rule: &HOSTILE_CODE_001,
            message: format!("{rpc} answers nonsense with {}", code_name(refused.code)),
            expected: "a code that says what is wrong with the request, such as INVALID_ARGUMENT",
            actual: refused.to_string(),
            cause: format!("{rpc} {} {}", code_name(refused.code), shape(&refused.message)),
        })
    }

    /// The driver did not live through it, or broke it off.
    pub(crate) fn broken(rpc: Rpc, died: bool, why: &str, printed: &[String]) -> Symptom {
        let message = match died {
            true => format!("the driver crashes on {rpc}"),
            false => format!("the driver lives on, but {rpc} ends without a gRPC status"),
        };
        let last = printed.first().map(|line| format!("; it printed: {line}")).unwrap_or_default();
        Symptom {
            rule: &req::GEN_ERR_001,
            message,
            expected: "an answer to any request, and a driver that keeps serving",
            actual: format!("{why}{last}"),
            cause: format!("{rpc} broken {}", printed.first().map(|line| shape(line)).unwrap_or_default()),
        }
    }

    /// The driver stopped answering while these inputs were in progress.
    fn ended_by_one_of(inputs: &[&Input], why: &str, printed: &[String]) -> Symptom {
        let methods: Vec<&str> = inputs.iter().map(|input| input.rpc.method).collect();
        let symptom = Symptom::broken(inputs[0].rpc, true, why, printed);
        match methods[..] {
            [_] => symptom,
            _ => Symptom {
                message: format!(
                    "the driver stops answering while {} requests are in progress",
                    methods.len()
                ),
                actual: format!("{}; in progress: {}", symptom.actual, methods.join(", ")),
                cause: "several broken".to_owned(),
                ..symptom
            },
        }
    }

    /// No answer came.
    pub(crate) fn late(rpc: Rpc, limit_ms: u128) -> Symptom {
        Symptom {
            rule: &HOSTILE_TIME_001,
            message: format!("{rpc} is not answered"),
            expected: "an answer to nonsense within the time limit of a call (--call-timeout)",
            actual: format!("none within {limit_ms} ms"),
            cause: format!("{rpc} late"),
        }
    }

    /// A look at the stage has shown it.
    pub(crate) fn of_trouble(rpc: Rpc, trouble: &Trouble) -> Symptom {
        let (rule, message, expected, actual) = match trouble {
            Trouble::Files(changed) => (
                &HOSTILE_PATH_001,
                format!("{rpc} reaches files outside the driver's directory"),
                "the text is taken literally, and nothing outside the driver's directory changes",
                changed,
            ),
            Trouble::Command(changed) => (
                &HOSTILE_COMMAND_001,
                format!("{rpc} runs a command that a text of the request holds"),
                "a text that is taken literally, and not passed to a shell",
                changed,
            ),
            Trouble::Gone(what) => (
                &HOSTILE_EFFECT_001,
                format!("{rpc} about something else removes a volume"),
                "things that no request names stay",
                what,
            ),
            Trouble::Left(difference) => (
                &HOSTILE_EFFECT_001,
                format!("after {rpc} was rejected, and all else undone, the lists differ"),
                "a request that is rejected as invalid has no effect",
                difference,
            ),
        };
        let cause = match trouble {
            // Under the same rule as what is gone, and another cause.
            Trouble::Left(_) => format!("{rpc} left"),
            _ => format!("{rpc} {}", rule.id),
        };
        Symptom { rule, message, expected, actual: actual.clone(), cause }
    }

    /// The violation that it is.
    pub(crate) fn violation(&self, told: Vec<String>) -> Violation {
        Violation::new(&self.message)
            .of(self.rule)
            .expected(self.expected)
            .actual(&self.actual)
            .transcript(told)
    }
}

/// A message without what differs from one time to the next: numbers, and words that are quoted or too long for any language.
pub(crate) fn shape(message: &str) -> String {
    let mut shape = String::new();
    let words =
        message.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty() && word.len() < 20);
    for word in words {
        if shape.len() + word.len() > SHAPE_CHARS_MAX {
            break;
        }
        shape.push_str(word);
        shape.push(' ');
    }
    shape
}
