//! Selects the calls of a check that explain a finding: the accused one, and those about the objects of that one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::answer::{Answer, NoAnswer};
use crate::client::record::CallRecord;
use crate::protocol::rpc::Facts;
use crate::spec::requirements::{Requirement, req};
use crate::spec::verdict::{Damage, Violation};

/// Fields whose values name what a call is about. Nodes are left out, since nearly every call speaks of one.
const NAMING_FIELDS: [&str; 12] = [
    "base_snapshot_id",
    "group_snapshot_id",
    "name",
    "snapshot_id",
    "snapshot_ids",
    "source_volume_id",
    "source_volume_ids",
    "staging_target_path",
    "target_path",
    "target_snapshot_id",
    "volume_id",
    "volume_path",
];
/// Shorter names stand in texts by chance.
const NAME_IN_TEXT_BYTES_MIN: usize = 4;
/// The number of steps by which objects are followed to what was made from them: a volume, its snapshot, the copy of
/// that.
const GENERATIONS_MAX: usize = 3;

/// The calls that a finding is about, by their places.
#[derive(Debug)]
pub(super) struct Relevant {
    /// The call that the driver is accused for, as far as that can be known.
    pub(super) accused: usize,
    /// The reason why it is that call.
    pub(super) because: Because,
    /// Several calls that were under way when the connection broke, any of which may be at fault. Empty if it is known which one is.
    pub(super) suspects: Vec<usize>,
    /// The accused call and all calls about its objects, in order.
    pub(super) places: Vec<usize>,
}

/// The reason why a call is taken to be the accused one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// The way it ended is wrong, so later calls explain nothing.
    ItsEnd,
    /// The finding or the rule is about its RPC.
    ItsRpc,
    /// It is the last one: which call it is, is not known.
    Last,
}

/// Finds the calls that a finding is about.
pub(super) fn relevant(
    calls: &[&CallRecord],
    rule: Option<&Requirement>,
    violation: Option<&Violation>,
) -> Relevant {
    let suspects = violation.map(|violation| unanswered(calls, violation)).unwrap_or_default();
    let ended = suspects.last().copied().or_else(|| rejected(calls, violation?));
    let of_rpc = || of_rpc(calls, rule, violation);
    let (accused, because) = match ended.map(|at| (at, Because::ItsEnd)) {
        Some(ended) => ended,
        None => of_rpc().map_or((calls.len().saturating_sub(1), Because::Last), |at| (at, Because::ItsRpc)),
    };
    let suspects = if suspects.len() > 1 { suspects } else { Vec::new() };
    let named: Vec<BTreeSet<String>> = calls.iter().map(|call| named_in(call)).collect();
    let mut about = calls.get(accused).map(|call| about(call)).unwrap_or_default();
    if let Some(violation) = violation {
        let texts = [&violation.message, &violation.expected, &violation.actual];
        let is_in_violation = |name: &&String| {
            name.len() >= NAME_IN_TEXT_BYTES_MIN && texts.iter().any(|text| text.contains(name.as_str()))
        };
        about.extend(named.iter().flatten().filter(is_in_violation).cloned());
    }
    if about.is_empty() {
        let places = match because == Because::ItsEnd && suspects.is_empty() {
            true => (0..calls.len())
                .filter(|at| *at == accused || is_shown_by(calls[accused], calls[*at]))
                .collect(),
            false => (0..calls.len()).collect(),
        };
        return Relevant { accused, because, suspects, places };
    }
    for _ in 0..GENERATIONS_MAX {
        let made = calls.iter().zip(&named).filter(|(call, _)| makes_something(call));
        let with_them: Vec<String> = made
            .filter(|(_, names)| !names.is_disjoint(&about))
            .flat_map(|(_, names)| names.clone())
            .collect();
        about.extend(with_them);
    }
    let is_relevant = |at: &usize| *at == accused || suspects.contains(at) || !named[*at].is_disjoint(&about);
    let places = (0..calls.len()).filter(is_relevant).collect();
    Relevant { accused, because, suspects, places }
}

