//! `csi-sanity explain ID`: everything that is known about a check, an e2e test or a requirement.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use csi_harness::checks::check::{Check, Runs, Variants};
use csi_harness::checks::registry::Registry;
use csi_harness::checks::retired::Fate;
use csi_harness::protocol::version::Version;
use csi_harness::spec::need::Need;
use csi_harness::spec::requirements::{Reliance, Requirement, req};
use csi_harness::text::encoding::shell_word;
use csi_harness::text::message::did_you_mean;
use csi_harness::text::pattern::Pattern;
use csi_proto::RPCS;
use csi_suite_e2e::plan::{self, Instance};
use csi_suite_hostile::fuzz::{self, Allowance};

use crate::coverage;
use crate::error::Error;
use crate::exit::Exit;
use crate::{note, suites};

/// Prints the explanation, or suggests ids that may have been meant.
pub(crate) fn explain(mut id: &str, version: Option<Version>) -> Result<Exit, Error> {
    let registry = suites::all();
    if let Some(retired) = registry.retired(id) {
        match retired.fate {
            Fate::Renamed(successor) => id = successor,
            Fate::Gone(_) => return Err(Error::UnknownId(retired.to_string())),
        }
        note(retired);
    }
    let out = anstream::stdout().lock();
    // These checks are made when `csi-sanity fuzz` runs, and share its time.
    let fuzz = Registry::new([fuzz::suite(&Allowance::new(Duration::ZERO, 0))]);
    if let Ok(check) = registry.find(id).or_else(|_| fuzz.find(id)) {
        explain_check(out, check)?;
    } else if let Some(rule) = rule(id, &registry) {
        explain_requirement(out, rule, &registry)?;
    } else if let Some(test) = plan::find(id) {
        explain_test(out, &test)?;
    } else if !explain_several(out, id, version, &registry)? {
        return Err(Error::UnknownId(unknown(id, [&registry, &fuzz])));
    }
    Ok(Exit::Success)
}

/// Prints a test of `csi-sanity e2e`.
fn explain_test(mut out: impl Write, test: &Instance) -> io::Result<()> {
    writeln!(out, "{}\n  {}\n", test.id, test.name)?;
    test.test.doc.trim().lines().try_for_each(|line| writeln!(out, "  {}", line.trim()))?;
    writeln!(
        out,
        "\na storage test of Kubernetes; whether it runs depends on the definition of the driver:\n  csi-sanity e2e \
         --driver-definition FILE --plan --filter {}",
        shell_word(&test.id)
    )
}

/// Explains a pattern over ids, or an RPC: prints its rules with their checks, or the checks with their titles. Returns whether
/// there are any.
fn explain_several(
    mut out: impl Write,
    id: &str,
    version: Option<Version>,
    registry: &Registry,
) -> Result<bool, Error> {
    let pattern = Pattern::new(id).map_err(Error::UnknownId)?;
    let upper = Pattern::new(&id.to_ascii_uppercase()).map_err(Error::UnknownId)?;
    let rules: Vec<&'static Requirement> = req::ALL
        .iter()
        .copied()
        .filter(|rule| rule.rpc.eq_ignore_ascii_case(id) || upper.matches(rule.id))
        .filter(|rule| version.is_none_or(|version| rule.versions.has(version)))
        .collect();
    let rpc = RPCS.iter().find(|rpc| rpc.method.eq_ignore_ascii_case(id));
    let area = format!("{}/", rpc.map_or_else(|| id.to_owned(), |rpc| rpc.kebab_case()));
    let checks: Vec<&Check> = registry
        .checks()
        .map(|(_, check)| check)
        .filter(|check| {
            pattern.matches(&check.id)
                || check.id.split_once('/').is_some_and(|(_, id)| id.starts_with(&area))
        })
        .collect();
    for rule in &rules {
        write_rule(&mut out, rule)?;
        let of_it: Vec<&str> = coverage::checks_of(rule, registry).collect();
        match of_it.is_empty() {
            true => writeln!(out, "    not checked: {}", coverage::untested_because(rule))?,
            false => of_it.iter().try_for_each(|check| writeln!(out, "    checked by {check}"))?,
        }
    }
    if !checks.is_empty() {
        writeln!(out, "{}checks", if rules.is_empty() { "" } else { "\n" })?;
        let width = checks.iter().map(|check| check.id.len()).max().unwrap_or(0);
        checks.iter().try_for_each(|check| writeln!(out, "  {:width$}  {}", check.id, check.title))?;
    }
    if !(rules.is_empty() && checks.is_empty()) {
        writeln!(
            out,
            "\n{} requirements, {} checks; `csi-sanity explain ID` shows one in full",
            rules.len(),
            checks.len()
        )?;
    }
    Ok(!(rules.is_empty() && checks.is_empty()))
}

/// A requirement of the specification, or a rule of a suite's own.
fn rule(id: &str, registry: &Registry) -> Option<&'static Requirement> {
    let id = id.to_ascii_uppercase();
    let of_checks = registry.checks().flat_map(|(_, check)| check.requirements);
    // The checks of a load are made when it runs.
    let own = || of_checks.chain(csi_suite_load::judge::RULES).copied().find(|rule| rule.id == id);
    Requirement::find(&id).or_else(own)
}

