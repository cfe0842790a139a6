//! A call that is made until it is done, as sidecars make it.

use csi_harness::client::answer::NoAnswer;
use csi_harness::driver::{CallFault, SystemCall};
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_nemesis::watched_driver::WatchedDriver;
use csi_ops::operation::{Operation, Request, Response};
use csi_proto::lock::Mutex;
use rustix::io::Errno;

/// The largest number of changes that fail in one call, one after the other, with a call for each.
const FAILED_MAX: u32 = 12;
/// The first changes fail for want of space, the other ones like a broken device.
const FULL_MAX: u32 = 4;

/// Makes a call during which the first change of files or mounts fails, then one during which the second change fails, and so on, until one is
/// answered with OK. Returns that answer, and the number of calls before it.
pub(crate) async fn fail_in_turn(
    cx: &Cx,
    driver: &WatchedDriver<'_>,
    request: &Request,
) -> (Option<Response>, u32) {
    for nth in 1..=FAILED_MAX {
        let (errno, failure) = match nth <= FULL_MAX {
            true => (Errno::NOSPC, "as on a full disk (ENOSPC)"),
            false => (Errno::IO, "as on a broken disk (EIO)"),
        };
        driver.arm(nth, CallFault::Fails(errno.raw_os_error()));
        let reply = request.send(cx).once().await;
        if let Some(SystemCall { name, path }) = driver.broken() {
            cx.happened(format!("this check made {name} of {} fail in that call, {failure}", path.display()));
        }
        driver.heal();
        if let Answer::Ok(response) = reply.answer() {
            return (Some(response.clone()), nth - 1);
        }
    }
    (None, FAILED_MAX)
}

/// The end of a call that was made again and again.
pub(crate) enum Insisted {
    Done(Response),
    /// It was rejected with a code on which it is not made again.
    Rejected(Refused),
    /// It was still not done after `time-limits: settle-ms`; the last answer in words.
    NotDone(String),
}

/// Makes a call until it is done, or rejected with a code that does not pass.
///
/// # Errors
/// Broken if the connection breaks.
pub(crate) async fn insist(
    cx: &Cx,
    operation: Operation,
    request: &Request,
    may_pass: fn(Code) -> bool,
) -> CheckResult<Insisted> {
    let last = Mutex::new(String::new());
    let answered = cx.eventually(Settles::Healed(operation.rpc().method), || async {
        let reply = request.send(cx).once().await;
        match reply.answer() {
            Answer::Ok(response) => return Ok(Some(Insisted::Done(response.clone()))),
            Answer::Refused(refused) if !may_pass(refused.code) => {
                return Ok(Some(Insisted::Rejected(refused.clone())));
            }
            Answer::Refused(refused) => *last.lock() = refused.to_string(),
            Answer::Unknown(silent @ (NoAnswer::Timeout(_) | NoAnswer::GivenUp(_))) => {
                *last.lock() = silent.to_string();
            }
            Answer::Unknown(_) => drop(reply.any_answer()?),
        }
        Ok(None)
    });
    let answered = answered.await?;
    Ok(answered.unwrap_or_else(|| Insisted::NotDone(last.lock().clone())))
}

/// Attaches or detaches, as external-attacher does until the answer is OK. The situation reads after "does not succeed".
///
/// # Errors
/// A violation of the rule if that does not come; skip if a node is full.
pub(crate) async fn until_done(
    cx: &Cx,
    operation: Operation,
    request: &Request,
    rule: &'static Requirement,
    situation: &str,
) -> CheckResult<Response> {
    let answer = match insist(cx, operation, request, |code| code != Code::ResourceExhausted).await? {
        Insisted::Done(response) => return Ok(response),
        Insisted::Rejected(_) => return Err(Stop::skip("the node has no room for another volume")),
        Insisted::NotDone(answer) => answer,
    };
    Err(Violation::new(format!("{} does not succeed {situation}", operation.rpc().method))
        .of(rule)
        .expected("OK, once the call has been repeated")
        .actual(answer)
        .into())
}
