//! Parts of the specification by RPC, each with one verdict over its checks.

use std::fmt;

use csi_harness::checks::expected;
use csi_harness::results::outcome::OutcomeKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One area: the checks whose ids share everything before the last slash.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Area {
    /// The name, such as `controller/create-volume`.
    pub name: String,
    /// The verdict over all of its checks.
    pub verdict: Verdict,
    /// Checks that passed.
    #[serde(skip)]
    pub passed: usize,
    /// Checks that were run, whether or not they could judge.
    #[serde(skip)]
    pub run: usize,
}

/// The verdict over all checks of an area. The gravest comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AreaVerdict")]
pub enum Verdict {
    /// All of its checks were skipped.
    NotTested,
    /// All that were run passed.
    Passed,
    /// A recommendation is not kept.
    Warned,
    /// A check could not judge.
    Broken,
    /// A rule is broken, as the known-failing list says.
    KnownFailure,
    /// A check passes although the list says it fails.
    UnexpectedPass,
    /// A rule is broken.
    Failed,
}

impl Verdict {
    fn of(outcome: OutcomeKind) -> Verdict {
        match outcome {
            OutcomeKind::Passed => Verdict::Passed,
            OutcomeKind::Failed | OutcomeKind::SameFault => Verdict::Failed,
            OutcomeKind::Warned | OutcomeKind::Flaky => Verdict::Warned,
            OutcomeKind::Skipped => Verdict::NotTested,
            OutcomeKind::Broken => Verdict::Broken,
            OutcomeKind::KnownFailure => Verdict::KnownFailure,
            OutcomeKind::UnexpectedPass => Verdict::UnexpectedPass,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::NotTested => "not tested",
            Verdict::Passed => "passed",
            Verdict::Warned => "passed with warnings",
            Verdict::Broken => "inconclusive",
            Verdict::KnownFailure => "known failure",
            Verdict::UnexpectedPass => "unexpected pass",
            Verdict::Failed => "failed",
        })
    }
}

impl Area {
    /// Returns true if reports list the area. If every expected capability is there, "not tested" would mislead a
    /// reader, so that area is left out.
    pub(crate) fn is_listed(&self) -> bool {
        self.verdict != Verdict::NotTested || self.name != expected::AREA
    }
}

/// The areas of a run, by name.
#[derive(Debug, Default)]
pub(crate) struct Areas {
    areas: Vec<Area>,
}

impl Areas {
    /// Adds what one check of the area counts as.
    pub(crate) fn add(&mut self, name: &str, outcome: OutcomeKind) {
        let at = match self.areas.binary_search_by(|area| area.name.as_str().cmp(name)) {
            Ok(at) => at,
            Err(at) => {
                let verdict = Verdict::NotTested;
                self.areas.insert(at, Area { name: name.to_owned(), verdict, passed: 0, run: 0 });
                at
            }
        };
        let area = &mut self.areas[at];
        area.verdict = area.verdict.max(Verdict::of(outcome));
        area.passed += usize::from(outcome.passes());
        area.run += usize::from(outcome != OutcomeKind::Skipped);
    }

    pub(crate) fn as_slice(&self) -> &[Area] {
        &self.areas
    }

    pub(crate) fn into_vec(self) -> Vec<Area> {
        self.areas
    }
}
