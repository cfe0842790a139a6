//! The steps of a script, in any language: the shortest way to the fault that the report has.

use std::collections::BTreeSet;
use std::path::Path;

use csi_harness::protocol::rpc::Facts;
use csi_harness::spec::verdict::{Damage, ReproductionStep};
use csi_proto::hidden::STRIPPED;
use csi_proto::reflect::response_of;
use csi_proto::{Endpoint, RPCS, Rpc, code_name, code_named};
use csi_report::{CallEntry, CheckEntry, TargetEntry};
use csi_suite_stateful::case::Case;
use serde_json::Value;

use super::one_line;

/// Equal questions in a row after which the driver is taken to have been polled.
const POLLS_MIN: usize = 3;

/// Repetitions of a call that a script makes. A driver that repeats a mistake shows it by then.
const REPETITIONS_MAX: usize = 4;

/// A script before it is written in a language.
pub(super) struct Script {
    /// The label of the check.
    pub(super) check: String,
    /// The endpoint of the driver in the run, if others can call it.
    pub(super) driver: Option<String>,
    /// The endpoint of the driver's controller services, if it is another one.
    pub(super) controller: Option<String>,
    /// Lines for the head: what is wrong, and what has to be done before.
    heading: Vec<String>,
    /// Secrets are left out of the requests.
    has_secrets: bool,
    pub(super) steps: Vec<Step>,
    pub(super) expected: String,
    pub(super) verdict: Verdict,
}

pub(super) enum Step {
    Call(Call),
    /// Something that a script cannot do.
    ByHand(String),
}

pub(super) struct Call {
    pub(super) rpc: Rpc,
    pub(super) request: Value,
    /// The answer in the run, in a few words.
    pub(super) answer: String,
    /// The ids that the answer gives for the first time.
    pub(super) given: Vec<Given>,
    /// The number of the call whose answer has the `publish_context` of this request. A driver gives another one each time.
    pub(super) context_of: Option<usize>,
    /// The call comes before the one that breaks the rule, and succeeded.
    pub(super) must_succeed: bool,
    /// The call that undoes it where it succeeds.
    pub(super) undo: Option<&'static Undo>,
    /// The time after which the caller gives the call up, in microseconds.
    pub(super) given_up_after_us: Option<u64>,
    pub(super) response: Value,
    code: String,
    is_accused: bool,
}

/// An id that an answer gives.
pub(super) struct Given {
    pub(super) place: Place,
    pub(super) id: String,
}

/// The place of an id in a response.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Object([&'static str; 2]),
    /// The snapshot of this number in a group snapshot.
    Member(usize),
}

/// The demand on the answer to the call that breaks the rule.
pub(super) enum Verdict {
    /// One of these codes, or, where none is known, another one than those.
    Code { right: Vec<&'static str>, wrong: Vec<&'static str> },
    /// This value at a place of the response.
    Value { path: Vec<String>, value: Value },
    /// Another response than this one.
    OtherResponse(Value),
    /// Only a person can say; the sentence names what to look at.
    ByEye(String),
}

/// The call that undoes one that succeeded.
pub(super) struct Undo {
    of: &'static str,
    pub(super) by: &'static str,
    /// Its fields, and where their values are.
    pub(super) fields: &'static [(&'static str, Source)],
}

