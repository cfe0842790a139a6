//! Chooses the checks to run: the language of `--filter`, and the regular expressions of ginkgo.

use std::collections::BTreeSet;

use crate::checks::check::Planned;
use crate::checks::check::{Check, Variants};
use crate::checks::registry::Registry;
use crate::config::AccessType;
use crate::spec::requirements::{Requirement, req};
use crate::text::message::did_you_mean;
use crate::text::pattern::Pattern;

/// A set of terms. A check is chosen if it matches at least one of the terms without `!`, or there is none, and
/// none of the terms with `!`.
///
/// A term is a pattern over ids (`controller/create-volume/*`) or a path above some (`controller/create-volume`),
/// `req:` with a pattern over requirement ids (`req:CTRL-CREATEVOL-*`), or `needs:` with the name of a capability
/// (`needs:LIST_VOLUMES`). Terms are separated by commas or white space.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    wanted: Vec<Term>,
    unwanted: Vec<Term>,
    /// Labels of the only checks that are chosen from.
    only: Option<BTreeSet<String>>,
    focus: Vec<regex_lite::Regex>,
    skip: Vec<regex_lite::Regex>,
}

#[derive(Clone, Debug)]
enum Term {
    Id(Pattern),
    Requirement(Pattern),
    Needs(String),
}

impl Filter {
    /// Adds the terms of one expression.
    ///
    /// # Errors
    /// A term is malformed.
    pub fn add(&mut self, expression: &str) -> Result<(), String> {
        let terms = expression.split(|c: char| c == ',' || c.is_whitespace()).filter(|term| !term.is_empty());
        for term in terms {
            match term.strip_prefix('!') {
                Some(term) => self.unwanted.push(Term::parse(term)?),
                None => self.wanted.push(Term::parse(term)?),
            }
        }
        Ok(())
    }

    /// Keeps only the runs of checks with these labels.
    pub fn only(&mut self, labels: BTreeSet<String>) {
        self.only = Some(labels);
    }

    /// Keeps only checks whose id, title, or upstream title matches one of the regular expressions.
    ///
    /// # Errors
    /// The expression is malformed.
    pub fn focus(&mut self, expression: &str) -> Result<(), String> {
        self.focus.push(regex(expression)?);
        Ok(())
    }

    /// Leaves out checks whose id, title, or upstream title matches the regular expression.
    ///
    /// # Errors
    /// The expression is malformed.
    pub fn skip(&mut self, expression: &str) -> Result<(), String> {
        self.skip.push(regex(expression)?);
        Ok(())
    }

    /// Puts successors in the place of retired ids, and says what became of each.
    pub fn follow(&mut self, registry: &Registry) -> Vec<String> {
        let terms = self.wanted.iter_mut().chain(&mut self.unwanted);
        let patterns = terms.filter_map(|term| match term {
            Term::Id(pattern) => Some(pattern),
            Term::Requirement(_) | Term::Needs(_) => None,
        });
        patterns.filter_map(|pattern| registry.follow(pattern)).collect()
    }

    /// The first term without `!` that matches none of the checks, with names that are near.
    ///
    /// # Errors
    /// There is one. It would go unnoticed beside others that match some.
    pub fn check_terms<'a>(&self, checks: impl Iterator<Item = &'a Check> + Clone) -> Result<(), String> {
        let idle = |term: &&Term| {
            !checks.clone().any(|check| {
                term.matches(check, &check.id) || term.matches(check, &check.label(AccessType::Block))
            })
        };
        let Some(term) = self.wanted.iter().find(idle) else { return Ok(()) };
        Err(match term {
            Term::Id(pattern) => {
                let near = did_you_mean(&pattern.to_string(), checks.map(|check| &*check.id));
                format!("no check matches {pattern}{near}")
            }
            Term::Requirement(pattern) => match Requirement::find(&pattern.to_string()) {
                Some(_) => format!("no check tests requirement {pattern}"),
                None => {
                    let near = did_you_mean(&pattern.to_string(), req::ALL.iter().map(|row| row.id));
                    format!("no check tests a requirement {pattern}{near}")
                }
            },
            Term::Needs(capability) => {
                let needs = checks.flat_map(|check| check.needs.iter().map(|need| need.describe()));
                let needs: BTreeSet<String> = needs.collect();
                let near = did_you_mean(capability, needs.iter().map(String::as_str));
                format!("no check needs {capability:?}{near}")
            }
        })
    }

    /// Returns true if a check is chosen under the label it would run with.
    pub fn selects(&self, check: &Check, label: &str) -> bool {
        let matches = |terms: &[Term]| terms.iter().any(|term| term.matches(check, label));
        let named = |expressions: &[regex_lite::Regex]| {
            expressions.iter().any(|regex| names(check).any(|name| regex.is_match(name)))
        };
        (self.wanted.is_empty() || matches(&self.wanted))
            && self.only.as_ref().is_none_or(|only| only.contains(label))
            && !matches(&self.unwanted)
            && (self.focus.is_empty() || named(&self.focus))
            && !named(&self.skip)
    }
}

impl Registry {
    /// The checks that a filter chooses, once for each access type they run for.
    pub fn select(&self, filter: &Filter, access_types: &[AccessType]) -> Vec<Planned> {
        let variants = self.checks().flat_map(|(_, check)| {
            let types = match check.access {
                Variants::Each => access_types,
                Variants::First => &access_types[..access_types.len().min(1)],
            };
            types.iter().map(move |access| (check.clone(), *access))
        });
        variants
            .enumerate()
            .map(|(number, (check, access))| Planned { check, access, number })
            .filter(|planned| filter.selects(&planned.check, &planned.label()))
            .collect()
    }
}

fn names(check: &Check) -> impl Iterator<Item = &str> {
    [&*check.id, &*check.title].into_iter().chain(check.replaces.iter().copied())
}

fn regex(expression: &str) -> Result<regex_lite::Regex, String> {
    regex_lite::Regex::new(expression).map_err(|error| format!("{expression:?}: {error}"))
}

impl Term {
    fn parse(term: &str) -> Result<Term, String> {
        if let Some(id) = term.strip_prefix("req:") {
            return Ok(Term::Requirement(Pattern::new(id)?));
        }
        if let Some(capability) = term.strip_prefix("needs:") {
            return Ok(Term::Needs(capability.to_owned()));
        }
        Ok(Term::Id(Pattern::new(term)?))
    }

    fn matches(&self, check: &Check, label: &str) -> bool {
        match self {
            Term::Id(pattern) => {
                let names = [label, &check.id, check.id_of_all_definitions()];
                names.into_iter().any(|name| pattern.matches(name)) || pattern.is_above(&check.id)
            }
            Term::Requirement(pattern) => check.requirements.iter().any(|row| pattern.matches(row.id)),
            Term::Needs(capability) => check.needs.iter().any(|need| need.describe() == *capability),
        }
    }
}
