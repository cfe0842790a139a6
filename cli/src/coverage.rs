//! `csi-sanity coverage`: which requirements on a driver are checked, and why others are not.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

use csi_harness::checks::registry::Registry;
use csi_harness::config::profile::Profile;
use csi_harness::protocol::version::Version;
use csi_harness::spec::requirements::{Level, Party, Requirement, Testability, req};
use csi_harness::text::message::did_you_mean;
use csi_harness::text::pattern::Pattern;
use csi_report::UntestedEntry;
use csi_suite_sanity::untested::{ONLY_WARNED, SAID_AGAIN, UNTESTED};
use serde::Serialize;

use crate::args::{CoverageArgs, OutputFormat};
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;
use crate::suites;

#[derive(Serialize)]
struct Coverage {
    requirements: Vec<Row>,
    totals: Totals,
}

#[derive(Serialize)]
struct Row {
    id: &'static str,
    level: String,
    /// The mildest profile under which a breach makes a run fail.
    binds_from: Profile,
    /// The only version of CSI that has it, if not all have.
    only_in: Option<Version>,
    /// Components of Kubernetes that rely on it.
    relied_on_by: Vec<&'static str>,
    checks: Vec<String>,
    /// True if one of the checks blames a driver with a known defect for this rule.
    proven: bool,
    /// The reason why the checks only warn of a breach although the rule binds.
    only_warned_because: Option<&'static str>,
    untested_because: Option<Cow<'static, str>>,
}

#[derive(Default, Serialize)]
struct Totals {
    requirements: usize,
    checked: usize,
    claimed: usize,
    said_again: usize,
    untestable: usize,
    unchecked: usize,
    /// Rows that bind under the profile kubernetes, and not under csi.
    kubernetes: usize,
    testable_must: LevelCounts,
    testable_should: LevelCounts,
}

/// The counts for the requirements of one level, without permissions and without those that cannot be seen from outside of a driver.
#[derive(Default, Serialize)]
struct LevelCounts {
    rows: usize,
    checked: usize,
    only_warned: usize,
    said_again: usize,
}

/// The state of a requirement.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Checked,
    Claimed,
    SaidAgain,
    Untestable,
    Unchecked,
}

/// Prints the table.
pub(crate) fn coverage(args: &CoverageArgs) -> Result<Exit, Error> {
    let wanted = Wanted { version: args.csi_version, ..Wanted::of(&args.filter)? };
    let coverage = measure(&suites::all(), &suites::proven(), &wanted);
    let out = io::stdout().lock();
    match args.format {
        OutputFormat::Text => text(out, &coverage, args.csi_version)?,
        OutputFormat::Json => json(out, &coverage)?,
    }
    Ok(Exit::Success)
}

/// The selected requirements, which are all of them by default.
#[derive(Default)]
struct Wanted {
    terms: Vec<Pattern>,
    version: Option<Version>,
}

impl Wanted {
    /// Takes the terms of `--filter`, each of which has to fit a requirement on drivers.
    fn of(terms: &[String]) -> Result<Wanted, Error> {
        let flag = |problem: String| Error::flag("--filter", problem);
        let mut wanted = Wanted::default();
        for term in terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()) {
            let one = Wanted { terms: vec![Pattern::new(term).map_err(flag)?], version: None };
            let mut rules = on_drivers();
            if !rules.clone().any(|rule| one.has(rule)) {
                let near = did_you_mean(&term.to_ascii_uppercase(), rules.clone().map(|rule| rule.id));
                let near = if near.is_empty() {
                    did_you_mean(term, rules.by_ref().map(|rule| rule.rpc))
                } else {
                    near
                };
                return Err(Error::IdleRequirement(format!(
                    "no requirement on drivers matches {term}{near}"
                )));
            }
            wanted.terms.extend(one.terms);
        }
        Ok(wanted)
    }

    fn has(&self, rule: &Requirement) -> bool {
        let fits = |pattern: &Pattern| {
            let text = pattern.to_string();
            pattern.matches(rule.id)
                || text.eq_ignore_ascii_case(rule.id)
                || text.eq_ignore_ascii_case(rule.rpc)
        };
        self.version.is_none_or(|version| rule.versions.has(version))
            && (self.terms.is_empty() || self.terms.iter().any(fits))
    }
}

/// The requirements on drivers.
fn on_drivers() -> impl Iterator<Item = &'static Requirement> + Clone {
    req::ALL.iter().copied().filter(|rule| rule.on == Party::Plugin)
}

