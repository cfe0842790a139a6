//! Keeps what the written reports need, in the shape of the JSON report.

use std::path::PathBuf;
use std::time::Duration;

use csi_harness::events::{Event, Reporter};
use csi_harness::outcome::{Aftermath, CheckReport, Halt, Kind, Outcome, Summary, Verdict};
use csi_harness::record::CallRecord;
use csi_harness::reply::Answer;
use csi_harness::story::{self, Story};
use csi_harness::target::Target;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::areas::{Area, Areas};
use crate::fault;
use crate::statement::{Line, Statement};

/// Calls of one check that are kept: the first ones, which made what the others speak of, …
const CALLS_FIRST_MAX: usize = 100;
/// … and the last ones, which led to the verdict.
const CALLS_LAST_MAX: usize = 400;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Run {
    /// What made the report.
    pub tool: Tool,
    /// The driver under test.
    pub target: TargetEntry,
    /// Seed of everything random.
    pub seed: u64,
    /// How long the run took.
    pub duration_ms: u64,
    /// The verdict on the driver: `conforms`, `deviates`, `not_judged`, `known_failing_list_out_of_date` or
    /// `interrupted`.
    #[serde(serialize_with = "by_name")]
    pub verdict: Verdict,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// How many checks ended how.
    pub summary: SummaryEntry,
    /// Every check, by id.
    pub checks: Vec<CheckEntry>,
    /// What is said of each area that users of a driver ask about.
    pub statement: Vec<Line>,
    /// The parts of the specification, by RPC.
    pub areas: Vec<Area>,
    /// What stayed behind.
    pub leaks: Vec<LeakEntry>,
    /// Deaths of the driver.
    pub crashes: Vec<CrashEntry>,
    /// News that are no verdict.
    pub remarks: Vec<String>,
}

/// Name and version of a program.
#[derive(Debug, Serialize)]
pub struct Tool {
    /// The name.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
}

/// The driver under test.
#[derive(Debug, Default, Serialize)]
pub struct TargetEntry {
    /// Where it listens.
    pub endpoint: String,
    /// Where its other nodes listen, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_endpoints: Vec<String>,
    /// Where its controller services listen, if elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_endpoint: Option<String>,
    /// The name in GetPluginInfo.
    pub name: String,
    /// The version in GetPluginInfo.
    pub vendor_version: String,
    /// Every capability it advertises.
    pub capabilities: Vec<&'static str>,
}

/// How many checks ended how.
#[derive(Debug, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SummaryEntry {
    pub passed: usize,
    pub failed: usize,
    pub warned: usize,
    pub skipped: usize,
    pub broken: usize,
    pub known_failures: usize,
    pub unexpected_passes: usize,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct CheckEntry {
    /// Its label: the id, with `@block` where it ran for block access.
    pub id: String,
    /// Such as `passed` or `known_failure`.
    #[serde(serialize_with = "kind_by_name")]
    pub outcome: Kind,
    /// How long it took, its undoing included.
    pub duration_ms: u64,
    /// The requirements it tests, the broken one first.
    pub requirements: Vec<&'static str>,
    /// What is wrong, or why it was skipped or could not judge.
    pub message: String,
    /// What a right driver does.
    pub expected: String,
    /// What this driver did.
    pub actual: String,
    /// The last lines that it printed, where it died.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub driver_printed: Vec<String>,
    /// The calls that lead there, a line each, where the check tells them itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
    /// What it has to say that is no verdict, such as how much it tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The reason in the known-failing list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_because: Option<String>,
    /// What it made and could not undo.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// The calls it made, where something is to be explained.
    pub calls: Vec<CallEntry>,
    /// Calls left out behind the first ones, since there were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls_left_out: usize,
    /// The command that runs it alone.
    pub repeat: String,
    /// What a right driver does, as one sentence.
    #[serde(skip)]
    pub title: &'static str,
    /// The name that other tools know it by.
    #[serde(skip)]
    pub(crate) known_as: Option<&'static str>,
    /// What it shares with others that met the same fault.
    #[serde(skip)]
    pub(crate) fault: String,
    /// The whole story as text, where there is one.
    #[serde(skip)]
    pub story: String,
}

