//! Describes a failure once and in full, as plain text: the rule, what was expected, what came, the calls that led
//! there, and the command that repeats it.

mod relevant;

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use csi_proto::{Call as _, v1};

use crate::client::answer::Answer;
use crate::client::record::CallRecord;
use crate::protocol::rpc::Facts;
use crate::results::outcome::{CheckReport, Finding, Flaky, Outcome, OutcomeKind};
use crate::spec::requirements::Requirement;
use crate::spec::verdict::{CallSpan, Violation};
use crate::text::encoding::shell_word;
use crate::text::grpcurl;
use crate::text::shorten::{shortened, shortened_json};
pub(crate) use relevant::have_to_do;
use relevant::{Because, Relevant, makes_something, relevant};

/// Largest number of shown calls that made the objects of other calls.
const MAKING_SHOWN_MAX: usize = 4;
/// Calls shown at most of the last ones that changed something, since the cause is most often among them.
const CHANGING_SHOWN_MAX: usize = 12;
/// Calls shown at most of the last ones of any kind, since those show the effect.
const LAST_SHOWN_MAX: usize = 4;

/// Length of a command in bytes up to which it is shown.
const COMMAND_BYTES_MAX: usize = 2_000;

/// Largest number of violations that are shown beside the gravest one.
const ALSO_SHOWN_MAX: usize = 5;

/// Largest number of leftovers that are shown.
const LEFTOVERS_SHOWN_MAX: usize = 5;
/// Spans of one party that a time line shows at each end.
const SPANS_AT_EACH_END: usize = 9;

/// The story of a check that did not simply pass.
#[derive(Debug)]
pub struct FailureReport<'a>(pub &'a CheckReport);

impl fmt::Display for FailureReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&whole(&findings(self.0), &transcript(self.0), &by_hand(self.0), &self.0.repeat))
    }
}

/// Returns true for a line of a story with a command, which is there to be copied.
pub fn is_command(line: &str) -> bool {
    ["  by hand ", "  repeat "].iter().any(|label| line.starts_with(label))
}

/// A story out of its parts.
pub fn whole(findings: &str, transcript: &str, by_hand: &[String], repeat: &str) -> String {
    let mut text = format!("{findings}{transcript}");
    for (nth, line) in by_hand.iter().enumerate() {
        let label = if nth == 0 { "by hand" } else { "" };
        text.push_str(&format!("  {label:<13}{line}\n"));
    }
    text + &format!("  repeat       {repeat}\n")
}

/// Describes the result of a check, without the calls that lead to it.
pub fn findings(report: &CheckReport) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_findings(&mut text, report);
    text
}

fn write_findings(f: &mut String, report: &CheckReport) -> fmt::Result {
    match &report.outcome {
        Outcome::Failed(finding)
        | Outcome::Warned(finding)
        | Outcome::Flaky(Flaky { finding, .. })
        | Outcome::KnownFailure { finding, .. } => {
            write_finding(f, report, finding, report.outcome.kind())?;
        }
        Outcome::Skipped(why) | Outcome::Broken(why) => writeln!(f, "  {}", shortened(why))?,
        Outcome::SameFault(same) => writeln!(f, "  {}", shortened(&same.sentence()))?,
        Outcome::UnexpectedPass { reason } => {
            writeln!(f, "  it passes, but is listed as known to fail: {reason}")?;
        }
        Outcome::Passed => {}
    }
    if let Some(first) = &report.began_with {
        writeln!(f, "  began with   {}", shortened(&first.to_string()))?;
    }
    for leftover in report.leftovers.iter().take(LEFTOVERS_SHOWN_MAX) {
        writeln!(f, "  left behind  {}", shortened(leftover))?;
    }
    match report.leftovers.len().checked_sub(LEFTOVERS_SHOWN_MAX) {
        Some(1) => writeln!(f, "               … and 1 more thing; --report json=FILE has it"),
        Some(hidden @ 2..) => {
            writeln!(f, "               … and {hidden} more things; --report json=FILE has all")
        }
        _ => Ok(()),
    }
}

