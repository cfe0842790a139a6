//! Checks the list of tests and their names, on which filters and dashboards depend.

use std::collections::{BTreeMap, BTreeSet};

use csi_driver_definitions::{Capability, DriverDefinition};
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_suite_e2e::cluster::Node;
use csi_suite_e2e::definition::{Definition, label_of};
use csi_suite_e2e::emulated_cluster::EmulatedClusters;
use csi_suite_e2e::pattern::VolumeType;
use csi_suite_e2e::plan::{self, Instance, instances};
use csi_suite_e2e::suites::NOT_UPSTREAMS;
use csi_suite_e2e::version::Version;
use csi_suite_e2e::view::{Unmet, View};

/// Returns a definition that promises everything.
fn everything() -> DriverDefinition {
    let capabilities: Vec<String> = Capability::ALL.iter().map(|one| format!("    {one}: true\n")).collect();
    let text = format!(
        "StorageClass: {{FromName: true}}\nSnapshotClass: {{FromName: true}}\nGroupSnapshotClass: {{FromName: true}}\n\
         VolumeAttributesClass: {{FromExistingClassName: gold}}\nInlineVolumes: [{{Attributes: {{a: b}}}}]\nDriverInfo:\n  \
         Name: all.example\n  SupportedFsType: {{ext3: {{}}, ext4: {{}}, xfs: {{}}}}\n  SupportedMountOption: {{ro: {{}}}}\n  \
         TopologyKeys: [zone]\n  StressTestOptions: {{NumPods: 1, NumRestarts: 1}}\n  Capabilities:\n{}",
        capabilities.concat()
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    DriverDefinition::load(file.path()).unwrap().definition
}

fn find<'a>(all: &'a [Instance], id: &str) -> &'a Instance {
    all.iter().find(|instance| instance.id == id).unwrap_or_else(|| panic!("no instance {id}"))
}

/// Returns why a test certainly skips without a cluster.
fn skipped(instance: &Instance, definition: &DriverDefinition, nodes: usize) -> Option<String> {
    instance.skipped(definition, None, &EmulatedClusters::view(nodes, false))
}

