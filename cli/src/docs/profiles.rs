//! docs/profiles.md: the rules that the profile kubernetes adds, with who relies on each, and those that only warn.

use std::fmt::Write as _;

use csi_harness::config::profile::Profile;
use csi_harness::spec::requirements::{Reliance, Requirement, req};

use super::{check_section, escaped};
use crate::{coverage, suites};

#[test]
fn the_rules_that_kubernetes_relies_on() {
    let rules: Vec<&Requirement> =
        req::ALL.iter().copied().filter(|rule| rule.binds_from() == Profile::Kubernetes).collect();
    let mut text = format!(
        "{} rules:\n\n| rule | component | what it does | otherwise | checks |\n|---|---|---|---|---|\n",
        rules.len()
    );
    rules.iter().for_each(|rule| text.push_str(&rows(rule)));
    text.push_str(&warnings());
    check_section("profiles.md", &text);
}

/// The rules of which checks only warn under the profile csi, with the reason.
fn warnings() -> String {
    let registry = suites::all();
    let mut text = "\n## What only warns\n\n\
        Breaking one of these rules is a warning under the profile csi. `strict` makes each of them fail.\n\n\
        | rule | why it only warns |\n|---|---|\n"
        .to_owned();
    for rule in req::ALL.iter().copied().filter(|rule| coverage::checks_of(rule, &registry).next().is_some())
    {
        let why = rule.why_not_binding().or_else(|| coverage::only_warned_because(rule));
        let Some(why) = why else { continue };
        let caution = rule.caution.map_or(String::new(), |caution| format!(". {}", escaped(caution)));
        writeln!(
            text,
            "| {} ({}): {} | {}{caution} |",
            rule.id,
            rule.level,
            escaped(&rule.sentence()),
            escaped(why)
        )
        .unwrap();
    }
    text
}

/// A line for each component.
fn rows(rule: &'static Requirement) -> String {
    let registry = suites::all();
    // The other suites only remark on what does not stand in the text.
    let fail = registry
        .checks()
        .filter(|(suite, check)| ["sanity", "data"].contains(suite) && check.requirements.contains(&rule));
    let checks: Vec<String> = fail.map(|(_, check)| format!("`{}`", check.id)).collect();
    let mut text = String::new();
    for Reliance { component, breaks, place } in rule.relied_on_by {
        writeln!(
            text,
            "| {} ({}): {} | {component} | {} | {} | {} |",
            rule.id,
            rule.level,
            escaped(&rule.sentence()),
            escaped(place),
            escaped(breaks),
            checks.join(", ")
        )
        .unwrap();
    }
    text
}
