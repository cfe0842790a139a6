//! Checks that parts without effect cause warnings with their place.

use crate::{Written, load};

/// Returns the warnings as `line:column message`.
fn warnings(text: &str) -> Vec<String> {
    let shown = |place: csi_driver_definitions::Position| format!("{}:{}", place.line, place.column);
    let warnings = load(text).warnings.into_iter();
    warnings
        .map(|warning| format!("{} {}", shown(warning.place.expect("a place")), warning.message))
        .collect()
}

#[test]
fn keys_that_are_ignored() {
    let text = "\
apiVersion: v1
kind: DriverDefinition
ShortName: a
ClaimSize: 1Gi
StressTestOptions: {NumPods: 10}
driverInfo: {}
VolumeAttributeClass: {FromFile: a.yaml}
VolumeSnapshotClass: {FromName: true}
SnapshotClass: {fromname: true, Whatever: {x: 1}}
Timeouts: {podstart: 1m, PodStrat: 2m}
DriverInfo:
  Name: a
  NumSnapshots: 10
  Capabilities:
    rwx: true
    selinux: false
    persistance: true
    expansion: true
    RWO: true
    ROX: true
";
    assert_eq!(
        warnings(text),
        [
            "3:1 ShortName is ignored by Kubernetes: obsolete; nothing took its place",
            "4:1 ClaimSize is ignored by Kubernetes: obsolete; DriverInfo.SupportedSizeRange took its place",
            "5:1 StressTestOptions is ignored by Kubernetes: unknown; its place is DriverInfo.StressTestOptions",
            "6:1 driverInfo is ignored by Kubernetes: unknown; letter case matters, write DriverInfo",
            "7:1 VolumeAttributeClass is ignored by Kubernetes: unknown; did you mean VolumeAttributesClass?",
            "8:1 VolumeSnapshotClass is ignored by Kubernetes: unknown; write SnapshotClass",
            "9:17 SnapshotClass.fromname is ignored by Kubernetes: unknown; letter case matters, write FromName",
            "9:33 SnapshotClass.Whatever is ignored by Kubernetes: unknown",
            "10:26 Timeouts.PodStrat is ignored by Kubernetes: unknown; did you mean PodStart?",
            "13:3 DriverInfo.NumSnapshots is ignored by Kubernetes: unknown; its place is \
             DriverInfo.VolumeSnapshotStressTestOptions.NumSnapshots or \
             DriverInfo.VolumeGroupSnapshotStressTestOptions.NumSnapshots",
            "15:5 DriverInfo.Capabilities.rwx is ignored by Kubernetes: unknown; letter case matters, write RWX",
            "16:5 DriverInfo.Capabilities.selinux is ignored by Kubernetes: unknown; did you mean seLinuxMount?",
            "17:5 DriverInfo.Capabilities.persistance is ignored by Kubernetes: unknown; did you mean persistence?",
            "18:5 DriverInfo.Capabilities.expansion is ignored by Kubernetes: unknown; did you mean controllerExpansion, \
             nodeExpansion, offlineExpansion, onlineExpansion?",
            "19:5 DriverInfo.Capabilities.RWO is ignored by Kubernetes: unknown; leave it out, every driver has ReadWriteOnce",
            "20:5 DriverInfo.Capabilities.ROX is ignored by Kubernetes: unknown; write capReadOnlyMany",
        ]
    );
}

#[test]
fn what_nobody_filled_in() {
    let text = "\
DriverInfo:
  Name: ${name}
  SupportedFsType: {ext4: {}}
StorageClass: {FromExistingClassName: $ROOT}
SnapshotClass: {FromExistingClassName: '[INSERT CLASS]'}
ClientNodeName: <node>
";
    let found = warnings(text);
    for warning in [
        "2:9 ${name} is taken as it stands; is this a template that was not filled in?",
        "4:39 $ROOT is taken as it stands; is this a template that was not filled in?",
        "5:40 [INSERT CLASS] is taken as it stands; is this a template that was not filled in?",
        "6:17 <node> is taken as it stands; is this a template that was not filled in?",
    ] {
        assert!(found.iter().any(|found| found == warning), "{warning}: {found:?}");
    }
}

#[test]
fn keys_of_maps_that_are_the_users_own_are_free() {
    let text = "\
NodeSelectors: {anything: goes}
InlineVolumes: [{Attributes: {anything: goes}}]
DriverInfo: {Name: a, SupportedFsType: {anything: {goes: 1}}, SupportedMountOption: {anything: {}}}
";
    assert_eq!(warnings(text), Vec::<String>::new());
}

#[test]
fn keys_in_lists() {
    let text = "InlineVolumes:\n- Attributes: {}\n- shared: true\nDriverInfo: {Name: a}\n";
    let expected =
        "3:3 InlineVolumes.shared is ignored by Kubernetes: unknown; letter case matters, write Shared";
    assert_eq!(warnings(text), [expected]);
}

