//! Lists every MUST and SHOULD of the specification with its state in the run.

use std::collections::BTreeMap;

use csi_harness::checks::check::Check;
use csi_harness::protocol::version::Version;
use csi_harness::spec::requirements::{Level, Party, Reliance, Requirement};
use csi_harness::text::shorten::shortened;

use super::markup::Html;
use super::{LISTED_MAX, columns, mark, place, scrolling};
use crate::journal::Run;
use crate::rules::{Rule, Standing};
use crate::words::count;

/// The document that sections are linked in.
const SPECIFICATION: &str = "https://github.com/container-storage-interface/spec/blob/v1.12.0/spec.md";
/// The document for rules that [`SPECIFICATION`] does not have.
const SPECIFICATION_1_13: &str = "https://github.com/container-storage-interface/spec/blob/v1.13.0/spec.md";
/// Requirements that are named for one reason.
const IDS_MAX: usize = 12;
/// Checks that a row names.
const CHECKS_MAX: usize = 3;

/// A class and a sign for what is known of a requirement.
fn look(standing: Standing) -> (&'static str, &'static str, &'static str) {
    let (class, sign) = match standing {
        Standing::Kept => ("good yes", "✓"),
        Standing::Broken => ("bad no", "✗"),
        Standing::Warned => ("odd warn", "!"),
        Standing::KnownFailure => ("odd known", "≈"),
        Standing::Inconclusive => ("odd open", "?"),
        Standing::Skipped | Standing::NotRun | Standing::Untested => ("dim none", "–"),
    };
    (class, sign, standing.words())
}

