//! The answer to one call: the three ways in which it can end.

use std::fmt;
use std::time::Duration;

use csi_proto::code_name;
use tonic::Code;

use crate::text::message::shape;

/// Characters of a message that are compared to find out if two calls failed for one reason.
const REASON_CHARS_MAX: usize = 200;
/// Bytes up to which lines of a message are shown after the first one.
const LINES_BYTES_MAX: usize = 240;

/// The three ways a call can end.
#[derive(Clone, Debug)]
pub enum Answer<T> {
    /// The driver did it.
    Ok(T),
    /// The driver said no.
    Refused(Refused),
    /// The end is unknown: the call may have taken effect.
    Unknown(NoAnswer),
}

impl<T> Answer<T> {
    /// Borrows the response or the rejection.
    pub fn as_ref(&self) -> Answer<&T> {
        match self {
            Answer::Ok(response) => Answer::Ok(response),
            Answer::Refused(refused) => Answer::Refused(refused.clone()),
            Answer::Unknown(no_answer) => Answer::Unknown(no_answer.clone()),
        }
    }

    /// Turns the response into something else.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Ok(response) => Answer::Ok(f(response)),
            Answer::Refused(refused) => Answer::Refused(refused),
            Answer::Unknown(no_answer) => Answer::Unknown(no_answer),
        }
    }
}

/// A no of the driver. What it leaves open about the effect of the call, [`effect::of`](crate::protocol::effect::of) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The gRPC code.
    pub code: Code,
    /// The message of the status.
    pub message: String,
    /// The number of messages of a stream that came before the error.
    pub after_messages: usize,
}

impl Refused {
    /// The gRPC code as the protocol spells it, such as `NOT_FOUND`.
    pub fn code_name(&self) -> &'static str {
        code_name(self.code)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.trim_end();
        let (lines, rest) = message.split_at(first_lines(message));
        let more = if rest.trim().is_empty() { "" } else { " …" };
        write!(f, "{} {lines:?}{more}", code_name(self.code))?;
        match self.after_messages {
            0 => Ok(()),
            1 => f.write_str(" after 1 message"),
            some => write!(f, " after {some} messages"),
        }
    }
}

/// The end of the first line of a message, and of as many lines after it as are short: the output of a command that failed often stands
/// there. Some drivers send a whole stack trace, of which the recorded call has the rest.
fn first_lines(message: &str) -> usize {
    let ends = message.match_indices('\n').map(|(at, _)| at).chain([message.len()]);
    let ends = ends.scan(None, |first, end| {
        let first = *first.get_or_insert(end);
        (end == first || end <= LINES_BYTES_MAX).then_some(end)
    });
    ends.last().unwrap_or_default()
}

impl<T> Answer<T> {
    /// The code of a failed call, or that there was no answer in time, so that calls that failed alike can be compared.
    /// `None` if the call was done, or if its failure says nothing of the driver.
    pub fn failure(&self) -> Option<&'static str> {
        match self {
            Answer::Refused(refused) | Answer::Unknown(NoAnswer::GivenUp(refused)) => {
                Some(refused.code_name())
            }
            Answer::Unknown(NoAnswer::Timeout(_)) => Some("no answer"),
            Answer::Ok(_)
            | Answer::Unknown(
                NoAnswer::Broken(_)
                | NoAnswer::DisconnectedByTest
                | NoAnswer::TooLong(_)
                | NoAnswer::Cancelled(_)
                | NoAnswer::CheckEnded
                | NoAnswer::NotSent(_),
            ) => None,
        }
    }

    /// The failure with the beginning of its message, without names and numbers, so that calls that failed for one reason can be compared.
    pub fn failure_with_reason(&self) -> Option<String> {
        let message = match self {
            Answer::Refused(refused) | Answer::Unknown(NoAnswer::GivenUp(refused)) => &refused.message,
            _ => "",
        };
        let beginning: String = message.chars().take(REASON_CHARS_MAX).collect();
        Some(format!("{} {}", self.failure()?, shape(&beginning)))
    }
}

/// The reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The time limit passed.
    Timeout(Duration),
    /// The driver has given up: `DEADLINE_EXCEEDED` or `CANCELLED`.
    GivenUp(Refused),
    /// The connection broke, or what came was not gRPC.
    Broken(String),
    /// The check has broken the connection.
    DisconnectedByTest,
    /// A stream that was to be read to its end had more messages than this, and was cut off.
    TooLong(usize),
    /// The check gave it up after this time, as a caller does that meets a deadline. The driver may still work on it.
    Cancelled(Duration),
    /// The check was over before.
    CheckEnded,
    /// It was not sent, for this reason.
    NotSent(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Timeout(limit) => write!(f, "no answer within {} ms", limit.as_millis()),
            NoAnswer::GivenUp(status) => write!(f, "the driver gave up: {status}"),
            NoAnswer::Broken(why) => write!(f, "the connection broke: {why}"),
            NoAnswer::DisconnectedByTest => f.write_str("no answer, because the test broke the connection"),
            NoAnswer::TooLong(messages) => write!(f, "cut off by the test after {messages} messages"),
            NoAnswer::Cancelled(after) => write!(f, "given up by the caller after {} ms", after.as_millis()),
            NoAnswer::CheckEnded => f.write_str("no answer when the check was over"),
            NoAnswer::NotSent(why) => write!(f, "not sent: {why}"),
        }
    }
}

/// The messages that were read of a stream.
#[derive(Clone, Debug)]
pub struct Streamed<M> {
    /// The messages that were read.
    pub messages: Vec<M>,
    /// True if the stream ended with OK. False if the test stopped reading, so that more may follow.
    pub is_whole: bool,
}

/// The messages that came with OK, as bytes. A reply of one message is a stream of one.
pub(crate) type Received = Streamed<Vec<u8>>;

/// States if an object exists, by the calls that have ended so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exists {
    /// No call has made it.
    No,
    /// A call to make it was rejected, with a code that leaves open what was done before.
    Unlikely,
    /// A call ended without an answer, or is still worked on, and may have made it.
    Perhaps,
    /// A call has made it.
    Yes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_shown_up_to_its_first_long_line() {
        let shown = |message: &str| {
            let message = message.to_owned();
            Refused { code: Code::Unknown, message, after_messages: 0 }.to_string()
        };
        assert_eq!(
            shown("exit status 32\nOutput: no mount point\n"),
            r#"UNKNOWN "exit status 32\nOutput: no mount point""#
        );
        let frames = format!("panic\n{}", "frame ".repeat(50));
        assert_eq!(shown(&frames), "UNKNOWN \"panic\" …");
        let long = "x".repeat(300);
        assert_eq!(shown(&format!("{long}\nmore")), format!("UNKNOWN {long:?} …"));
        assert_eq!(shown(""), "UNKNOWN \"\"");
    }
}
