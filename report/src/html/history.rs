//! Several runs of a driver beside each other: what each area did in which version, and what changed.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::results::outcome::OutcomeKind;
use csi_harness::text::shorten::shortened;

use super::markup::Html;
use super::{LISTED_MAX, Section, first, mark, outcome, overview, page, scrolling};
use crate::compare::{Comparison, Entry};
use crate::journal::Run;
use crate::statement::Line;
use crate::words::count;

/// The page of runs in their order, each compared with the one before it.
pub fn history_page(runs: &[Run], steps: &[Comparison], version: &str) -> String {
    let newest = runs.last().map(|run| run.target.driver()).unwrap_or_default();
    let mut sections: Vec<Section<'_>> =
        vec![("areas", "Areas by version".to_owned(), Box::new(|html| write_areas(html, runs)))];
    sections.push(("changes", "What changed".to_owned(), Box::new(|html| write_steps(html, steps))));
    let failing = failing(runs);
    if !failing.is_empty() {
        let heading = format!("Checks that failed in any of them ({})", failing.len());
        sections.push(("failing", heading, Box::new(move |html| write_failing(html, runs, &failing))));
    }
    let title = format!("{newest} and its history");
    page(&title, |header| write_header(header, runs, steps), &sections, &format!("csi-sanity {version}"))
}

fn write_header(html: &mut Html, runs: &[Run], steps: &[Comparison]) {
    html.leaf("p", &[("class", "kind")], "Conformance to the Container Storage Interface over several runs");
    let newest = runs.last().map(|run| run.target.driver()).unwrap_or_default();
    html.element("h1", &[], |h1| h1.leaf("bdi", &[], &newest));
    if let Some(run) = runs.last() {
        let conclusion = run.conclude_briefly();
        html.element("p", &[("class", "verdict")], |html| {
            mark(html, first::look(conclusion.name.mood(), &conclusion.words));
        });
    }
    if let Some(step) = steps.last() {
        let worse = if step.is_worse { "something got worse" } else { "nothing got worse" };
        let (fixed, new) = (step.fixed.len(), step.new_failures.len());
        let text = format!(
            "Since {}, {worse}: {fixed} fixed, {new} newly failing, {} still failing.",
            step.old.driver,
            step.still_failing.len()
        );
        html.leaf("p", &[], &text);
    }
    let cautions: BTreeSet<&str> = steps.iter().flat_map(|step| &step.cautions).map(String::as_str).collect();
    for caution in cautions.iter().take(LISTED_MAX) {
        html.leaf("p", &[("class", "note")], caution);
    }
}

/// The heads of the columns: a run each.
fn write_runs(table: &mut Html, what: &str, runs: &[Run]) {
    table.element("thead", &[], |head| {
        head.element("tr", &[], |row| {
            row.leaf("th", &[("scope", "col")], what);
            for run in runs {
                row.element("th", &[("scope", "col")], |cell| {
                    let version = &run.target.vendor_version;
                    cell.text(if version.is_empty() { &run.target.name } else { version });
                    let begun: String = run.started.chars().take("2006-01-02T15:04".len()).collect();
                    let begun = begun.replace('T', " ");
                    cell.leaf("small", &[], &format!("{begun}, csi-sanity {}", run.tool.version));
                    cell.element("small", &[], |small| {
                        let conclusion = run.conclude_briefly();
                        mark(small, first::look(conclusion.name.mood(), &conclusion.words));
                    });
                });
            }
        });
    });
}

/// The result of each area in every run. Differences from the run before are highlighted.
fn write_areas(html: &mut Html, runs: &[Run]) {
    let mut names: Vec<&str> = Vec::new();
    for line in runs.iter().flat_map(|run| &run.statement) {
        if !names.contains(&line.area.as_str()) {
            names.push(&line.area);
        }
    }
    scrolling(html, "Areas by version", |html| {
        html.element("table", &[("class", "matrix")], |table| {
            table.leaf("caption", &[], "Checks that passed, of those that ran; what changed is framed");
            write_runs(table, "area", runs);
            table.element("tbody", &[], |body| {
                for name in names {
                    body.element("tr", &[], |row| {
                        row.leaf("th", &[("scope", "row")], name);
                        let lines: Vec<Option<&Line>> = runs.iter().map(|run| line(run, name)).collect();
                        for (at, line) in lines.iter().enumerate() {
                            let says = |line: &Option<&Line>| line.map(|line| line.says);
                            let changed = at > 0 && says(&lines[at - 1]) != says(line);
                            write_area(row, *line, changed);
                        }
                    });
                }
            });
        });
    });
}

