//! `csi-sanity coverage`: which requirements on a driver are checked, and why others are not.

use std::collections::BTreeSet;
use std::io::{self, Write};

use csi_harness::registry::Registry;
use csi_harness::requirements::{Level, Party, Requirement, Testability, req};
use csi_suite_sanity::untested::UNTESTED;
use serde::Serialize;

use crate::args::OutputFormat;
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
    checks: Vec<&'static str>,
    /// Whether some defect of the mock driver makes one of them blame it for this rule.
    proven: bool,
    untested_because: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Totals {
    requirements: usize,
    checked: usize,
    claimed: usize,
    untestable: usize,
    unchecked: usize,
}

/// Prints the table.
pub(crate) fn coverage(format: OutputFormat) -> Result<Exit, Error> {
    let coverage = measure(&suites::all(), &suites::proven());
    let out = io::stdout().lock();
    match format {
        OutputFormat::Text => text(out, &coverage)?,
        OutputFormat::Json => json(out, &coverage)?,
    }
    Ok(Exit::Success)
}

fn measure(registry: &Registry, proven: &BTreeSet<&str>) -> Coverage {
    let mut totals = Totals::default();
    let mut requirements = Vec::new();
    for rule in req::ALL.iter().filter(|rule| rule.on == Party::Plugin) {
        let checks: Vec<_> = checks_of(rule, registry).collect();
        totals.requirements += 1;
        let proven = proven.contains(rule.id);
        if !checks.is_empty() {
            *(if proven { &mut totals.checked } else { &mut totals.claimed }) += 1;
        } else if cannot_be_tested(rule) {
            totals.untestable += 1;
        } else {
            totals.unchecked += 1;
        }
        let untested_because = checks.is_empty().then(|| untested_because(rule));
        requirements.push(Row {
            id: rule.id,
            level: rule.level.to_string(),
            checks,
            proven,
            untested_because,
        });
    }
    Coverage { requirements, totals }
}

fn cannot_be_tested(rule: &Requirement) -> bool {
    rule.level == Level::May
        || matches!(rule.test, Testability::Untestable | Testability::ModelOnly)
        || UNTESTED.iter().any(|(row, _)| *row == rule)
}

/// Ids of the checks that test a requirement.
pub(crate) fn checks_of(rule: &Requirement, registry: &Registry) -> impl Iterator<Item = &'static str> {
    registry.checks().filter(move |(_, check)| check.requirements.contains(&rule)).map(|(_, check)| check.id)
}

/// Why no check tests a requirement.
pub(crate) fn untested_because(rule: &Requirement) -> &'static str {
    if rule.on == Party::Orchestrator {
        return "it binds the caller, not the driver";
    }
    if let Some((_, why)) = UNTESTED.iter().find(|(row, _)| *row == rule) {
        return why;
    }
    if rule.level == Level::May {
        return "it permits something, and cannot be broken; legal oddities of the mock driver have to pass";
    }
    match rule.test {
        Testability::Blackbox => "no check tests it yet",
        Testability::Concurrent => "no check tests it yet; it takes calls in parallel or cut short",
        Testability::Mount => "no check tests it yet; it takes a node plugin that really mounts",
        Testability::Restart => "no check tests it yet; it takes a restart of the driver",
        Testability::MultiNode => "no check tests it yet; it takes a second node or topology",
        Testability::ModelOnly => "it says how to judge, and cannot be broken by itself",
        Testability::Untestable => {
            "it cannot be seen through gRPC, or takes faults, full storage or documents"
        }
    }
}

fn text(mut out: impl Write, coverage: &Coverage) -> io::Result<()> {
    for row in &coverage.requirements {
        write!(out, "{:<20} {:<6} ", row.id, row.level)?;
        match row.untested_because {
            None if row.proven => writeln!(out, "{}", row.checks.join(", "))?,
            None => writeln!(out, "- claimed, not proven: {}", row.checks.join(", "))?,
            Some(why) => writeln!(out, "- {why}")?,
        }
    }
    let totals = &coverage.totals;
    writeln!(
        out,
        "\n{} requirements on drivers: {} checked, {} claimed by checks that no known defect proves to judge \
         them, {} not checked yet, {} that no check can test",
        totals.requirements, totals.checked, totals.claimed, totals.unchecked, totals.untestable
    )
}
