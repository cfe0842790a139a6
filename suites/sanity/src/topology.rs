//! Checks the form of all topologies that a driver returns.

use std::collections::BTreeSet;

use csi_harness::prelude::*;

/// The limit on the characters of a name, a prefix or a value.
const PART_CHARS_MAX: usize = 63;

pub(crate) type Segments = csi_harness::config::Pairs;

/// Returns whether all of the first segments are among the second ones; keys are compared without case.
pub(crate) fn within(first: &Segments, second: &Segments) -> bool {
    first
        .iter()
        .all(|(key, value)| second.iter().any(|(other, its)| other.eq_ignore_ascii_case(key) && its == value))
}

/// Checks the keys and values of one topology.
pub(crate) fn well_formed(segments: &Segments) -> CheckResult {
    let all = std::slice::from_ref(segments);
    keys_well_formed(all)?;
    values_well_formed(all)?;
    keys_differ(all)?;
    one_prefix(all)
}

fn keys(all: &[Segments]) -> impl Iterator<Item = &str> {
    all.iter().flat_map(|segments| segments.keys()).map(String::as_str)
}

/// Checks that each key is a name, with an optional domain and slash in front.
pub(crate) fn keys_well_formed(all: &[Segments]) -> CheckResult {
    keys(all).try_for_each(key_well_formed)
}

fn key_well_formed(key: &str) -> CheckResult {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    ensure!(
        !name.contains('/'),
        "a topology key has more than one slash";
        of: &req::MSG_TOPOLOGY_001,
        expected: "a name, or a prefix, a slash and a name",
        actual: format!("{key:?}")
    );
    ensure!(
        is_label(name),
        "the name of a topology key has the wrong form";
        of: &req::MSG_TOPOLOGY_002,
        expected: "1 to 63 characters: letters, digits, '-', '_' and '.', a letter or digit at both ends",
        actual: format!("{key:?}")
    );
    ensure!(
        prefix.is_none_or(is_domain),
        "the prefix of a topology key has the wrong form";
        of: &req::MSG_TOPOLOGY_004,
        expected: "a lower-case domain name of 1 to 63 characters",
        actual: format!("{key:?}")
    );
    Ok(())
}

/// Checks that each value is a short name.
pub(crate) fn values_well_formed(all: &[Segments]) -> CheckResult {
    for (key, value) in all.iter().flatten() {
        ensure!(
            !value.is_empty(),
            "the value of topology key {key:?} is empty";
            of: &req::MSG_TOPOLOGY_008,
            expected: "a value",
            actual: "an empty string"
        );
        ensure!(
            is_label(value),
            "the value of topology key {key:?} has the wrong form";
            of: &req::MSG_TOPOLOGY_009,
            expected: "up to 63 characters: letters, digits, '-', '_' and '.', a letter or digit at both ends",
            actual: format!("{value:?}")
        );
    }
    Ok(())
}

/// Checks that keys differ in more than case.
pub(crate) fn keys_differ(all: &[Segments]) -> CheckResult {
    let spelt: BTreeSet<_> = keys(all).collect();
    let folded: BTreeSet<_> = spelt.iter().map(|key| key.to_lowercase()).collect();
    ensure!(
        folded.len() == spelt.len(),
        "two topology keys differ in case only";
        of: &req::MSG_TOPOLOGY_007,
        expected: "keys that are unique regardless of case",
        actual: format!("{spelt:?}")
    );
    Ok(())
}

/// Checks that all keys of a plugin have one prefix.
pub(crate) fn one_prefix(all: &[Segments]) -> CheckResult {
    let prefixes: BTreeSet<_> =
        keys(all).filter_map(|key| key.split_once('/')).map(|(prefix, _)| prefix).collect();
    ensure!(
        prefixes.len() < 2,
        "topology keys have more than one prefix";
        of: &req::MSG_TOPOLOGY_006,
        expected: "one and the same prefix in all keys",
        actual: format!("{prefixes:?}")
    );
    Ok(())
}

fn is_label(text: &str) -> bool {
    has_form(text, |c| c.is_ascii_alphanumeric(), "-_.")
}

fn is_domain(text: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    has_form(text, good, "-.") && text.split('.').all(|label| has_form(label, good, "-"))
}

/// Returns whether a text has good characters at both ends, and good or other permitted ones between.
fn has_form(text: &str, good: impl Fn(char) -> bool, others: &str) -> bool {
    (1..=PART_CHARS_MAX).contains(&text.chars().count())
        && text.starts_with(&good)
        && text.ends_with(&good)
        && text.chars().all(|c| good(c) || others.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(segments: &[(&str, &str)]) -> Option<&'static str> {
        let segments = segments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        match well_formed(&segments) {
            Err(Stop::Violation(violation)) => violation.requirement.map(|rule| rule.id),
            _ => None,
        }
    }

    #[test]
    fn each_rule_is_seen() {
        let long = "x".repeat(64);
        assert_eq!(judge(&[("topology.csi.example.com/zone", "z1"), ("rack", "R_1.a-b")]), None);
        assert_eq!(judge(&[("a/b/c", "x")]), Some("MSG-TOPOLOGY-001"));
        assert_eq!(judge(&[("-zone", "x")]), Some("MSG-TOPOLOGY-002"));
        assert_eq!(judge(&[(&long, "x")]), Some("MSG-TOPOLOGY-002"));
        assert_eq!(judge(&[("Example.com/zone", "x")]), Some("MSG-TOPOLOGY-004"));
        assert_eq!(judge(&[("example..com/zone", "x")]), Some("MSG-TOPOLOGY-004"));
        assert_eq!(judge(&[("a.com/zone", "x"), ("b.com/zone", "x")]), Some("MSG-TOPOLOGY-006"));
        assert_eq!(judge(&[("Zone", "x"), ("zone", "x")]), Some("MSG-TOPOLOGY-007"));
        assert_eq!(judge(&[("zone", "")]), Some("MSG-TOPOLOGY-008"));
        assert_eq!(judge(&[("zone", "first floor")]), Some("MSG-TOPOLOGY-009"));
    }
}
