//! Stage 5: which call the driver died of. A check one of whose calls ended without a gRPC status is held against the driver.

use std::time::Duration;

use crate::client::answer::{Answer, NoAnswer};
use crate::client::record::CallRecord;
use crate::results::failure_report::{self, have_to_do};
use crate::spec::faults::FaultKey;
use crate::spec::requirements::req;
use crate::spec::verdict::{Damage, Violation};

/// Calls that a violation shows at most, of those that the driver may have died of.
const CALLS_SHOWN_MAX: usize = 4;

/// A driver works on a call for this long after its caller has given it up, as a rule at most.
const STILL_AT_WORK: Duration = Duration::from_secs(5);

/// The call that the driver may have died of: the first one that broke off, since later ones met a dead driver; or the last one that took
/// too long.
pub(crate) fn fatal_call(calls: &[CallRecord]) -> Option<&CallRecord> {
    let broke = |call: &&CallRecord| matches!(call.outcome, Answer::Unknown(NoAnswer::Broken(_)));
    let late = |call: &&CallRecord| matches!(call.outcome, Answer::Unknown(NoAnswer::Timeout(_)));
    let unanswered = calls.iter().find(broke).or_else(|| calls.iter().rev().find(late));
    unanswered.or_else(|| calls.iter().rev().find(|call| !call.cleanup))
}

/// The violation of a check one of whose calls ended without a gRPC status: the driver died of it, or lives on and
/// breaks the connection each time. If several calls were in progress, it names all of them.
pub(crate) fn killed(calls: &[CallRecord], alive: bool) -> Violation {
    let fatal = fatal_call(calls);
    let let_go = fatal.map_or_else(Vec::new, |call| given_up_before(call, calls));
    let mut calls = fatal.map_or_else(Vec::new, |call| under_way_with(call, calls));
    let rpcs = methods(&calls);
    let mut call = match &rpcs[..] {
        [] => "a call".to_owned(),
        [one] => (*one).to_owned(),
        several => format!("one of {}, which were under way at the same time", several.join(", ")),
    };
    let others: Vec<&str> = methods(&let_go).into_iter().filter(|rpc| !rpcs.contains(rpc)).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        call = format!("{call}, or one of the calls given up before it that may still run: {others}");
    }
    calls.extend(let_go);
    let message = match alive {
        true => format!("the driver keeps running, but {call} ends without a gRPC status"),
        false => format!("the driver crashed on {call}"),
    };
    let lines: Vec<String> = calls.into_iter().take(CALLS_SHOWN_MAX).map(failure_report::call_line).collect();
    let violation = cut_off(message).actual(lines.join("\n      "));
    if alive { violation } else { violation.damage(Damage::Crash) }
}

/// The fault that a trace shows: two calls that panic at one place of the driver's own code are one fault.
pub(crate) fn panic_at_one_place(printed: &[String]) -> Option<FaultKey> {
    let place = rust_place(printed).or_else(|| go_place(printed)).map(str::to_owned);
    let place = place.or_else(|| printed.iter().find_map(|line| place_of_fatal_log(line)))?;
    Some(FaultKey { rule: req::GEN_ERR_001.id, what: format!("the driver dies at {place}") })
}

fn rust_place(printed: &[String]) -> Option<&str> {
    let place = printed.iter().find_map(|line| line.split_once("panicked at ")).map(|(_, place)| place)?;
    let place = place.trim_end().strip_suffix(':')?;
    (!place.contains(' ') && !place.is_empty()).then_some(place)
}

/// The place in the first frame that does not belong to Go's runtime or to a library. A library can panic for many reasons.
fn go_place(printed: &[String]) -> Option<&str> {
    let frames = printed.iter().skip_while(|line| !line.starts_with("goroutine ")).skip(1);
    let mut places =
        frames.filter(|line| line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    places.find(|place| {
        let line = place.split_once(".go:").map(|(_, line)| line);
        let is_foreign = ["/runtime/", "/vendor/", "/pkg/mod/"].iter().any(|part| place.contains(part));
        line.is_some_and(|line| line.parse::<u32>().is_ok()) && !is_foreign
    })
}

/// The place from which a library for logs was asked to end the process, as zap writes it in JSON.
fn place_of_fatal_log(line: &str) -> Option<String> {
    let entry: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_fatal = entry.get("level")?.as_str()?.eq_ignore_ascii_case("fatal");
    entry.get("caller")?.as_str().filter(|_| is_fatal).map(str::to_owned)
}

fn methods(calls: &[&CallRecord]) -> Vec<&'static str> {
    let mut rpcs: Vec<&str> = calls.iter().map(|call| call.rpc.method).collect();
    rpcs.sort_unstable();
    rpcs.dedup();
    rpcs
}

/// Calls that the check had given up before this one ended, the last one first: those about its objects, and those that were given up just
/// before. The driver may have died of one of them.
fn given_up_before<'a>(fatal: &CallRecord, calls: &'a [CallRecord]) -> Vec<&'a CallRecord> {
    let end = fatal.sent_after + fatal.duration;
    let is_let_go = |call: &&CallRecord| {
        matches!(call.outcome, Answer::Unknown(NoAnswer::Cancelled(_)))
            && call.sent_after < end
            && (have_to_do(call, fatal)
                || end.saturating_sub(call.sent_after + call.duration) < STILL_AT_WORK)
    };
    calls.iter().rev().filter(is_let_go).collect()
}

