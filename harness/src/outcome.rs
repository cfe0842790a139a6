//! What came of one check.

use std::path::PathBuf;
use std::time::Duration;

use crate::check::Check;
use crate::config::AccessType;
use crate::record::CallRecord;
use crate::verdict::Violation;

/// A check chosen to run, for one access type.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The check.
    pub check: &'static Check,
    /// The access type it runs for.
    pub access: AccessType,
}

impl Planned {
    /// The name of this run: the check's id, with `@block` behind it where it runs for block access.
    pub fn label(&self) -> String {
        match self.access {
            AccessType::Block => format!("{}@block", self.check.id),
            AccessType::Mount => self.check.id.to_owned(),
        }
    }
}

/// What came of one check.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The driver kept the rule.
    Passed,
    /// The driver broke a rule that binds.
    Failed(Violation),
    /// The driver broke a recommendation, or answered in a way that is only tolerated.
    Warned(Violation),
    /// The check does not apply, because.
    Skipped(String),
    /// The check could not judge, because.
    Broken(String),
    /// The driver broke the rule, as the known-failing list says it does.
    KnownFailure {
        /// What is wrong.
        violation: Violation,
        /// The reason in the list.
        reason: String,
    },
    /// The known-failing list is out of date: the driver keeps the rule.
    UnexpectedPass {
        /// The reason in the list.
        reason: String,
    },
}

impl Outcome {
    /// The outcome as reports name it.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "failed",
            Outcome::Warned(_) => "warned",
            Outcome::Skipped(_) => "skipped",
            Outcome::Broken(_) => "broken",
            Outcome::KnownFailure { .. } => "known_failure",
            Outcome::UnexpectedPass { .. } => "unexpected_pass",
        }
    }

    /// What is wrong, where the driver broke something.
    pub fn violation(&self) -> Option<&Violation> {
        match self {
            Outcome::Failed(violation)
            | Outcome::Warned(violation)
            | Outcome::KnownFailure { violation, .. } => Some(violation),
            Outcome::Passed | Outcome::Skipped(_) | Outcome::Broken(_) | Outcome::UnexpectedPass { .. } => {
                None
            }
        }
    }
}

/// One finished check, with everything that explains it.
#[derive(Debug)]
pub struct CheckReport {
    /// Which check, for which access type.
    pub planned: Planned,
    /// What came of it.
    pub outcome: Outcome,
    /// Remarks that did not stop the check.
    pub warnings: Vec<Violation>,
    /// How long it took, its undoing included.
    pub duration: Duration,
    /// The calls it made; kept only where something is to be explained.
    pub calls: Vec<CallRecord>,
    /// Calls that were made and not kept.
    pub calls_dropped: usize,
    /// What the check made and could not undo.
    pub leftovers: Vec<String>,
    /// The command that runs this check alone.
    pub repeat: String,
}

impl CheckReport {
    /// The label of the run.
    pub fn label(&self) -> String {
        self.planned.label()
    }
}

/// The death of a driver.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The calls that had no answer yet, as `check: RPC`.
    pub under_way: Vec<String>,
    /// What became of the driver.
    pub aftermath: Aftermath,
    /// The file with what it printed, if there is one.
    pub log: Option<PathBuf>,
}

/// What became of a driver that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// It was started again, or came back by itself.
    Back,
    /// It stayed away.
    Gone,
}

/// Something that was not there before the run and has stayed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leak {
    /// `volume`, `snapshot` or `mount`.
    pub kind: &'static str,
    /// Its id or path.
    pub id: String,
    /// Whether this run made it. Something else may belong to another user and is only mentioned.
    pub ours: bool,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Checks that passed.
    pub passed: usize,
    /// Checks in which the driver broke a rule that binds.
    pub failed: usize,
    /// Checks in which it broke a recommendation.
    pub warned: usize,
    /// Checks that do not apply.
    pub skipped: usize,
    /// Checks that could not judge.
    pub broken: usize,
    /// Checks that failed as listed.
    pub known_failures: usize,
    /// Checks that passed although listed.
    pub unexpected_passes: usize,
    /// Deaths of the driver.
    pub crashes: Vec<Crash>,
    /// What the run, or somebody else meanwhile, left behind.
    pub leaks: Vec<Leak>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
    /// How long it took.
    pub duration: Duration,
}

impl Summary {
    /// Counts one outcome.
    pub fn count(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Warned(_) => &mut self.warned,
            Outcome::Skipped(_) => &mut self.skipped,
            Outcome::Broken(_) => &mut self.broken,
            Outcome::KnownFailure { .. } => &mut self.known_failures,
            Outcome::UnexpectedPass { .. } => &mut self.unexpected_passes,
        } += 1;
    }

    /// Leaks that this run is to blame the driver for.
    pub fn own_leaks(&self) -> impl Iterator<Item = &Leak> {
        self.leaks.iter().filter(|leak| leak.ours)
    }
}
