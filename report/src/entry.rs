//! The parts of a report, and how they are made from the results of the harness.

use std::time::Duration;

use csi_harness::client::answer::Answer;
use csi_harness::client::record::CallRecord;
use csi_harness::client::spent::TimeSpent;
use csi_harness::client::tally::{FirstFailure, RpcCalls, Times};
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::results::failure_report::{self, ExplainingCall};
use csi_harness::results::fault;
use csi_harness::results::outcome::{CheckReport, Flaky, Outcome, OutcomeKind, SameFault, Verdict};
use csi_harness::spec::verdict::{CallSpan, CutShort, Damage, Plays, ReproductionStep};
use csi_harness::text::message::shape;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Calls of one check that are kept: the first ones, which made what the others speak of, …
const CALLS_FIRST_MAX: usize = 100;
/// … and the last ones, which led to the verdict.
const CALLS_LAST_MAX: usize = 400;

/// The machine that csi-sanity ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineEntry {
    /// Its kernel, such as `linux 6.1.0-18-amd64 x86_64`.
    pub kernel: String,
    /// True if csi-sanity ran as root.
    pub is_root: bool,
}

/// A requirement that no check tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UntestedEntry {
    /// Its id.
    pub requirement: String,
    /// The reason why no check does.
    pub because: String,
    /// Requirements that ask for the same and are checked, if that is why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub same_as: Vec<String>,
}

/// The selected checks.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    /// The suites that the checks were selected from.
    pub suites: Vec<String>,
    /// The terms by which some of them were selected, as flags.
    pub terms: Vec<String>,
    /// True if these are all checks of the specification.
    pub is_whole: bool,
}

/// A part of a run that was divided among several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardEntry {
    /// The number of this one, from 1.
    pub index: u32,
    /// The number of parts.
    pub of: u32,
    /// The number of checks that all parts have together.
    pub checks: usize,
    /// The description that distinguishes this choice of checks from another one.
    pub digest: String,
    /// Flags that have to be equal in all of them.
    pub settings: Vec<String>,
}

/// A part that a run was merged from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PartEntry {
    /// The number of this one, from 1.
    pub index: u32,
    /// The time at which it began, in UTC as in RFC 3339.
    pub started: String,
    /// The duration.
    pub duration_ms: u64,
    /// The address of its driver.
    pub endpoint: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Its command line.
    pub command: String,
    /// Its verdict.
    pub verdict: Verdict,
}

/// The calls of one RPC, those of undoing included.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RpcEntry {
    /// The RPC, such as `CreateVolume`.
    pub rpc: String,
    /// Calls that the driver did.
    pub done: u64,
    /// Calls that it rejected.
    #[serde(default)]
    pub refused: u64,
    /// Calls whose end is not known.
    #[serde(default)]
    pub unanswered: u64,
    /// The time within which half of these calls ended, in microseconds; 0 if there are none. Up to a 16th too long.
    pub median_us: u64,
    /// The time within which 95 of 100 of these calls ended, in microseconds.
    #[serde(default)]
    pub percentile_95_us: u64,
    /// The time within which 99 of 100 of these calls ended, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile_99_us: Option<u64>,
    /// The longest of them, in microseconds.
    #[serde(default)]
    pub longest_us: u64,
    /// All that it did by how long they took, in steps of a 16th.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepEntry>,
    /// The longest write of a workload beside such a call, in microseconds, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_pause_us: Option<u64>,
}

/// Calls of about one duration.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StepEntry {
    /// The longest duration of these calls, in microseconds.
    pub us: u64,
    /// The number of calls.
    pub calls: u64,
}

/// Name and version of a program.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The version.
    pub version: String,
}

