//! docs/profiles.md: the rules that the profile kubernetes adds, with who relies on each.

use std::fmt::Write as _;

use csi_harness::config::profile::Profile;
use csi_harness::spec::requirements::{Reliance, Requirement, req};

use super::{check_section, escaped};
use crate::suites;

#[test]
fn the_rules_that_kubernetes_relies_on() {
    let rules: Vec<&Requirement> =
        req::ALL.iter().copied().filter(|rule| rule.binds_from() == Profile::Kubernetes).collect();
    let mut text = format!(
        "{} rules:\n\n| rule | component | what it does | otherwise | checks |\n|---|---|---|---|---|\n",
        rules.len()
    );
    rules.iter().for_each(|rule| text.push_str(&rows(rule)));
    check_section("profiles.md", &text);
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
