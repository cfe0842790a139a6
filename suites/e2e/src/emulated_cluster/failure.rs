//! Judges failed calls as each component of Kubernetes does, and decides when the emulated components give up.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use csi_harness::client::answer::NoAnswer;
use csi_harness::prelude::{Answer, Reply};
use csi_proto::code_name;
use csi_proto::lock::Mutex;
use tokio::time::Instant;
use tonic::Code;

/// The time for which an RPC has to fail in every call before it is considered permanent. It is longer than a test
/// waits for one step. The real components never give up.
const BELIEVED_AFTER: Duration = Duration::from_secs(10 * 60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    method: &'static str,
    pub(super) code: Code,
    message: String,
}

impl Failure {
    /// Returns the response or the failure. A call without an answer counts as its deadline or connection would in a
    /// client.
    fn or<T: Clone>(reply: &Reply<T>) -> Result<T, Failure> {
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

    /// Makes a failure of an invalid answer whose code was OK.
    pub(super) fn of_answer(method: &'static str, message: impl Into<String>) -> Failure {
        Failure { method, code: Code::Internal, message: message.into() }
    }

    /// Returns whether the driver rejected an attachment because its node is full.
    pub(super) fn is_full_node(&self) -> bool {
        self.method == "ControllerPublishVolume" && self.code == Code::ResourceExhausted
    }

    /// Makes a failure of the node, which prevented the call.
    pub(super) fn of_node(message: impl Into<String>) -> Failure {
        Failure { method: "preparing the call", code: Code::Internal, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {} {:?}", self.method, code_name(self.code), self.message)
    }
}

/// A component's judgement of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The driver may still be working, so the same call follows.
    Uncertain,
    /// The driver is not working on it. The call is still repeated.
    Final,
    /// The request cannot succeed: the next attempt is minutes away.
    Infeasible,
}

/// The calling component.
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
    /// Judges a code.
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

/// The RPCs that fail in every call of a run, with the time and number of their failures, so that only the first
/// tests wait for a success that never comes.
#[derive(Debug, Default)]
pub struct Streaks(Mutex<BTreeMap<&'static str, (Instant, u32)>>);

impl Streaks {
    /// Returns the response or the failure, and records it.
    pub(super) fn heard<T: Clone>(&self, reply: &Reply<T>) -> Result<T, Failure> {
        let heard = Failure::or(reply);
        self.note(reply.rpc().method, heard.is_ok());
        heard
    }

    fn note(&self, method: &'static str, is_ok: bool) {
        let mut streaks = self.0.lock();
        if is_ok {
            streaks.remove(method);
        } else {
            let (_, times) = streaks.entry(method).or_insert_with(|| (Instant::now(), 0));
            *times = times.saturating_add(1);
        }
    }

    /// Returns the reason if the component gives up after a failure.
    pub(super) fn gives_up(&self, failure: &Failure, caller: Caller) -> Option<String> {
        if caller.judges(failure.code) == Verdict::Infeasible {
            return Some(failure.to_string());
        }
        let streaks = self.0.lock();
        let (since, times) = streaks.get(failure.method)?;
        let failing = since.elapsed();
        (failing >= BELIEVED_AFTER)
            .then(|| format!("{failure}, as each of {times} calls for {} s", failing.as_secs()))
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

    #[tokio::test(start_paused = true)]
    async fn an_rpc_that_keeps_failing_ends_the_wait() {
        let (streaks, no) = (Streaks::default(), failure(Code::Internal));
        let fails_for = async |limit: Duration| {
            let until = Instant::now() + limit;
            while Instant::now() < until {
                streaks.note("CreateVolume", false);
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            streaks.gives_up(&no, Caller::Provisioner)
        };
        assert_eq!(fails_for(BELIEVED_AFTER / 2).await, None);
        streaks.note("CreateVolume", true);
        assert_eq!(fails_for(BELIEVED_AFTER / 2).await, None, "it has worked in between");
        let why = fails_for(BELIEVED_AFTER).await.unwrap();
        assert!(why.contains("CreateVolume failed: INTERNAL") && why.contains(" calls for "), "{why}");
        let other = Failure { method: "DeleteVolume", ..failure(Code::Internal) };
        assert_eq!(streaks.gives_up(&other, Caller::Provisioner), None);
        let infeasible = streaks.gives_up(&failure(Code::InvalidArgument), Caller::Provisioner).unwrap();
        assert!(infeasible.contains("INVALID_ARGUMENT"), "{infeasible}");
    }
}