/// One call, without secrets.
#[derive(Debug, Serialize)]
pub struct CallEntry {
    /// Such as `csi.v1.Controller/CreateVolume`.
    pub rpc: String,
    /// Which node it went to, from 0.
    pub node: usize,
    /// Which of the check's workers made it, from 0.
    pub worker: usize,
    /// When it was sent, counted from the start of the check.
    pub sent_after_ms: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether it undid what the check made.
    pub cleanup: bool,
    /// What was asked.
    pub request: Value,
    /// What was answered, where the driver did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// The status, where the driver refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_answer: Option<String>,
}

/// A gRPC status.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Such as `NOT_FOUND`.
    pub code: &'static str,
    /// Its text.
    pub message: String,
}

/// Something that stayed behind.
#[derive(Debug, Serialize)]
pub struct LeakEntry {
    /// `volume`, `snapshot` or `mount`.
    pub kind: &'static str,
    /// Its id or path.
    pub id: String,
    /// Whether this run made it.
    pub ours: bool,
    /// The check that made it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

/// A death of the driver.
#[derive(Debug, Serialize)]
pub struct CrashEntry {
    /// The calls that had no answer yet, as `check: RPC`.
    pub under_way: Vec<String>,
    /// Whether the driver was back afterwards.
    pub back: bool,
    /// The file with what it printed, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
}

/// Listens to a run and keeps it.
#[derive(Debug)]
pub struct Journal {
    run: Run,
    areas: Areas,
    statement: Statement,
}

impl Journal {
    /// An empty journal; `version` is that of the program.
    pub fn new(version: &'static str) -> Journal {
        let run = Run {
            tool: Tool { name: "csi-sanity", version },
            target: TargetEntry::default(),
            seed: 0,
            duration_ms: 0,
            verdict: Verdict::default(),
            interrupted: false,
            summary: SummaryEntry::default(),
            checks: Vec::new(),
            statement: Vec::new(),
            areas: Vec::new(),
            leaks: Vec::new(),
            crashes: Vec::new(),
            remarks: Vec::new(),
        };
        Journal { run, areas: Areas::default(), statement: Statement::default() }
    }

    /// Everything that was kept, with the checks by id: they end in another order in each run.
    pub fn into_run(mut self) -> Run {
        self.run.checks.sort_by(|a, b| a.id.cmp(&b.id));
        Run { areas: self.areas.into_vec(), statement: self.statement.into_lines(), ..self.run }
    }
}

impl Reporter for Journal {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { target, seed, .. } => {
                self.run.target = target_entry(target);
                self.statement = Statement::begin(target);
                self.run.seed = *seed;
            }
            Event::Remark(remark) => self.run.remarks.push((*remark).to_owned()),
            Event::CheckStarted(_) | Event::Waiting(_) => {}
            Event::CheckFinished(report) => {
                self.areas.add(report.planned.check.area(), &report.outcome);
                self.statement.add(report);
                self.run.checks.push(check_entry(report));
            }
            Event::Crashed(crash) => self.run.crashes.push(CrashEntry {
                under_way: crash.under_way.clone(),
                back: crash.aftermath == Aftermath::Back,
                log: crash.log.clone(),
            }),
            Event::Leaked(leaks) => {
                let entry = |leak: &csi_harness::outcome::Leak| LeakEntry {
                    kind: leak.kind,
                    id: leak.id.clone(),
                    ours: leak.ours,
                    check: leak.check.clone(),
                };
                self.run.leaks.extend(leaks.iter().map(entry));
            }
            Event::Finished(summary) => {
                self.run.summary = summary_entry(summary);
                self.run.duration_ms = ms(summary.duration);
                self.run.verdict = summary.verdict();
                self.run.interrupted = summary.halt != Halt::None;
            }
        }
    }
}