/// The calls that may have broken the connection: those that were under way when it broke for the last time, or those of them whose RPC the
/// message names. Calls right after them find no driver. There are none if the violation is about something else.
fn unanswered(calls: &[&CallRecord], violation: &Violation) -> Vec<usize> {
    let is_broken = |call: &CallRecord| matches!(call.outcome, Answer::Unknown(NoAnswer::Broken(_)));
    let begins = |at: &usize| {
        is_broken(calls[*at]) && at.checked_sub(1).is_none_or(|before| !is_broken(calls[before]))
    };
    let is_meant = violation.damage == Some(Damage::Crash)
        || violation.requirement.is_some_and(|rule| rule.id == req::GEN_ERR_001.id);
    let Some(first) = (0..calls.len()).rev().find(begins).filter(|_| is_meant) else { return Vec::new() };
    let broke_after = calls[first].sent_after + calls[first].duration;
    let under_way = (first..calls.len())
        .take_while(|at| is_broken(calls[*at]))
        .filter(|at| *at == first || calls[*at].sent_after < broke_after);
    let under_way: Vec<usize> = under_way.collect();
    let is_named = |at: &usize| {
        let mut words = violation.message.split(|letter: char| !letter.is_alphanumeric());
        words.any(|word| word == calls[*at].rpc.method)
    };
    let named: Vec<usize> = under_way.iter().copied().filter(is_named).collect();
    let suspects = if named.is_empty() { under_way } else { named };
    let first = calls[suspects[0]];
    let is_equal = |at: &usize| calls[*at].rpc == first.rpc && calls[*at].request() == first.request();
    // Several equal calls are as good as one.
    if suspects.iter().all(is_equal) { vec![suspects[0]] } else { suspects }
}

/// The last call of the RPC with which the message begins, that the rule is about, or in whose section it is. A field can be stated in the
/// section of one RPC and be wrong in a call of another one, so that the section only counts if the last call is of that RPC.
fn of_rpc(calls: &[&CallRecord], rule: Option<&Requirement>, violation: Option<&Violation>) -> Option<usize> {
    let first_word = |text: &'static str| text.split(' ').next();
    let message = violation.and_then(|violation| violation.message.split(' ').next());
    let is_last = |method: &&str| calls.last().is_some_and(|call| call.rpc.method == *method);
    let rule = rule.map(|rule| [Some(rule.rpc), first_word(rule.section).filter(is_last)]);
    let methods = std::iter::once(message).chain(rule.into_iter().flatten()).flatten();
    methods.filter_map(|method| calls.iter().rposition(|call| call.rpc.method == method)).next()
}

/// The rejected call whose rejection is what is wrong: the last one that the violation names, or the first one whose answer it quotes.
fn rejected(calls: &[&CallRecord], violation: &Violation) -> Option<usize> {
    if let Some((rpc, code)) = violation.refused.as_deref() {
        let is_named = |call: &&CallRecord| {
            call.rpc == *rpc && matches!(&call.outcome, Answer::Refused(refused) if refused.code == *code)
        };
        return calls.iter().rposition(is_named);
    }
    let is_quoted = |call: &&CallRecord| {
        let Answer::Refused(refused) = &call.outcome else { return false };
        violation.message.starts_with(call.rpc.method) && violation.actual.starts_with(&refused.to_string())
    };
    calls.iter().position(is_quoted)
}

/// Returns true if a call that names no object may have met what the other call has made: lists and the capacity depend on volumes and
/// snapshots, and calls of other services do not.
fn is_shown_by(call: &CallRecord, other: &CallRecord) -> bool {
    let is_shown = Facts::of(other.rpc).is_some_and(Facts::makes_listed);
    is_shown && makes_something(other) && Facts::of(call.rpc).is_some_and(Facts::is_about_all)
}

/// Returns true if the call has made an object that later calls may name.
pub(super) fn makes_something(call: &CallRecord) -> bool {
    Facts::of(call.rpc).is_some_and(|facts| facts.makes().is_some()) && matches!(call.outcome, Answer::Ok(_))
}

/// Returns true if the two calls are about a common object.
pub(crate) fn have_to_do(one: &CallRecord, other: &CallRecord) -> bool {
    !about(one).is_disjoint(&about(other))
}

/// The names of the objects that a call asked for or made. A list is about none of its entries.
fn about(call: &CallRecord) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(&call.request(), &mut names);
    if makes_something(call) {
        names.extend(named_in(call));
    }
    names
}

