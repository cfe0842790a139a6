//! The checks that flags select.

use std::collections::BTreeSet;
use std::path::Path;

use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::results::outcome::OutcomeKind;
use csi_harness::text::encoding::shell_word;
use csi_harness::text::pattern::Pattern;
use csi_report::{CheckEntry, Run};

use crate::args::{Selection, Terms};
use crate::error::Error;
use crate::{note, suites};

/// The largest number of checks that a message names.
const GONE_NAMED_MAX: usize = 5;

impl Selection {
    /// The selected suites, which are all of them if no flag names one.
    pub(crate) fn registry(&self) -> Registry {
        let wanted =
            |suite: &&Suite| self.suite.is_empty() || self.suite.iter().any(|name| name == suite.name);
        Registry::new(suites::SUITES.iter().filter(wanted).cloned())
    }

    /// The filter for the selected suites.
    pub(crate) fn filter(&self) -> Result<Filter, Error> {
        self.terms.filter(&self.registry())
    }
}

/// The labels of the checks that failed or were inconclusive in the run of a report, with their present ids.
fn failed(path: &Path, registry: &Registry) -> Result<BTreeSet<String>, Error> {
    let run = Run::load(path)?;
    let is_failed = |check: &&CheckEntry| {
        matches!(
            check.outcome(),
            OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::SameFault | OutcomeKind::Broken
        )
    };
    let labels: BTreeSet<String> =
        run.checks.iter().filter(is_failed).map(|check| check.id.clone()).collect();
    if labels.is_empty() {
        return Err(Error::NothingFailed(format!(
            "no check failed or was inconclusive in {}",
            path.display()
        )));
    }
    let (mut there, mut gone) = (BTreeSet::new(), Vec::new());
    for label in labels {
        let renamed = Pattern::new(&label).ok().and_then(|mut pattern| {
            registry.follow(&mut pattern)?;
            Some(pattern.to_string())
        });
        let now = renamed.unwrap_or(label);
        match registry.find(&now) {
            Ok(_) => drop(there.insert(now)),
            Err(_) => gone.push(now),
        }
    }
    match (there.is_empty(), gone.len()) {
        (true, _) => Err(Error::NothingFailed(format!(
            "none of the checks that failed in {} exists in this command and its suites: {}; repeat the command and the --suite of that run",
            path.display(),
            gone.iter().take(GONE_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ")
        ))),
        (false, 0) => Ok(there),
        (false, missing) => {
            note(format!(
                "--only-failed: {missing} of the failed checks are not in the suites of this command, and are left out"
            ));
            Ok(there)
        }
    }
}

impl Terms {
    /// The terms as flags.
    pub(crate) fn flags(&self) -> Vec<String> {
        let only = self.only_failed.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let flags = [
            ("--filter", &self.filter),
            ("--focus", &self.focus),
            ("--skip", &self.skip),
            ("--only-failed", &only),
        ];
        let each = |(flag, terms): (&'static str, &Vec<String>)| -> Vec<String> {
            terms.iter().map(|term| format!("{flag} {}", shell_word(term))).collect()
        };
        flags.into_iter().flat_map(each).collect()
    }

    /// The filter for the checks of a registry.
    pub(crate) fn filter(&self, registry: &Registry) -> Result<Filter, Error> {
        let mut filter = Filter::default();
        let flag = |flag| move |problem: String| Error::flag(flag, problem);
        self.filter.iter().try_for_each(|terms| filter.add(terms)).map_err(flag("--filter"))?;
        self.focus.iter().try_for_each(|regex| filter.focus(regex)).map_err(flag("--focus"))?;
        self.skip.iter().try_for_each(|regex| filter.skip(regex)).map_err(flag("--skip"))?;
        filter.follow(registry).iter().for_each(note);
        filter.check_terms(registry.checks().map(|(_, check)| check)).map_err(Error::IdleFilter)?;
        if let Some(path) = &self.only_failed {
            filter.only(failed(path, registry)?);
        }
        Ok(filter)
    }
}