pub(super) enum Source {
    Response([&'static str; 2]),
    Request,
    /// The ids of the snapshots of a group.
    Members,
}

/// The places of ids in responses. A driver gives other ids each time.
const GIVEN: [[&str; 2]; 3] = [VOLUME, SNAPSHOT, GROUP];
const VOLUME: [&str; 2] = ["volume", "volume_id"];
const SNAPSHOT: [&str; 2] = ["snapshot", "snapshot_id"];
const GROUP: [&str; 2] = ["group_snapshot", "group_snapshot_id"];
const MEMBERS: [&str; 2] = ["group_snapshot", "snapshots"];

const UNDO: [Undo; 6] = [
    Undo {
        of: "CreateVolume",
        by: "DeleteVolume",
        fields: &[("volume_id", Source::Response(VOLUME)), ("secrets", Source::Request)],
    },
    Undo {
        of: "CreateSnapshot",
        by: "DeleteSnapshot",
        fields: &[("snapshot_id", Source::Response(SNAPSHOT)), ("secrets", Source::Request)],
    },
    Undo {
        of: "CreateVolumeGroupSnapshot",
        by: "DeleteVolumeGroupSnapshot",
        fields: &[
            ("group_snapshot_id", Source::Response(GROUP)),
            ("snapshot_ids", Source::Members),
            ("secrets", Source::Request),
        ],
    },
    Undo {
        of: "ControllerPublishVolume",
        by: "ControllerUnpublishVolume",
        fields: &[("volume_id", Source::Request), ("node_id", Source::Request), ("secrets", Source::Request)],
    },
    Undo {
        of: "NodeStageVolume",
        by: "NodeUnstageVolume",
        fields: &[("volume_id", Source::Request), ("staging_target_path", Source::Request)],
    },
    Undo {
        of: "NodePublishVolume",
        by: "NodeUnpublishVolume",
        fields: &[("volume_id", Source::Request), ("target_path", Source::Request)],
    },
];

impl Call {
    /// The name of its service, such as `Controller`.
    pub(super) fn service(&self) -> &'static str {
        let path = self.rpc.path.trim_start_matches('/').split('/').next().unwrap_or_default();
        path.rsplit('.').next().unwrap_or_default()
    }

    /// The directory that has to be there before the call, where the script shares the driver's file system.
    pub(super) fn directory(&self) -> Option<&str> {
        let path = |field: &str| self.request.get(field).and_then(Value::as_str);
        let directory = match self.rpc.method {
            "NodeStageVolume" => path("staging_target_path"),
            "NodePublishVolume" => {
                path("target_path").and_then(|path| Path::new(path).parent()).and_then(Path::to_str)
            }
            _ => None,
        };
        directory.filter(|directory| directory.starts_with('/') && !directory.contains(char::is_control))
    }

    /// Returns true if the call goes to the endpoint of the controller services, where that is another one.
    pub(super) fn is_for_controller(&self) -> bool {
        is_of_controller(self.service())
    }

    fn new(rpc: Rpc, request: &Value, code: &str, message: &str, response: &Value) -> Call {
        Call {
            rpc,
            request: request.clone(),
            answer: format!("{code} {message}").trim_end().to_owned(),
            given: Vec::new(),
            context_of: None,
            must_succeed: false,
            undo: UNDO.iter().find(|undo| undo.of == rpc.method),
            given_up_after_us: None,
            response: response.as_array().map_or(response, |all| all.first().unwrap_or(&Value::Null)).clone(),
            code: code.to_owned(),
            is_accused: false,
        }
    }

    fn asks(&self) -> bool {
        Facts::of(self.rpc).is_some_and(|facts| !facts.changes())
    }

    fn repeats(&self, other: &Call) -> bool {
        (self.rpc, &self.request, &self.code, &self.response)
            == (other.rpc, &other.request, &other.code, &other.response)
    }

    fn ids(&self) -> impl Iterator<Item = Given> + '_ {
        let objects = GIVEN.into_iter().map(|path| (Place::Object(path), at(&self.response, &path)));
        let members = at(&self.response, &MEMBERS).and_then(Value::as_array).into_iter().flatten();
        let members =
            members.enumerate().map(|(nth, member)| (Place::Member(nth), member.get("snapshot_id")));
        objects.chain(members).filter_map(|(place, id)| Some(Given { place, id: id?.as_str()?.to_owned() }))
    }
}

/// Returns true if a service is at the endpoint of the controller services.
pub(super) fn is_of_controller(service: &str) -> bool {
    !matches!(service, "Identity" | "Node")
}

impl Script {
    pub(super) fn of(check: &CheckEntry) -> Script {
        let mut steps = match check.reproduction.is_empty() {
            true => of_calls(check),
            false => of_reproduction(&check.reproduction),
        };
        // A reproduction has the fault in its place.
        if let Some(fault) = check.injected.as_ref().filter(|_| check.reproduction.is_empty()) {
            let at = steps.iter().position(is_accused).unwrap_or(0);
            steps.insert(at, Step::ByHand(format!("while the next call is made: {fault}")));
        }
        let polls = fold_polls(&mut steps);
        let fault = Fault {
            check: &check.id,
            is_of_data: is_of_data(&check.id) || check.damage == Some(Damage::DataLoss),
            requirement: check.requirements.first().map(String::as_str),
            message: &check.message,
            expected: &check.expected,
            actual: &check.actual,
        };
        let (known, mut script) = Script::with(fault, steps);
        script.heading.extend(remarks(check, &script.steps, &known, polls));
        script
    }