/// The driver under test.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TargetEntry {
    /// The address that it listens at.
    #[serde(default)]
    pub endpoint: String,
    /// The addresses of its other nodes, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_endpoints: Vec<String>,
    /// The address of its controller services, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_endpoint: Option<String>,
    /// The name in GetPluginInfo.
    pub name: String,
    /// The version in GetPluginInfo.
    pub vendor_version: String,
    /// Every capability that it advertises.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// One check.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckEntry {
    /// Its label: the id, with `@block` where it ran for block access.
    pub id: String,
    /// The outcome. A check that has `same_fault` is `skipped`.
    #[serde(rename = "outcome")]
    pub(crate) word: OutcomeKind,
    /// The duration, including the time for undoing.
    #[serde(default)]
    pub duration_ms: u64,
    /// The mildest profile under which it makes a run fail, where the driver broke something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binds_from: Option<Profile>,
    /// The outcome that a `flaky` check counts as, `failed` or `warned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_as: Option<OutcomeKind>,
    /// The number of plays of the failing case, where there was more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plays: Option<Plays>,
    /// The damage that the failure proves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Damage>,
    /// Work that it left undone when it met its time limit. The verdict on the driver is then based on less work than planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_short: Vec<CutShort>,
    /// The parts of that time that went into anything but judging.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spent_ms: SpentEntry,
    /// The requirements it tests, the broken one first.
    #[serde(default)]
    pub requirements: Vec<String>,
    /// The fault, or the reason why the check was skipped or could not judge.
    pub message: String,
    /// The behaviour of a right driver.
    #[serde(default)]
    pub expected: String,
    /// The behaviour of this driver.
    #[serde(default)]
    pub actual: String,
    /// The last lines that the driver printed, if it died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver_printed: Vec<String>,
    /// The calls that lead there, a line each, where the check lists them itself.
    #[serde(default, alias = "told", skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<String>,
    /// These calls with their times, if it matters that they overlapped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<CallSpan>,
    /// The shortest way to it that the check has found, step by step, where it has looked for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reproduction: Vec<ReproductionStep>,
    /// The fault that the check injected, as `--fault` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected: Option<String>,
    /// Further findings, besides the gravest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<AlsoEntry>,
    /// Remarks that are no verdict, such as how much it tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The number of sequences, rounds or requests that it has tried, where it makes several.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tried: u64,
    /// The reason in the known-failing list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_because: Option<String>,
    /// The first call of the run that failed as the one did which kept this check from judging, where another check made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_with: Option<FirstFailure>,
    /// Objects that it made and could not undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// The calls that it made, where there is something to explain.
    #[serde(default)]
    pub calls: Vec<CallEntry>,
    /// Calls left out behind the first ones, since there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_left_out: usize,
    /// Events between the calls that were no calls, where there is something to explain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<IncidentEntry>,
    /// The command that makes the call that breaks the rule, where that call alone shows it, and then what to know before it is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_hand: Vec<String>,
    /// The command that runs it alone.
    #[serde(default)]
    pub repeat: String,
    /// The behaviour of a right driver, as one sentence.
    #[serde(default)]
    pub title: String,
    /// The name that other tools use for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// The cases of the Go csi-sanity that it replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub go_names: Vec<String>,
    /// The key of the fault. Checks that met one fault have one key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// The check that reports the fault in which the driver deviates here as well.
    #[serde(default, alias = "told_in", skip_serializing_if = "Option::is_none")]
    pub reported_in: Option<String>,
    /// The check that reports the fault, if this one only shows it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_fault: Option<SameFaultEntry>,
    /// The result as text for people, where there is something to explain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub findings: String,
    /// The calls that lead to it, with requests and answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transcript: String,
}

/// Something that happened between calls, such as an end of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentEntry {
    /// The time of the event, in whole milliseconds from the start of the check.
    pub after_ms: u64,
    /// The event.
    pub what: String,
}

/// A finding of a check besides a graver one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AlsoEntry {
    /// `failed` if the driver broke a rule that binds, `warned` if it broke a recommendation, `flaky` if it did so once and not again.
    pub outcome: OutcomeKind,
    /// The rule.
    pub requirement: String,
    /// The fault, in a sentence.
    pub message: String,
    /// The behaviour of a right driver.
    pub expected: String,
    /// The behaviour of this driver.
    pub actual: String,
    /// The calls that lead there, a line each.
    #[serde(default, alias = "told", skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<String>,
}