#[test]
fn each_suite_has_as_many_tests_as_upstream() {
    let mut counts = BTreeMap::new();
    for instance in instances(&everything(), Version::default()) {
        *counts.entry(instance.suite.name).or_insert(0) += 1;
    }
    let expected = [
        ("CSIServiceAccountToken", 1),
        ("MutableCSINodeAllocatableCount", 2),
        ("OpenShift CSI extended - Pod delete after umount", 1),
        ("capacity", 1),
        ("claims-at-a-rate", 1),
        ("completed-pods", 2),
        ("disruptive", 8),
        ("driver-upgrade", 2),
        ("ephemeral", 20),
        ("fsgroupchangepolicy", 7),
        ("multiVolume", 45),
        ("non-graceful-node-shutdown", 2),
        ("provisioning", 27),
        ("pvc-deletion-performance", 1),
        ("read-write-once-pod", 2),
        ("seLinuxMount", 4),
        ("seLinuxMountDifferent", 1),
        ("snapshot-metadata-stress", 2),
        ("snapshot-topology", 2),
        ("snapshotmetadata", 2),
        ("snapshottable", 12),
        ("snapshottable-stress", 2),
        ("sqlite", 2),
        ("subPath", 36),
        ("topology", 4),
        ("volume-expand", 15),
        ("volume-health", 9),
        ("volume-lifecycle-performance", 1),
        ("volume-modify", 15),
        ("volume-modify-stress", 6),
        ("volume-stress", 2),
        ("volumeIO", 2),
        ("volumeLimits", 4),
        ("volumeMode", 4),
        ("volumegroupsnapshotclass", 3),
        ("volumegroupsnapshottable", 4),
        ("volumegroupsnapshottable-stress", 1),
        ("volumes", 11),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    assert_eq!(counts.values().sum::<i32>(), 266);
}

#[test]
fn names_are_those_of_upstream() {
    let all = instances(&everything(), Version::default());
    for (id, name) in [
        (
            "volumes/dynamic-pv-default-fs:should-store-data",
            "External Storage [Driver: all.example] [Testpattern: Dynamic PV (default fs)] volumes should store data",
        ),
        (
            "volumes/dynamic-pv-xfs:should-allow-exec-of-files-on-the-volume",
            "External Storage [Driver: all.example] [Testpattern: Dynamic PV (xfs)] [Slow] volumes should allow exec of files on the volume",
        ),
        (
            "volumeio/dynamic-pv-default-fs:should-write-files-of-various-sizes-verify-size-validate-content",
            "External Storage [Driver: all.example] [Testpattern: Dynamic PV (default fs)] volumeIO should write files of various sizes, verify size, validate content [Slow]",
        ),
        (
            "snapshottable/dynamic-snapshot-delete-policy:should-check-snapshot-fields-check-restore-correctly-works-check-deletion-ephemeral",
            "External Storage [Driver: all.example] [Testpattern: Dynamic Snapshot (delete policy)] snapshottable [Feature:VolumeSnapshotDataSource] volume snapshot controller should check snapshot fields, check restore correctly works, check deletion (ephemeral)",
        ),
        (
            "volumegroupsnapshottable/delete-policy:should-create-snapshots-for-statefulset-volumes-and-verify-data-consistency-after-restore",
            "External Storage [Driver: all.example] [Testpattern:  (delete policy)] volumegroupsnapshottable [Feature:volumegroupsnapshot] VolumeGroupSnapshottable should create snapshots for StatefulSet volumes and verify data consistency after restore",
        ),
        (
            "selinuxmount/dynamic-pv-default-fs:pod-with-rwo-volume-and-mount-policy-should-mount-volumes-with-selinux-mount-option",
            "External Storage [Driver: all.example] [Testpattern: Dynamic PV (default fs)] seLinuxMount [Feature:SELinux] [FeatureGate:SELinuxMountReadWriteOncePod] [FeatureGate:SELinuxChangePolicy] Pod with RWO volume and mount policy should mount volumes with SELinux mount option [FeatureGate:SELinuxMount]",
        ),
    ] {
        assert_eq!(find(&all, id).name, name);
    }
}

#[test]
fn older_versions_have_other_labels_and_fewer_suites() {
    const ID: &str = "selinuxmount/dynamic-pv-default-fs:pod-with-rwo-volume-and-mount-policy-should-mount-volumes-with-selinux-mount-option";
    let of = |version| instances(&everything(), version);
    let numbers = Version::ALL.map(|version| of(version).len());
    assert_eq!(numbers, [245, 250, 252, 266]);
    assert!(of(Version::V1_34).iter().all(|one| one.id != ID));
    let ends = |version, end: &str| assert!(find(&of(version), ID).name.ends_with(end), "{version}");
    ends(Version::V1_36, "mount option [FeatureGate:SELinuxMount] [Beta] [Feature:OffByDefault]");
    ends(Version::V1_37, "mount option [FeatureGate:SELinuxMount]");
    let all = of(Version::V1_35);
    assert!(find(&all, ID).name.contains("[FeatureGate:SELinuxChangePolicy] [Beta] Pod with RWO volume"));
}

#[test]
fn the_definition_alone_rules_tests_out() {
    let mut definition = everything();
    let all = instances(&definition, Version::default());
    let is_out = |definition: &DriverDefinition, id: &str| find(&all, id).is_ruled_out(definition, None);
    let windows = "volumes/dynamic-pv-ntfs:should-store-data";
    let store = "volumes/dynamic-pv-ext4:should-store-data";
    // The cluster decides about these, so that upstream registers them.
    let selinux = "selinuxmount/dynamic-pv-default-fs:pod-with-rwop-volume-and-the-default-policy-should-mount-volumes-with-selinux-mount-option";
    assert!(is_out(&definition, windows) && !is_out(&definition, store) && !is_out(&definition, selinux));
    definition.driver_info.supported_fs_type.clear();
    assert!(is_out(&definition, store));
    for own in NOT_UPSTREAMS {
        let test = all.iter().find(|one| one.suite.name == own).unwrap_or_else(|| panic!("no suite {own}"));
        assert!(!test.is_registered(&definition, None, Version::V1_34), "{own}");
    }
}

#[test]
fn inline_volumes_for_reading_serve_one_test() {
    let mut definition = everything();
    let serve = |definition: &DriverDefinition| {
        let all = instances(definition, Version::default());
        let is_inline =
            |one: &&Instance| one.suite.name == "ephemeral" && one.pattern.volume == VolumeType::Inline;
        let served = all.iter().filter(is_inline).filter(|one| skipped(one, definition, 1).is_none());
        served.map(|one| one.test.name).collect::<Vec<_>>()
    };
    assert_eq!(serve(&definition).len(), 4, "{:?}", serve(&definition));
    definition.inline_volumes[0].read_only = true;
    assert_eq!(serve(&definition), ["should create read-only inline ephemeral volume"]);
}

#[test]
fn no_two_have_the_same_id_or_name() {
    let all = instances(&everything(), Version::default());
    let ids: BTreeSet<&str> = all.iter().map(|instance| instance.id.as_str()).collect();
    let names: BTreeSet<&str> = all.iter().map(|instance| instance.name.as_str()).collect();
    assert_eq!((ids.len(), names.len()), (all.len(), all.len()));
}

#[test]
fn ids_and_names_show_the_definition() {
    const ID: &str = "volumes/dynamic-pv-default-fs:should-store-data";
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for file in ["RWX class.yaml", "block.yaml"] {
        let path = folder.path().join(file);
        std::fs::write(&path, "StorageClass: {FromName: true}\nDriverInfo: {Name: a.example}\n").unwrap();
        let loaded = DriverDefinition::load(&path).unwrap();
        let definition = Definition::new(loaded, Some(label_of(&path))).unwrap();
        all.extend(definition.instances(Version::default()));
    }
    assert_eq!(
        find(&all, &format!("{ID}@rwx-class")).name,
        "External Storage [Driver: a.example] [Definition: rwx-class] [Testpattern: Dynamic PV (default fs)] volumes should store data"
    );
    let registry = Registry::new([plan::suite_to_list(&all)]);
    // The label of the definition is also the label of an access type.
    let id = format!("{ID}@block");
    assert_eq!(registry.find(&id).unwrap().id, id);
    let chosen = |terms: &str| {
        let mut filter = Filter::default();
        filter.add(terms).unwrap();
        let all = registry.checks().map(|(_, check)| check);
        let chosen = all.filter(|check| filter.selects(check, &check.id));
        chosen.map(|check| check.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(chosen(ID), [format!("{ID}@rwx-class"), id.clone()]);
    assert_eq!(chosen(&id), [&*id]);
    assert_eq!(chosen(&format!("{ID},!*@rwx*")), [id]);
    assert!(chosen(&format!("!{ID}")).len() == all.len() - 2);
}

#[test]
fn what_a_driver_lacks_is_the_reason_of_a_skip() {
    let mut definition = everything();
    let all = instances(&definition, Version::default());
    let store = find(&all, "volumes/dynamic-pv-ext4:should-store-data");
    assert_eq!(skipped(store, &definition, 1), None);
    let windows = find(&all, "volumes/dynamic-pv-ntfs:should-store-data");
    assert_eq!(skipped(windows, &definition, 1).as_deref(), Some("SupportedFsType does not have ntfs"));
    let move_away = "multivolume/dynamic-pv-block-volmode:should-access-to-two-volumes-with-the-same-volume-mode-and-retain-\
                     data-across-pod-recreation-on-different-node";
    let moved = find(&all, move_away);
    assert_eq!(skipped(moved, &definition, 2).as_deref(), Some("the definition says singleNodeVolume: true"));

    definition.driver_info.supported_fs_type.clear();
    assert_eq!(skipped(store, &definition, 1).as_deref(), Some("SupportedFsType does not have ext4"));
    definition.storage_class = Default::default();
    assert_eq!(skipped(store, &definition, 1).as_deref(), Some("the definition has no StorageClass"));
}

#[test]
fn the_plan_says_what_the_emulated_cluster_lacks() {
    let definition = everything();
    let all = instances(&definition, Version::default());
    let unmet = |id: &str| find(&all, id).unmet(&definition, None, &EmulatedClusters::view(2, false));
    for (id, words) in [
        (
            "volumemode/dynamic-pv-block-volmode:should-fail-to-use-a-volume-in-a-pod-with-mismatched-mode",
            "Kubernetes alone",
        ),
        (
            "disruptive/dynamic-pv-filesystem-volmode:should-test-that-pv-used-in-a-pod-that-is-deleted-while-the-kubelet-is-down-is-usable-by-a-new-pod-with-a-different-selinux-context-when-kubelet-returns",
            "SELinux",
        ),
        (
            "provisioning/dynamic-pv-default-fs:should-provision-storage-with-any-volume-data-source",
            "populator",
        ),
    ] {
        let Some(Unmet::Skips(why)) = unmet(id) else { panic!("{id}: {:?}", unmet(id)) };
        assert!(why.contains(words), "{id}: {why}");
    }
    for id in [
        "topology/dynamic-pv-immediate-binding:should-provision-a-volume-and-schedule-a-pod-with-allowedtopologies",
        "volumelimits/dynamic-pv-default-fs:should-support-volume-limits",
        "snapshotmetadata/snapshotmetadata:should-return-allocated-blocks",
        "selinuxmount/dynamic-pv-default-fs:pod-with-rwop-volume-and-the-default-policy-should-mount-volumes-with-selinux-mount-option",
    ] {
        let Some(found) = all.iter().find(|one| one.id == id) else { continue };
        let unmet = found.unmet(&definition, None, &EmulatedClusters::view(2, false));
        assert!(matches!(&unmet, Some(Unmet::Depends(_))), "{id}: {unmet:?}");
    }
    // The view of a cluster has the segments of its nodes.
    let node = |name: &str, zone: &str| Node {
        name: name.to_owned(),
        topology: [("zone".to_owned(), zone.to_owned())].into(),
        volume_limit: None,
    };
    let nodes = vec![node("a", "1"), node("b", "1")];
    let view = View { nodes: Some(nodes), ..EmulatedClusters::view(2, false) };
    let spare = "topology/dynamic-pv-immediate-binding:should-fail-to-schedule-a-pod-which-has-topologies-that-conflict-with-allowedtopologies";
    let unmet = find(&all, spare).unmet(&definition, None, &view);
    assert!(matches!(&unmet, Some(Unmet::Skips(why)) if why.contains("needs 2 segments")), "{unmet:?}");
}