    /// The script for the driver of a run, unless only csi-sanity itself could call that.
    pub(super) fn on(self, target: &TargetEntry) -> Script {
        let is_open = |endpoint: &&String| endpoint.parse::<Endpoint>().is_ok();
        let driver = Some(&target.endpoint).filter(is_open).cloned();
        let controller = target.controller_endpoint.as_ref().filter(is_open).cloned();
        Script { driver, controller, ..self }
    }

    /// The calls of a stored case. The last one breaks the rule.
    pub(super) fn of_case(case: &Case) -> Script {
        let breach = &case.breach;
        let fault = Fault {
            check: &case.check,
            is_of_data: is_of_data(&case.check),
            requirement: Some(&breach.requirement),
            message: &breach.message,
            expected: &breach.expected,
            actual: &breach.actual,
        };
        let (_, mut script) = Script::with(fault, of_reproduction(&case.reproduction()));
        script.heading.extend(case.is_concurrent().then(|| AT_THE_SAME_TIME.to_owned()));
        script
    }

    /// A script with the ids that its calls are given for the first time.
    fn with(fault: Fault<'_>, mut steps: Vec<Step>) -> (BTreeSet<String>, Script) {
        let mut known = BTreeSet::new();
        for call in calls_mut(&mut steps) {
            call.given = call.ids().filter(|given| known.insert(given.id.clone())).collect();
        }
        let mut contexts: Vec<(usize, Value)> = Vec::new();
        for (number, call) in (1..).zip(calls_mut(&mut steps)) {
            let context = call.request.get("publish_context");
            call.context_of = context
                .and_then(|context| contexts.iter().rev().find(|(_, one)| one == context))
                .map(|one| one.0);
            contexts.extend(call.response.get("publish_context").map(|context| (number, context.clone())));
        }
        calls_mut(&mut steps)
            .take_while(|call| !call.is_accused)
            .for_each(|call| call.must_succeed = call.code == "OK");
        let verdict = verdict(&fault, &steps);
        let mut heading = fault.heading();
        if steps.iter().any(|step| matches!(step, Step::ByHand(_))) {
            heading.push("A script cannot do some of the steps; it says so where they belong.".to_owned());
        }
        if calls(&steps).any(|call| call.given_up_after_us.is_some()) {
            heading.push(
                "A call is given up after the time of the run. If the driver answers it before that, or has not received it by then, try \
                 another time."
                    .to_owned(),
            );
        }
        let has_secrets = calls(&steps).any(|call| call.request.to_string().contains(STRIPPED));
        let (check, expected) = (fault.check.to_owned(), fault.expected.to_owned());
        let (driver, controller) = (None, None);
        (known, Script { check, driver, controller, heading, has_secrets, steps, expected, verdict })
    }

    /// The head as lines of comments. `secrets` says how the secrets get into the requests, if that is needed.
    pub(super) fn head(&self, comment: &str, secrets: &str) -> String {
        let secrets = self.has_secrets.then_some(secrets);
        let lines = self.heading.iter().map(String::as_str).chain(secrets);
        lines.map(|line| format!("{comment} {}\n", one_line(line))).collect()
    }

    /// The place of the call whose answer is judged. A person judges in the end.
    pub(super) fn accused(&self) -> Option<usize> {
        match self.verdict {
            Verdict::ByEye(_) => None,
            _ => self.steps.iter().position(is_accused),
        }
    }
}

/// The fault that a script shows.
struct Fault<'a> {
    check: &'a str,
    /// True if files or devices are wrong, which no response shows.
    is_of_data: bool,
    requirement: Option<&'a str>,
    message: &'a str,
    expected: &'a str,
    actual: &'a str,
}

impl Fault<'_> {
    fn heading(&self) -> Vec<String> {
        let rule = self.requirement.map(|rule| format!(" ({rule})")).unwrap_or_default();
        let texts = [("expected", self.expected), ("actual", self.actual)];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let texts = texts.map(|(what, text)| format!("{what}: {text}"));
        [format!("{}{rule}: {}", self.check, self.message)].into_iter().chain(texts).collect()
    }
}

