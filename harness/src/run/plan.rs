//! The checks of a run, and the list of those that have to fail, as the command line and embedded suites choose them.

use std::path::Path;

use crate::checks::check::Planned;
use crate::checks::expected;
use crate::checks::filter::Filter;
use crate::checks::known::{KnownFailing, KnownFailingError};
use crate::checks::registry::Registry;
use crate::config::{AccessType, Config};

/// Everything that is decided about checks before the driver is called.
#[derive(Debug)]
pub struct Plan {
    /// The checks that run.
    pub checks: Vec<Planned>,
    /// The checks that have to fail.
    pub known: KnownFailing,
}

/// The reasons why no run can be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The list of known failures cannot be used.
    #[error(transparent)]
    KnownFailing(#[from] KnownFailingError),
    /// Entries of the list match no check.
    #[error("the known-failing list is out of date; these patterns match no check:\n  {}", .0.join("\n  "))]
    KnownFailingStale(Vec<String>),
    /// The filter chooses no check.
    #[error("no check is selected")]
    NothingSelected,
}

impl Plan {
    /// Chooses checks of these suites, and hands over remarks on the list of known failures for its author. A check of what the configuration
    /// expects runs whatever the filter chooses.
    ///
    /// # Errors
    /// The list cannot be used or is out of date, or the filter chooses nothing.
    pub fn new(
        suites: &Registry,
        filter: &Filter,
        known_failing: Option<&Path>,
        config: &Config,
        mut remark: impl FnMut(String),
    ) -> Result<Plan, PlanError> {
        let mut known = known_failing.map_or(Ok(KnownFailing::default()), KnownFailing::load)?;
        known.follow(suites).into_iter().for_each(&mut remark);
        let mut checks = suites.select(&Filter::default(), &config.access_types);
        // A list for several access types serves a run with one of them, too.
        let of_any_access = suites.select(&Filter::default(), &[AccessType::Mount, AccessType::Block]);
        let labels = |checks: &[Planned]| checks.iter().map(Planned::label).collect::<Vec<_>>();
        let (labels, of_any_access) = (labels(&checks), labels(&of_any_access));
        let stale = known.unmatched(labels.iter().chain(&of_any_access).map(String::as_str));
        if !stale.is_empty() {
            return Err(PlanError::KnownFailingStale(stale));
        }
        for entry in known.unmatched(labels.iter().map(String::as_str)) {
            remark(format!("{entry} is for an access type that this run does not test (--access-type)"));
        }
        let is_chosen = |planned: &Planned| filter.selects(&planned.check, &planned.label());
        if !checks.iter().any(is_chosen) {
            return Err(PlanError::NothingSelected);
        }
        checks.retain(|planned| is_chosen(planned) || expected::is_expectation(&planned.check));
        Ok(Plan { checks, known })
    }
}