/// The calls that lead to a check's result: in the check's own words, or else as they were recorded.
pub fn transcript(report: &CheckReport) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = match report.outcome.violation().map(|violation| &violation.transcript[..]) {
        Some(lines @ [_, ..]) => lines.iter().try_for_each(|line| writeln!(text, "  {}", shortened(line))),
        Some([]) | None => write_calls(&mut text, report).and_then(|()| write_timeline(&mut text, report)),
    };
    let _ = write_also(&mut text, report);
    text
}

/// Describes the other violations of the check, each once.
fn write_also(f: &mut String, report: &CheckReport) -> fmt::Result {
    let key = |one: &Violation| (rule(report, one).map(|rule| rule.id), one.message.clone());
    let mut seen: BTreeSet<_> = report.outcome.violation().into_iter().map(key).collect();
    let also = report.also.iter().filter_map(|one| Some((one.finding()?, one.kind())));
    let also: Vec<(&Finding, OutcomeKind)> =
        also.filter(|(one, _)| seen.insert(key(&one.violation))).collect();
    for (finding, kind) in also.iter().take(ALSO_SHOWN_MAX) {
        writeln!(f, "  also")?;
        write_finding(f, report, finding, *kind)?;
        finding.violation.transcript.iter().try_for_each(|line| writeln!(f, "  {}", shortened(line)))?;
    }
    match also.len().checked_sub(ALSO_SHOWN_MAX) {
        Some(1) => writeln!(f, "  … and 1 more fault; --report json=FILE has it"),
        Some(hidden @ 2..) => writeln!(f, "  … and {hidden} more faults; --report json=FILE has them"),
        _ => Ok(()),
    }
}

fn write_finding(
    f: &mut String,
    report: &CheckReport,
    Finding { violation, plays, .. }: &Finding,
    kind: OutcomeKind,
) -> fmt::Result {
    writeln!(f, "  {}", shortened(&violation.message))?;
    if let Some(rule) = rule(report, violation) {
        writeln!(f, "  requirement  {} ({}), {}", rule.id, rule.strength(), rule.section)?;
        writeln!(f, "               {}", rule.sentence())?;
        if let Some(why) = rule.why_only_warned().filter(|_| kind == OutcomeKind::Warned) {
            writeln!(f, "  only warns   {why}")?;
        }
    }
    if let Some(plays) = plays {
        writeln!(f, "  repeated     {plays}")?;
    }
    if !violation.expected.is_empty() {
        writeln!(f, "  expected     {}", shortened(&violation.expected))?;
    }
    if !violation.actual.is_empty() {
        writeln!(f, "  actual       {}", shortened(&violation.actual))?;
    }
    if !violation.printed.is_empty() {
        writeln!(f, "  the driver printed last")?;
    }
    violation.printed.iter().try_for_each(|line| writeln!(f, "    {}", shortened(line)))
}

/// The requirement that a violation breaks.
pub fn rule(report: &CheckReport, violation: &Violation) -> Option<&'static Requirement> {
    violation.requirement.or_else(|| report.planned.check.requirements.first().copied())
}

fn write_calls(f: &mut String, report: &CheckReport) -> fmt::Result {
    let (_, calls) = calls_of_the_check(report);
    if calls.is_empty() {
        return Ok(());
    }
    let runs = runs(&calls, &report.incidents);
    let Shown { accused, runs: shown, .. } = shown(report, &runs);
    // A single call needs no mark.
    let marked = accused.filter(|_| shown.len() > 1);
    writeln!(f, "  calls")?;
    let mut left_out = LeftOut { hidden: report.calls_dropped, before: 0, incidents: Vec::new() };
    let mut follows_a_call = false;
    let mut incidents = report.incidents.iter().peekable();
    for (at, run) in runs.iter().enumerate() {
        while let Some((_, what)) = incidents.next_if(|(after, _)| *after <= run.0.sent_after) {
            left_out.happened(what);
            if std::mem::take(&mut follows_a_call) {
                left_out.write(f)?;
            }
        }
        if shown.contains(&at) {
            left_out.write(f)?;
            write_run(f, run, marked == Some(at))?;
            follows_a_call = true;
        } else {
            left_out.hidden += run.1;
        }
    }
    left_out.write(f)
}

