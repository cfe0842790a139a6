//! docs/mistakes.md: how drivers have gone wrong, and which checks find a driver of ours that goes wrong in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use csi_harness::config::read_yaml;
use serde::Deserialize;

use super::defects::found_by;
use super::{check_section, escaped, root};

/// Checks that are named for one defect; the list of defects has them all.
const CHECKS_MAX: usize = 3;

/// One way to go wrong, as in suites/mistakes.yaml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    mistake: String,
    what: String,
    /// Defects of the mock driver, or of the reference driver.
    #[serde(default)]
    defects: Vec<String>,
    /// The reason why none of our drivers has this mistake.
    #[serde(default)]
    none: String,
}

#[test]
fn the_mistakes() {
    let rows: Vec<Row> = read_yaml(&root().join("suites/mistakes.yaml")).unwrap();
    let found_by = found_by();
    let proven = rows.iter().filter(|row| !row.defects.is_empty()).count();
    let mut text = format!(
        "{} in all, of which {proven} have a defect that is found.\n\n| mistake | what goes wrong | defects, and what finds them |\n|---|---|---|\n",
        rows.len()
    );
    for row in &rows {
        writeln!(text, "| {} | {} | {} |", row.mistake, escaped(&row.what), row.found(&found_by)).unwrap();
    }
    check_section("mistakes.md", &text);
    let names: BTreeSet<_> = rows.iter().map(|row| &row.mistake).collect();
    assert_eq!(names.len(), rows.len(), "each mistake stands there once");
}

impl Row {
    /// Panics where a defect does not exist, or nothing finds it.
    fn found(&self, found_by: &BTreeMap<&str, Vec<String>>) -> String {
        assert!(
            self.defects.is_empty() != self.none.is_empty(),
            "{}: defects, or why there are none",
            self.mistake
        );
        if self.defects.is_empty() {
            return format!("none: {}", escaped(&self.none));
        }
        let described = self.defects.iter().map(|defect| {
            let checks = match found_by.get(defect.as_str()) {
                Some(checks) => checks.as_slice(),
                None if is_found_by_e2e(defect) => &["Kubernetes' tests".to_owned()],
                None => panic!("{}: nothing finds {defect}, or it does not exist", self.mistake),
            };
            let more = checks.len().saturating_sub(CHECKS_MAX);
            let some = checks[..checks.len() - more].join(", ");
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            format!("`{defect}`: {some}{more}")
        });
        described.collect::<Vec<_>>().join("; ")
    }
}

/// Returns true for a defect of the driver with mounts. If no check finds it, `csi-sanity e2e` does.
fn is_found_by_e2e(defect: &str) -> bool {
    csi_faulty_driver::Defect::ALL.iter().any(|known| known.id() == defect)
}