/// The checks of the suite data look at files and devices.
fn is_of_data(check: &str) -> bool {
    check.starts_with("data/")
}

fn is_accused(step: &Step) -> bool {
    matches!(step, Step::Call(call) if call.is_accused)
}

pub(super) fn calls(steps: &[Step]) -> impl Iterator<Item = &Call> {
    steps.iter().filter_map(|step| match step {
        Step::Call(call) => Some(call),
        Step::ByHand(_) => None,
    })
}

fn calls_mut(steps: &mut [Step]) -> impl Iterator<Item = &mut Call> {
    steps.iter_mut().filter_map(|step| match step {
        Step::Call(call) => Some(call),
        Step::ByHand(_) => None,
    })
}

/// A report has the calls of the check, or the way to its fault.
pub(super) fn has_calls(check: &CheckEntry) -> bool {
    !check.reproduction.is_empty() || made(check).next().is_some()
}

/// The calls that the check made itself; those that undid them are left out.
fn made(check: &CheckEntry) -> impl Iterator<Item = (&CallEntry, Rpc)> {
    made_or_undone(check).filter(|(call, _)| !call.cleanup)
}

fn made_or_undone(check: &CheckEntry) -> impl Iterator<Item = (&CallEntry, Rpc)> {
    let rpc = |call: &CallEntry| RPCS.iter().copied().find(|rpc| rpc.method == call.rpc);
    check.calls.iter().filter_map(move |call| Some((call, rpc(call)?)))
}

/// The ids of the objects that a request is about.
fn subjects(request: &Value) -> impl Iterator<Item = &str> {
    ["volume_id", "snapshot_id", "group_snapshot_id"].into_iter().filter_map(|key| request.get(key)?.as_str())
}

/// The steps that the check has found to be enough. The last one breaks the rule.
fn of_reproduction(reproduction: &[ReproductionStep]) -> Vec<Step> {
    let mut steps: Vec<Step> = reproduction
        .iter()
        .map(|step| match RPCS.iter().copied().find(|rpc| Some(rpc.method) == step.rpc.as_deref()) {
            Some(rpc) => {
                let made = Call::new(rpc, &step.request, &step.code, "", &step.response);
                Step::Call(Call { given_up_after_us: step.given_up_after_us, ..made })
            }
            None => Step::ByHand(step.what.clone()),
        })
        .collect();
    if let Some(Step::Call(last)) = steps.last_mut() {
        last.is_accused = true;
    }
    steps
}

/// Takes the recorded calls that the failure shows, and the calls that gave the ids which these name. Incidents between the calls, such
/// as an end of the driver, become steps.
fn of_calls(check: &CheckEntry) -> Vec<Step> {
    let all: Vec<(&CallEntry, Rpc)> = made_or_undone(check).collect();
    let last = |is_meant: &dyn Fn(&CallEntry) -> bool| {
        all.iter().rposition(|(call, _)| !call.cleanup && is_meant(call))
    };
    let accused = last(&|call| call.accused).or_else(|| {
        // Reports of earlier versions do not say which call is accused.
        let named =
            |call: &CallEntry| call.status.as_ref().is_some_and(|status| check.actual.contains(&status.code));
        last(&named).or_else(|| last(&|_| true))
    });
    let mut shown = BTreeSet::new();
    for (at, (call, _)) in all.iter().enumerate().filter(|(_, (call, _))| call.times > 0 && !call.cleanup) {
        let repeats =
            |other: &usize| (&all[*other].0.rpc, &all[*other].0.request) == (&call.rpc, &call.request);
        let repetitions = (at + 1..all.len()).filter(repeats).take((call.times - 1).min(REPETITIONS_MAX));
        shown.extend(repetitions.chain([at]));
    }
    let keeps_all = shown.is_empty();
    let mut later = String::new();
    let mut kept = Vec::new();
    for (at, (call, rpc)) in all.iter().enumerate().rev() {
        let (code, message) = match (&call.status, &call.no_answer) {
            (Some(status), _) => (status.code.as_str(), status.message.as_str()),
            (None, Some(why)) => (ReproductionStep::NO_ANSWER, why.as_str()),
            (None, None) => ("OK", ""),
        };
        let response = call.response.as_ref().unwrap_or(&Value::Null);
        let mut made = Call::new(*rpc, &call.request, code, message, response);
        made.is_accused = accused == Some(at);
        let gives = made.ids().any(|given| later.contains(&Value::from(given.id).to_string()));
        let is_wanted = match call.cleanup {
            // The later calls find the object as it was after the check had undone a part of its work.
            true => {
                code == "OK" && subjects(&call.request).any(|id| later.contains(&Value::from(id).to_string()))
            }
            false => keeps_all || shown.contains(&at) || made.is_accused || gives,
        };
        if is_wanted {
            later.push_str(&call.request.to_string());
            kept.push((call.sent_after, Step::Call(made)));
        }
    }
    kept.reverse();
    let incidents = check.incidents.iter().map(|incident| {
        (std::time::Duration::from_millis(incident.after_ms), Step::ByHand(incident.what.clone()))
    });
    kept.extend(incidents);
    kept.sort_by_key(|(after, _)| *after);
    kept.into_iter().map(|(_, step)| step).collect()
}