/// Parts of the time of a check, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpentEntry {
    /// Making small what had gone wrong.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shrinking: u64,
    /// Looking once more, with all the time that a driver may need.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub confirming: u64,
    /// Undoing what it had made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undoing: u64,
    /// Pauses for a driver to get ready or to catch up, in any of its parts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: u64,
}

impl SpentEntry {
    pub(crate) fn of(spent: &TimeSpent) -> SpentEntry {
        SpentEntry {
            shrinking: ms(spent.shrinking),
            confirming: ms(spent.confirming),
            undoing: ms(spent.undoing),
            waiting: ms(spent.waiting),
        }
    }
}

/// The check that reports a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SameFaultEntry {
    /// Its label.
    pub check: String,
    /// The outcome that the other check counts as: `failed`, `warned`, or `known_failure`.
    pub outcome: OutcomeKind,
}

/// One call, without secrets.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallEntry {
    /// The RPC, such as `CreateVolume`.
    pub rpc: String,
    /// The number of the node that it went to, from 0.
    pub node: usize,
    /// The number of the check's worker that made it, from 0.
    pub worker: usize,
    /// The time from the start of the check until it was sent, in whole milliseconds.
    #[serde(rename = "sent_after_ms", serialize_with = "in_ms", deserialize_with = "from_ms")]
    #[schemars(with = "u64")]
    pub sent_after: Duration,
    /// The duration in whole milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "in_ms", deserialize_with = "from_ms")]
    #[schemars(with = "u64")]
    pub duration: Duration,
    /// True if it undid something that the check had made.
    pub cleanup: bool,
    /// The request.
    pub request: Value,
    /// The response, if the call succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// The status, if the driver rejected the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The reason why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<String>,
    /// The number of times that it was made in a row with equal answers, if it explains the outcome. The repetitions have no number.
    #[serde(default, alias = "told", skip_serializing_if = "is_zero")]
    pub times: usize,
    /// True if the driver is accused of it, as far as that is certain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accused: bool,
}

/// A gRPC status.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Such as `NOT_FOUND`.
    pub code: String,
    /// The text of the status.
    pub message: String,
}

impl TargetEntry {
    /// The driver, as people name it.
    pub fn driver(&self) -> String {
        let name = if self.name.is_empty() { "a driver without a name" } else { &self.name };
        format!("{name} {}", self.vendor_version).trim_end().to_owned()
    }
}

pub(crate) fn target_entry(target: &Target) -> TargetEntry {
    let place_of = |endpoint| target.config().place_of(endpoint);
    TargetEntry {
        endpoint: target.place(),
        node_endpoints: target.nodes().iter().skip(1).map(|node| place_of(node.endpoint())).collect(),
        controller_endpoint: target.controller_endpoint().map(place_of),
        name: target.info().name.clone(),
        vendor_version: target.info().vendor_version.clone(),
        capabilities: target.capabilities().iter().map(|capability| capability.name().to_owned()).collect(),
    }
}

pub(crate) fn rpc_entry(calls: &RpcCalls) -> RpcEntry {
    let mut entry = RpcEntry {
        rpc: calls.rpc.method.to_owned(),
        done: calls.done,
        refused: calls.refused,
        unanswered: calls.unanswered,
        steps: calls.times.steps().map(|(us, calls)| StepEntry { us, calls }).collect(),
        longest_pause_us: calls.longest_pause.map(us),
        ..RpcEntry::default()
    };
    entry.took(&calls.times);
    entry
}

impl RpcEntry {
    /// Enters how long its calls took.
    pub(crate) fn took(&mut self, times: &Times) {
        self.median_us = us(times.percentile(50));
        self.percentile_95_us = us(times.percentile(95));
        self.percentile_99_us = Some(us(times.percentile(99)));
        self.longest_us = us(times.longest());
    }
}

impl CheckEntry {
    /// The part of the id before the last slash.
    pub(crate) fn area(&self) -> &str {
        self.id.rsplit_once('/').map_or(&self.id, |(area, _)| area)
    }

    /// The outcome of the check.
    pub fn outcome(&self) -> OutcomeKind {
        if self.reported_in().is_some() { OutcomeKind::SameFault } else { self.word }
    }