fn line<'a>(run: &'a Run, name: &str) -> Option<&'a Line> {
    run.statement.iter().find(|line| line.area == name)
}

fn write_area(row: &mut Html, line: Option<&Line>, changed: bool) {
    let look = line.map_or(("dim none", "–", "not there"), |line| overview::look(line.says));
    let class = format!("cell {}{}", look.0, if changed { " changed" } else { "" });
    row.element("td", &[("class", &class)], |cell| {
        mark(cell, look);
        if let Some(line) = line.filter(|line| line.run() > 0) {
            cell.leaf("small", &[], &format!("{} of {}", line.passed, line.run()));
        }
    });
}

/// The newest step first.
fn write_steps(html: &mut Html, steps: &[Comparison]) {
    for step in steps.iter().rev() {
        html.leaf("h3", &[], &format!("{} → {}", step.old.driver, step.new.driver));
        let lists: [(&str, &[Entry]); 6] = [
            ("newly failing", &step.new_failures),
            ("fixed", &step.fixed),
            ("newly inconclusive", &step.newly_not_judged),
            ("newly skipped", &step.newly_skipped),
            ("gone", &step.gone),
            ("newly warned", &step.newly_warned),
        ];
        let some: Vec<_> = lists.into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
        if some.is_empty() && step.new_trouble.is_empty() && step.slower.is_empty() {
            html.leaf("p", &[("class", "dim")], "No check ended in another way.");
        }
        for (what, entries) in some {
            html.element("details", &[("open", "")], |details| {
                details.leaf("summary", &[], &format!("{what}: {}", entries.len()));
                details.element("ul", &[], |list| {
                    entries.iter().take(LISTED_MAX).for_each(|entry| write_entry(list, entry));
                    if let Some(hidden @ 1..) = entries.len().checked_sub(LISTED_MAX) {
                        list.leaf("li", &[], &format!("and {}", count(hidden, "more check")));
                    }
                });
            });
        }
        let slower = step.slower.iter().map(Comparison::slower_text);
        let more: Vec<String> = step.new_trouble.iter().cloned().chain(slower).collect();
        if !more.is_empty() {
            html.element("ul", &[], |list| more.iter().for_each(|text| list.leaf("li", &[], text)));
        }
    }
}

fn write_entry(list: &mut Html, entry: &Entry) {
    list.element("li", &[], |item| {
        item.leaf("code", &[], &entry.id);
        item.text(" ");
        item.leaf("bdi", &[], &shortened(&entry.message));
    });
}

/// The checks by which the driver deviates in any of the runs.
fn failing(runs: &[Run]) -> Vec<&str> {
    let fails = |kind| matches!(kind, OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::KnownFailure);
    let all = runs.iter().flat_map(|run| &run.checks);
    let ids: BTreeSet<&str> =
        all.filter(|check| fails(check.outcome())).map(|check| check.id.as_str()).collect();
    ids.into_iter().collect()
}

fn write_failing(html: &mut Html, runs: &[Run], failing: &[&str]) {
    let outcomes = |run: &'_ Run| -> BTreeMap<String, OutcomeKind> {
        run.checks.iter().map(|check| (check.id.clone(), check.outcome())).collect()
    };
    let outcomes: Vec<BTreeMap<String, OutcomeKind>> = runs.iter().map(outcomes).collect();
    scrolling(html, "Checks that failed in any of them", |html| {
        html.element("table", &[("class", "matrix")], |table| {
            table.leaf("caption", &[], "Checks that failed in any of them");
            write_runs(table, "check", runs);
            table.element("tbody", &[], |body| {
                for id in failing.iter().take(LISTED_MAX) {
                    body.element("tr", &[], |row| {
                        row.element("th", &[("scope", "row")], |cell| cell.leaf("code", &[], id));
                        for of_run in &outcomes {
                            let look = of_run
                                .get(*id)
                                .map_or(("dim none", "–", "not there"), |kind| outcome(*kind));
                            row.element("td", &[("class", &format!("cell {}", look.0))], |cell| {
                                mark(cell, look)
                            });
                        }
                    });
                }
            });
        });
    });
    if let Some(hidden @ 1..) = failing.len().checked_sub(LISTED_MAX) {
        html.leaf("p", &[], &format!("and {}", count(hidden, "more check")));
    }
}