fn measure(registry: &Registry, proven: &BTreeSet<&str>, wanted: &Wanted) -> Coverage {
    let mut totals = Totals::default();
    let mut requirements = Vec::new();
    for rule in on_drivers().filter(|rule| wanted.has(rule)) {
        let checks: Vec<_> = checks_of(rule, registry).map(str::to_owned).collect();
        let state = state(rule, !checks.is_empty(), proven);
        totals.count(rule, state);
        // Without a version the shares are those of released ones.
        let is_released = [Version::V1_12, Version::V1_13].iter().any(|version| rule.versions.has(*version));
        if wanted.version.is_some() || is_released {
            totals.count_share(rule, state);
        }
        requirements.push(Row {
            id: rule.id,
            level: rule.level.to_string(),
            binds_from: rule.binds_from(),
            only_in: rule.versions.sign(),
            relied_on_by: rule.relied_on_by.iter().map(|reliance| reliance.component).collect(),
            untested_because: checks.is_empty().then(|| untested_because(rule)),
            only_warned_because: only_warned_because(rule).filter(|_| !checks.is_empty()),
            proven: state == State::Checked,
            checks,
        });
    }
    Coverage { requirements, totals }
}

fn state(rule: &Requirement, has_checks: bool, proven: &BTreeSet<&str>) -> State {
    match has_checks {
        true if proven.contains(rule.id) => State::Checked,
        true => State::Claimed,
        false if said_again(rule).is_some_and(|rows| rows.iter().all(|row| proven.contains(row.id))) => {
            State::SaidAgain
        }
        false if cannot_be_tested(rule) => State::Untestable,
        false => State::Unchecked,
    }
}

impl Totals {
    fn count(&mut self, rule: &Requirement, state: State) {
        self.requirements += 1;
        self.kubernetes += usize::from(rule.binds_from() == Profile::Kubernetes);
        *match state {
            State::Checked => &mut self.checked,
            State::Claimed => &mut self.claimed,
            State::SaidAgain => &mut self.said_again,
            State::Untestable => &mut self.untestable,
            State::Unchecked => &mut self.unchecked,
        } += 1;
    }

    fn count_share(&mut self, rule: &Requirement, state: State) {
        if matches!(rule.test, Testability::Untestable | Testability::ModelOnly) {
            return;
        }
        let share = match rule.level {
            Level::Must => &mut self.testable_must,
            Level::Should => &mut self.testable_should,
            Level::May => return,
        };
        share.rows += 1;
        share.checked += usize::from(state == State::Checked);
        share.only_warned += usize::from(state == State::Checked && only_warned_because(rule).is_some());
        share.said_again += usize::from(state == State::SaidAgain);
    }
}

fn cannot_be_tested(rule: &Requirement) -> bool {
    rule.level == Level::May
        || matches!(rule.test, Testability::Untestable | Testability::ModelOnly)
        || UNTESTED.iter().any(|(row, _)| *row == rule)
}

/// Ids of the checks that test a requirement.
pub(crate) fn checks_of<'a>(rule: &Requirement, registry: &'a Registry) -> impl Iterator<Item = &'a str> {
    registry
        .checks()
        .filter(move |(_, check)| check.requirements.contains(&rule))
        .map(|(_, check)| &*check.id)
}

/// The reason why checks only warn of a breach although the rule binds.
pub(crate) fn only_warned_because(rule: &Requirement) -> Option<&'static str> {
    ONLY_WARNED.iter().find(|(row, _)| *row == rule).map(|(_, why)| *why)
}

/// Other requirements with the same meaning, which cover this one.
fn said_again(rule: &Requirement) -> Option<&'static [&'static Requirement]> {
    SAID_AGAIN.iter().find(|(row, _)| *row == rule).map(|(_, others)| *others)
}

/// The reason why no check tests a requirement.
pub(crate) fn untested_because(rule: &Requirement) -> Cow<'static, str> {
    if rule.on == Party::Orchestrator {
        return "it binds the caller, not the driver".into();
    }
    if let Some((_, why)) = UNTESTED.iter().find(|(row, _)| *row == rule) {
        return (*why).into();
    }
    if let Some(others) = said_again(rule) {
        let ids: Vec<_> = others.iter().map(|other| other.id).collect();
        let verbs = if ids.len() == 1 { ["asks", "is"] } else { ["ask", "are"] };
        return format!("{} {} for the same, and {} checked", ids.join(", "), verbs[0], verbs[1]).into();
    }
    if rule.level == Level::May {
        return "it is a permission, which cannot be broken; unusual but legal behaviour of the mock driver has to pass"
            .into();
    }
    let why = match rule.test {
        Testability::Blackbox => "no check tests it yet",
        Testability::Concurrent => "no check tests it yet; it needs parallel or interrupted calls",
        Testability::Mount => "no check tests it yet; it needs a node plugin that really mounts",
        Testability::Restart => "no check tests it yet; it needs a restart of the driver",
        Testability::MultiNode => "no check tests it yet; it needs a second node or topology",
        Testability::ModelOnly => "it says how to judge other rules, and cannot be broken by itself",
        Testability::Untestable => {
            "it cannot be observed through gRPC, or needs faults, full storage or documents"
        }
    };
    why.into()
}

