//! Stage 8: a driver that has stopped working. After a check that may do harm, the runner makes plain calls that the
//! driver did before. If one fails, an earlier check is blamed, and other checks that met that failure get no verdict.

use csi_proto::Rpc;
use tonic::Code;

use super::Judge;
use crate::checks::check::Check;
use crate::client::answer::{Answer, NoAnswer};
use crate::client::record::CallRecord;
use crate::config::profile::Profile;
use crate::protocol::effect;
use crate::protocol::rpc::Facts;
use crate::results::failure_report;
use crate::results::outcome::{CheckReport, Finding, Outcome, OutcomeKind, SameFault, Source};
use crate::spec::verdict::Violation;
use crate::text::shorten::shortened;

/// Calls shown at most, one of which broke the driver.
const SUSPECTS_SHOWN_MAX: usize = 12;

/// A plain call that failed, although the driver did it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) rpc: Rpc,
    /// Its code; `None` if there was no answer.
    pub(crate) code: Option<Code>,
    /// The driver's answer.
    pub(crate) answer: String,
    /// The call and its answer, as failures show them.
    pub(crate) line: String,
    /// The reason for which it failed, in the words of the tally.
    pub(crate) reason: Option<String>,
}

/// The call of a check after which a plain call failed.
#[derive(Clone, Debug)]
pub(crate) struct Culprit {
    /// The call and its answer, as failures show them.
    pub(crate) line: String,
    pub(crate) rpc: Rpc,
    /// The plain call.
    pub(crate) lost: Lost,
}

/// A plain call that fails for good.
#[derive(Clone, Debug)]
pub(crate) struct Lasting {
    pub(crate) lost: Lost,
    /// Since when, in words.
    pub(crate) since: String,
}

impl Lost {
    /// The end of this call, if it is one that says more than "not now".
    pub(crate) fn of(call: &CallRecord) -> Option<Lost> {
        let code = match &call.outcome {
            Answer::Refused(refused) if !effect::is_not_now(call.rpc.method, refused.code) => {
                Some(refused.code)
            }
            Answer::Unknown(NoAnswer::Timeout(_) | NoAnswer::Broken(_)) => None,
            _ => return None,
        };
        let answer = shortened(&call.outcome().to_string());
        let (line, reason) = (failure_report::call_line(call), call.outcome.failure_with_reason());
        Some(Lost { rpc: call.rpc, code, answer, line, reason })
    }

    /// Returns true if a call of a check has failed like the plain call.
    pub(crate) fn shows_in(&self, call: &CallRecord) -> bool {
        let is_alike = || Lost::of(call).is_some_and(|lost| lost.code == self.code);
        !call.cleanup && call.rpc == self.rpc && is_alike()
    }

    /// Says if a violation consists of nothing else.
    fn is_all_of(&self, violation: &Violation) -> bool {
        violation.refused.as_deref().is_some_and(|(rpc, code)| *rpc == self.rpc && Some(*code) == self.code)
    }

    /// The violation of the rule that the check of the plain call judges first.
    fn violation(&self, judge: &Check, message: String) -> Violation {
        let violation = Violation::new(message)
            .expected(format!("{} succeeds, as it did before", self.rpc))
            .actual(&self.answer);
        match judge.requirements.first().copied() {
            Some(rule) => violation.of(rule),
            None => violation,
        }
    }

    /// The violation of a check that some of its calls have broken the driver.
    pub(crate) fn after_check(&self, judge: &Check, report: &CheckReport) -> Violation {
        let calls = suspects(report, self);
        let cause = if calls.len() == 1 { "this call" } else { "one or more of these calls" };
        let mut lines = vec![format!("{cause} caused it")];
        let hidden = calls.len().saturating_sub(SUSPECTS_SHOWN_MAX);
        if hidden > 0 {
            let calls = if hidden == 1 { "call" } else { "calls" };
            lines.push(format!("… {hidden} earlier {calls}; --report json=FILE has them"));
        }
        lines.extend(calls.into_iter().skip(hidden).map(failure_report::call_line));
        lines.extend(["the plain call after the check".to_owned(), self.line.clone()]);
        let message = format!("{} stopped working after this check", self.rpc);
        self.violation(judge, message).transcript(lines)
    }

    /// The violation of a check that has broken the driver, but does not so again.
    pub(crate) fn once_after_check(&self, judge: &Check) -> Violation {
        let message = format!(
            "{} stopped working after this check; it works again since the driver was restarted, and the check alone does \
             not make it fail",
            self.rpc
        );
        self.violation(judge, message)
    }

