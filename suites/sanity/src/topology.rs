//! The form of topologies, wherever a driver returns one.

use csi_harness::prelude::*;

/// Characters of a name, a prefix or a value at the most.
const PART_CHARS_MAX: usize = 63;

/// Keys and values as the specification wants them, judged within one message.
pub(crate) fn well_formed(topology: &v1::Topology) -> CheckResult {
    let mut prefixes: Vec<&str> = Vec::new();
    let mut folded: Vec<String> = Vec::new();
    for (key, value) in &topology.segments {
        key_well_formed(key)?;
        value_well_formed(key, value)?;
        folded.push(key.to_lowercase());
        prefixes.extend(key.split_once('/').map(|(prefix, _)| prefix));
    }
    folded.sort_unstable();
    ensure!(
        folded.windows(2).all(|pair| pair[0] != pair[1]),
        "two topology keys differ in case only";
        of: &req::MSG_TOPOLOGY_007,
        expected: "keys that are unique regardless of case",
        actual: format!("{:?}", topology.segments.keys())
    );
    prefixes.sort_unstable();
    prefixes.dedup();
    ensure!(
        prefixes.len() < 2,
        "topology keys have more than one prefix";
        of: &req::MSG_TOPOLOGY_006,
        expected: "one and the same prefix in all keys",
        actual: format!("{prefixes:?}")
    );
    Ok(())
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

fn value_well_formed(key: &str, value: &str) -> CheckResult {
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
    Ok(())
}

fn is_label(text: &str) -> bool {
    has_form(text, |c| c.is_ascii_alphanumeric(), "-_.")
}

fn is_domain(text: &str) -> bool {
    has_form(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), "-.")
}

/// Good characters at both ends, those or others between.
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
        match well_formed(&v1::Topology { segments }) {
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
        assert_eq!(judge(&[("a.com/zone", "x"), ("b.com/zone", "x")]), Some("MSG-TOPOLOGY-006"));
        assert_eq!(judge(&[("Zone", "x"), ("zone", "x")]), Some("MSG-TOPOLOGY-007"));
        assert_eq!(judge(&[("zone", "")]), Some("MSG-TOPOLOGY-008"));
        assert_eq!(judge(&[("zone", "first floor")]), Some("MSG-TOPOLOGY-009"));
    }
}