fn target_entry(target: &Target) -> TargetEntry {
    TargetEntry {
        endpoint: target.endpoint().to_string(),
        node_endpoints: target.nodes().iter().skip(1).map(|node| node.endpoint().to_string()).collect(),
        controller_endpoint: target.controller_endpoint().map(ToString::to_string),
        name: target.info().name.clone(),
        vendor_version: target.info().vendor_version.clone(),
        capabilities: target.capabilities().iter().map(|capability| capability.name()).collect(),
    }
}

fn summary_entry(summary: &Summary) -> SummaryEntry {
    SummaryEntry {
        passed: summary.passed,
        failed: summary.failed,
        warned: summary.warned,
        skipped: summary.skipped,
        broken: summary.broken,
        known_failures: summary.known_failures,
        unexpected_passes: summary.unexpected_passes,
    }
}

fn check_entry(report: &CheckReport) -> CheckEntry {
    let mut requirements: Vec<_> = report.planned.check.requirements.iter().map(|rule| rule.id).collect();
    let violation = report.outcome.violation();
    if let Some(broken) = violation.and_then(|violation| story::rule(report, violation)) {
        requirements.retain(|id| *id != broken.id);
        requirements.insert(0, broken.id);
    }
    let (message, known_because) = match &report.outcome {
        Outcome::Passed => (String::new(), None),
        Outcome::Failed(violation) | Outcome::Warned(violation) => (violation.message.clone(), None),
        Outcome::Skipped(why) | Outcome::Broken(why) => (why.clone(), None),
        Outcome::KnownFailure { violation, reason } => (violation.message.clone(), Some(reason.clone())),
        Outcome::UnexpectedPass { reason } => {
            ("passes, but is listed as known to fail".to_owned(), Some(reason.clone()))
        }
    };
    let told = !matches!(report.outcome, Outcome::Passed | Outcome::Skipped(_));
    let (first, rest) = report.calls.split_at(report.calls.len().min(CALLS_FIRST_MAX));
    let last = &rest[rest.len().saturating_sub(CALLS_LAST_MAX)..];
    CheckEntry {
        id: report.label(),
        outcome: report.outcome.kind(),
        duration_ms: ms(report.duration),
        requirements,
        message,
        expected: violation.map(|violation| violation.expected.clone()).unwrap_or_default(),
        actual: violation.map(|violation| violation.actual.clone()).unwrap_or_default(),
        driver_printed: violation.map(|violation| violation.printed.to_vec()).unwrap_or_default(),
        told: violation.map(|violation| violation.told.to_vec()).unwrap_or_default(),
        notes: report.notes.clone(),
        known_because,
        left_behind: report.leftovers.clone(),
        calls: first.iter().chain(last).map(call_entry).collect(),
        calls_left_out: report.calls.len() - first.len() - last.len() + report.calls_dropped,
        repeat: report.repeat.clone(),
        title: report.planned.check.title,
        known_as: report.planned.check.known_as,
        fault: fault::key(report),
        story: if told { Story(report).to_string() } else { String::new() },
    }
}

fn call_entry(call: &CallRecord) -> CallEntry {
    let (mut response, mut status, mut no_answer) = (None, None, None);
    match call.outcome() {
        Answer::Ok(body) => response = Some(body),
        Answer::Refused(refused) => {
            status = Some(Status { code: refused.code_name(), message: refused.message });
        }
        Answer::Unknown(why) => no_answer = Some(why.to_string()),
    }
    CallEntry {
        rpc: call.rpc.to_string(),
        node: call.node,
        worker: call.worker,
        sent_after_ms: ms(call.sent_after),
        duration_ms: ms(call.duration),
        cleanup: call.cleanup,
        request: call.request(),
        response,
        status,
        no_answer,
    }
}

fn by_name<S: Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(verdict.name())
}

fn kind_by_name<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Whole milliseconds; a run that outlives 64 bits of them does not exist.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
