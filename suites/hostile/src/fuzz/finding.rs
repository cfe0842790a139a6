//! The violations that inputs reveal.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::{Rpc, code_name};
use serde_json::Value;

use super::input::Input;
use super::stage::{Trouble, shows_secret};
use crate::rules::{
    HOSTILE_CODE_001, HOSTILE_COMMAND_001, HOSTILE_EFFECT_001, HOSTILE_PATH_001, HOSTILE_TIME_001,
};

/// The number of characters of a message that identify its cause.
const SHAPE_CHARS_MAX: usize = 60;

/// A wrong effect of an input.
#[derive(Clone, Debug)]
pub(crate) struct Symptom {
    pub(crate) rule: &'static Requirement,
    pub(crate) message: String,
    pub(crate) expected: &'static str,
    pub(crate) actual: String,
    /// The cause; symptoms with an equal cause are duplicates.
    pub(crate) cause: String,
}

/// A symptom, and the input that shows it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) fault: Symptom,
    pub(crate) input: Input,
    /// The other requests that were in progress, if one of them may be the cause instead. None of them was tried
    /// alone, or none of them shows the symptom alone.
    pub(crate) other_suspects: Vec<Input>,
}

impl Finding {
    /// Makes the finding of an input that shows the symptom alone.
    pub(crate) fn certain(fault: Symptom, input: Input) -> Finding {
        Finding { fault, input, other_suspects: Vec::new() }
    }

    /// Makes the finding of several inputs, one of which ended the driver.
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
    /// Judges the answer to a single input. If its bytes were altered, the gRPC library chooses the code.
    pub(crate) fn of_answer(input: &Input, answer: &Answer<Value>) -> Option<Symptom> {
        let rpc = input.rpc;
        if shows_secret(answer) {
            return Some(Symptom {
                rule: &req::GEN_SECRET_001,
                message: format!("{rpc} returns a secret"),
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

    /// The driver crashed or aborted the call.
    pub(crate) fn broken(rpc: Rpc, died: bool, why: &str, printed: &[String]) -> Symptom {
        let message = match died {
            true => format!("the driver crashes on {rpc}"),
            false => format!("the driver keeps running, but {rpc} ends without a gRPC status"),
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

    /// The driver did not answer in time.
    pub(crate) fn late(rpc: Rpc, limit_ms: u128) -> Symptom {
        Symptom {
            rule: &HOSTILE_TIME_001,
            message: format!("{rpc} is not answered"),
            expected: "an answer to nonsense within the time limit of a call (--call-timeout)",
            actual: format!("none within {limit_ms} ms"),
            cause: format!("{rpc} late"),
        }
    }

    /// The stage was changed.
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
                format!("{rpc} runs a command contained in a text of the request"),
                "a text that is taken literally, and not passed to a shell",
                changed,
            ),
            Trouble::Gone(what) => (
                &HOSTILE_EFFECT_001,
                format!("{rpc} for another object removes a volume"),
                "objects that no request names remain",
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
            // It breaks the rule of a missing object, and has another cause.
            Trouble::Left(_) => format!("{rpc} left"),
            _ => format!("{rpc} {}", rule.id),
        };
        Symptom { rule, message, expected, actual: actual.clone(), cause }
    }

    pub(crate) fn violation(&self, transcript: Vec<String>) -> Violation {
        Violation::new(&self.message)
            .of(self.rule)
            .expected(self.expected)
            .actual(&self.actual)
            .transcript(transcript)
    }
}

/// Returns a message without its variable parts: numbers, and words that are quoted or longer than any natural one.
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
