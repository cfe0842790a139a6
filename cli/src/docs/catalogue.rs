//! docs/checks.md: every check, by area.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use csi_harness::checks::check::{Check, Runs, Variants};
use csi_harness::config::profile::Profile;
use csi_harness::spec::need::Need;
use csi_harness::spec::requirements::{Level, Requirement};

use super::{check_section, escaped};
use crate::{explain, suites};

#[test]
fn the_checks() {
    let registry = suites::all();
    let mut areas: BTreeMap<&str, Vec<&Check>> = BTreeMap::new();
    for (_, check) in registry.checks() {
        areas.entry(check.area()).or_default().push(check);
    }
    let count: usize = areas.values().map(Vec::len).sum();
    let mut text = format!("{count} checks:\n\n| area | checks |\n|---|--:|\n");
    for (area, checks) in &areas {
        writeln!(text, "| [{area}](#{}) | {} |", anchor(area), checks.len()).unwrap();
    }
    for (area, checks) in &mut areas {
        checks.sort_by_key(|check| &*check.id);
        write!(text, "\n## {area}\n").unwrap();
        checks.iter().for_each(|check| text.push_str(&entry(check)));
    }
    check_section("checks.md", &text);
}

/// The anchor that a forge gives a heading.
fn anchor(heading: &str) -> String {
    heading.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}

fn entry(check: &Check) -> String {
    let mut text = format!("\n### `{}`\n\n**{}.**", check.id, escaped(&check.title));
    let doc: Vec<&str> = check.doc.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !doc.is_empty() {
        write!(text, " {}", escaped(&doc.join(" "))).unwrap();
    }
    text.push_str("\n\n- Requirements:\n");
    check.requirements.iter().for_each(|rule| text.push_str(&requirement(rule)));
    let needs: Vec<String> = check.needs.iter().map(Need::describe).collect();
    list(&mut text, "Needs", needs.iter().map(String::as_str));
    list(&mut text, "Refuted by", check.refuted_by.iter().copied());
    list(&mut text, "Not reported where this one fails", check.leader().into_iter());
    list(&mut text, "In the Go csi-sanity", check.replaces.iter().copied());
    let course = Some(check.course()).filter(|course| *course != Runs::Parallel).map(explain::course);
    let access = (check.access == Variants::Each).then_some("once for each access type");
    let runs: Vec<&str> = access.into_iter().chain(course).collect();
    if !runs.is_empty() {
        writeln!(text, "- Runs {}", runs.join("; ")).unwrap();
    }
    writeln!(text, "- Since {}", check.since).unwrap();
    text
}

fn requirement(rule: &Requirement) -> String {
    let inferred = match rule.binds_from() {
        Profile::Kubernetes => ", inferred or recommended: fails under the profile kubernetes",
        Profile::Strict if rule.level == Level::Must => ", inferred: warns",
        Profile::Csi if rule.meaning().is_some() => ", the meaning of the text",
        Profile::Csi | Profile::Strict => "",
    };
    let mut text = format!("  - {} ({}{inferred}): {}", rule.id, rule.level, escaped(&rule.sentence()));
    if let Some(code) = rule.code.filter(|code| !rule.expect.contains(code)) {
        write!(text, " → {}", escaped(code)).unwrap();
    }
    if let Some(caution) = rule.caution {
        write!(text, ". *Caution: {}*", escaped(caution.trim_end_matches('.'))).unwrap();
    }
    text + "\n"
}

fn list<'a>(text: &mut String, title: &str, items: impl Iterator<Item = &'a str>) {
    let items: Vec<String> = items.map(|item| format!("`{item}`")).collect();
    if !items.is_empty() {
        writeln!(text, "- {title}: {}", items.join(", ")).unwrap();
    }
}