/// The calls that the check made, by their places: without its clean-up, and without repeated questions for the id of a node, which come
/// before each ControllerPublishVolume.
fn calls_of_the_check(report: &CheckReport) -> (Vec<usize>, Vec<&CallRecord>) {
    let mut nodes: Vec<(usize, String)> = Vec::new();
    let mut is_new = |call: &CallRecord| {
        if call.rpc != v1::NodeGetInfoRequest::RPC {
            return true;
        }
        let node = (call.node, call.outcome().to_string());
        let is_new = !nodes.contains(&node);
        if is_new {
            nodes.push(node);
        }
        is_new
    };
    report.calls.iter().enumerate().filter(|(_, call)| !call.cleanup && is_new(call)).unzip()
}

/// The time line of a violation, whose calls the record shows without their times. Of what one party does in a row, the first and the last
/// spans are shown, and the longest one.
fn write_timeline(f: &mut String, report: &CheckReport) -> fmt::Result {
    let spans = report.outcome.violation().map_or(&[][..], |violation| &violation.timeline[..]);
    let end_us = spans.iter().map(|span| span.to_us).max().unwrap_or_default();
    let call_width = spans.iter().map(|span| span.call.chars().count()).max().unwrap_or_default();
    let width = CallSpan::BAR_COLUMNS + 2;
    if !spans.is_empty() {
        writeln!(f, "  time line of {} ms", end_us / 1_000)?;
    }
    for row in spans.chunk_by(|one, next| one.party.is_some() && one.party == next.party) {
        let longest = (0..row.len()).max_by_key(|nth| row[*nth].to_us.saturating_sub(row[*nth].from_us));
        let mut left_out = 0;
        for (nth, span) in row.iter().enumerate() {
            let is_end = nth < SPANS_AT_EACH_END || nth + SPANS_AT_EACH_END >= row.len();
            if !is_end && Some(nth) != longest {
                left_out += 1;
                continue;
            }
            if left_out > 0 {
                writeln!(f, "    … {left_out} more")?;
                left_out = 0;
            }
            writeln!(f, "    {:<call_width$}  {:<width$}  {}", span.call, span.bar(end_us), span.answer)?;
        }
    }
    Ok(())
}

/// Calls that are left out of the transcript, with the incidents after the last shown one. Earlier incidents make no
/// sense without the calls around them.
struct LeftOut<'a> {
    /// The number of calls left out before the incidents.
    before: usize,
    incidents: Vec<&'a str>,
    /// The number of calls left out after the incidents.
    hidden: usize,
}

impl<'a> LeftOut<'a> {
    fn happened(&mut self, what: &'a str) {
        if self.hidden > 0 {
            self.before += std::mem::take(&mut self.hidden);
            self.incidents.clear();
        }
        self.incidents.push(what);
    }

    fn write(&mut self, f: &mut String) -> fmt::Result {
        write_hidden(f, &mut self.before)?;
        for what in self.incidents.drain(..) {
            writeln!(f, "    {}", shortened(what))?;
        }
        write_hidden(f, &mut self.hidden)
    }
}

/// A call that explains the result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplainingCall {
    /// Its place among all calls of the check.
    pub place: usize,
    /// The number of times that it was made in a row, with equal answers.
    pub times: usize,
    /// True for the call that breaks the rule, as far as that can be known.
    pub is_accused: bool,
}

