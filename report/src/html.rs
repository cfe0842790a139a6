//! The run as one page to show: nothing is loaded from elsewhere, and a reader without scripts misses nothing.

mod calls;
pub(crate) mod charts;
mod checks;
mod durations;
mod faults;
mod first;
pub(crate) mod history;
mod lifecycle;
mod markup;
mod overview;
mod requirements;
mod sequence;
mod tested;
mod timeline;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use csi_harness::results::outcome::OutcomeKind;
use sha2::{Digest as _, Sha256};

use crate::entry::CheckEntry;
use crate::fault::{self, FaultGroup};
use crate::journal::Run;
use crate::rules::{self, Rule};
use crate::words::{again, count};
use markup::Html;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Largest number of listed things of one kind; --report json=FILE has all.
const LISTED_MAX: usize = 100;

pub(crate) fn render(run: &Run) -> String {
    let rules = rules::each(run);
    let title = format!("{} {}", driver(run), run.conclude().words);
    let made_by = format!("{} {}", run.tool.name, run.tool.version);
    page(&title, |header| first::write(header, run, &rules), &sections(run, &rules), &made_by)
}

/// A page of sections below a header.
fn page(title: &str, header: impl FnOnce(&mut Html), sections: &[Section<'_>], made_by: &str) -> String {
    let mut page = Html::default();
    page.element("html", &[("lang", "en")], |html| {
        html.element("head", &[], |head| write_head(head, title));
        html.element("body", &[], |body| {
            body.leaf("a", &[("class", "skip"), ("href", "#main")], "Skip to the statement");
            body.element("header", &[], header);
            write_contents(body, sections);
            body.element("main", &[("id", "main"), ("tabindex", "-1")], |main| {
                sections.iter().for_each(|section| write_section(main, section));
            });
            body.element("footer", &[], |footer| {
                footer.leaf("p", &[], &format!("Made by {made_by}."));
            });
            body.ours("script", SCRIPT);
        });
    });
    page.into_page()
}

fn write_head(head: &mut Html, title: &str) {
    head.empty("meta", &[("charset", "utf-8")]);
    // A text that found a way around the escaping would still be run by no browser, nor load anything.
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    head.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    head.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    head.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    head.leaf("title", &[], title);
    head.ours("style", STYLE);
}

/// The hash by which a content security policy accepts a style or script of ours.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// The sections that the run has something for, in their order: id, heading, and what is in it.
type Section<'a> = (&'static str, String, Box<dyn Fn(&mut Html) + 'a>);

fn write_contents(body: &mut Html, sections: &[Section<'_>]) {
    body.element("nav", &[("aria-label", "Contents")], |nav| {
        nav.element("ul", &[], |list| {
            for (id, heading, _) in sections {
                let to = format!("#{id}");
                list.element("li", &[], |item| item.leaf("a", &[("href", &to)], heading));
            }
        });
    });
}

fn write_section(main: &mut Html, (id, heading, write): &Section<'_>) {
    let title = format!("{id}-title");
    main.element("section", &[("id", id), ("aria-labelledby", &title)], |section| {
        section.element("h2", &[("id", &title)], |h2| {
            h2.text(heading);
            link_here(h2, id);
        });
        write(section);
    });
}

/// A link by which others can be sent to this place.
fn link_here(html: &mut Html, id: &str) {
    html.leaf(
        "a",
        &[("class", "at"), ("href", &format!("#{id}")), ("aria-label", "Link to this place")],
        "#",
    );
}

fn sections<'a>(run: &'a Run, rules: &'a [Rule<'a>]) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'_>> =
        vec![("areas", "Areas".to_owned(), Box::new(|html| overview::write_areas(html, run)))];
    let mut kind = |id, heading: &str, kind| {
        let faults = fault::each(run, kind);
        let others = faults.iter().map(|fault| fault.others.len()).sum();
        let heading = match (faults.len(), kind) {
            (0, _) => return,
            // Checks with one obstacle have no fault in common.
            (found, OutcomeKind::Broken) => format!("{heading} ({})", found + others),
            (found, _) if others > 0 => format!("{heading} ({found}, {})", again(others)),
            (found, _) => format!("{heading} ({found})"),
        };
        sections.push((id, heading, Box::new(move |html| faults::write(html, id, &faults))));
    };
    kind("failures", "Failures", OutcomeKind::Failed);
    kind("flaky", "Flaky", OutcomeKind::Flaky);
    kind("unexpected", "Listed as known to fail, and passes", OutcomeKind::UnexpectedPass);
    kind("not-judged", "Inconclusive", OutcomeKind::Broken);
    kind("warnings", "Warnings", OutcomeKind::Warned);
    kind("known", "Known failures", OutcomeKind::KnownFailure);
    if !run.crashes.is_empty() {
        let heading = format!("Crashes ({})", run.crashes.len());
        sections.push(("crashes", heading, Box::new(|html| faults::write_crashes(html, run))));
    }
    let left = run.leaks.len() + run.left_behind.len();
    if left > 0 {
        let heading = format!("Left behind ({left})");
        sections.push(("leaks", heading, Box::new(|html| faults::write_leaks(html, run))));
    }
    let heading = format!("Requirements ({})", rules.len());
    sections.push(("requirements", heading, Box::new(|html| requirements::write(html, run, rules))));
    if run.checks.iter().any(|check| check.outcome() == OutcomeKind::Skipped) {
        let heading = format!("Skipped ({})", run.summary.skipped);
        sections.push(("skipped", heading, Box::new(|html| faults::write_skipped(html, run))));
    }
    let heading = format!("All checks ({})", run.checks.len());
    sections.push(("checks", heading, Box::new(|html| checks::write(html, run))));
    sections.push(("durations", "Durations".to_owned(), Box::new(|html| durations::write_suites(html, run))));
    if !run.rpcs.is_empty() {
        sections.push(("calls", "Calls".to_owned(), Box::new(|html| durations::write(html, run))));
        let write = |html: &mut Html| lifecycle::write(html, run);
        sections.push(("life-cycle", "The life of a volume".to_owned(), Box::new(write)));
    }
    if !run.remarks.is_empty() {
        sections.push(("remarks", "Remarks".to_owned(), Box::new(|html| faults::write_remarks(html, run))));
    }
    sections.push(("tested", "What was tested".to_owned(), Box::new(|html| tested::write(html, run))));
    sections
}

