//! The results of a check and of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::check::Planned;
use crate::client::record::CallRecord;
use crate::client::response_rules::SharedIds;
use crate::client::spent::TimeSpent;
use crate::client::tally::{FirstFailure, RpcCalls};
use crate::config::profile::Profile;
use crate::protocol::version::Judged;
use crate::resources::cleanup::LeftBehind;
use crate::spec::verdict::{CutShort, Plays, Violation};

/// The reason of a skip where the run was interrupted.
pub(crate) const INTERRUPTED: &str = "interrupted";
/// The beginning of the reason of a skip where the run had met as many failures as it was to meet.
pub(crate) const ENDED_EARLY: &str = "the run stopped before this check, after ";

/// Returns true if a check was skipped for this reason because its run did not come to it.
pub fn is_of_early_end(reason: &str) -> bool {
    reason == INTERRUPTED || reason.starts_with(ENDED_EARLY)
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The driver kept the rule.
    Passed,
    /// The driver broke a rule that binds.
    Failed(Finding),
    /// The driver broke a rule that binds, and did not when the same was done again.
    Flaky(Flaky),
    /// The driver broke a recommendation, or answered in a way that is only tolerated.
    Warned(Finding),
    /// The check only shows again what another one reports.
    SameFault(SameFault),
    /// The check does not apply, because.
    Skipped(String),
    /// The check could not judge, for this reason.
    Broken(String),
    /// The driver broke the rule, as the known-failing list says it does.
    KnownFailure {
        /// The violation that was known.
        finding: Finding,
        /// The reason in the list.
        reason: String,
    },
    /// The known-failing list is out of date: the driver keeps the rule.
    UnexpectedPass {
        /// The reason in the list.
        reason: String,
    },
}

/// A violation with what the run adds to the statement of the check.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule that was broken, and how.
    pub violation: Violation,
    /// The mildest profile under which it makes a run fail.
    pub binds_from: Profile,
    /// The number of plays of the failing case, where there was more than one: by the check, or by the run, which repeats the check.
    pub plays: Option<Plays>,
    /// The way in which the run learnt of it.
    pub source: Source,
}

/// The way in which a run came to know of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The check found it.
    Check,
    /// The check met again what another check reports, and found nothing else.
    MetAgain,
    /// The driver stopped working after the check. The violation is not about the rules of the check.
    Harm,
}

impl From<Violation> for Finding {
    fn from(violation: Violation) -> Finding {
        let plays = violation.replayed;
        Finding { violation, binds_from: Profile::default(), plays, source: Source::Check }
    }
}

/// A failure that did not recur when its check, or the failing case of it, was repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Flaky {
    /// The rule that was broken, and how.
    pub finding: Finding,
    /// The mildest profile under which it makes a run fail, if there is one.
    pub fails_from: Option<Profile>,
    /// True if it makes this run fail. Otherwise it counts as a warning.
    pub fails: bool,
}

/// A fault that a check shows and another check reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameFault {
    /// Label of the other check.
    pub first: String,
    /// The message of the other check.
    pub message: String,
    /// The outcome of the other check, and so the outcome that this one counts as: failed, warned, or known to fail.
    pub counts_as: OutcomeKind,
    /// True if the driver breaks a rule that binds in this check, too.
    pub deviates: bool,
}

impl SameFault {
    /// The finding as a sentence.
    pub fn sentence(&self) -> String {
        format!("the same fault as in {}: {}", self.first, self.message)
    }
}

/// The outcome of a check, without its reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The driver kept the rule.
    Passed,
    /// The driver broke a rule that binds.
    Failed,
    /// The driver broke a rule that binds, and did not when the same was done again.
    Flaky,
    /// The driver broke a recommendation, or answered in a way that is only tolerated.
    Warned,
    /// The check only shows again what another one reports. Reports have `skipped` for it, the word that their readers know.
    #[serde(skip)]
    SameFault,
    /// The check does not apply.
    Skipped,
    /// The check could not judge.
    Broken,
    /// The driver broke the rule, as the known-failing list says it does.
    KnownFailure,
    /// The driver keeps the rule, although the known-failing list says it does not.
    UnexpectedPass,
}

