//! driver-definitions/README.md: which tests the definitions there select.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use csi_driver_definitions::{DriverDefinition, StorageClass};
use csi_suite_e2e::emulated_cluster::{EmulatedClusters, NEVER_OFFERED};
use csi_suite_e2e::plan::{self, Instance};
use csi_suite_e2e::version::Version;

use super::{check_section, root};

#[test]
fn what_the_definitions_select() {
    let mut text = "| definition | driver | tests on one node | on two | most others, because |\n|---|---|---|---|---|\n".to_owned();
    for path in files() {
        let loaded = DriverDefinition::load(&path).unwrap();
        assert!(loaded.warnings.is_empty(), "{}: {:?}", path.display(), loaded.warnings);
        let storage = loaded.storage_class().ok().flatten();
        let definition = loaded.definition;
        let file = path.file_name().unwrap().to_str().unwrap();
        let name = &definition.driver_info.name;
        let instances = plan::instances(&definition, Version::default());
        let on = |nodes| {
            let runs = |one: &&Instance| skipped(one, &definition, storage.as_ref(), nodes).is_none();
            instances.iter().filter(runs).count()
        };
        let why = commonest(&instances, &definition, storage.as_ref());
        writeln!(text, "| [{file}]({file}) | {name} | {} | {} | {why} |", on(1), on(2)).unwrap();
    }
    let left_out = left_out();
    let selected = INSTANCES - left_out.len();
    writeln!(
        text,
        "\nThe three of csi-hostpath-driver together select {selected} of the {INSTANCES}. Two of these need nodes in two places of the\n\
         topology, as csi-mock-driver has them with three `--endpoint`s; the others pass on csi-hostpath-driver. Kubernetes skips the\n\
         rest as well, whatever a definition says, but for Windows, SELinux, and what is about Kubernetes alone:\n"
    )
    .unwrap();
    text.push_str("| test | why none of the three selects it |\n|---|---|\n");
    for (id, why) in left_out.iter().filter(|(_, why)| !why.contains("Windows")) {
        writeln!(text, "| `{id}` | {why} |").unwrap();
    }
    let windows = left_out.iter().filter(|(_, why)| why.contains("Windows")).count();
    writeln!(text, "| {windows} with ntfs | needs nodes that run Windows |").unwrap();
    check_section("../driver-definitions/README.md", &text);
}

/// Tests within reach of a definition.
const INSTANCES: usize = 266;

/// The tests that no definition of the reference driver selects, each with the reason that the most capable one gives.
fn left_out() -> Vec<(String, String)> {
    let load = |name: &str| {
        DriverDefinition::load(&root().join("driver-definitions").join(name)).unwrap().definition
    };
    let (nodes, others) = (load("hostpath-nodes.yaml"), [load("hostpath.yaml"), load("hostpath-image.yaml")]);
    let instances = plan::instances(&nodes, Version::default());
    assert_eq!(instances.len(), INSTANCES);
    let out = instances.into_iter().filter_map(|one| {
        let by_cluster =
            NEVER_OFFERED.iter().find(|(feature, _)| one.asks_for(*feature)).map(|(_, why)| *why);
        let by_pattern = (one.pattern.fs_type == "ntfs").then_some("needs nodes that run Windows");
        let is_selected = others.iter().any(|other| skipped(&one, other, None, 1).is_none());
        let why = by_pattern.or(by_cluster).map(str::to_owned);
        let why = why.or_else(|| skipped(&one, &nodes, None, 2).filter(|_| !is_selected))?;
        Some((one.id, why))
    });
    out.collect()
}

/// Returns the reason why a test is certain to skip without a cluster.
fn skipped(
    one: &Instance,
    definition: &DriverDefinition,
    storage: Option<&StorageClass>,
    nodes: usize,
) -> Option<String> {
    one.skipped(definition, storage, &EmulatedClusters::view(nodes, false))
}

fn files() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("driver-definitions")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// The reasons that keep most tests from running, but for those that keep all drivers' from it.
fn commonest(
    instances: &[Instance],
    definition: &DriverDefinition,
    storage: Option<&StorageClass>,
) -> String {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for reason in instances.iter().filter_map(|one| skipped(one, definition, storage, 1)) {
        *reasons.entry(reason).or_default() += 1;
    }
    reasons.retain(|reason, _| !reason.contains("ntfs"));
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let described: Vec<String> =
        reasons.iter().take(2).map(|(reason, count)| format!("{reason} ({count})")).collect();
    described.join("; ")
}
