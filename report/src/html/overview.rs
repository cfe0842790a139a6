//! What was tested, and the verdict: on the driver, on each area, on each check.

use std::collections::BTreeMap;

use super::markup::Html;
use super::{LISTED_MAX, columns, driver, mark, outcome, places, scrolling};
use crate::conclusion::{Mood, by_profile};
use crate::journal::Run;
use crate::statement::{FOUND_ELSEWHERE, Line, Says};
use crate::words::{count, duration_text};

/// Names of deviating checks that a row of the statement has; the section on failures has all.
const DEVIATIONS_MAX: usize = 5;

pub(super) fn write_header(html: &mut Html, run: &Run) {
    html.leaf("p", &[("class", "kind")], "Statement of conformance to the Container Storage Interface");
    html.element("h1", &[], |h1| h1.leaf("bdi", &[], &driver(run)));
    let conclusion = run.conclude();
    let (class, sign) = match conclusion.name.mood() {
        Mood::Good => ("good", "✓"),
        Mood::Fair => ("odd", "≈"),
        Mood::Bad => ("bad", "✗"),
        Mood::Open => ("odd", "?"),
    };
    html.element("p", &[("class", "verdict")], |html| mark(html, (class, sign, &conclusion.words)));
    html.leaf("p", &[], &(sentence(run) + &untested(run)));
    if !run.by_profile.is_empty() {
        html.leaf("p", &[], &format!("By profile: {}.", by_profile(&run.by_profile, run.profile)));
    }
    if !run.selection.is_whole {
        html.element("p", &[("class", "note")], |html| {
            html.leaf("b", &[], "This is a part of the checks: ");
            html.text(&part(run));
        });
    }
    write_bar(html, run);
}

fn sentence(run: &Run) -> String {
    let summary = &run.summary;
    let again = summary.same_fault;
    let passed = summary.passed + summary.warned + summary.unexpected_passes + again.warned;
    let judged = passed + summary.failed + summary.known_failures + again.failed + again.known_failures;
    let day = run.started.split('T').next().unwrap_or_default();
    format!("{passed} of the {judged} checks that judged it passed, on {day}, by CSI {}.", run.specification)
}

/// The areas that a whole run says nothing of.
fn untested(run: &Run) -> String {
    let is_untested = |line: &&Line| run.selection.is_whole && line.says == Says::NotTested;
    let areas: Vec<&str> = run.statement.iter().filter(is_untested).map(|line| line.area.as_str()).collect();
    if areas.is_empty() { String::new() } else { format!(" Not tested: {}.", areas.join(", ")) }
}

fn part(run: &Run) -> String {
    let suites = run.selection.suites.join(", ");
    match &run.selection.terms[..] {
        [] => format!("only of {suites}."),
        terms => format!("only those of {suites} that {} chooses.", terms.join(" ")),
    }
}