/// The calls that [`transcript`] shows. Empty if the check wrote its own transcript.
pub fn explaining_calls(report: &CheckReport) -> Vec<ExplainingCall> {
    if report.outcome.violation().is_some_and(|violation| !violation.transcript.is_empty()) {
        return Vec::new();
    }
    let (places, calls) = calls_of_the_check(report);
    let runs = runs(&calls, &report.incidents);
    let Shown { accused, runs: shown, .. } = shown(report, &runs);
    let mut before = 0;
    let mut explaining = Vec::new();
    for (at, (_, times)) in runs.iter().enumerate() {
        if let Some(place) = places.get(before).filter(|_| shown.contains(&at)) {
            explaining.push(ExplainingCall { place: *place, times: *times, is_accused: accused == Some(at) });
        }
        before += times;
    }
    explaining
}

/// The command that makes the call that breaks the rule without csi-sanity, and then what to know before it is used, a line each. Empty
/// if that call alone does not show what is wrong, because others come before it, or because no command can make it.
pub fn by_hand(report: &CheckReport) -> Vec<String> {
    commands_by_hand(report).unwrap_or_default()
}

fn commands_by_hand(report: &CheckReport) -> Option<Vec<String>> {
    let violation = report.outcome.violation()?;
    let (_, calls) = calls_of_the_check(report);
    let runs = runs(&calls, &report.incidents);
    let Shown { accused, leading, .. } = shown(report, &runs);
    let (call, times) = *runs.get(accused?)?;
    let request = call.request();
    let repeats = |(other, _): &(&CallRecord, usize)| other.rpc == call.rpc && other.request() == request;
    let leading: Vec<_> = leading.iter().map(|at| runs[*at]).collect();
    let is_alone = leading.iter().all(repeats)
        && violation.injected.is_none()
        && violation.transcript.is_empty()
        && report.calls_dropped == 0
        && calls.iter().all(|other| other.worker == call.worker)
        && report.incidents.iter().all(|(after, _)| *after > call.sent_after);
    let endpoint = call.endpoint.as_deref().filter(|_| is_alone && call.request.is_whole_in_json())?;
    let command = grpcurl::command(call.rpc, &request, endpoint)?;
    if command.len() > COMMAND_BYTES_MAX {
        let label = shell_word(&report.label());
        let why = "the request is too long to be shown: --report json=report.json has it, and this command prints it";
        return Some(vec![format!("csi-sanity export report.json {label}"), why.to_owned()]);
    }
    let facts = Facts::of(call.rpc)?;
    let times =
        if facts.changes() { times + leading.iter().map(|(_, times)| times).sum::<usize>() } else { 1 };
    let mut lines = vec![command];
    if times > 1 {
        lines.push(format!("make this call {times} times; the last one breaks the rule"));
    }
    if lines[0].contains(grpcurl::SECRET_VARIABLE) {
        lines.push(format!(
            "set each variable {}… to the secret of that name first",
            grpcurl::SECRET_VARIABLE
        ));
    }
    if let (Some(undo), Answer::Ok(_)) = (facts.undone_by(), &call.outcome) {
        lines.push(format!("undo it with {undo} afterwards"));
    }
    Some(lines)
}

/// The calls to show, by their places. Calls in a row that repeat one another count as one.
struct Shown {
    /// The call that breaks the rule, where the finding or the rule is about its RPC, or what is wrong is how it ended. Which one it is
    /// otherwise, as with what a workload finds, is not known.
    accused: Option<usize>,
    /// Calls before the accused one that changed something, of those that are about the objects of the finding.
    leading: Vec<usize>,
    runs: BTreeSet<usize>,
}