impl OutcomeKind {
    /// The outcome as reports name it.
    pub fn name(self) -> &'static str {
        match self {
            OutcomeKind::Passed => "passed",
            OutcomeKind::Failed => "failed",
            OutcomeKind::Flaky => "flaky",
            OutcomeKind::Warned => "warned",
            OutcomeKind::SameFault => "same_fault",
            OutcomeKind::Skipped => "skipped",
            OutcomeKind::Broken => "broken",
            OutcomeKind::KnownFailure => "known_failure",
            OutcomeKind::UnexpectedPass => "unexpected_pass",
        }
    }

    /// Returns true if the check has passed, with warnings or without.
    pub fn passes(self) -> bool {
        matches!(self, OutcomeKind::Passed | OutcomeKind::Warned | OutcomeKind::UnexpectedPass)
    }
}

impl Outcome {
    /// The kind of the outcome.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Outcome::Passed => OutcomeKind::Passed,
            Outcome::Failed(_) => OutcomeKind::Failed,
            Outcome::Flaky(_) => OutcomeKind::Flaky,
            Outcome::Warned(_) => OutcomeKind::Warned,
            Outcome::SameFault(_) => OutcomeKind::SameFault,
            Outcome::Skipped(_) => OutcomeKind::Skipped,
            Outcome::Broken(_) => OutcomeKind::Broken,
            Outcome::KnownFailure { .. } => OutcomeKind::KnownFailure,
            Outcome::UnexpectedPass { .. } => OutcomeKind::UnexpectedPass,
        }
    }

    /// The kind that the outcome counts as: for a check that shows a fault of another one, the outcome there; for a
    /// flaky failure, failed or warned.
    pub fn counts_as(&self) -> OutcomeKind {
        match self {
            Outcome::SameFault(same) => same.counts_as,
            Outcome::Flaky(flaky) => flaky.counts_as(),
            other => other.kind(),
        }
    }

    /// Returns true if the driver broke a rule that binds.
    pub fn deviates(&self) -> bool {
        matches!(self, Outcome::Failed(_) | Outcome::KnownFailure { .. })
    }

    /// The mildest profile under which it makes a run fail, where the driver broke something.
    pub fn binds_from(&self) -> Option<Profile> {
        match self {
            Outcome::Flaky(flaky) => flaky.fails_from,
            other => other.finding().map(|finding| finding.binds_from),
        }
    }

    /// The place among the outcomes of one check: a failure that recurred comes before one that did not, and both before a warning.
    pub(crate) fn place(&self) -> (u8, Option<Profile>) {
        let of_kind = match self.kind() {
            OutcomeKind::Failed => 0,
            OutcomeKind::Flaky if self.counts_as() == OutcomeKind::Failed => 1,
            OutcomeKind::Flaky => 2,
            _ => 3,
        };
        (of_kind, self.binds_from())
    }

    /// The violation, if the driver broke something.
    pub fn violation(&self) -> Option<&Violation> {
        self.finding().map(|finding| &finding.violation)
    }

    /// The violation with what the run adds to it, if the driver broke a rule.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Outcome::Failed(finding)
            | Outcome::Warned(finding)
            | Outcome::Flaky(Flaky { finding, .. })
            | Outcome::KnownFailure { finding, .. } => Some(finding),
            Outcome::Passed
            | Outcome::SameFault(_)
            | Outcome::Skipped(_)
            | Outcome::Broken(_)
            | Outcome::UnexpectedPass { .. } => None,
        }
    }
}

impl Flaky {
    /// The outcome that it counts as.
    pub fn counts_as(&self) -> OutcomeKind {
        if self.fails { OutcomeKind::Failed } else { OutcomeKind::Warned }
    }
}

/// The way in which a run ends early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Halt {
    /// The run does not end early.
    #[default]
    None,
    /// The user interrupts it.
    Interrupted,
    /// Its time limit passes.
    TimeUp,
}

/// The verdict on a run: the gravest that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The driver kept every rule that binds and was checked, but for those listed as known to fail.
    #[default]
    Conforms,
    /// A check passes although it is listed as known to fail.
    #[serde(rename = "known_failing_list_out_of_date")]
    ListOutOfDate,
    /// Something kept a check from judging, the time was up, or no check applied.
    NotJudged,
    /// The driver broke a rule that binds, left something behind, or died.
    Deviates,
    /// The user stopped the run.
    Interrupted,
}

impl Verdict {
    /// The verdict as programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Conforms => "conforms",
            Verdict::ListOutOfDate => "known_failing_list_out_of_date",
            Verdict::NotJudged => "not_judged",
            Verdict::Deviates => "deviates",
            Verdict::Interrupted => "interrupted",
        }
    }
}