    /// The outcome that the check counts as: that of the other check if it shows a fault of another one.
    pub fn counts_as(&self) -> OutcomeKind {
        match (&self.same_fault, self.outcome()) {
            (Some(same), _) => same.outcome,
            (None, OutcomeKind::Flaky) => self.counts_as.unwrap_or(OutcomeKind::Warned),
            // A report of an older version has no more detail.
            (None, OutcomeKind::SameFault) => OutcomeKind::Failed,
            (None, outcome) => outcome,
        }
    }

    /// The check that reports the fault which this one only shows again.
    pub fn reported_in(&self) -> Option<&str> {
        let same = self.same_fault.as_ref().map(|same| same.check.as_str());
        same.or(self.reported_in.as_deref().filter(|_| self.word == OutcomeKind::Skipped))
    }

    /// Turns it into a check that only shows a fault which another check reports.
    pub(crate) fn shows_again(&mut self, same: &SameFault) {
        self.word = OutcomeKind::Skipped;
        (self.binds_from, self.counts_as, self.plays, self.damage) = (None, None, None, None);
        self.reported_in = Some(same.first.clone()).filter(|_| same.deviates);
        self.same_fault = Some(SameFaultEntry { check: same.first.clone(), outcome: same.counts_as });
        self.message = same.sentence();
        self.fault = shape(&self.message);
    }

    /// The number of plays as a sentence, with what a flaky failure counts as; nothing where the case was played once.
    pub(crate) fn repeated(&self) -> String {
        let counts_as = match self.outcome() {
            OutcomeKind::Flaky => format!(", which counts as {}", self.counts_as().name()),
            _ => String::new(),
        };
        self.plays.map_or_else(String::new, |plays| format!("{plays}{counts_as}"))
    }

    /// The whole story as text, where there is one.
    pub fn story(&self) -> String {
        self.story_with(&self.by_hand)
    }

    /// The story with these lines about the call that breaks the rule.
    pub(crate) fn story_with(&self, by_hand: &[String]) -> String {
        match self.findings.is_empty() {
            true => String::new(),
            false => failure_report::whole(&self.findings, &self.transcript, by_hand, &self.repeat),
        }
    }
}

pub(crate) fn check_entry(report: &CheckReport) -> CheckEntry {
    let mut requirements: Vec<String> =
        report.planned.check.requirements.iter().map(|rule| rule.id.to_owned()).collect();
    let violation = report.outcome.violation();
    if let Some(broken) = violation.and_then(|violation| failure_report::rule(report, violation)) {
        requirements.retain(|id| *id != broken.id);
        requirements.insert(0, broken.id.to_owned());
    }
    let (message, known_because) = match &report.outcome {
        Outcome::Passed => (String::new(), None),
        Outcome::Failed(finding) | Outcome::Warned(finding) | Outcome::Flaky(Flaky { finding, .. }) => {
            (finding.violation.message.clone(), None)
        }
        Outcome::Skipped(why) | Outcome::Broken(why) => (why.clone(), None),
        Outcome::SameFault(same) => (same.sentence(), None),
        Outcome::KnownFailure { finding, reason } => {
            (finding.violation.message.clone(), Some(reason.clone()))
        }
        Outcome::UnexpectedPass { reason } => {
            ("passes, but is listed as known to fail".to_owned(), Some(reason.clone()))
        }
    };
    let explains = !matches!(report.outcome, Outcome::Passed | Outcome::SameFault(_) | Outcome::Skipped(_));
    let calls = call_entries(report, explains);
    let incidents = report.incidents.iter();
    let incidents = incidents.map(|(after, what)| IncidentEntry { after_ms: ms(*after), what: what.clone() });
    let mut entry = CheckEntry {
        id: report.label(),
        word: report.outcome.kind(),
        binds_from: report.outcome.binds_from(),
        duration_ms: ms(report.duration),
        counts_as: match &report.outcome {
            Outcome::Flaky(flaky) => Some(flaky.counts_as()),
            _ => None,
        },
        plays: report.outcome.finding().and_then(|finding| finding.plays),
        damage: violation.and_then(|violation| violation.damage),
        cut_short: report.cut_short.clone(),
        spent_ms: SpentEntry::of(&report.spent),
        requirements,
        message,
        expected: violation.map(|violation| violation.expected.clone()).unwrap_or_default(),
        actual: violation.map(|violation| violation.actual.clone()).unwrap_or_default(),
        driver_printed: violation.map(|violation| violation.printed.to_vec()).unwrap_or_default(),
        explanation: violation.map(|violation| violation.transcript.to_vec()).unwrap_or_default(),
        timeline: violation.map(|violation| violation.timeline.to_vec()).unwrap_or_default(),
        reproduction: violation.map(|violation| violation.reproduction.to_vec()).unwrap_or_default(),
        injected: violation.and_then(|violation| violation.injected.as_deref().map(str::to_owned)),
        also: report.also.iter().filter_map(|one| also_entry(report, one)).collect(),
        notes: report.notes.clone(),
        tried: report.tried,
        known_because,
        began_with: report.began_with.clone(),
        left_behind: report.leftovers.clone(),
        calls_left_out: report.calls.len() - calls.len() + report.calls_dropped,
        calls,
        incidents: if explains { incidents.collect() } else { Vec::new() },
        by_hand: if explains { failure_report::by_hand(report) } else { Vec::new() },
        repeat: report.repeat.clone(),
        title: report.planned.check.title.to_string(),
        known_as: report.planned.check.known_as.as_deref().map(str::to_owned),
        go_names: report.planned.check.replaces.iter().map(|name| (*name).to_owned()).collect(),
        fault: fault::key(report),
        reported_in: None,
        same_fault: None,
        findings: if explains { failure_report::findings(report) } else { String::new() },
        transcript: if explains { failure_report::transcript(report) } else { String::new() },
    };
    if let Outcome::SameFault(same) = &report.outcome {
        entry.shows_again(same);
    }
    entry
}

