//! docs/defects.md: the defects and the unusual behaviour that the mock driver can have.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use csi_harness::spec::requirements::Requirement;
use csi_mock_driver::{Defect, Quirk};

use super::{check_section, escaped};
use crate::suites::{self, unfound::unfound};

/// The tables, whose comments group what stands below them.
const DEFECTS: &str = include_str!("../../../mock-driver/src/defect.rs");
const QUIRKS: &str = include_str!("../../../mock-driver/src/quirk.rs");
/// Defects of the reference driver that show after many calls.
const UNDER_LOAD: [&str; 2] = ["hostpath/leaves-mounts", "hostpath/leaves-loop-devices"];

#[test]
fn the_defects_and_quirks() {
    let mut text = format!("## Defects\n\n{} in all.\n", Defect::ALL.len());
    let found_by = found_by();
    let unfound = unfound();
    for (group, ids) in groups(DEFECTS) {
        write!(text, "\n### {group}\n\n| defect | what is wrong | found by |\n|---|---|---|\n").unwrap();
        for id in ids {
            let defect: Defect = id.parse().unwrap();
            let nobody = || format!("nobody: {}", unfound[id]);
            let checks = found_by.get(id).map_or_else(nobody, |checks| checks.join(", "));
            writeln!(text, "| `{id}` | {} | {checks} |", escaped(defect.description())).unwrap();
        }
    }
    let head = "\n## Defects of the reference driver\n\nWhat only a driver with mounts can do wrong.\n\n";
    write!(text, "{head}| defect | what is wrong | found by |\n|---|---|---|\n").unwrap();
    for defect in csi_faulty_driver::Defect::ALL {
        let is_under_load = UNDER_LOAD.contains(&defect.id());
        let others = if is_under_load { "`csi-sanity load`" } else { "Kubernetes' tests" };
        let checks = found_by.get(defect.id()).map_or(others.to_owned(), |checks| checks.join(", "));
        writeln!(text, "| `{}` | {} | {checks} |", defect.id(), escaped(defect.description())).unwrap();
    }
    let head = "\n## Mistakes of the plain driver\n\nA driver of tests that works by commands; most show only when something fails.\n\n";
    write!(text, "{head}| mistake | what is wrong | found by |\n|---|---|---|\n").unwrap();
    for mistake in csi_faulty_driver::plain::Mistake::ALL {
        let (id, what) = (mistake.id(), escaped(mistake.description()));
        writeln!(text, "| `{id}` | {what} | {} |", found_by[id].join(", ")).unwrap();
    }
    write!(text, "\n## Quirks\n\n{} in all. Each passes every check.\n", Quirk::ALL.len()).unwrap();
    for (group, ids) in groups(QUIRKS) {
        write!(text, "\n### {group}\n\n| quirk | what is unusual | permitted by |\n|---|---|---|\n").unwrap();
        for id in ids {
            let quirk: Quirk = id.parse().unwrap();
            let rule = Requirement::find(quirk.permitted_by()).unwrap();
            let what = escaped(quirk.description());
            writeln!(text, "| `{id}` | {what} | {} ({}) |", rule.id, escaped(&rule.sentence())).unwrap();
        }
    }
    check_section("defects.md", &text);
}

#[test]
fn every_defect_and_quirk_is_in_a_group() {
    let listed = |table| groups(table).into_iter().flat_map(|(_, ids)| ids).collect::<Vec<_>>();
    assert_eq!(listed(DEFECTS), Defect::ALL.iter().map(|defect| defect.id()).collect::<Vec<_>>());
    assert_eq!(listed(QUIRKS), Quirk::ALL.iter().map(|quirk| quirk.id()).collect::<Vec<_>>());
}

/// Maps each defect to the checks that it refutes.
pub(super) fn found_by() -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (_, check) in suites::all().checks() {
        for defect in check.refuted_by {
            found.entry(*defect).or_default().push(format!("`{}`", check.id));
        }
    }
    found
}

/// The headings of a table, with the ids below each.
fn groups(table: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in table.lines() {
        if let Some(heading) = line.strip_prefix("    // ") {
            groups.push((heading.trim_end_matches('.'), Vec::new()));
        } else if let Some((_, ids)) = groups.last_mut()
            && line.ends_with("\";")
            && let Some(id) = line.split('"').nth(1)
        {
            ids.push(id);
        }
    }
    groups
}