/// One finished check, with everything that explains it.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The check, with the access type that it ran for.
    pub planned: Planned,
    /// The gravest of its outcomes.
    pub outcome: Outcome,
    /// Its other outcomes, the gravest first.
    pub also: Vec<Outcome>,
    /// Remarks that did not stop the check.
    pub warnings: Vec<Violation>,
    /// Remarks that are no verdict, such as how much it tried.
    pub notes: Vec<String>,
    /// The number of tries that have begun, for a check that makes several; 0 for any other.
    pub tried: u64,
    /// The work it left undone when it met its time limit.
    pub cut_short: Vec<CutShort>,
    /// The time it took, including its undoing.
    pub duration: Duration,
    /// The part of that time that did not go into the calls that it judges.
    pub spent: TimeSpent,
    /// The calls it made; kept only where something is to be explained.
    pub calls: Vec<CallRecord>,
    /// Calls that were made and not kept, behind the first ones.
    pub calls_dropped: usize,
    /// Incidents between the calls, with the time since the check began, in order.
    pub incidents: Vec<(Duration, String)>,
    /// Objects that the check made and could not undo.
    pub leftovers: Vec<String>,
    /// Objects that the check made or may have made, and that are not undone.
    pub left_behind: Vec<LeftBehind>,
    /// The first call of the run that failed as the one did which kept this check from judging, where another check made that.
    pub began_with: Option<FirstFailure>,
    /// The ids that the driver returned for an object of this check and for another one.
    pub shared_ids: SharedIds,
    /// The command that runs this check alone.
    pub repeat: String,
}

impl CheckReport {
    /// The label of the run.
    pub fn label(&self) -> String {
        self.planned.label()
    }

    /// All its outcomes, the gravest first.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        std::iter::once(&self.outcome).chain(&self.also)
    }

    /// Takes all outcomes, until [`set_outcomes`](CheckReport::set_outcomes) replaces them.
    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        let mut all = vec![std::mem::replace(&mut self.outcome, Outcome::Passed)];
        all.append(&mut self.also);
        all
    }

    /// Replaces all outcomes; the gravest comes first. If there are none, the check has passed.
    pub(crate) fn set_outcomes(&mut self, all: impl IntoIterator<Item = Outcome>) {
        let mut all = all.into_iter();
        self.outcome = all.next().unwrap_or(Outcome::Passed);
        self.also = all.collect();
    }
}

/// A death of the driver.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrashEntry")]
pub struct Crash {
    /// The calls that had no answer yet, as `check: RPC`.
    #[serde(default)]
    pub under_way: Vec<String>,
    /// True if the driver was back afterwards.
    #[serde(default)]
    pub back: bool,
    /// True if one of the checks is listed as known to fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// The file with its output, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
}

/// Something that stayed behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LeakEntry")]
pub struct Leak {
    /// `volume`, `snapshot` or `mount`.
    #[serde(default)]
    pub kind: String,
    /// Its id or path.
    #[serde(default)]
    pub id: String,
    /// True if this run made it.
    pub ours: bool,
    /// The check that made it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

/// Checks that show a fault again, by what the first check with that fault counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Again {
    /// Checks that show a fault of a check that failed.
    pub failed: usize,
    /// Checks that show a fault of a check that warned.
    pub warned: usize,
    /// Checks that show a fault of a check that failed as listed.
    pub known_failures: usize,
}

impl Again {
    /// All of them.
    pub fn all(self) -> usize {
        self.failed + self.warned + self.known_failures
    }
}

/// Numbers of checks by outcome. Together they are all checks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// Checks that failed and did not when they were repeated.
    pub flaky: usize,
    /// Checks that passed with a warning.
    pub warned: usize,
    /// Checks that only show again what another one reports.
    pub same_fault: usize,
    /// Checks that do not apply.
    pub skipped: usize,
    /// Checks that could not judge.
    pub broken: usize,
    /// Checks that failed as listed.
    pub known_failures: usize,
    /// Checks that passed although they are listed as known to fail.
    pub unexpected_passes: usize,
}