    /// Makes a check refer to the one that was blamed for its failure.
    pub(crate) fn refer(&self, report: &mut CheckReport, first: String, counts_as: OutcomeKind) {
        let message = format!("{} stopped working after it", self.rpc);
        let same = SameFault { first, message, counts_as, deviates: counts_as != OutcomeKind::Warned };
        match &report.outcome {
            Outcome::Passed | Outcome::Skipped(_) | Outcome::Broken(_) => {
                report.outcome = Outcome::SameFault(same);
                report.calls.clear();
            }
            _ => report.notes.push(same.sentence()),
        }
    }
}

impl Culprit {
    /// The violation of the check that made the call.
    pub(crate) fn violation(&self, judge: &Check) -> Violation {
        let lines = ["the call, in a fresh start", &self.line, "the plain call after it", &self.lost.line];
        let message = format!("{} stopped working after {}", self.lost.rpc, self.rpc);
        self.lost.violation(judge, message).transcript(lines.map(str::to_owned).into())
    }
}

impl Lasting {
    pub(crate) fn sentence(&self) -> String {
        format!("{} has failed since {}: {}", self.lost.rpc, self.since, self.lost.answer)
    }

    /// Makes a check inconclusive if its calls failed as the plain call does, unless it found something else.
    pub(crate) fn excuse(&self, report: &mut CheckReport) {
        let is_own = report.outcomes().any(|outcome| match outcome {
            Outcome::Failed(finding) => !self.lost.is_all_of(&finding.violation),
            other => matches!(other, Outcome::Flaky(_) | Outcome::KnownFailure { .. }),
        });
        if is_own || !report.calls.iter().any(|call| self.lost.shows_in(call)) {
            return;
        }
        if let Outcome::Warned(finding) = &report.outcome {
            report.warnings.push(finding.violation.clone());
        }
        report.also.retain(|outcome| outcome.kind() != OutcomeKind::Failed);
        report.outcome = Outcome::Broken(self.sentence());
    }
}

/// Blames a check that has broken the driver. All its other outcomes count as other faults.
pub(crate) fn blame(report: &mut CheckReport, violation: Violation, is_certain: bool, judge: &Judge) {
    let binds_from = match (is_certain, violation.requirement) {
        (true, rule) => rule.map_or(Profile::Csi, |rule| rule.binds_from()),
        (false, _) => Profile::Strict,
    };
    let is_binding = binds_from <= judge.strictness.profile;
    let finding = Finding { binds_from, source: Source::Harm, ..violation.into() };
    let fails =
        matches!(report.outcome, Outcome::Failed(_) | Outcome::Flaky(_) | Outcome::KnownFailure { .. });
    match (fails, is_binding) {
        (true, true) => report.also.insert(0, judge.outcome(&report.label(), finding)),
        (true, false) => {
            let Violation { message, actual, .. } = &finding.violation;
            report.notes.push(format!("{message}: {actual}"));
        }
        (false, _) => {
            report.warnings.extend(report.outcome.violation().cloned());
            match is_binding {
                true => judge.accuse(report, finding),
                false => report.outcome = judge.outcome(&report.label(), finding),
            }
        }
    }
}

/// The check that most likely broke the driver: the first one with a call that failed like the plain call, unless that
/// was its first such call; then the one before.
pub(crate) fn suspect(held: &[CheckReport], lost: &Lost) -> usize {
    let shows = |report: &CheckReport| report.calls.iter().any(|call| lost.shows_in(call));
    match held.iter().position(shows) {
        Some(at) if at > 0 && last_done(&held[at].calls, lost.rpc.method).is_none() => at - 1,
        Some(at) => at,
        None => held.len().saturating_sub(1),
    }
}

/// The last call of the RPC that was done.
fn last_done(calls: &[CallRecord], method: &str) -> Option<usize> {
    let is_done = |call: &CallRecord| {
        !call.cleanup && call.rpc.method == method && matches!(call.outcome, Answer::Ok(_))
    };
    calls.iter().rposition(is_done)
}

/// The number of first calls of the check that were harmless: a call of the RPC was done after them.
pub(crate) fn harmless(report: &CheckReport, method: &str) -> u64 {
    match last_done(&report.calls, method) {
        Some(at) if report.calls_dropped == 0 => at as u64,
        _ => 0,
    }
}

/// The calls one of which broke the driver: those from the last one that was done to the first one that failed like the
/// plain call. If any of these change something, only they are suspected.
fn suspects<'a>(report: &'a CheckReport, lost: &Lost) -> Vec<&'a CallRecord> {
    let from = last_done(&report.calls, lost.rpc.method).unwrap_or_default();
    let after = &report.calls[from..];
    let to = after.iter().skip(1).position(|call| lost.shows_in(call)).map_or(after.len(), |at| at + 2);
    let all = || after[..to].iter();
    let changing: Vec<&CallRecord> =
        all().filter(|call| Facts::of(call.rpc).is_some_and(Facts::changes)).collect();
    if changing.is_empty() { all().collect() } else { changing }
}
