//! Checks that a DriverDefinition and its classes are either rejected with the place of the error, or read with an
//! equal result a second time.

use csi_driver_definitions::{DriverDefinition, LoadError, Loaded, Remark};

use crate::{CANARY, Target, file};

/// The bytes are the file, which may also name itself as the file of a class.
pub const TARGET: Target = Target {
    name: "definition",
    run,
    seeds,
    tokens: &[
        "DriverInfo:",
        "Name: ",
        "StorageClass:",
        "FromName: true",
        "FromFile: ",
        "FromExistingClassName: ",
        "SnapshotClass:",
        "Capabilities:",
        "SupportedSizeRange:",
        "Max: 5Ti",
        "Min: 1Mi",
        "Timeouts:",
        "PodStart: 5m",
        "InlineVolumes:",
        "&a ",
        "*a ",
        "<<: ",
        "{",
        "}",
        "[",
        "]",
        ": ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "---\n",
        "...\n",
        "# ",
        "!!binary ",
        "|\n",
        ">\n",
        "'",
        "\"",
        "é",
        "~",
        "1e999",
        ".nan",
        "0x",
        "kind: ",
        "apiVersion: ",
        "\u{feff}",
    ],
};

const NAME: &str = "definition.yaml";

fn run(bytes: &[u8]) {
    let path = file::with(NAME, bytes);
    match DriverDefinition::load(&path) {
        Ok(loaded) => {
            assert!(!loaded.definition.driver_info.name.is_empty());
            loaded.warnings.iter().for_each(look_at);
            let again = DriverDefinition::load(&path).expect("a file that was read before");
            assert_eq!(format!("{loaded:?}"), format!("{again:?}"));
            classes(&loaded);
        }
        Err(LoadError::Read { .. }) => assert!(std::str::from_utf8(bytes).is_err(), "a text was not read"),
        Err(LoadError::Invalid(remarks)) => remarks.iter().for_each(look_at),
        Err(LoadError::Strict(_)) => panic!("nobody asked for it"),
    }
}

fn look_at(remark: &Remark) {
    let text = remark.to_string();
    assert!(text.contains(NAME) && !remark.message.is_empty(), "{text}");
    if CANARY && let Some(place) = remark.place {
        // The canary treats a column as an offset in bytes.
        let before = place.column as usize - 1;
        let there = remark.line.get(before..).and_then(|rest| rest.chars().next());
        assert_eq!(there, remark.line.chars().nth(before), "{text}");
    }
}

fn classes(loaded: &Loaded) {
    let refused = [
        loaded.storage_class().err(),
        loaded.snapshot_class().err(),
        loaded.group_snapshot_class().err(),
        loaded.volume_attributes_class().err(),
    ];
    assert!(refused.into_iter().flatten().all(|error| !error.to_string().is_empty()));
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &include_bytes!("../../driver-definitions/hostpath.yaml")[..],
        include_bytes!("../../driver-definitions/mock.yaml"),
        include_bytes!("../../driver-definitions/gce-pd.yaml"),
        b"DriverInfo: {Name: a.example}\nStorageClass: {FromFile: definition.yaml}\nkind: StorageClass\n",
    ]
    .map(Into::into)
    .into()
}