fn also_entry(report: &CheckReport, outcome: &Outcome) -> Option<AlsoEntry> {
    let violation = outcome.violation()?;
    Some(AlsoEntry {
        outcome: outcome.kind(),
        requirement: failure_report::rule(report, violation).map_or(String::new(), |rule| rule.id.to_owned()),
        message: violation.message.clone(),
        expected: violation.expected.clone(),
        actual: violation.actual.clone(),
        explanation: violation.transcript.to_vec(),
    })
}

/// The first and the last calls of a check. If `explains` is set, they also state which calls explain the result.
fn call_entries(report: &CheckReport, explains: bool) -> Vec<CallEntry> {
    let (first, rest) = report.calls.split_at(report.calls.len().min(CALLS_FIRST_MAX));
    let left_out = rest.len().saturating_sub(CALLS_LAST_MAX);
    let mut entries: Vec<CallEntry> = first.iter().chain(&rest[left_out..]).map(call_entry).collect();
    let explaining = if explains { failure_report::explaining_calls(report) } else { Vec::new() };
    for ExplainingCall { place, times, is_accused } in explaining {
        let behind = place.checked_sub(left_out).filter(|place| *place >= first.len());
        let place = if place < first.len() { Some(place) } else { behind };
        if let Some(entry) = place.and_then(|place| entries.get_mut(place)) {
            (entry.times, entry.accused) = (times, is_accused);
        }
    }
    entries
}

fn call_entry(call: &CallRecord) -> CallEntry {
    let (mut response, mut status, mut no_answer) = (None, None, None);
    match call.outcome() {
        Answer::Ok(body) => response = Some(body),
        Answer::Refused(refused) => {
            status = Some(Status { code: refused.code_name().to_owned(), message: refused.message });
        }
        Answer::Unknown(why) => no_answer = Some(why.to_string()),
    }
    CallEntry {
        rpc: call.rpc.to_string(),
        node: call.node,
        worker: call.worker,
        sent_after: call.sent_after,
        duration: call.duration,
        cleanup: call.cleanup,
        request: call.request(),
        response,
        status,
        no_answer,
        times: 0,
        accused: false,
    }
}

fn in_ms<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(ms(*duration))
}

fn from_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// Whole milliseconds. No run is so long that they exceed 64 bits.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