impl Tally {
    /// Counts one more check.
    pub fn add(&mut self, outcome: OutcomeKind) {
        *match outcome {
            OutcomeKind::Passed => &mut self.passed,
            OutcomeKind::Failed => &mut self.failed,
            OutcomeKind::Flaky => &mut self.flaky,
            OutcomeKind::Warned => &mut self.warned,
            OutcomeKind::SameFault => &mut self.same_fault,
            OutcomeKind::Skipped => &mut self.skipped,
            OutcomeKind::Broken => &mut self.broken,
            OutcomeKind::KnownFailure => &mut self.known_failures,
            OutcomeKind::UnexpectedPass => &mut self.unexpected_passes,
        } += 1;
    }
}

/// Numbers by outcome: of checks in `checks`, and of faults in all other fields. Of checks that show the same fault, the first one counts, and
/// the others are in `same_fault`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SummaryEntry")]
pub struct Counts {
    /// The driver kept the rule.
    pub passed: usize,
    /// It broke a rule that binds.
    pub failed: usize,
    /// It broke a rule that binds, and did not when the same was done again.
    #[serde(default)]
    pub flaky: usize,
    /// The flaky faults that make the run fail.
    #[serde(default)]
    pub flaky_failures: usize,
    /// It broke a recommendation.
    pub warned: usize,
    /// The check does not apply.
    #[serde(default)]
    pub skipped: usize,
    /// The check could not judge.
    #[serde(default)]
    pub broken: usize,
    /// It broke a rule, as the known-failing list says.
    pub known_failures: usize,
    /// It kept a rule, although the known-failing list says it does not.
    pub unexpected_passes: usize,
    /// Checks that show a fault which is counted already.
    #[serde(default)]
    pub same_fault: Again,
    /// Numbers of checks by outcome. Together they are all checks. Reports before v3 have none of these numbers.
    #[serde(default)]
    pub checks: Tally,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The profile that decided which violations make a check fail.
    pub profile: Profile,
    /// Numbers of checks and faults by outcome.
    pub counts: Counts,
    /// Faults that are not listed, by each profile under which they make a run fail.
    pub under: BTreeMap<Profile, usize>,
    /// The faults that are counted.
    pub faults: BTreeSet<(OutcomeKind, String)>,
    /// Deaths of the driver.
    pub crashes: Vec<Crash>,
    /// The reason why the driver does not run any more, although the run tried to start it.
    pub gone: Option<String>,
    /// Objects that the run, or another program meanwhile, left behind.
    pub leaks: Vec<Leak>,
    /// Objects that may have been left behind.
    pub left_behind: Vec<LeftBehind>,
    /// Work that checks left undone when they met their time limits, with the label of each check.
    pub cut_short: Vec<(String, CutShort)>,
    /// The reason for an early end of the run, if there was one.
    pub halt: Halt,
    /// The time that the run took.
    pub duration: Duration,
    /// The calls of the run, by RPC.
    pub calls: Vec<RpcCalls>,
    /// The versions of the protocol by which the driver was judged, if one was called.
    pub judged: Option<Judged>,
}

impl Summary {
    /// Counts one check. Its [fault](crate::results::fault::key), if it has one, makes the run fail under this profile and stricter ones, and
    /// is counted only for the first check that has it.
    pub fn count(
        &mut self,
        outcome: OutcomeKind,
        counts_as: OutcomeKind,
        fault: &str,
        binds_from: Option<Profile>,
    ) {
        self.counts.checks.add(outcome);
        let is_first = match outcome {
            OutcomeKind::SameFault => false,
            OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::Warned | OutcomeKind::KnownFailure => {
                self.faults.insert((outcome, fault.to_owned()))
            }
            OutcomeKind::Passed
            | OutcomeKind::Skipped
            | OutcomeKind::Broken
            | OutcomeKind::UnexpectedPass => true,
        };
        if is_first && matches!(outcome, OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::Warned) {
            let fails_under = |profile: &Profile| binds_from.is_some_and(|from| from <= *profile);
            for profile in Profile::ALL.into_iter().filter(fails_under) {
                *self.under.entry(profile).or_default() += 1;
            }
        }
        if is_first && outcome == OutcomeKind::Flaky {
            self.counts.flaky += 1;
            self.counts.flaky_failures += usize::from(counts_as == OutcomeKind::Failed);
            return;
        }
        *match (counts_as, is_first) {
            (OutcomeKind::Failed | OutcomeKind::SameFault, false) => &mut self.counts.same_fault.failed,
            (OutcomeKind::Warned | OutcomeKind::Flaky, false) => &mut self.counts.same_fault.warned,
            (OutcomeKind::KnownFailure, false) => &mut self.counts.same_fault.known_failures,
            (OutcomeKind::Failed | OutcomeKind::SameFault, true) => &mut self.counts.failed,
            (OutcomeKind::Warned | OutcomeKind::Flaky, true) => &mut self.counts.warned,
            (OutcomeKind::KnownFailure, true) => &mut self.counts.known_failures,
            (OutcomeKind::Passed, _) => &mut self.counts.passed,
            (OutcomeKind::Skipped, _) => &mut self.counts.skipped,
            (OutcomeKind::Broken, _) => &mut self.counts.broken,
            (OutcomeKind::UnexpectedPass, _) => &mut self.counts.unexpected_passes,
        } += 1;
    }