/// The number of MUSTs that were judged, as a sentence.
pub(super) fn sentence(run: &Run, rules: &[Rule<'_>]) -> String {
    let musts = || rules.iter().filter(|rule| rule.is_testable_must());
    let judged = musts().filter(|rule| rule.standing.is_judged()).count();
    let (all, version) = (musts().count(), &run.specification);
    format!("{judged} of the {all} MUSTs of CSI {version} that can be tested from outside were tested.")
}

/// Writes the number of rules of each kind, and all rules.
pub(super) fn write(html: &mut Html, run: &Run, rules: &[Rule<'_>]) {
    html.leaf("p", &[], &sentence(run, rules));
    scrolling(html, "Requirements by what is known of them", |html| {
        html.element("table", &[("class", "small")], |table| {
            table.leaf("caption", &[], "Requirements by what is known of them");
            columns(table, &["", "MUST, testable from outside", "all MUST", "SHOULD"]);
            table.element("tbody", &[], |body| {
                Standing::ALL.into_iter().for_each(|standing| write_count(body, rules, standing));
            });
        });
    });
    write_not_judged(html, rules);
    html.element("p", &[("class", "dim")], |p| {
        p.text("The words are ours; the links lead into ");
        p.leaf("a", &[("href", SPECIFICATION), ("rel", "noreferrer")], "the specification, v1.12.0");
        p.text(". A requirement is kept where a check of it passed and none found it broken.");
    });
    let summary = format!("all {}", count(rules.len(), "requirement"));
    html.element("details", &[("id", "all-requirements")], |details| {
        details.leaf("summary", &[], &summary);
        write_all(details, run, rules);
    });
}

/// The reasons why MUSTs that can be tested were not judged, the commonest first.
fn write_not_judged(html: &mut Html, rules: &[Rule<'_>]) {
    let mut reasons = BTreeMap::<(&str, &str), Vec<&str>>::new();
    for rule in rules.iter().filter(|rule| rule.is_testable_must() && !rule.standing.is_judged()) {
        reasons.entry((rule.standing.words(), &rule.because)).or_default().push(rule.row.id);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    if reasons.is_empty() {
        return;
    }
    let all: usize = reasons.iter().map(|(_, ids)| ids.len()).sum();
    html.element("details", &[], |details| {
        details.leaf("summary", &[], &format!("why {all} of them were not tested"));
        details.element("ul", &[], |list| {
            for ((standing, because), ids) in reasons.iter().take(LISTED_MAX) {
                list.element("li", &[], |item| {
                    item.text(&format!("{}, {standing}: {}: ", ids.len(), shortened(because)));
                    for (at, id) in ids.iter().take(IDS_MAX).enumerate() {
                        item.text(if at > 0 { ", " } else { "" });
                        item.leaf("a", &[("href", &format!("#{id}"))], id);
                    }
                    if let Some(hidden @ 1..) = ids.len().checked_sub(IDS_MAX) {
                        item.text(&format!(" and {hidden} more"));
                    }
                });
            }
        });
    });
}

fn write_count(body: &mut Html, rules: &[Rule<'_>], standing: Standing) {
    let of = |is_wanted: &dyn Fn(&Rule<'_>) -> bool| {
        rules.iter().filter(|rule| rule.standing == standing && is_wanted(rule)).count()
    };
    let must = |rule: &Rule<'_>| rule.row.level == Level::Must;
    let numbers = [of(&|rule| rule.is_testable_must()), of(&must), of(&|rule| !must(rule))];
    if numbers == [0; 3] {
        return;
    }
    body.element("tr", &[], |row| {
        row.element("th", &[("scope", "row")], |cell| mark(cell, look(standing)));
        numbers.iter().for_each(|number| row.leaf("td", &[("class", "number")], &number.to_string()));
    });
}

fn write_all(html: &mut Html, run: &Run, rules: &[Rule<'_>]) {
    let places = super::places(run);
    html.element("table", &[("class", "list"), ("data-of", "section")], |table| {
        table.leaf("caption", &[], "All requirements on drivers");
        columns(table, &["requirement", "it says", "status", "looked at by"]);
        for section in rules.chunk_by(|a, b| section(a) == section(b)) {
            let name = section.first().map_or("", |rule| self::section(rule));
            table.element("tbody", &[("data-of", name)], |body| {
                body.element("tr", &[("class", "group")], |row| {
                    row.element("th", &[("scope", "rowgroup"), ("colspan", "4")], |cell| {
                        let to = place_of(section.iter().map(|rule| rule.row), name);
                        cell.leaf("a", &[("href", &to), ("rel", "noreferrer")], name);
                    });
                });
                section.iter().for_each(|rule| write_row(body, &places, rule));
            });
        }
    });
}

/// The section that a row is under; tables of errors stand with their RPC.
fn section(rule: &Rule<'_>) -> &'static str {
    rule.row.section.strip_suffix(" Errors").unwrap_or(rule.row.section)
}

/// Writes the id of a requirement as a link to its row, or into the specification if the page has no row for it.
pub(super) fn write_link(html: &mut Html, row: &Requirement) {
    if row.on == Party::Plugin && row.level != Level::May {
        return html.leaf("a", &[("href", &format!("#{}", row.id))], row.id);
    }
    let to = place_of(std::iter::once(row), row.section);
    html.leaf("a", &[("href", &to), ("rel", "noreferrer")], row.id);
}

/// The place of a section of the specification that has these rows, in the oldest version that has one of them.
fn place_of<'a>(mut rows: impl Iterator<Item = &'a Requirement>, section: &str) -> String {
    let is_newer = rows.all(|row| !row.versions.has(Version::V1_12));
    let text = if is_newer { SPECIFICATION_1_13 } else { SPECIFICATION };
    format!("{text}#{}", anchor(section))
}

/// The anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn write_row(body: &mut Html, places: &super::Places<'_>, rule: &Rule<'_>) {
    let (class, _, words) = look(rule.standing);
    body.element("tr", &[("id", rule.row.id), ("class", class)], |row| {
        row.element("th", &[("scope", "row")], |cell| {
            cell.text(rule.row.id);
            cell.leaf("small", &[], &rule.row.level.to_string());
        });
        row.element("td", &[], |cell| write_text(cell, rule.row));
        row.leaf("td", &[("class", "s")], words);
        row.element("td", &[], |cell| write_checks(cell, places, rule));
    });
}

/// Writes the text of a requirement, and who in Kubernetes relies on it.
fn write_text(cell: &mut Html, row: &Requirement) {
    cell.text(&row.sentence());
    for Reliance { component, breaks, place } in row.relied_on_by {
        cell.leaf("small", &[], &format!("{component} relies on it: it {place}. Otherwise {breaks}."));
    }
}

fn write_checks(cell: &mut Html, places: &super::Places<'_>, rule: &Rule<'_>) {
    if !rule.because.is_empty() {
        match rule.deciding_check().filter(|_| rule.standing.is_judged()).map(|check| (check, place(check))) {
            Some((check, place)) if places.contains_key(check.id.as_str()) => {
                cell.leaf("a", &[("href", &format!("#{place}"))], &rule.because);
            }
            _ => cell.text(&rule.because),
        }
        cell.text(" ");
    }
    let mut names: Vec<&str> = rule.checks.iter().map(|check| Check::id_of(&check.id)).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let hidden = names.len().saturating_sub(CHECKS_MAX);
    names.truncate(CHECKS_MAX);
    cell.leaf("code", &[], &names.join(" "));
    if hidden > 0 {
        cell.text(&format!(" and {hidden} more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_the_anchors_that_github_makes() {
        let anchors =
            ["CSI_ENDPOINT", "REQUIRED vs. OPTIONAL", "CreateSnapshot, DeleteSnapshot, ListSnapshots"];
        let made = ["csi_endpoint", "required-vs-optional", "createsnapshot-deletesnapshot-listsnapshots"];
        assert_eq!(anchors.map(anchor), made);
    }
}