/// This call, and the others that broke off and were sent before it ended. The driver may still work on a call that its
/// caller gave up.
fn under_way_with<'a>(fatal: &'a CallRecord, calls: &'a [CallRecord]) -> Vec<&'a CallRecord> {
    let end = fatal.sent_after + fatal.duration;
    let may_go_on = |call: &CallRecord| {
        use NoAnswer::{Broken, DisconnectedByTest, Timeout};
        matches!(call.outcome, Answer::Unknown(Broken(_) | DisconnectedByTest | Timeout(_)))
    };
    let others = calls.iter().filter(|call| !std::ptr::eq(*call, fatal));
    std::iter::once(fatal).chain(others.filter(|call| may_go_on(call) && call.sent_after < end)).collect()
}

/// The violation of checks that were in progress when the driver died. Either none of them kills it alone, or they could not be tried alone.
pub(crate) fn killed_by_one_of(under_way: &[String], were_tried_alone: bool) -> Violation {
    let which = match were_tried_alone {
        true => "none of them crashes it alone",
        false => "it is not known which of them crashed it",
    };
    let message = format!("the driver crashed while several calls were under way; {which}");
    cut_off(message).actual(under_way.join("; ")).damage(Damage::Crash)
}

fn cut_off(message: String) -> Violation {
    Violation::new(message)
        .of(&req::GEN_ERR_001)
        .expected("an answer to any request, and a driver that keeps serving")
}

#[cfg(test)]
mod tests {
    use csi_proto::{Call as _, v1};
    use prost::Message as _;

    use super::*;
    use crate::client::record::Message;

    fn call(sent_ms: u64, duration_ms: u64, outcome: Answer<Message>) -> CallRecord {
        CallRecord {
            endpoint: None,
            rpc: v1::ProbeRequest::RPC,
            sent_after: Duration::from_millis(sent_ms),
            duration: Duration::from_millis(duration_ms),
            cleanup: false,
            node: 0,
            worker: 0,
            request: Message::request(v1::ProbeRequest::RPC, Vec::new()),
            outcome,
        }
    }

    #[test]
    fn a_trace_names_a_place_of_the_driver() {
        let place = |printed: &str| {
            let printed: Vec<String> = printed.lines().map(|line| line.replace('\t', "    ")).collect();
            panic_at_one_place(&printed).map(|fault| fault.what)
        };
        let go = "panic: runtime error: invalid memory address or nil pointer dereference [recovered]\n\
            [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x1]\n\
            goroutine 41 [running]:\n\
            panic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:770 +0x132\n\
            google.golang.org/protobuf.get(...)\n\t/src/vendor/google.golang.org/protobuf/get.go:3\n\
            example.com/csi/driver.(*node).stage(0x0, {0x1, 0x2})\n\t/src/driver/node.go:88 +0x1a5\n\
            main.main()\n\t/src/main.go:9 +0x1";
        assert_eq!(place(go).as_deref(), Some("the driver dies at /src/driver/node.go:88"));
        let library = "panic: boom\ngoroutine 1 [running]:\nk8s.io/mount.do()\n\t/root/go/pkg/mod/k8s.io/mount/do.go:1 +0x1";
        assert_eq!(place(library), None);
        let rust = "thread 'main' (7) panicked at src/node.rs:12:5:\nattempt to divide by zero";
        assert_eq!(place(rust).as_deref(), Some("the driver dies at src/node.rs:12:5"));
        let fatal = r#"{"level":"fatal","ts":1.5,"caller":"csi-util/utils.go:351","msg":"mkdir"}"#;
        assert_eq!(place(fatal).as_deref(), Some("the driver dies at csi-util/utils.go:351"));
        assert_eq!(place(&fatal.replace("fatal", "info")), None);
        assert_eq!(place("the driver panicked at night"), None);
        assert_eq!(place("goroutine is not a trace\n  main.go: a word"), None);
        assert_eq!(place(""), None);
    }

    #[test]
    fn no_single_one_of_concurrent_calls_is_called_fatal() {
        let broke = || Answer::Unknown(NoAnswer::Broken("it broke".to_owned()));
        let late = || Answer::Unknown(NoAnswer::Timeout(Duration::ZERO));
        let calls = [
            call(0, 5, late()),
            call(1, 9, broke()),
            call(8, 2, broke()),
            call(10, 1, broke()),
            call(11, 1, broke()),
            call(12, 5, late()),
        ];
        let sent = |fatal: usize| -> Vec<u128> {
            under_way_with(&calls[fatal], &calls).iter().map(|call| call.sent_after.as_millis()).collect()
        };
        let named = |rpc, method: &str, sent_ms, outcome| CallRecord {
            rpc,
            request: Message::request(
                v1::NodeUnpublishVolumeRequest::RPC,
                v1::NodeUnpublishVolumeRequest { volume_id: method.to_owned(), ..Default::default() }
                    .encode_to_vec(),
            ),
            ..call(sent_ms, 1, outcome)
        };
        let let_go = || Answer::Unknown(NoAnswer::Cancelled(Duration::from_millis(1)));
        let (publish, delete) = (v1::NodePublishVolumeRequest::RPC, v1::DeleteVolumeRequest::RPC);
        let given_up = [
            named(publish, "other", 0, let_go()),
            named(publish, "one", 1, let_go()),
            named(publish, "other", 19_000, let_go()),
            named(delete, "one", 20_003, broke()),
            named(publish, "one", 20_009, let_go()),
        ];
        let before: Vec<u128> =
            given_up_before(&given_up[3], &given_up).iter().map(|call| call.sent_after.as_millis()).collect();
        assert_eq!(before, [19_000, 1], "just before its end, and those of its volume");
        let why = "what was given up may go on, and those that found nobody there are not among them";
        assert_eq!(sent(1), [1, 0, 8], "{why}");
    }
}