    /// The number of checks.
    pub fn checks(&self) -> usize {
        self.judged() + self.counts.skipped + self.counts.broken
    }

    /// Returns true if every check was skipped and nothing else happened, as may happen if few of them belong to a
    /// shard.
    pub fn says_nothing(&self) -> bool {
        let is_quiet = self.crashes.is_empty() && self.own_leaks().next().is_none();
        is_quiet && self.halt == Halt::None && self.checks() == self.counts.skipped
    }

    /// The number of checks that judged the driver.
    fn judged(&self) -> usize {
        let faults = self.counts.failed + self.counts.flaky + self.counts.warned + self.counts.known_failures;
        self.counts.passed + faults + self.counts.unexpected_passes + self.counts.same_fault.all()
    }

    /// The verdict on the whole run.
    pub fn verdict(&self) -> Verdict {
        self.verdict_with(self.counts.failed + self.counts.flaky_failures)
    }

    /// The verdict that another profile gives on what was seen.
    pub fn verdict_under(&self, profile: Profile) -> Verdict {
        if profile == self.profile { self.verdict() } else { self.verdict_with(self.faults_under(profile)) }
    }

    /// Faults that make a run fail under a profile.
    pub fn faults_under(&self, profile: Profile) -> usize {
        // A fault under a milder profile is one under this profile as well. Reports of older versions have the number
        // for their own profile only.
        let own = if profile >= self.profile { self.counts.failed + self.counts.flaky_failures } else { 0 };
        self.under.get(&profile).copied().unwrap_or_default().max(own)
    }

    fn verdict_with(&self, failed: usize) -> Verdict {
        let died = self.crashes.iter().any(|crash| !crash.known);
        if self.halt == Halt::Interrupted {
            Verdict::Interrupted
        } else if failed > 0 || died || self.own_leaks().next().is_some() {
            Verdict::Deviates
        } else if self.counts.broken > 0 || self.halt == Halt::TimeUp || self.judged() == 0 {
            Verdict::NotJudged
        } else if self.counts.unexpected_passes > 0 {
            Verdict::ListOutOfDate
        } else {
            Verdict::Conforms
        }
    }

    /// Returns leaks, and objects that could not be undone. An object that is both is one of the latter.
    pub fn certainly_left(&self) -> (Vec<&Leak>, Vec<&LeftBehind>) {
        let left: Vec<&LeftBehind> = self.left_behind.iter().filter(|left| !left.in_doubt).collect();
        let is_listed = |leak: &Leak| self.left_behind.iter().any(|left| left.id.as_ref() == Some(&leak.id));
        (self.own_leaks().filter(|leak| !is_listed(leak)).collect(), left)
    }