/// Chooses the calls to show from those that are about the objects of the finding: the accused one, the first that made something,
/// the last that changed something, and the last of any kind. If what is wrong is how a call ended, later calls explain nothing.
fn shown(report: &CheckReport, runs: &[(&CallRecord, usize)]) -> Shown {
    let calls: Vec<&CallRecord> = runs.iter().map(|(call, _)| *call).collect();
    let violation = report.outcome.violation();
    let rule = violation.and_then(|violation| rule(report, violation));
    let Relevant { accused, because, suspects, mut places } = relevant(&calls, rule, violation);
    let end = if because == Because::ItsEnd { calls.len().min(accused + 1) } else { calls.len() };
    places.retain(|at| *at < end);
    let making = places.iter().filter(|at| makes_something(calls[**at])).take(MAKING_SHOWN_MAX);
    let changes = |at: &&usize| Facts::of(calls[**at].rpc).is_some_and(Facts::changes);
    let leading = places.iter().filter(|at| **at < accused).filter(changes).copied().collect();
    let changing = places.iter().rev().filter(changes).take(CHANGING_SHOWN_MAX);
    let last = places.iter().rev().take(LAST_SHOWN_MAX);
    let shown = making.chain(changing).chain(last).chain(&suspects).copied().chain([accused]);
    let shown: BTreeSet<usize> = shown.collect();
    // A line that says that one call is left out would be no shorter than the call.
    let is_alone = |at: &usize| {
        at.checked_sub(1).is_none_or(|before| shown.contains(&before)) && shown.contains(&(at + 1))
    };
    let runs = (0..end).filter(|at| shown.contains(at) || is_alone(at)).collect();
    let accused = (because != Because::Last && suspects.is_empty()).then_some(accused);
    Shown { accused, leading, runs }
}

fn write_run(f: &mut String, (call, times): &(&CallRecord, usize), is_accused: bool) -> fmt::Result {
    let mark = if is_accused { "  ← breaks the rule" } else { "" };
    writeln!(f, "    {}{mark}", call_line(call))?;
    match times {
        1 => Ok(()),
        more => writeln!(f, "      … and the same {}", times_text(more - 1)),
    }
}

fn write_hidden(f: &mut String, hidden: &mut usize) -> fmt::Result {
    match std::mem::take(hidden) {
        0 => Ok(()),
        1 => writeln!(f, "    … 1 more call, which the JSON report has (--report json=FILE)"),
        hidden => writeln!(f, "    … {hidden} more calls, which the JSON report has (--report json=FILE)"),
    }
}

fn times_text(times: usize) -> String {
    if times == 1 { "once more".to_owned() } else { format!("{times} times more") }
}

/// Counts calls that repeat the one before and get an equal answer, as polling does, so that they are shown once. Calls
/// with an incident between them are counted separately.
fn runs<'a>(calls: &[&'a CallRecord], incidents: &[(Duration, String)]) -> Vec<(&'a CallRecord, usize)> {
    let mut runs: Vec<(&CallRecord, usize)> = Vec::new();
    let mut happened = 0;
    for call in calls {
        let before = happened;
        happened = incidents.partition_point(|(after, _)| *after <= call.sent_after);
        match runs.last_mut() {
            Some((last, times))
                if before == happened
                    && last.rpc == call.rpc
                    && last.request() == call.request()
                    && last.outcome().to_string() == call.outcome().to_string() =>
            {
                *times += 1;
            }
            _ => runs.push((call, 1)),
        }
    }
    runs
}

/// One call on two lines: the request and the answer.
pub fn call_line(call: &CallRecord) -> String {
    let node = if call.node > 0 { format!(" at node {}", call.node) } else { String::new() };
    let mut line = format!("{}{node} {}", call.rpc, shortened_json(&call.request()));
    let answer = match call.outcome() {
        Answer::Ok(response) => format!("OK {}", shortened_json(&response)),
        other => shortened(&other.to_string()),
    };
    // Writing into a string cannot fail.
    let _ = write!(line, "\n      → {answer} ({} ms)", call.duration.as_millis());
    line
}