/// Keeps one of many equal questions in a row: a script need not wait as the check did. Returns how many are left out.
fn fold_polls(steps: &mut Vec<Step>) -> usize {
    let before = steps.len();
    let mut folded: Vec<Step> = Vec::new();
    let mut run: Vec<Step> = Vec::new();
    for step in std::mem::take(steps) {
        let is_repeated = match (run.last(), &step) {
            (Some(Step::Call(last)), Step::Call(call)) => call.asks() && call.repeats(last),
            _ => false,
        };
        if !is_repeated {
            flush(&mut folded, &mut run);
        }
        run.push(step);
    }
    flush(&mut folded, &mut run);
    *steps = folded;
    before - steps.len()
}

/// Moves a run of equal calls to the others, only one of them if the driver was polled.
fn flush(folded: &mut Vec<Step>, run: &mut Vec<Step>) {
    if run.len() < POLLS_MIN {
        folded.append(run);
        return;
    }
    let is_accused = run.iter().any(is_accused);
    run.truncate(1);
    calls_mut(run).for_each(|call| call.is_accused = is_accused);
    folded.append(run);
}

/// Codes that Go and Rust report of a call that the driver did not answer.
const UNANSWERED: [&str; 3] = ["UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED"];

fn verdict(fault: &Fault<'_>, steps: &[Step]) -> Verdict {
    let found = |what: &str| {
        Verdict::ByEye(format!("{what}: expected {}, and found {}", fault.expected, fault.actual))
    };
    let Some(accused) = calls(steps).find(|call| call.is_accused) else {
        return found("check the effects of the last step");
    };
    let code = code_named(&accused.code).map(code_name);
    let right = codes(fault.expected);
    match code {
        // The sentence may name a code to exclude it.
        Some(code) if !right.is_empty() && !right.contains(&code) => {
            Verdict::Code { right, wrong: vec![code] }
        }
        Some("OK") => of_response(fault, accused)
            .unwrap_or_else(|| found("look at the answer, and at the files and mounts of the volume")),
        Some(code) if fault.actual.contains(code) => Verdict::Code { right: Vec::new(), wrong: vec![code] },
        Some(_) => found("look at the answers, and at the files and mounts of the volume"),
        None => Verdict::Code { right: Vec::new(), wrong: UNANSWERED.to_vec() },
    }
}

/// The codes that a sentence names.
fn codes(sentence: &str) -> Vec<&'static str> {
    let mut codes = Vec::new();
    for word in sentence.split(|c: char| !c.is_ascii_uppercase() && c != '_') {
        if let Some(code) = code_named(word).map(code_name).filter(|code| !codes.contains(code)) {
            codes.push(code);
        }
    }
    codes
}

