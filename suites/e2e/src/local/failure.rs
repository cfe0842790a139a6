//! A call that failed, what each component of Kubernetes makes of the code, and when nobody goes on trying here.

use std::fmt;

use csi_harness::prelude::{Answer, Reply};
use csi_harness::reply::NoAnswer;
use csi_proto::code_name;
use tonic::Code;

/// Definite answers, one like the other, after which a driver is believed to mean it. The real components go on for ever.
const FAILURES_BELIEVED: u32 = 4;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    method: &'static str,
    pub(super) code: Code,
    message: String,
}

impl Failure {
    /// The response, or how the call failed. A call without an answer counts as its deadline or connection would in a client.
    pub(super) fn or<T: Clone>(reply: &Reply<T>) -> Result<T, Failure> {
        let method = reply.rpc().method;
        let (code, message) = match reply.answer() {
            Answer::Ok(response) => return Ok(response.clone()),
            Answer::Refused(refused) | Answer::Unknown(NoAnswer::GivenUp(refused)) => {
                (refused.code, refused.message.clone())
            }
            Answer::Unknown(no_answer @ NoAnswer::Timeout(_)) => {
                (Code::DeadlineExceeded, no_answer.to_string())
            }
            Answer::Unknown(no_answer) => (Code::Unavailable, no_answer.to_string()),
        };
        Err(Failure { method, code, message })
    }

    /// An answer that cannot be used, although the code was OK.
    pub(super) fn of_answer(method: &'static str, message: impl Into<String>) -> Failure {
        Failure { method, code: Code::Internal, message: message.into() }
    }

    /// No call was made, as something on the node stands in the way.
    pub(super) fn of_node(message: impl Into<String>) -> Failure {
        Failure { method: "preparing the call", code: Code::Internal, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {} {:?}", self.method, code_name(self.code), self.message)
    }
}

/// What a component makes of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The driver may still be at it: the very same call follows.
    Uncertain,
    /// Nothing goes on in the driver. The call is made again all the same.
    Final,
    /// The request cannot be met: the next try is minutes away.
    Infeasible,
}

/// Whoever calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Provisioner,
    Attacher,
    Expander,
    Modifier,
    Snapshotter,
    Kubelet,
    KubeletExpanding,
}

impl Caller {
    /// What it makes of a code.
    pub(super) fn judges(self, code: Code) -> Verdict {
        use Caller::{Expander, KubeletExpanding, Modifier, Provisioner};
        match (code, self) {
            (Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted, _) => {
                Verdict::Uncertain
            }
            (Code::ResourceExhausted, Provisioner) => Verdict::Final,
            (Code::ResourceExhausted, _) => Verdict::Uncertain,
            (Code::InvalidArgument, Provisioner | Expander | Modifier | KubeletExpanding)
            | (Code::OutOfRange | Code::NotFound, Expander | KubeletExpanding) => Verdict::Infeasible,
            _ => Verdict::Final,
        }
    }
}

/// Failures of one object, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    latest: Option<(&'static str, Code)>,
    alike: u32,
}

impl Failures {
    /// Notes one more, and says why nobody goes on, if that is so.
    pub(super) fn note(&mut self, failure: &Failure, verdict: Verdict) -> Option<String> {
        let this = Some((failure.method, failure.code));
        self.alike = if self.latest == this { self.alike + 1 } else { 1 };
        self.latest = this;
        match verdict {
            Verdict::Infeasible => Some(failure.to_string()),
            Verdict::Final if self.alike >= FAILURES_BELIEVED => {
                Some(format!("{failure}, {} times in a row", self.alike))
            }
            Verdict::Final | Verdict::Uncertain => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: Code) -> Failure {
        Failure { method: "CreateVolume", code, message: "no".to_owned() }
    }

    #[test]
    fn codes_mean_what_the_components_take_them_for() {
        use Caller::{Attacher, Expander, Kubelet, KubeletExpanding, Modifier, Provisioner, Snapshotter};
        let all = [Provisioner, Attacher, Expander, Modifier, Snapshotter, Kubelet, KubeletExpanding];
        for code in [Code::Cancelled, Code::DeadlineExceeded, Code::Unavailable, Code::Aborted] {
            assert!(all.iter().all(|caller| caller.judges(code) == Verdict::Uncertain), "{code:?}");
        }
        assert_eq!(Provisioner.judges(Code::ResourceExhausted), Verdict::Final);
        assert_eq!(Kubelet.judges(Code::ResourceExhausted), Verdict::Uncertain);
        assert_eq!(Provisioner.judges(Code::InvalidArgument), Verdict::Infeasible);
        assert_eq!(Snapshotter.judges(Code::InvalidArgument), Verdict::Final);
        assert_eq!(Provisioner.judges(Code::OutOfRange), Verdict::Final);
        assert_eq!(Expander.judges(Code::OutOfRange), Verdict::Infeasible);
        assert_eq!(Modifier.judges(Code::NotFound), Verdict::Final);
        assert_eq!(KubeletExpanding.judges(Code::NotFound), Verdict::Infeasible);
    }

    #[test]
    fn a_driver_that_says_no_four_times_is_believed() {
        let mut failures = Failures::default();
        for _ in 0..3 {
            assert_eq!(failures.note(&failure(Code::Internal), Verdict::Final), None);
        }
        assert_eq!(
            failures.note(&failure(Code::Unknown), Verdict::Final),
            None,
            "another answer counts anew"
        );
        for _ in 0..20 {
            assert_eq!(failures.note(&failure(Code::Aborted), Verdict::Uncertain), None);
        }
        let why = failures.note(&failure(Code::InvalidArgument), Verdict::Infeasible).unwrap();
        assert!(why.contains("CreateVolume") && why.contains("INVALID_ARGUMENT"), "{why}");
    }
}