/// The driver as the page names it.
fn driver(run: &Run) -> String {
    let name = if run.target.name.is_empty() { "A driver without a name" } else { &run.target.name };
    format!("{name} {}", run.target.vendor_version).trim_end().to_owned()
}

/// A sign and words for an outcome, so that the colour is never the only difference.
fn outcome(kind: OutcomeKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        OutcomeKind::Passed => ("good yes", "✓", "passed"),
        OutcomeKind::Failed => ("bad no", "✗", "failed"),
        OutcomeKind::Flaky => ("odd flaky", "~", "flaky"),
        OutcomeKind::Warned => ("odd warn", "!", "warned"),
        OutcomeKind::Skipped => ("dim none", "–", "skipped"),
        OutcomeKind::SameFault => ("odd same", "=", "same fault"),
        OutcomeKind::Broken => ("odd open", "?", "inconclusive"),
        OutcomeKind::KnownFailure => ("odd known", "≈", "known failure"),
        OutcomeKind::UnexpectedPass => ("odd up", "↑", "unexpected pass"),
    }
}

/// Words in the colour of their class, with its sign in front, which the style adds.
fn mark(html: &mut Html, (class, _, words): (&str, &str, &str)) {
    html.leaf("span", &[("class", &format!("mark {class}"))], words);
}

/// A table whose rows are stacks of named values where the screen is narrow.
fn stacking(html: &mut Html, label: &str, names: &[&str], rows: impl FnOnce(&mut Html)) {
    scrolling(html, label, |html| {
        html.element("table", &[("class", "stack")], |table| {
            table.leaf("caption", &[], label);
            columns(table, names);
            table.element("tbody", &[], rows);
        });
    });
}

/// Writes a cell with the name of its column, which narrow screens show in the cell.
fn labelled(row: &mut Html, name: &str, inside: impl FnOnce(&mut Html)) {
    row.element("td", &[("data-name", name)], inside);
}

/// A box that scrolls sideways where the screen is narrower than what is in it; also with the keyboard.
fn scrolling(html: &mut Html, label: &str, inside: impl FnOnce(&mut Html)) {
    let attributes = [("class", "wide"), ("role", "group"), ("aria-label", label), ("tabindex", "0")];
    html.element("div", &attributes, inside);
}

/// The row of headings of a table.
fn columns(table: &mut Html, names: &[&str]) {
    table.element("thead", &[], |head| {
        head.element("tr", &[], |row| {
            names.iter().for_each(|name| row.leaf("th", &[("scope", "col")], name));
        });
    });
}

/// A list of names, the last of which are only counted where there are too many.
fn names<'a>(html: &mut Html, names: impl ExactSizeIterator<Item = &'a str>) {
    let hidden = names.len().saturating_sub(LISTED_MAX);
    html.element("ul", &[("class", "names")], |list| {
        names.take(LISTED_MAX).for_each(|name| list.element("li", &[], |item| item.leaf("code", &[], name)));
        if hidden > 0 {
            list.leaf("li", &[], &format!("and {}", count(hidden, "more name")));
        }
    });
}

/// The anchor of a check on the page.
fn place(check: &CheckEntry) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '.' };
    format!("check-{}", check.id.chars().map(plain).collect::<String>())
}

/// The anchors of checks, by their labels.
type Places<'a> = BTreeMap<&'a str, String>;

/// The anchor of each deviation: that of the first check that met the fault.
fn places(run: &Run) -> Places<'_> {
    let mut places = BTreeMap::new();
    for kind in [OutcomeKind::Failed, OutcomeKind::Flaky, OutcomeKind::KnownFailure, OutcomeKind::Warned] {
        for FaultGroup { first, others } in fault::each(run, kind).into_iter().take(LISTED_MAX) {
            let labels = others.into_iter().chain([first.id.as_str()]);
            places.extend(labels.map(|label| (label, place(first))));
        }
    }
    places
}

fn checks(number: usize) -> String {
    count(number, "check")
}
