//! Checks the definitions in this repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use csi_driver_definitions::{ClassError, DriverDefinition};

use crate::{load, root};

pub(super) fn definitions() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("driver-definitions")).expect("the folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

#[test]
fn each_loads_without_a_warning() {
    for path in definitions() {
        if let Err(error) = DriverDefinition::load(&path).and_then(|loaded| loaded.strict()) {
            panic!("{error}");
        }
    }
}

#[test]
fn definitions_have_room_for_the_test_files() {
    for path in definitions() {
        let info = DriverDefinition::load(&path).unwrap().definition.driver_info;
        let sizes = 1 << 20..=100 << 20;
        assert!(sizes.contains(&info.max_file_size_bytes), "{}: MaxFileSize", path.display());
    }
}

#[test]
fn each_file_of_classes_is_named_by_a_definition() {
    let named: BTreeSet<String> =
        definitions().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for entry in fs::read_dir(root().join("driver-definitions/classes")).unwrap() {
        let name = format!("classes/{}", entry.unwrap().file_name().display());
        assert!(named.iter().any(|text| text.contains(&name)), "{name}");
    }
}

#[test]
fn definitions_have_the_classes_that_they_name() {
    for path in definitions() {
        let loaded = DriverDefinition::load(&path).unwrap();
        assert!(loaded.definition.storage_class.source().is_some(), "{}", path.display());
        let errors = [
            loaded.storage_class().err(),
            loaded.snapshot_class().err(),
            loaded.group_snapshot_class().err(),
            loaded.volume_attributes_class().err(),
        ];
        for error in errors.into_iter().flatten() {
            assert!(matches!(error, ClassError::InCluster { .. }), "{}: {error}", path.display());
        }
    }
}

#[test]
fn each_is_listed_in_the_document() {
    let document = fs::read_to_string(root().join("docs/driver-definition.md")).unwrap();
    for path in definitions() {
        let name = format!("`{}`", path.file_stem().unwrap().display());
        assert!(document.contains(&name), "docs/driver-definition.md does not name {name}");
    }
}

#[test]
fn the_example_in_the_document_is_one() {
    let document = fs::read_to_string(root().join("docs/driver-definition.md")).unwrap();
    let example = document.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    load(example).strict().unwrap();
}
