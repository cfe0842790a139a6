//! The verdict on each area.

use super::markup::Html;
use super::{Places, labelled, mark, places, stacking};
use crate::journal::Run;
use crate::statement::{FOUND_ELSEWHERE, Line, Says};
use crate::words::count;

/// Names of deviating checks that a row of the statement has; the section on failures has all.
const DEVIATIONS_MAX: usize = 5;

/// A class, a sign and words for what is said of an area.
pub(super) fn look(says: Says) -> (&'static str, &'static str, &'static str) {
    let (class, sign) = match says {
        Says::Conforms => ("good yes", "✓"),
        Says::Deviates => ("bad no", "✗"),
        Says::NotOffered => ("dim none", "–"),
        Says::Inconclusive => ("odd open", "?"),
        Says::NotTested => ("dim none", "–"),
    };
    (class, sign, says.words())
}

const COLUMNS: [&str; 7] =
    ["area", "the driver", "passed", "run", "inconclusive", "deviates in", FOUND_ELSEWHERE];

/// The areas at a glance, and as a table with the checks that deviate.
pub(super) fn write_areas(html: &mut Html, run: &Run) {
    html.element("ul", &[("class", "tiles")], |list| {
        for line in &run.statement {
            let class = format!("tile {}", look(line.says).0);
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
        "“Conforms” stands where every check that applies gave a verdict and no MUST is broken; “not offered” where \
         the driver does not advertise what the area is about.",
    );
    let places = places(run);
    stacking(html, "Areas in detail", &COLUMNS, |body| {
        run.statement.iter().for_each(|line| write_line(body, &places, line));
    });
}

/// A ring that is as full as checks of the area passed, around its sign.
fn write_gauge(html: &mut Html, line: &Line) {
    let (_, sign, _) = look(line.says);
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

fn write_line(body: &mut Html, places: &Places<'_>, line: &Line) {
    let [_, the_driver, passed, run, inconclusive, here, there] = COLUMNS;
    body.element("tr", &[], |row| {
        row.leaf("th", &[("scope", "row")], &line.area);
        labelled(row, the_driver, |cell| mark(cell, look(line.says)));
        for (name, number) in [(passed, line.passed), (run, line.run()), (inconclusive, line.not_judged)] {
            labelled(row, name, |cell| cell.text(&number.to_string()));
        }
        for (name, labels) in [(here, line.found_here()), (there, line.found_there())] {
            // All of it is one piece, which a phone puts beside its name. A cell without content stays empty.
            let all = |cell: &mut Html| {
                cell.element("span", &[], |all| write_labels(all, places, &labels));
            };
            labelled(row, name, |cell| {
                if !labels.is_empty() {
                    all(cell)
                }
            });
        }
    });
}

/// Writes names of checks with links to their descriptions.
fn write_labels(cell: &mut Html, places: &Places<'_>, labels: &[&str]) {
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
