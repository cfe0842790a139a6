//! Checks classes made from the driver's name, from files, and in place of those in a cluster.

use csi_driver_definitions::{
    AttributesClass, ReclaimPolicy, SnapshotClass, StorageClass, VolumeBindingMode,
};

use crate::Written;

const FROM_FILE: &str = "StorageClass: {FromFile: class.yaml}\nDriverInfo: {Name: a.example}\n";

const FULL: &str = "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: fast
  annotations: {storageclass.kubernetes.io/is-default-class: 'true'}
provisioner: a.example
parameters: {type: ssd, csi.storage.k8s.io/fstype: xfs}
mountOptions: [noatime]
reclaimPolicy: Retain
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
allowedTopologies:
- matchLabelExpressions:
  - key: zone
    values: [z1, z2]
";

/// Writes a definition with a file beside it.
fn with(definition: &str, name: &str, file: &str) -> Written {
    let written = Written::new(definition);
    written.beside(name, file);
    written
}

/// Returns the error of the volume class in a file.
fn refused(class: &str) -> String {
    let written = with(FROM_FILE, "class.yaml", class);
    let error = written.load().expect("a definition").storage_class().expect_err("no class").to_string();
    // The folder is left out, because its name varies.
    error.split_once("class.yaml").map_or(error.clone(), |(_, rest)| rest.to_owned())
}

#[test]
fn a_class_without_a_manifest() {
    let classes = "StorageClass: {FromName: true}\nSnapshotClass: {FromName: true}\n";
    let loaded = Written::new(&format!("{classes}DriverInfo: {{Name: a.example}}\n")).load().unwrap();
    let expected = StorageClass { provisioner: "a.example".into(), ..StorageClass::default() };
    assert_eq!(loaded.storage_class().unwrap(), Some(expected));
    let expected = SnapshotClass { driver: "a.example".into(), ..SnapshotClass::default() };
    assert_eq!(loaded.snapshot_class().unwrap(), Some(expected));
    assert_eq!(loaded.group_snapshot_class().unwrap(), None);
    assert_eq!(loaded.volume_attributes_class().unwrap(), None);
}

#[test]
fn a_class_from_a_file() {
    let written = with(FROM_FILE, "class.yaml", FULL);
    let class = written.load().unwrap().storage_class().unwrap().unwrap();
    let pairs = [("type", "ssd"), ("csi.storage.k8s.io/fstype", "xfs")];
    let zone = |name: &str| [("zone".to_owned(), name.to_owned())].into();
    let expected = StorageClass {
        name: String::new(),
        provisioner: "a.example".into(),
        parameters: pairs.map(|(key, value)| (key.into(), value.into())).into(),
        mount_options: vec!["noatime".into()],
        volume_binding_mode: VolumeBindingMode::WaitForFirstConsumer,
        allow_volume_expansion: true,
        reclaim_policy: ReclaimPolicy::Retain,
        allowed_topologies: vec![zone("z1"), zone("z2")],
    };
    assert_eq!(class, expected);
}

