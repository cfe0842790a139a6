//! What is wrong is an error that shows its place.

use std::fs;
use std::path::Path;

use csi_driver_definitions::{DriverDefinition, LoadError};

use crate::Written;

/// The error as `line:column message`.
fn error(text: &str) -> String {
    match Written::new(text).load() {
        Err(LoadError::Invalid(remark)) => match remark.place {
            Some(place) => format!("{}:{} {}", place.line, place.column, remark.message),
            None => remark.message,
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_of_the_wrong_type_or_form() {
    let info = |field: &str| error(&format!("DriverInfo:\n  Name: a\n  {field}\n"));
    for (field, expected) in [
        ("MaxFileSize: 100Mi", "3:16 a string where a whole number that is not negative has to stand"),
        ("MaxFileSize: -1", "3:16 a negative number where a whole number that is not negative has to stand"),
        ("NumAllowedTopologies: two", "3:25 a string where a whole number that is not negative has to stand"),
        ("SupportedFsType: [ext4]", "3:20 a list where a map has to stand"),
        ("SupportedMountOption: {ro: yes}", "3:30 a boolean where a map has to stand"),
        ("Capabilities: {RWX: 'true'}", "3:23 a string where true or false has to stand"),
        (
            "RequiredAccessModes: [RWX]",
            "3:25 unknown variant `RWX`, expected one of `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, \
             `ReadWriteOncePod`",
        ),
        (
            "SupportedSizeRange: {Min: 5GB}",
            "3:29 \"5GB\" is not a quantity; write for example 1Gi, 500M or 1073741824",
        ),
        ("SupportedSizeRange: {Max: 5}", "3:29 a number where a string, in quotes, has to stand"),
        ("SupportedSizeRange: {Step: -5Gi}", "3:30 \"-5Gi\" is a negative amount of bytes"),
    ] {
        assert_eq!(info(field), expected, "{field}");
    }
}

#[test]
fn durations() {
    let timeouts = |value: &str| error(&format!("Timeouts:\n  PodStart: {value}\nDriverInfo: {{Name: a}}\n"));
    let expected = "2:13 \"5 minutes\" is not a duration; write for example 500ms, 10s or 1m30s";
    assert_eq!(timeouts("5 minutes"), expected);
    assert_eq!(timeouts("30"), "2:13 a number where a string, in quotes, has to stand");
}

#[test]
fn a_driver_without_a_name() {
    let expected = "DriverInfo.Name is missing: the name that the driver tells, such as hostpath.csi.k8s.io";
    assert_eq!(error("StorageClass: {FromName: true}\n"), expected);
    assert_eq!(error("\nDriverInfo: {MaxFileSize: 1}\n"), format!("2:1 {expected}"));
}

#[test]
fn no_definition_at_all() {
    assert_eq!(error(""), "the file is empty");
    assert_eq!(error("# nothing\n"), "the file is empty");
    assert_eq!(error("- a\n"), "1:1 a list where a map has to stand");
    assert_eq!(error("DriverInfo: {Name: a\n"), "1:13 unclosed bracket '{'");
    let template = error("StorageClass:\n  FromFile: {{.File}}\nDriverInfo: {Name: a}\n");
    assert_eq!(template, "2:14 a key has to be a string; is this a template that nobody filled in?");
}

#[test]
fn what_looks_like_a_template_is_called_one() {
    for text in [
        "DriverInfo:\n- {{ range .Drivers }}\n",
        "DriverInfo:\n  Name: {x}.y\n",
        "DriverInfo: {Name: a, MaxFileSize: ${size}}\n",
    ] {
        let told = error(text);
        assert!(told.ends_with("is this a template that nobody filled in?"), "{text}: {told}");
    }
    assert!(!error("DriverInfo: {Name: a\n").contains("template"));
}

#[test]
fn the_place_is_shown() {
    let written = Written::new("DriverInfo:\n  Name: a\n  SupportedSizeRange:\n    Min: 5GB # too small\n");
    assert_eq!(
        written.load().unwrap_err().to_string(),
        format!(
            "{}:4:10: \"5GB\" is not a quantity; write for example 1Gi, 500M or 1073741824\n  \
             4 |     Min: 5GB # too small\n    |          ^",
            written.path().display()
        )
    );
}

#[test]
fn files_that_cannot_be_read() {
    let error = DriverDefinition::load(Path::new("no/such/file.yaml")).unwrap_err().to_string();
    assert!(error.starts_with("failed to read no/such/file.yaml: "), "{error}");

    let written = Written::new(&format!("DriverInfo: {{Name: a}}\n{}", "#".repeat(1 << 20)));
    assert!(written.load().unwrap_err().to_string().ends_with("it has more than 1048576 bytes"));

    fs::write(written.path(), [b'a', 0xff]).unwrap();
    assert!(matches!(written.load(), Err(LoadError::Read { .. })));
}

#[test]
fn aliases_do_not_unfold_without_end() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, last) in ('b'..='i').zip('a'..) {
        let aliases = vec![format!("*{last}"); 10].join(", ");
        text.push_str(&format!("{name}: &{name} [{aliases}]\n"));
    }
    let error = Written::new(&text).load().unwrap_err().to_string();
    assert!(error.contains("driver.yaml:"), "{error}");
}

#[test]
fn what_is_nested_deeply_is_refused() {
    let blocks: String = (0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let entries = "- ".repeat(100_000);
    for text in ["[".repeat(500_000), "{a: ".repeat(200_000), entries, blocks] {
        assert!(matches!(Written::new(&text).load(), Err(LoadError::Invalid(_))));
    }
}
