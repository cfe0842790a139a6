//! driver-definitions/README.md: which tests the definitions there select.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use csi_driver_definitions::DriverDefinition;
use csi_suite_e2e::plan::{self, Instance};

use super::{check_section, root};

#[test]
fn what_the_definitions_select() {
    let mut text = "| definition | driver | tests on one node | on two | most others, because |\n|---|---|---|---|---|\n".to_owned();
    for path in files() {
        let loaded = DriverDefinition::load(&path).unwrap();
        assert!(loaded.warnings.is_empty(), "{}: {:?}", path.display(), loaded.warnings);
        let definition = loaded.definition;
        let file = path.file_name().unwrap().to_str().unwrap();
        let name = &definition.driver_info.name;
        let instances = plan::instances(&definition);
        let on = |nodes| instances.iter().filter(|one| one.skipped(&definition, nodes).is_none()).count();
        let why = commonest(&instances, &definition);
        writeln!(text, "| [{file}]({file}) | {name} | {} | {} | {why} |", on(1), on(2)).unwrap();
    }
    check_section("../driver-definitions/README.md", &text);
}

fn files() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("driver-definitions")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// The reasons that keep most tests from running, but for those that keep all drivers' from it.
fn commonest(instances: &[Instance], definition: &DriverDefinition) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for reason in instances.iter().filter_map(|one| one.skipped(definition, 1)) {
        *reasons.entry(reason).or_default() += 1;
    }
    reasons.retain(|reason, _| !reason.contains("ntfs"));
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told: Vec<String> =
        reasons.iter().take(2).map(|(reason, count)| format!("{reason} ({count})")).collect();
    told.join("; ")
}