/// The requirements that drivers MUST or SHOULD keep and that no check tests, as reports have them.
pub(crate) fn untested() -> Vec<UntestedEntry> {
    let registry = suites::all();
    let is_untested =
        |rule: &&Requirement| rule.level != Level::May && checks_of(rule, &registry).next().is_none();
    let entry = |rule: &'static Requirement| UntestedEntry {
        requirement: rule.id.to_owned(),
        because: untested_because(rule).into_owned(),
        same_as: said_again(rule).unwrap_or_default().iter().map(|other| other.id.to_owned()).collect(),
    };
    on_drivers().filter(is_untested).map(entry).collect()
}

fn text(mut out: impl Write, coverage: &Coverage, version: Option<Version>) -> io::Result<()> {
    for row in &coverage.requirements {
        let profile = if row.binds_from == Profile::Kubernetes { "kubernetes: " } else { "" };
        write!(out, "{:<20} {:<6} {profile}", row.id, row.level)?;
        match (&row.untested_because, row.only_warned_because) {
            (Some(why), _) => writeln!(out, "- {why}")?,
            (None, _) if !row.proven => writeln!(out, "- claimed, not proven: {}", row.checks.join(", "))?,
            (None, Some(why)) => writeln!(out, "{} (warns only: {why})", row.checks.join(", "))?,
            (None, None) => writeln!(out, "{}", row.checks.join(", "))?,
        }
    }
    let totals = &coverage.totals;
    writeln!(
        out,
        "\n{} requirements on drivers: {} checked, {} repeated by checked ones, {} claimed by checks that no known defect proves \
         to judge them, {} not checked yet, {} that no check can test",
        totals.requirements,
        totals.checked,
        totals.said_again,
        totals.claimed,
        totals.unchecked,
        totals.untestable
    )?;
    writeln!(out, "{} of them bind under the profile kubernetes but not under csi", totals.kubernetes)?;
    let versions = version.map_or_else(|| "1.12 and 1.13 together".to_owned(), |version| version.to_string());
    writeln!(
        out,
        "of the MUST and SHOULD requirements that can be observed from outside, in CSI {versions}:"
    )?;
    share(&mut out, "MUST", &totals.testable_must)?;
    share(&mut out, "SHOULD", &totals.testable_should)
}

fn share(out: &mut impl Write, level: &str, share: &LevelCounts) -> io::Result<()> {
    let LevelCounts { rows, checked, only_warned, said_again } = share;
    let covered = checked + said_again;
    let percent = covered * 100 / (*rows).max(1);
    writeln!(
        out,
        "{rows:>5} {level}: {covered} covered ({percent} %): {checked} have checks, {only_warned} of which only warn, and \
         {said_again} repeat another requirement; {} have none, for the reasons above",
        rows - covered
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_chosen_by_pattern_or_rpc() {
        let ids = |terms: &[&str]| -> Vec<&str> {
            let terms: Vec<String> = terms.iter().map(|term| (*term).to_owned()).collect();
            let wanted = Wanted::of(&terms).unwrap();
            on_drivers().filter(|rule| wanted.has(rule)).map(|rule| rule.id).collect()
        };
        let of_a_family = ids(&["CTRL-CREATEVOL-*"]);
        assert!(of_a_family.len() > 10 && of_a_family.iter().all(|id| id.starts_with("CTRL-CREATEVOL-")));
        assert!(ids(&["createvolume"]).contains(&"CTRL-CREATEVOL-010"));
        assert_eq!(ids(&["ctrl-createvol-010"]), ["CTRL-CREATEVOL-010"]);
        let error = Wanted::of(&["CTRL-CREATEVOL-99".to_owned()]).err().unwrap().to_string();
        assert!(
            error.contains("no requirement") && error.contains("did you mean CTRL-CREATEVOL-"),
            "{error}"
        );
    }

    #[test]
    fn the_text_names_the_versions_that_are_counted() {
        let written = |version| {
            let mut out = Vec::new();
            let wanted = Wanted { version, ..Wanted::default() };
            text(&mut out, &measure(&suites::all(), &suites::proven(), &wanted), version).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(written(None).contains("in CSI 1.12 and 1.13 together:"));
        assert!(written(Some(Version::V1_12)).contains("in CSI 1.12:"));
    }

    #[test]
    fn every_row_is_checked_or_has_a_reason() {
        let (registry, proven) = (suites::all(), suites::proven());
        let state = |row: &Row| state(Requirement::find(row.id).unwrap(), !row.checks.is_empty(), &proven);
        let rows = measure(&registry, &proven, &Wanted::default()).requirements;
        let open = rows.iter().filter(|row| matches!(state(row), State::Claimed | State::Unchecked));
        let open: Vec<_> = open.map(|row| (row.id, &row.checks)).collect();
        assert!(open.is_empty(), "claimed, and no defect proves it, or without check and reason: {open:?}");
    }

    #[test]
    fn few_visible_musts_have_no_check() {
        let LevelCounts { rows, checked, said_again, .. } =
            measure(&suites::all(), &suites::proven(), &Wanted::default()).totals.testable_must;
        assert!((checked + said_again) * 100 >= rows * 95, "{checked} and {said_again} of {rows}");
    }
}