/// The demand on a response; none if the report does not have it, or if files are wrong, which no response shows. A
/// response without fields is the same on a right driver.
fn of_response(fault: &Fault<'_>, accused: &Call) -> Option<Verdict> {
    let has_fields = response_of(accused.rpc).is_some_and(|response| response.fields().next().is_some());
    if fault.is_of_data || accused.response.is_null() || !has_fields {
        return None;
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    if let (Some(value), Some(actual)) = (read(fault.expected), read(fault.actual)) {
        let mut places = Vec::new();
        places_of(&accused.response, &actual, &mut Vec::new(), &mut places);
        let is_field = |part: &String| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if let [path] = &mut places[..]
            && path.iter().all(is_field)
        {
            return Some(Verdict::Value { path: std::mem::take(path), value });
        }
    }
    Some(Verdict::OtherResponse(accused.response.clone()))
}

/// The places of a value in another one.
fn places_of(within: &Value, value: &Value, path: &mut Vec<String>, places: &mut Vec<Vec<String>>) {
    if within == value {
        places.push(path.clone());
    }
    if let Value::Object(fields) = within {
        for (field, inner) in fields {
            path.push(field.clone());
            places_of(inner, value, path, places);
            path.pop();
        }
    }
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, part| value.get(part))
}

const AT_THE_SAME_TIME: &str =
    "Several callers made these calls at the same time; here they come one after another.";

/// Lines about what the script has of the calls in the report.
fn remarks(check: &CheckEntry, steps: &[Step], known: &BTreeSet<String>, polls: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if check.reproduction.is_empty() && check.calls_left_out > 0 {
        lines.push(format!(
            "The report has no calls from the middle of the check: {} were left out.",
            check.calls_left_out
        ));
    }
    if polls > 0 {
        lines.push(format!("{polls} repetitions of a question with the same answer are left out."));
    }
    let missing: BTreeSet<&str> =
        calls(steps).flat_map(|call| named_ids(&call.request)).filter(|id| !known.contains(*id)).collect();
    // The calls of such a check are examples from others.
    if !missing.is_empty() && (check.calls.is_empty() || check.id.starts_with("every-reply/")) {
        let missing: Vec<&str> = missing.into_iter().collect();
        lines.push(format!(
            "These ids were made by another check, or name nothing; replace them if they should exist: {}",
            missing.join(", ")
        ));
    }
    let is_in_texts =
        |id: &String| check.expected.contains(id.as_str()) || check.actual.contains(id.as_str());
    if known.iter().any(is_in_texts) {
        lines.push("The ids above are those of the run that failed; this script gets new ones.".to_owned());
    }
    if made(check).any(|(call, _)| call.worker != 0) {
        lines.push(AT_THE_SAME_TIME.to_owned());
    }
    if made(check).any(|(call, _)| call.node != 0) {
        lines.push("Some of these calls went to other nodes; here they all go to one.".to_owned());
    }
    lines
}

