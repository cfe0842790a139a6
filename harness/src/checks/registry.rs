//! All checks of this program, in the order in which they are listed and run.

use std::sync::Arc;

use crate::checks::check::{Check, Planned};
use crate::checks::retired::{Fate, Retired};
use crate::text::message::did_you_mean;
use crate::text::pattern::Pattern;

/// A suite: a name and its checks.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The name, as `--suite` takes it.
    pub name: &'static str,
    /// Its checks.
    pub checks: Checks,
    /// Ids that checks of it once had.
    pub retired: &'static [Retired],
}

/// The checks of a suite.
#[derive(Clone, Debug)]
pub enum Checks {
    /// The checks of this program, a slice for each file.
    Declared(&'static [&'static [&'static Check]]),
    /// The checks that were made at run time.
    Made(Arc<[Check]>),
}

impl Checks {
    /// Checks that were made while the program runs.
    pub fn made(checks: impl IntoIterator<Item = Check>) -> Checks {
        Checks::Made(checks.into_iter().collect())
    }

    /// Iterates over all checks.
    pub fn iter(&self) -> impl Iterator<Item = &Check> + Clone {
        let (declared, made): (&[&[&Check]], &[Check]) = match self {
            Checks::Declared(files) => (files, &[]),
            Checks::Made(made) => (&[], made),
        };
        declared.iter().copied().flatten().copied().chain(made)
    }
}

/// Several suites.
#[derive(Clone, Debug)]
pub struct Registry {
    suites: Vec<Suite>,
}

impl Registry {
    /// Takes the suites in the order in which they are to be listed.
    pub fn new(suites: impl IntoIterator<Item = Suite>) -> Registry {
        Registry { suites: suites.into_iter().collect() }
    }

    /// The suites.
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// Every check, with the name of its suite.
    pub fn checks(&self) -> impl Iterator<Item = (&'static str, &Check)> + Clone + '_ {
        self.suites.iter().flat_map(|suite| suite.checks.iter().map(|check| (suite.name, check)))
    }

    /// The chosen checks of each suite, and in the end those of others.
    pub(crate) fn by_suite(&self, mut planned: Vec<Planned>) -> Vec<Vec<Planned>> {
        let mut parts = Vec::new();
        for suite in &self.suites {
            let is_of = |planned: &Planned| suite.checks.iter().any(|check| check.id == planned.check.id);
            let (part, rest) = planned.into_iter().partition(is_of);
            parts.push(part);
            planned = rest;
        }
        parts.push(planned);
        parts
    }

    /// The fate of an id that no check has any more.
    pub fn retired(&self, id: &str) -> Option<&'static Retired> {
        self.suites.iter().flat_map(|suite| suite.retired).find(|retired| retired.id == Check::id_of(id))
    }

    /// Puts the successor of a retired id into a pattern that names it, and says what became of the id.
    pub fn follow(&self, pattern: &mut Pattern) -> Option<String> {
        let retired = self.retired(pattern.as_str())?;
        if let Fate::Renamed(successor) = retired.fate {
            pattern.rename(retired.id, successor);
        }
        Some(retired.to_string())
    }

    /// The check with this id.
    ///
    /// # Errors
    /// There is none; the text names the likeliest ones.
    pub fn find(&self, id: &str) -> Result<&Check, String> {
        // A DriverDefinition may have the label `block`.
        let is_it = |check: &&Check| check.id == id || check.id == Check::id_of(id);
        self.checks().map(|(_, check)| check).find(is_it).ok_or_else(|| {
            let ids = self.checks().map(|(_, check)| &*check.id);
            format!("there is no check {id:?}{}", did_you_mean(id, ids))
        })
    }
}