fn unknown(id: &str, registries: [&Registry; 2]) -> String {
    let checks = registries.into_iter().flat_map(Registry::checks).map(|(_, check)| &*check.id);
    let rules = req::ALL.iter().map(|rule| rule.id);
    let rpcs = req::ALL.iter().map(|rule| rule.rpc).collect::<BTreeSet<_>>();
    let tests = plan::catalogue();
    let near = match id.contains('/') {
        true => did_you_mean(id, checks.chain(tests.iter().map(|test| test.id.as_str()))),
        false => did_you_mean(id, checks.chain(rules).chain(rpcs.into_iter().filter(|rpc| *rpc != "*"))),
    };
    format!("there is no check, e2e test or requirement {id:?}{near}")
}

fn explain_check(mut out: impl Write, check: &Check) -> io::Result<()> {
    writeln!(out, "{}", check.id)?;
    writeln!(out, "  {}", check.title)?;
    let doc = check.doc.trim();
    if !doc.is_empty() {
        writeln!(out)?;
        doc.lines().try_for_each(|line| writeln!(out, "  {}", line.trim()))?;
    }
    writeln!(out, "\nrequirements")?;
    for rule in check.requirements {
        write_rule(&mut out, rule)?;
    }
    let needs: Vec<_> = check.needs.iter().map(Need::describe).collect();
    write_list(&mut out, "needs", needs.iter().map(String::as_str))?;
    write_list(&mut out, "refuted by these defects", check.refuted_by.iter().copied())?;
    write_list(
        &mut out,
        "not reported where this one accuses the driver of the same fault",
        check.leader().into_iter(),
    )?;
    write_list(&mut out, "covers these cases of the Go csi-sanity", check.replaces.iter().copied())?;
    writeln!(out, "\nruns {}, {}; since {}", course(check.course()), access(check.access), check.since)
}

pub(crate) fn course(runs: Runs) -> &'static str {
    match runs {
        Runs::Parallel => "in parallel with others",
        Runs::Serial => "alone, since it looks at the driver as a whole",
        Runs::UnusualInput => "alone and late, since some drivers do not recover from it",
        Runs::CrashProne => "alone and late, since some drivers crash on it",
        Runs::Restarts => "alone, after the checks that drivers crash on, since it ends the driver",
        Runs::LosesData => {
            "alone, after the checks that end the driver, since some drivers lose everything over it; if nothing starts the driver again, a check \
             that the Go csi-sanity has comes before those that drivers crash on"
        }
        Runs::KillsUnderLoad => {
            "alone, after the checks that drivers lose everything over, since it kills the driver under load, and some do not start again"
        }
        Runs::Finally => "after everything else, since it judges what was seen in the whole run",
    }
}

fn access(access: Variants) -> &'static str {
    match access {
        Variants::First => "with the first access type only",
        Variants::Each => "for each --access-type",
    }
}

fn explain_requirement(
    mut out: impl Write,
    rule: &'static Requirement,
    registry: &Registry,
) -> io::Result<()> {
    write_rule(&mut out, rule)?;
    let checks: Vec<_> = coverage::checks_of(rule, registry).collect();
    let is_of_load = csi_suite_load::judge::RULES.iter().any(|other| other.id == rule.id);
    if is_of_load && checks.iter().all(|id| id.starts_with("load/")) {
        let checks: String = checks.iter().map(|id| format!(" and {id}")).collect();
        return writeln!(out, "\nchecked by csi-sanity load{checks}");
    }
    if checks.is_empty() {
        return writeln!(out, "\nnot checked: {}", coverage::untested_because(rule));
    }
    let by = match suites::is_proven(rule, registry) {
        true => "checked by",
        false => "claimed, not proven: no known defect makes these blame a driver for this rule",
    };
    write_list(&mut out, by, checks.into_iter())?;
    match coverage::only_warned_because(rule) {
        Some(why) => writeln!(out, "\nthey only warn: {why}"),
        None => Ok(()),
    }
}

fn write_rule(out: &mut impl Write, rule: &Requirement) -> io::Result<()> {
    let place = if rule.rpc == rule.section || rule.rpc == "*" {
        rule.section.to_owned()
    } else {
        format!("{}; {}", rule.rpc, rule.section)
    };
    writeln!(out, "  {} {} ({place})", rule.level, rule.id)?;
    writeln!(out, "    {}", rule.sentence())?;
    if !rule.requires.is_empty() {
        let requires: Vec<_> = rule.requires.iter().map(Need::describe).collect();
        writeln!(out, "    for drivers with: {}", requires.join(", "))?;
    }
    if let Some(version) = rule.versions.sign() {
        writeln!(out, "    only in CSI {version}")?;
    }
    if let Some(sentence) = rule.meaning() {
        writeln!(out, "    the specification says, without a keyword: \"{sentence}\"")?;
    }
    if let Some(why) = rule.why_not_binding() {
        writeln!(out, "    only a warning under --profile csi: {why}")?;
    }
    if let Some(code) = rule.code.filter(|code| !rule.expect.contains(code)) {
        writeln!(out, "    code: {code}")?;
    }
    if let Some(caution) = rule.caution {
        writeln!(out, "    caution: {caution}")?;
    }
    for Reliance { component, breaks, place } in rule.relied_on_by {
        writeln!(out, "    relied on by {component}: {place}")?;
        writeln!(out, "      otherwise: {breaks}")?;
    }
    Ok(())
}

fn write_list<'a>(
    out: &mut impl Write,
    title: &str,
    mut items: impl Iterator<Item = &'a str>,
) -> io::Result<()> {
    let Some(first) = items.next() else { return Ok(()) };
    writeln!(out, "\n{title}\n  {first}")?;
    items.try_for_each(|item| writeln!(out, "  {item}"))
}