#[test]
fn topology_terms_become_segments_by_their_first_key() {
    let rack = "  - key: rack\n    values: [r1, r2]\n- matchLabelExpressions: []\n";
    let written = with(FROM_FILE, "class.yaml", &format!("{FULL}{rack}"));
    let class = written.load().unwrap().storage_class().unwrap().unwrap();
    let segment = |zone: &str| [("zone", zone), ("rack", "r1")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(class.allowed_topologies, [segment("z1"), segment("z2")]);
}

#[test]
fn the_other_kinds() {
    let definition = "\
SnapshotClass: {FromFile: snapshot.yaml}
GroupSnapshotClass: {FromFile: group.yaml}
VolumeAttributesClass: {FromFile: attributes.yaml}
DriverInfo: {Name: a.example}
";
    let written = Written::new(definition);
    for (name, kind, group, driver) in [
        ("snapshot", "VolumeSnapshotClass", "snapshot.storage.k8s.io/v1", "driver"),
        ("group", "VolumeGroupSnapshotClass", "groupsnapshot.storage.k8s.io/v1beta1", "driver"),
        ("attributes", "VolumeAttributesClass", "storage.k8s.io/v1", "driverName"),
    ] {
        let class =
            format!("kind: {kind}\napiVersion: {group}\n{driver}: a.example\nparameters: {{a: '1'}}\n");
        written.beside(&format!("{name}.yaml"), &format!("{class}deletionPolicy: Retain\n"));
    }
    let loaded = written.load().unwrap();
    let (driver, parameters) = ("a.example".to_owned(), [("a".to_owned(), "1".to_owned())]);
    let snapshot = SnapshotClass {
        driver: driver.clone(),
        parameters: parameters.clone().into(),
        ..SnapshotClass::default()
    };
    assert_eq!(loaded.snapshot_class().unwrap(), Some(snapshot.clone()));
    assert_eq!(loaded.group_snapshot_class().unwrap(), Some(snapshot));
    let attributes = AttributesClass { driver, parameters: parameters.into(), ..AttributesClass::default() };
    assert_eq!(loaded.volume_attributes_class().unwrap(), Some(attributes));
}

#[test]
fn a_class_is_read_from_a_file_of_its_name() {
    let written =
        Written::new("StorageClass: {FromExistingClassName: fast}\nDriverInfo: {Name: a.example}\n");
    let loaded = written.load().unwrap();
    assert_eq!(
        loaded.storage_class().unwrap_err().to_string(),
        "the StorageClass \"fast\" is in a cluster; without one, put its manifest into classes/fast.yaml beside the definition"
    );
    written.beside("classes/fast.yaml", FULL);
    assert_eq!(loaded.storage_class().unwrap().unwrap().parameters["type"], "ssd");
}

#[test]
fn a_file_is_also_found_above_the_definition() {
    let written = with("", "class.yaml", FULL);
    written.beside("below/driver.yaml", FROM_FILE);
    let path = written.folder.path().join("below/driver.yaml");
    let loaded = csi_driver_definitions::DriverDefinition::load(&path).unwrap();
    assert_eq!(loaded.warnings, []);
    assert!(loaded.storage_class().unwrap().is_some());
    written.beside("below/class.yaml", &FULL.replace("ssd", "nearer"));
    assert_eq!(loaded.storage_class().unwrap().unwrap().parameters["type"], "nearer");
}

#[test]
fn a_file_that_is_no_manifest_of_the_class() {
    let changed = |from: &str, to: &str| refused(&FULL.replacen(from, to, 1));
    let first = |error: String| error.lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        first(changed("kind: StorageClass", "kind: Pod")),
        ":2:7: kind is \"Pod\"; it has to be StorageClass"
    );
    assert_eq!(
        first(changed("storage.k8s.io/v1", "v1")),
        ":1:13: apiVersion is \"v1\"; it has to begin with storage.k8s.io/"
    );
    let quotes = ":7:20: parameters.type: expected a string in quotes, got a number";
    assert_eq!(first(changed("type: ssd", "type: 5")), quotes);
    assert_eq!(first(changed("provisioner: a.example\n", "")), ": the StorageClass names no driver");
    let second = ":17:1: a second object begins here; the file has to hold one only";
    assert_eq!(first(refused(&format!("{FULL}---\n{FULL}"))), second);
    assert!(
        first(changed("Retain", "Recycle")).starts_with(":9:16: reclaimPolicy: unknown variant `Recycle`")
    );
    assert_eq!(
        changed("a.example", "b.example"),
        "the StorageClass is for the driver \"b.example\", but the definition is for \"a.example\""
    );
}

#[test]
fn a_file_that_is_missing() {
    let written = with(FROM_FILE, "class.yaml", FULL);
    let loaded = written.load().unwrap();
    std::fs::remove_file(written.folder.path().join("class.yaml")).unwrap();
    let error = loaded.storage_class().unwrap_err();
    assert!(error.to_string().starts_with("there is no file class.yaml in the folder"), "{error}");
}
