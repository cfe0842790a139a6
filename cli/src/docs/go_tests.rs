//! docs/go-csi-sanity.md: what judges each test of the Go csi-sanity, and what shows that someone who switches loses no failure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use csi_harness::config::read_yaml;
use serde::Deserialize;

use super::{escaped, root};
use crate::suites;

/// One test of the Go program, as in suites/go-csi-sanity.yaml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoTest {
    /// Its title, with those of the groups that it is in.
    test: String,
    /// A defect of the mock driver that the Go test fails on.
    #[serde(default)]
    defect: String,
    /// The reason why no defect shows it.
    #[serde(default)]
    none: String,
    /// The difference between the two: the Go test demands more than the specification, or less than the check.
    #[serde(default)]
    differs: String,
}

/// The tests with our checks and a defect that both fail on, in Markdown.
///
/// # Panics
/// If a test has no check, or no check fails on the defect under the profile csi.
pub(super) fn table() -> String {
    let tests: Vec<GoTest> = read_yaml(&root().join("suites/go-csi-sanity.yaml")).unwrap();
    let checks = checks();
    let names: BTreeSet<&str> = tests.iter().map(|test| test.test.as_str()).collect();
    assert_eq!(names.len(), tests.len(), "each test is listed once");
    let unlisted: Vec<_> = checks.keys().filter(|name| !names.contains(*name)).collect();
    assert!(unlisted.is_empty(), "suites/go-csi-sanity.yaml lacks {unlisted:?}");

    let failing: BTreeSet<(&str, &str)> = suites::all_accused()
        .filter(|accused| !accused.warns)
        .map(|accused| (accused.defect, accused.check))
        .collect();
    let mut text = format!(
        "## Its tests\n\nAll {} tests of the Go csi-sanity {}, the checks that judge the same, and a \
        [defect](defects.md) of the mock driver that makes both fail under the profile csi.\n\n\
        | Go test | checks | defect that fails both | where they differ |\n|---|---|---|---|\n",
        tests.len(),
        "5.5",
    );
    for test in &tests {
        let of_it =
            checks.get(test.test.as_str()).unwrap_or_else(|| panic!("no check replaces {}", test.test));
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            escaped(&test.test),
            of_it.iter().map(|check| format!("`{check}`")).collect::<Vec<_>>().join(", "),
            test.proof(of_it, &failing),
            escaped(&test.differs)
        )
        .unwrap();
    }
    text
}

/// The ids of the checks that replace a test of the Go program.
fn checks() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut by_test = BTreeMap::<_, BTreeSet<String>>::new();
    for (_, check) in suites::all().checks() {
        for name in check.replaces {
            by_test.entry(*name).or_default().insert(check.id.to_string());
        }
    }
    by_test
}

impl GoTest {
    fn proof(&self, checks: &BTreeSet<String>, failing: &BTreeSet<(&str, &str)>) -> String {
        assert!(
            self.defect.is_empty() != self.none.is_empty(),
            "{}: a defect, or why there is none",
            self.test
        );
        if self.defect.is_empty() {
            return format!("none: {}", escaped(&self.none));
        }
        let fails = checks.iter().any(|check| failing.contains(&(self.defect.as_str(), check.as_str())));
        assert!(
            fails,
            "{}: no check of {checks:?} fails on {} under the profile csi",
            self.test, self.defect
        );
        format!("`{}`", self.defect)
    }
}