/// How many checks ended how, as one bar and as a list.
fn write_bar(html: &mut Html, run: &Run) {
    use csi_harness::results::outcome::Kind::*;
    let summary = &run.summary;
    let counts = [
        (Passed, summary.passed),
        (Warned, summary.warned),
        (KnownFailure, summary.known_failures),
        (UnexpectedPass, summary.unexpected_passes),
        (Failed, summary.failed),
        (SameFault, summary.same_fault.all()),
        (Broken, summary.broken),
        (Skipped, summary.skipped),
    ];
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    // The list below says the same.
    let attributes = [
        ("class", "bar"),
        ("viewBox", "0 0 1000 20"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
        ("focusable", "false"),
    ];
    html.element("svg", &attributes, |svg| {
        let mut from = 0.0;
        for (kind, count) in counts {
            let width = count as f64 * 1000.0 / all.max(1) as f64;
            if count > 0 {
                let (x, width_text) = (format!("{from:.1}"), format!("{:.1}", (width - 2.0).max(1.0)));
                let class = format!("fill {}", outcome(kind).0);
                let rect = [
                    ("class", class.as_str()),
                    ("x", &x),
                    ("y", "0"),
                    ("width", &width_text),
                    ("height", "20"),
                ];
                svg.empty("rect", &rect);
            }
            from += width;
        }
    });
    html.element("ul", &[("class", "counts")], |list| {
        for (kind, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let (class, sign, words) = outcome(kind);
            list.element("li", &[], |item| mark(item, (class, sign, &format!("{count} {words}"))));
        }
    });
}

fn says(line: &Line) -> (&'static str, &'static str, &'static str) {
    let (class, sign) = match line.says {
        Says::Conforms => ("good", "✓"),
        Says::Deviates => ("bad", "✗"),
        Says::NotOffered => ("dim", "–"),
        Says::NotTested => ("odd", "?"),
    };
    (class, sign, line.says.words())
}

/// The areas at a glance, and as a table with the checks that deviate.
pub(super) fn write_areas(html: &mut Html, run: &Run) {
    html.element("ul", &[("class", "tiles")], |list| {
        for line in &run.statement {
            let class = format!("tile {}", says(line).0);
            list.element("li", &[("class", &class)], |tile| {
                write_gauge(tile, line);
                tile.element("span", &[("class", "area")], |html| html.text(&line.area));
                tile.leaf("span", &[("class", "says")], &line.words());
            });
        }
    });
    html.leaf(
        "p",
        &[("class", "dim")],
        "“Conforms” stands where every check that applies has judged and no rule that binds is broken; “not offered” where \
         the driver does not advertise what the area is about.",
    );
    let places = places(run);
    scrolling(html, "Areas in detail", |html| {
        html.element("table", &[], |table| {
            table.leaf("caption", &[], "Areas in detail");
            columns(
                table,
                &["area", "the driver", "passed", "run", "inconclusive", "deviates in", FOUND_ELSEWHERE],
            );
            table.element("tbody", &[], |body| {
                run.statement.iter().for_each(|line| write_line(body, &places, line));
            });
        });
    });
}

/// A ring that is as full as checks of the area passed, around its sign.
fn write_gauge(html: &mut Html, line: &Line) {
    let (_, sign, _) = says(line);
    let run = line.run();
    let passed = format!("{}: {} of {run} checks passed", line.words(), line.passed);
    let label = if run > 0 { passed } else { line.words() };
    html.element("svg", &[("viewBox", "0 0 44 44"), ("role", "img"), ("aria-label", &label)], |svg| {
        let circle = [("cx", "22"), ("cy", "22"), ("r", "18"), ("pathLength", "100")];
        svg.empty("circle", &[&circle[..], &[("class", "ring")]].concat());
        if let Some(full @ 1..) = (line.passed * 100).checked_div(run) {
            let dashes = format!("{full} 100");
            let arc =
                [("class", "arc"), ("stroke-dasharray", dashes.as_str()), ("transform", "rotate(-90 22 22)")];
            svg.empty("circle", &[&circle[..], &arc].concat());
        }
        svg.leaf("text", &[("x", "22"), ("y", "28"), ("text-anchor", "middle")], sign);
    });
}

fn write_line(body: &mut Html, places: &BTreeMap<&str, String>, line: &Line) {
    body.element("tr", &[], |row| {
        row.leaf("th", &[("scope", "row")], &line.area);
        row.element("td", &[], |cell| mark(cell, says(line)));
        for number in [line.passed, line.run(), line.not_judged] {
            row.leaf("td", &[("class", "number")], &number.to_string());
        }
        row.element("td", &[], |cell| write_labels(cell, places, &line.found_here()));
        row.element("td", &[], |cell| write_labels(cell, places, &line.found_there()));
    });
}

/// Names of checks, with the places where they are told of.
fn write_labels(cell: &mut Html, places: &BTreeMap<&str, String>, labels: &[&str]) {
    for (at, label) in labels.iter().take(DEVIATIONS_MAX).enumerate() {
        if at > 0 {
            cell.text(", ");
        }
        match places.get(label) {
            Some(place) => cell.leaf("a", &[("href", &format!("#{place}"))], label),
            None => cell.text(label),
        }
    }
    if let Some(hidden @ 1..) = labels.len().checked_sub(DEVIATIONS_MAX) {
        cell.text(&format!(" and {}", count(hidden, "more check")));
    }
}

/// The circumstances of the run.
pub(super) fn write_tested(html: &mut Html, run: &Run) {
    let target = &run.target;
    let mut facts = vec![
        ("driver", target.name.clone()),
        ("version", target.vendor_version.clone()),
        ("endpoint", target.endpoint.clone()),
    ];
    facts.extend(target.node_endpoints.iter().map(|endpoint| ("another node", endpoint.clone())));
    facts.extend(target.controller_endpoint.iter().map(|endpoint| ("controller", endpoint.clone())));
    facts.extend([
        ("CSI specification", run.specification.clone()),
        (&run.tool.name, run.tool.version.clone()),
        ("begun", run.started.clone()),
        ("took", duration_text(run.duration_ms.saturating_mul(1000))),
        ("suites", run.selection.suites.join(", ")),
        (
            "shard",
            run.shard.as_ref().map_or_else(String::new, |shard| format!("{} of {}", shard.index, shard.of)),
        ),
        (
            "put together of",
            if run.shards.is_empty() { String::new() } else { count(run.shards.len(), "shard") },
        ),
        ("seed", run.seed.to_string()),
        ("command", run.command.clone()),
    ]);
    html.element("dl", &[("class", "facts")], |list| {
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            list.leaf("dt", &[], name);
            list.element("dd", &[], |item| item.leaf("code", &[], value));
        }
        list.leaf("dt", &[], "capabilities");
        list.element("dd", &[], |item| match &target.capabilities[..] {
            [] => item.text("none"),
            some => super::names(item, some.iter().map(String::as_str)),
        });
    });
}

/// Every check, in a table that a script makes searchable.
pub(super) fn write_checks(html: &mut Html, run: &Run) {
    html.element("div", &[("id", "search"), ("hidden", "")], |html| {
        html.element("label", &[("for", "words")], |label| label.text("Show only what has"));
        html.empty("input", &[("id", "words"), ("type", "search"), ("autocomplete", "off")]);
        html.element("p", &[("id", "shown"), ("role", "status")], |_| {});
    });
    html.element("details", &[("id", "list")], |details| {
        details.leaf("summary", &[], "the list");
        scrolling(details, "All checks", |html| {
            html.element("table", &[("id", "all")], |table| {
                table.leaf("caption", &[], "All checks");
                columns(table, &["check", "outcome", "requirements", "took"]);
                table.element("tbody", &[], |body| {
                    for check in &run.checks {
                        body.element("tr", &[], |row| {
                            row.element("th", &[("scope", "row")], |cell| cell.leaf("code", &[], &check.id));
                            row.element("td", &[], |cell| mark(cell, outcome(check.outcome())));
                            row.leaf("td", &[], &shortened(&check.requirements));
                            row.leaf(
                                "td",
                                &[("class", "number")],
                                &duration_text(check.duration_ms.saturating_mul(1000)),
                            );
                        });
                    }
                });
            });
        });
    });
}

fn shortened(requirements: &[String]) -> String {
    requirements[..requirements.len().min(LISTED_MAX)].join(" ")
}