    /// Leaks that this run is to blame the driver for.
    pub fn own_leaks(&self) -> impl Iterator<Item = &Leak> {
        self.leaks.iter().filter(|leak| leak.ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_read_the_names() {
        use Verdict::*;
        for verdict in [Conforms, ListOutOfDate, NotJudged, Deviates, Interrupted] {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
        }
        use OutcomeKind::*;
        for kind in [Passed, Failed, Flaky, Warned, Skipped, Broken, KnownFailure, UnexpectedPass] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn a_fault_counts_once() {
        let mut summary = Summary::default();
        for (outcome, counts_as, fault) in [
            (OutcomeKind::Failed, OutcomeKind::Failed, "a"),
            (OutcomeKind::Failed, OutcomeKind::Failed, "a"),
            (OutcomeKind::Failed, OutcomeKind::Failed, "b"),
            (OutcomeKind::KnownFailure, OutcomeKind::KnownFailure, "a"),
            (OutcomeKind::SameFault, OutcomeKind::KnownFailure, "the same fault as in x: a"),
            (OutcomeKind::SameFault, OutcomeKind::Warned, "the same fault as in y: c"),
            (OutcomeKind::Passed, OutcomeKind::Passed, ""),
            (OutcomeKind::Passed, OutcomeKind::Passed, ""),
        ] {
            summary.count(outcome, counts_as, fault, None);
        }
        assert_eq!(
            (
                summary.counts.failed,
                summary.counts.known_failures,
                summary.counts.warned,
                summary.counts.passed
            ),
            (2, 1, 0, 2)
        );
        assert_eq!(summary.counts.same_fault, Again { failed: 1, warned: 1, known_failures: 1 });
        assert_eq!(summary.checks(), 8, "and each check is counted");
    }

    #[test]
    fn what_is_left_behind_counts_once() {
        let leak = |id: &str, ours| Leak { kind: "volume".to_owned(), id: id.to_owned(), ours, check: None };
        let left = |id: &str, in_doubt| LeftBehind {
            what: format!("volume {id}"),
            id: Some(id.to_owned()),
            why: "DeleteVolume answered INTERNAL".to_owned(),
            in_doubt,
            ..LeftBehind::default()
        };
        let summary = Summary {
            leaks: vec![leak("a", true), leak("b", true), leak("of-others", false)],
            left_behind: vec![left("b", false), left("c", false), left("d", true)],
            ..Summary::default()
        };
        let (leaks, left) = summary.certainly_left();
        assert_eq!(leaks, [&summary.leaks[0]]);
        assert_eq!(left, [&summary.left_behind[0], &summary.left_behind[1]]);
    }

    #[test]
    fn each_profile_has_its_verdict() {
        let mut summary = Summary::default();
        summary.count(OutcomeKind::Passed, OutcomeKind::Passed, "", None);
        for (fault, from) in [("a", Profile::Kubernetes), ("a", Profile::Kubernetes), ("b", Profile::Strict)]
        {
            summary.count(OutcomeKind::Warned, OutcomeKind::Warned, fault, Some(from));
        }
        summary.count(OutcomeKind::KnownFailure, OutcomeKind::KnownFailure, "c", Some(Profile::Csi));
        let under =
            Profile::ALL.map(|profile| (summary.verdict_under(profile), summary.faults_under(profile)));
        use Verdict::*;
        assert_eq!(
            under,
            [(Conforms, 0), (Deviates, 1), (Deviates, 2)],
            "each fault once, and none that is listed"
        );
        assert_eq!(summary.verdict(), Conforms);
    }

    #[test]
    fn the_gravest_decides() {
        let crash = |known| Crash { under_way: Vec::new(), known, back: true, log: None };
        let leak = |ours| Leak { kind: "volume".to_owned(), id: "v".to_owned(), ours, check: None };
        let mut summary = Summary {
            counts: Counts { passed: 3, warned: 1, skipped: 1, known_failures: 1, ..Counts::default() },
            ..Summary::default()
        };
        summary.crashes.push(crash(true));
        summary.leaks.push(leak(false));
        assert_eq!(summary.verdict(), Verdict::Conforms);
        summary.counts.unexpected_passes = 1;
        assert_eq!(summary.verdict(), Verdict::ListOutOfDate);
        summary.counts.broken = 1;
        assert_eq!(summary.verdict(), Verdict::NotJudged);
        for deviation in [
            Summary { counts: Counts { failed: 1, ..summary.counts }, ..summary.clone() },
            Summary { crashes: vec![crash(false)], ..summary.clone() },
            Summary { leaks: vec![leak(true)], ..summary.clone() },
        ] {
            assert_eq!(deviation.verdict(), Verdict::Deviates);
            assert_eq!(Summary { halt: Halt::TimeUp, ..deviation.clone() }.verdict(), Verdict::Deviates);
            assert_eq!(Summary { halt: Halt::Interrupted, ..deviation }.verdict(), Verdict::Interrupted);
        }
        assert_eq!(Summary { halt: Halt::TimeUp, ..Summary::default() }.verdict(), Verdict::NotJudged);
        let nothing = Summary { counts: Counts { skipped: 9, ..Counts::default() }, ..Summary::default() };
        assert_eq!(nothing.verdict(), Verdict::NotJudged, "a verdict over nothing");
    }
}