/// The ids of volumes and snapshots that a request names.
fn named_ids(request: &Value) -> Vec<&str> {
    match request {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(field, value)| match value {
                Value::String(id) if field.ends_with("volume_id") || field.ends_with("snapshot_id") => {
                    if id.is_empty() { Vec::new() } else { vec![id.as_str()] }
                }
                other => named_ids(other),
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    fn call(rpc: &str, request: Value, answer: Value) -> Value {
        let mut call = json!({
            "rpc": rpc, "node": 0, "worker": 0, "sent_after_ms": 0, "duration_ms": 1, "cleanup": false, "request": request,
        });
        call.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        call
    }

    pub(in super::super) fn entry(id: &str, expected: &str, actual: &str, more: Value) -> CheckEntry {
        let mut entry = json!({
            "id": id, "suite": "s", "outcome": "failed", "duration_ms": 1, "requirements": ["CTRL-DELETEVOL-002"],
            "message": "rejected\n*/ `x`", "expected": expected, "actual": actual, "repeat": "", "title": "", "calls": [],
        });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(entry).unwrap()
    }

    /// Asserts that a program has each of these lines.
    pub(in super::super) fn has_lines(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line}: {text}");
        }
    }

    /// A volume that cannot be deleted twice.
    pub(in super::super) fn check() -> CheckEntry {
        let calls = json!([
            call(
                "CreateVolume",
                json!({"name": "it's"}),
                json!({"response": {"volume": {"volume_id": "vol-1"}}})
            ),
            call(
                "DeleteVolume",
                json!({"volume_id": "vol-1", "secrets": {"a": STRIPPED}}),
                json!({"response": {}})
            ),
            call(
                "DeleteVolume",
                json!({"volume_id": "vol-1"}),
                json!({"status": {"code": "NOT_FOUND", "message": "no\nsuch"}})
            ),
        ]);
        entry("controller/delete-volume/it's@block", "OK \"twice\"", "NOT_FOUND", json!({"calls": calls}))
    }

    /// A volume that has another context after the driver was killed; the report has the shortest way, and 100 calls of the check.
    pub(in super::super) fn other_value() -> CheckEntry {
        let volume = |tier: &str| json!({"volume": {"volume_id": "vol-1", "volume_context": {"tier": tier}}});
        let create = |tier: &str| json!({"what": "CreateVolume v1", "rpc": "CreateVolume", "request": {"name": "a"}, "code": "OK", "response": volume(tier)});
        let kill = json!({"what": "the driver is killed, and started again"});
        let calls: Vec<Value> =
            (0..100).map(|_| call("ListVolumes", json!({}), json!({"response": {}}))).collect();
        let more = json!({"calls": calls, "reproduction": [create("gold"), kill, create("silver")]});
        entry("property/volumes", "{\"tier\": \"gold\"}", "{\"tier\": \"silver\"}", more)
    }

    /// A volume that is attached and cannot be staged.
    pub(in super::super) fn attached() -> CheckEntry {
        let step = |rpc: &str, request: Value, code: &str, response: Value| json!({"what": rpc, "rpc": rpc, "request": request, "code": code, "response": response});
        let context = json!({"device": "/dev/it's"});
        let steps = json!([
            step("CreateVolume", json!({"name": "a"}), "OK", json!({"volume": {"volume_id": "vol-1"}})),
            step(
                "ControllerPublishVolume",
                json!({"volume_id": "vol-1"}),
                "OK",
                json!({"publish_context": context.clone()})
            ),
            step(
                "NodeStageVolume",
                json!({"volume_id": "vol-1", "publish_context": context, "staging_target_path": "/s"}),
                "INTERNAL",
                Value::Null
            ),
        ]);
        entry("x/y/z", "OK", "INTERNAL", json!({"reproduction": steps}))
    }

    /// A call that its caller gives up after 200 ms, and repeats.
    pub(in super::super) fn given_up() -> CheckEntry {
        let create = |code: &str| json!({"what": "CreateVolume v1", "rpc": "CreateVolume", "request": {"name": "a"}, "code": code});
        let mut first = create(ReproductionStep::NO_ANSWER);
        first["given_up_after_us"] = json!(200_000);
        entry("x/y/z", "OK", "ABORTED", json!({"reproduction": [first, create("ABORTED")]}))
    }

    #[test]
    fn repetitions_that_explain_the_outcome_are_made() {
        let publish = |times: u64| {
            let mut call = call("NodePublishVolume", json!({"volume_id": "a"}), json!({"response": {}}));
            call["times"] = json!(times);
            call
        };
        let mut calls = vec![publish(3), publish(0), publish(0)];
        calls.push(call("NodeUnpublishVolume", json!({}), json!({"response": {}, "accused": true})));
        let script = Script::of(&entry("x/y/z", "no mount", "1 mount", json!({"calls": calls})));
        let made: Vec<&str> = super::calls(&script.steps).map(|call| call.rpc.method).collect();
        assert_eq!(
            made,
            ["NodePublishVolume", "NodePublishVolume", "NodePublishVolume", "NodeUnpublishVolume"]
        );
    }

    #[test]
    fn what_was_undone_between_the_calls_is_undone() {
        let about = |rpc: &str, id: &str, is_cleanup: bool| {
            let mut call = call(rpc, json!({"volume_id": id}), json!({"response": {}}));
            call["cleanup"] = json!(is_cleanup);
            call
        };
        let calls = [
            about("NodeStageVolume", "a", false),
            about("NodeUnstageVolume", "a", true),
            about("NodeUnstageVolume", "b", true),
            about("NodeStageVolume", "a", false),
            about("NodeUnstageVolume", "a", true),
        ];
        let script = Script::of(&entry("x/y/z", "no mount", "1 mount", json!({"calls": calls})));
        let made: Vec<&str> = super::calls(&script.steps).map(|call| call.rpc.method).collect();
        assert_eq!(made, ["NodeStageVolume", "NodeUnstageVolume", "NodeStageVolume"]);
    }

    #[test]
    fn a_script_is_short_and_judges_by_the_texts() {
        let script = Script::of(&other_value());
        assert_eq!((script.steps.len(), script.accused()), (3, Some(2)));
        assert!(
            matches!(&script.verdict, Verdict::Value { path, .. } if path.join(".") == "volume.volume_context")
        );
        let wrong = |expected: &str, code: &str| {
            let answer = match code {
                "OK" => json!({"response": {}}),
                code => json!({"status": {"code": code, "message": ""}}),
            };
            let calls = json!([call("DeleteVolume", json!({}), answer)]);
            match Script::of(&entry("x/y/z", expected, code, json!({"calls": calls}))).verdict {
                Verdict::Code { right, wrong } => format!("{} not {}", right.join(" "), wrong.join(" ")),
                Verdict::Value { .. } => "value".to_owned(),
                Verdict::OtherResponse(_) => "other response".to_owned(),
                Verdict::ByEye(_) => "by eye".to_owned(),
            }
        };
        assert_eq!(
            wrong("ALREADY_EXISTS, or OUT_OF_RANGE (too large)", "OK"),
            "ALREADY_EXISTS OUT_OF_RANGE not OK"
        );
        assert_eq!(wrong("the volume", "INTERNAL"), " not INTERNAL");
        assert_eq!(wrong("a code other than INTERNAL", "INTERNAL"), " not INTERNAL");
        assert_eq!(wrong("no mount", "OK"), "by eye");
    }

    #[test]
    fn a_response_that_has_fields_must_not_come_again() {
        let calls = json!([call("ListVolumes", json!({}), json!({"response": {"entries": [{}]}}))]);
        let script =
            Script::of(&entry("every-reply/fields/required", "a volume", "none", json!({"calls": calls})));
        assert!(matches!(script.verdict, Verdict::OtherResponse(_)));
    }

    #[test]
    fn a_reply_without_an_answer_must_not_come_again() {
        let calls = json!([call("DeleteVolume", json!({}), json!({"no_answer": "the connection broke"}))]);
        let script = Script::of(&entry("x/y/z", "an answer", "", json!({"calls": calls})));
        assert!(
            matches!(script.verdict, Verdict::Code { right, wrong } if right.is_empty() && wrong == UNANSWERED)
        );
    }

    #[test]
    fn polls_are_made_once_and_other_calls_are_left_out() {
        let shown = |mut call: Value| {
            call["times"] = json!(1);
            call
        };
        let poll = || call("ListVolumes", json!({}), json!({"response": {"entries": []}}));
        let mut calls = vec![
            call(
                "CreateVolume",
                json!({"name": "a"}),
                json!({"response": {"volume": {"volume_id": "vol-1"}}}),
            ),
            call(
                "CreateVolume",
                json!({"name": "b"}),
                json!({"response": {"volume": {"volume_id": "vol-2"}}}),
            ),
        ];
        calls.extend((0..10).map(|_| shown(poll())));
        let refused = json!({"status": {"code": "INTERNAL", "message": ""}, "accused": true});
        calls.push(shown(call("DeleteVolume", json!({"volume_id": "vol-2"}), refused)));
        let script = Script::of(&entry("x/y/z", "OK", "INTERNAL", json!({"calls": calls})));
        let methods: Vec<&str> = super::calls(&script.steps).map(|call| call.rpc.method).collect();
        assert_eq!(methods, ["CreateVolume", "ListVolumes", "DeleteVolume"]);
        assert!(script.heading.iter().any(|line| line.contains("9 repetitions")), "{:?}", script.heading);
    }

    #[test]
    fn what_a_script_cannot_do_is_a_step_of_its_own() {
        let incidents = json!([{"after_ms": 0, "what": "the driver was killed"}]);
        let more = json!({"calls": check().calls, "incidents": incidents, "injected": "mount exits 32"});
        let script = Script::of(&entry("faults/commands", "OK", "NOT_FOUND", more));
        let by_hand: Vec<&str> = script
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::ByHand(what) => Some(what.as_str()),
                Step::Call(_) => None,
            })
            .collect();
        assert_eq!(by_hand.len(), 2, "{by_hand:?}");
        assert!(
            by_hand.contains(&"the driver was killed")
                && by_hand.iter().any(|what| what.contains("mount exits 32"))
        );
        let data = entry(
            "data/files",
            "the file",
            "no file",
            json!({"calls": [call("NodePublishVolume", json!({}), json!({"response": {}}))]}),
        );
        assert!(matches!(Script::of(&data).verdict, Verdict::ByEye(what) if what.contains("no file")));
    }
}