#[test]
fn keys_that_come_twice() {
    let text = "DriverInfo:\n  Name: a\n  MaxFileSize: 1\n  Name: b\nDriverInfo: {Name: c}\n";
    let loaded = load(text);
    assert_eq!(loaded.definition.driver_info.name, "c");
    assert_eq!(loaded.definition.driver_info.max_file_size_bytes, 0);
    assert_eq!(
        warnings(text),
        [
            "4:3 DriverInfo.Name comes twice; the last one counts",
            "5:1 DriverInfo comes twice; the last one counts"
        ]
    );
}

#[test]
fn words_for_the_truth() {
    let text = "DriverInfo: {Name: a, Capabilities: {RWX: yes, block: on, exec: true, persistence: Off, topology: TRUE}}";
    assert_eq!(
        warnings(text),
        [
            "1:43 yes is read as true, which not every reader of YAML does; write true",
            "1:55 on is read as true, which not every reader of YAML does; write true",
            "1:84 Off is read as false, which not every reader of YAML does; write false",
        ]
    );
}

#[test]
fn more_documents_than_one() {
    let text = "DriverInfo: {Name: a}\n---\nDriverInfo: {Name: b}\n";
    assert_eq!(load(text).definition.driver_info.name, "a");
    assert_eq!(
        warnings(text),
        ["3:1 a second document begins here; Kubernetes reads only the first one of a file"]
    );
    assert_eq!(warnings("---\nDriverInfo: {Name: a}\n---\n"), Vec::<String>::new());
    assert_eq!(warnings("DriverInfo: {Name: a}\n---\n{ broken\n").len(), 1);
}

#[test]
fn a_class_from_two_places() {
    let text = "StorageClass:\n  FromExistingClassName: c\n  FromName: true\nDriverInfo: {Name: a}\n";
    assert_eq!(
        warnings(text),
        ["2:3 StorageClass.FromExistingClassName has no effect: FromName comes first"]
    );
}

#[test]
fn a_capability_without_its_class() {
    let text = "DriverInfo: {Name: a, Capabilities: {snapshotDataSource: true, groupSnapshot: false}}";
    assert_eq!(
        warnings(text),
        ["1:38 snapshotDataSource is true, but its tests skip: there is no SnapshotClass"]
    );
}

#[test]
fn options_that_make_a_test_fail() {
    let text = "\
DriverInfo:
  Name: a
  StressTestOptions: {NumPods: 1}
  PerformanceTestOptions: {ProvisioningOptions: {Count: 1}}
";
    assert_eq!(
        warnings(text),
        [
            "3:3 StressTestOptions.NumRestarts is 0, with which the test fails; leave out StressTestOptions to skip it",
            "4:28 ProvisioningOptions has no ExpectedMetrics, without which the test crashes",
        ]
    );
}

#[test]
fn unknown_keys_of_a_class() {
    let written = Written::new("SnapshotClass: {FromExistingClassName: c}\nDriverInfo: {Name: a}\n");
    written.beside("classes/c.yaml", "kind: VolumeSnapshotClass\nparamters: {a: b}\nsnapshotter: a\n");
    let warnings = written.load().unwrap().warnings;
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    let expected =
        "c.yaml:2:1: paramters is ignored by Kubernetes: unknown; did you mean parameters?\n  2 | paramters";
    assert!(shown[0].contains(expected), "{}", shown[0]);
    assert_eq!(warnings[1].message, "snapshotter is ignored by Kubernetes: unknown");
}

#[test]
fn strict_makes_errors_of_warnings() {
    let written = Written::new("ShortName: a\nDriverInfo: {Name: a}\n");
    let error = written.load().unwrap().strict().unwrap_err().to_string();
    assert!(error.contains("driver.yaml:1:1: ShortName is ignored by Kubernetes"), "{error}");
    let written = Written::new("ShortName: a\nClaimSize: 1Gi\nDriverInfo: {Name: a}\n");
    let error = written.load().unwrap().strict().unwrap_err().to_string();
    assert!(error.contains("\nerror: ") && error.contains("driver.yaml:2:1: ClaimSize"), "{error}");
    assert!(load("DriverInfo: {Name: a}").strict().is_ok());
}

#[test]
fn many_warnings_on_a_long_line_stay_small() {
    let unknown: String = (0..20_000).map(|key| format!("k{key}: 1, ")).collect();
    let warnings = load(&format!("{{{unknown} DriverInfo: {{Name: a}}}}")).warnings;
    assert_eq!(warnings.len(), 100);
    assert!(warnings.iter().all(|warning| warning.line.is_empty()));
    assert!(warnings[99].to_string().ends_with("k99 is ignored by Kubernetes: unknown"), "{}", warnings[99]);
}