/// Everything that a call names, in the request and in the response.
fn named_in(call: &CallRecord) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(&call.request(), &mut names);
    if let Answer::Ok(response) = call.outcome() {
        collect(&response, &mut names);
    }
    names
}

fn collect(message: &Value, names: &mut BTreeSet<String>) {
    match message {
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(name) if NAMING_FIELDS.contains(&field.as_str()) => {
                        names.insert(name.clone());
                    }
                    Value::Array(values) if NAMING_FIELDS.contains(&field.as_str()) => {
                        names.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    _ => collect(value, names),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    names.remove("");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use csi_proto::{Call, v1};
    use prost::Message as _;
    use tonic::Code;

    use super::*;
    use crate::client::answer::{Received, Refused};
    use crate::client::record::Message;

    fn broke() -> Answer<Message> {
        Answer::Unknown(NoAnswer::Broken("the connection broke".to_owned()))
    }

    fn call<Q: Call + prost::Name>(request: Q, outcome: Answer<Message>) -> CallRecord {
        CallRecord {
            rpc: Q::RPC,
            sent_after: Duration::ZERO,
            duration: Duration::ZERO,
            cleanup: false,
            node: 0,
            worker: 0,
            endpoint: None,
            request: Message::request(Q::RPC, request.encode_to_vec()),
            outcome,
        }
    }

    fn done<Q: Call>(response: &Q::Response) -> Answer<Message> {
        let received = Received { messages: vec![response.encode_to_vec()], is_whole: true };
        Answer::Ok(Message::response(Q::RPC, &Arc::new(received), false))
    }

    fn created(id: &str, source: Option<&str>) -> CallRecord {
        let request = v1::CreateVolumeRequest {
            name: format!("name-of-{id}"),
            volume_content_source: source.map(v1::VolumeContentSource::volume),
            ..Default::default()
        };
        let volume = Some(v1::Volume { volume_id: id.to_owned(), ..Default::default() });
        call(request, done::<v1::CreateVolumeRequest>(&v1::CreateVolumeResponse { volume }))
    }

    fn unstaged(id: &str, outcome: Answer<Message>) -> CallRecord {
        let request = v1::NodeUnstageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: format!("/staging/{id}"),
        };
        call(request, outcome)
    }

    fn internal() -> Answer<Message> {
        refused("still published")
    }

    fn refused(message: &str) -> Answer<Message> {
        Answer::Refused(Refused { code: Code::Internal, message: message.to_owned(), after_messages: 0 })
    }

    fn refusal() -> Violation {
        let mut violation = Violation::new("must unstage");
        violation.refused = Some(Box::new((v1::NodeUnstageVolumeRequest::RPC, Code::Internal)));
        violation
    }

    fn found(calls: &[CallRecord], rpc: &str, violation: &Violation) -> (usize, Vec<usize>) {
        let calls: Vec<&CallRecord> = calls.iter().collect();
        let rule = req::ALL.iter().copied().find(|rule| rule.rpc == rpc);
        let Relevant { accused, places, .. } = relevant(&calls, rule, Some(violation));
        (accused, places)
    }

    #[test]
    fn a_refused_call_is_shown_with_those_of_its_volume() {
        let calls = [
            created("one", None),
            created("other", None),
            unstaged("one", internal()),
            // The plain form of the call, tried afterwards on a volume of its own.
            created("plain", None),
            unstaged("plain", done::<v1::NodeUnstageVolumeRequest>(&v1::NodeUnstageVolumeResponse {})),
        ];
        assert_eq!(found(&calls, "NodeUnstageVolume", &refusal()), (2, vec![0, 2]));
    }

    #[test]
    fn a_rejection_that_the_finding_quotes_is_the_one_that_is_wrong() {
        let calls = [created("one", None), unstaged("one", internal()), unstaged("other", refused("other"))];
        let quotes = |answer: &str| Violation::new("NodeUnstageVolume with an odd id").actual(answer);
        assert_eq!(found(&calls, "", &quotes("INTERNAL \"still published\"; such codes came from it")).0, 1);
        assert_eq!(found(&calls, "", &quotes("INTERNAL \"other\"")).0, 2);
    }

    #[test]
    fn a_driver_crashes_in_the_call_that_broke_the_connection() {
        let calls = [
            created("one", None),
            unstaged("one", broke()),
            unstaged("one", broke()),
            created("other", None),
        ];
        let crashed = Violation::new("the driver crashed").damage(Damage::Crash);
        assert_eq!(found(&calls, "CreateVolume", &crashed).0, 1);
    }

    #[test]
    fn calls_under_way_when_the_driver_crashes_are_all_suspects() {
        let during = |mut call: CallRecord| {
            (call.sent_after, call.duration) = (Duration::from_millis(1), Duration::from_millis(5));
            call
        };
        let after = |mut call: CallRecord| {
            call.sent_after = Duration::from_millis(7);
            call
        };
        let list = || call(v1::ListVolumesRequest::default(), broke());
        let calls = [created("one", None), during(unstaged("one", broke())), during(list()), after(list())];
        let calls: Vec<&CallRecord> = calls.iter().collect();
        let suspects = |violation: Violation| relevant(&calls, None, Some(&violation)).suspects;
        let crashed = |message: &str| Violation::new(message).damage(Damage::Crash);
        assert_eq!(suspects(crashed("the driver crashed")), [1, 2]);
        let lists = crashed("ListVolumes crashes the driver");
        assert_eq!(relevant(&calls, None, Some(&lists)).accused, 2);
        assert!(suspects(lists).is_empty(), "the message says which call it was");
        let lives = Violation::new("a call ends without a status").of(&req::GEN_ERR_001);
        assert_eq!(suspects(lives), [1, 2]);
        assert!(suspects(Violation::new("a list lacks a volume")).is_empty());
    }

    #[test]
    fn a_finding_is_about_the_rpc_with_which_it_begins() {
        let calls = [created("one", None), unstaged("one", internal()), created("other", None)];
        let lists = Violation::new("NodeUnstageVolume leaves the mount");
        assert_eq!(found(&calls, "CreateVolume", &lists).0, 1);
        assert_eq!(found(&calls, "CreateVolume", &Violation::new("a volume has no id")).0, 2);
        // The rules of messages are in the sections of RPCs.
        assert_eq!(found(&calls, "Volume", &Violation::new("it has no id")).0, 2);
    }

    #[test]
    fn what_a_copy_was_made_from_belongs_to_it() {
        let calls = [
            created("one", None),
            created("other", None),
            created("copy", Some("one")),
            created("copy-of-it", Some("copy")),
            unstaged("copy-of-it", internal()),
        ];
        assert_eq!(found(&calls, "NodeUnstageVolume", &refusal()), (4, vec![0, 2, 3, 4]));
    }

    #[test]
    fn a_list_that_crashes_the_driver_needs_what_was_in_it() {
        let crash = |call_that_crashes: CallRecord| {
            let calls = [created("one", None), unstaged("one", internal()), call_that_crashes];
            found(&calls, "", &Violation::new("the driver crashed").damage(Damage::Crash)).1
        };
        assert_eq!(crash(call(v1::ListVolumesRequest::default(), broke())), [0, 2]);
        assert_eq!(crash(call(v1::ProbeRequest {}, broke())), [2]);
    }

    #[test]
    fn what_the_text_names_is_relevant_to_a_list() {
        let list = || {
            let entry = |id: &str| v1::list_volumes_response::Entry {
                volume: Some(v1::Volume { volume_id: id.to_owned(), ..Default::default() }),
                status: None,
            };
            let entries = ["one", "of-another"].map(entry).into();
            let listed = v1::ListVolumesResponse { entries, next_token: String::new() };
            call(v1::ListVolumesRequest::default(), done::<v1::ListVolumesRequest>(&listed))
        };
        let calls = [created("volume-1", None), created("volume-2", None), list()];
        let lacks = Violation::new("ListVolumes does not list volume-2");
        assert_eq!(found(&calls, "ListVolumes", &lacks), (2, vec![1, 2]));
        // If no object is named, all calls are relevant.
        assert_eq!(found(&calls, "ListVolumes", &Violation::new("wrong")), (2, vec![0, 1, 2]));
    }
}
