//! Checks that errors show their place.

use std::fs;
use std::path::Path;

use csi_driver_definitions::{DriverDefinition, LoadError, Remark};

use crate::Written;

/// Returns the errors as `line:column message`.
fn errors(text: &str) -> Vec<String> {
    let shown = |remark: Remark| match remark.place {
        Some(place) => format!("{}:{} {}", place.line, place.column, remark.message),
        None => remark.message,
    };
    match Written::new(text).load() {
        Err(LoadError::Invalid(remarks)) => remarks.into_iter().map(shown).collect(),
        other => panic!("{other:?}"),
    }
}

/// Returns the only error.
fn error(text: &str) -> String {
    let errors = errors(text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.concat()
}

#[test]
fn values_of_the_wrong_type_or_form() {
    let info = |field: &str| error(&format!("DriverInfo:\n  Name: a\n  {field}\n"));
    for (field, expected) in [
        (
            "MaxFileSize: 100Mi",
            "3:16 DriverInfo.MaxFileSize: expected a whole number of 0 or more, got a string",
        ),
        (
            "MaxFileSize: -1",
            "3:16 DriverInfo.MaxFileSize: expected a whole number of 0 or more, got a negative number",
        ),
        (
            "NumAllowedTopologies: two",
            "3:25 DriverInfo.NumAllowedTopologies: expected a whole number of 0 or more, got a string",
        ),
        ("SupportedFsType: [ext4]", "3:20 DriverInfo.SupportedFsType: expected a map, got a list"),
        (
            "SupportedMountOption: {ro: yes}",
            "3:30 DriverInfo.SupportedMountOption.ro: expected a map, got a boolean",
        ),
        (
            "Capabilities: {RWX: 'true'}",
            "3:23 DriverInfo.Capabilities.RWX: expected true or false, got a string",
        ),
        (
            "RequiredAccessModes: [RWX]",
            "3:25 DriverInfo.RequiredAccessModes: \"RWX\" is not an access mode; write ReadWriteMany",
        ),
        (
            "SupportedSizeRange: {Min: 5GB}",
            "3:29 DriverInfo.SupportedSizeRange.Min: \"5GB\" is not a quantity; write for example 1Gi, 500M or 1073741824",
        ),
        (
            "SupportedSizeRange: {Max: 5}",
            "3:29 DriverInfo.SupportedSizeRange.Max: expected a string in quotes, got a number",
        ),
        (
            "SupportedSizeRange: {Step: -5Gi}",
            "3:30 DriverInfo.SupportedSizeRange.Step: \"-5Gi\" is a negative amount of bytes",
        ),
    ] {
        assert_eq!(info(field), expected, "{field}");
    }
}

#[test]
fn a_misspelt_key_is_named_beside_what_it_causes() {
    let missing = "DriverInfo.Name is missing: the name that the driver returns in GetPluginInfo, such as hostpath.csi.k8s.io";
    assert_eq!(
        errors("Driverinfo:\n  Name: a\n"),
        [
            missing.to_owned(),
            "1:1 Driverinfo is ignored by Kubernetes: unknown; letter case matters, write DriverInfo"
                .to_owned()
        ]
    );
    assert_eq!(
        errors("DriverInfo:\n  name: a\n"),
        [
            format!("1:1 {missing}"),
            "2:3 DriverInfo.name is ignored by Kubernetes: unknown; letter case matters, write Name"
                .to_owned()
        ]
    );
    assert_eq!(
        errors("StorageClas: {}\nDriverInfo:\n  Name: a\n  MaxFileSize: -1\n"),
        [
            "1:1 StorageClas is ignored by Kubernetes: unknown; did you mean StorageClass?",
            "4:16 DriverInfo.MaxFileSize: expected a whole number of 0 or more, got a negative number"
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let text = "\
DriverInfo:
  Name: a
  MaxFileSize: 1Gi
  Capabilities: {RWX: 'yes', block: true, exec: 1}
  RequiredAccessModes: [ReadWriteOnce, RWO]
";
    assert_eq!(
        errors(text),
        [
            "3:16 DriverInfo.MaxFileSize: expected a whole number of 0 or more, got a string",
            "4:23 DriverInfo.Capabilities.RWX: expected true or false, got a string",
            "4:49 DriverInfo.Capabilities.exec: expected true or false, got a number",
            "5:40 DriverInfo.RequiredAccessModes: \"RWO\" is not an access mode; write ReadWriteOnce",
        ]
    );
    let error = Written::new(text).load().unwrap_err().to_string();
    assert_eq!(error.matches("error: ").count(), 3, "the program adds the first one: {error}");
    let many: String = (0..100).map(|key| format!("    k{key}: 1\n")).collect();
    let text = format!("DriverInfo:\n  Name: a\n  SupportedFsType:\n{many}");
    assert_eq!(errors(&text).len(), 20);
}

#[test]
fn a_manifest_that_is_missing() {
    let written = Written::new("StorageClass: {FromFile: classes/a.yaml}\nDriverInfo: {Name: a}\n");
    assert_eq!(
        written.load().unwrap_err().to_string(),
        format!(
            "{}:1:26: there is no file classes/a.yaml in the folder of the definition, those above it, or the working \
             directory\n  1 | StorageClass: {{FromFile: classes/a.yaml}}\n    |                          ^",
            written.path().display()
        )
    );
    written.beside("classes/a.yaml", "");
    assert!(
        errors("StorageClass: {FromFile: $A/c.yaml}\nDriverInfo: {Name: a}\n")[0]
            .contains("is this a template")
    );
    assert_eq!(written.load().unwrap().warnings, []);
}

#[test]
fn durations() {
    let timeouts = |value: &str| error(&format!("Timeouts:\n  PodStart: {value}\nDriverInfo: {{Name: a}}\n"));
    let expected =
        "2:13 Timeouts.PodStart: \"5 minutes\" is not a duration; write for example 500ms, 10s or 1m30s";
    assert_eq!(timeouts("5 minutes"), expected);
    assert_eq!(timeouts("30"), "2:13 Timeouts.PodStart: expected a string in quotes, got a number");
}

#[test]
fn a_driver_without_a_name() {
    let expected = "DriverInfo.Name is missing: the name that the driver returns in GetPluginInfo, such as hostpath.csi.k8s.io";
    assert_eq!(error("StorageClass: {FromName: true}\n"), expected);
    assert_eq!(error("\nDriverInfo: {MaxFileSize: 1}\n"), format!("2:1 {expected}"));
}

#[test]
fn no_definition_at_all() {
    assert_eq!(error(""), "the file is empty");
    assert_eq!(error("# nothing\n"), "the file is empty");
    assert_eq!(error("- a\n"), "1:1 expected a map, got a list");
    assert_eq!(error("DriverInfo: {Name: a\n"), "1:13 unclosed bracket '{'");
    let template = error("StorageClass:\n  FromFile: {{.File}}\nDriverInfo: {Name: a}\n");
    assert_eq!(template, "2:14 a key has to be a string; is this a template that was not filled in?");
}

#[test]
fn what_looks_like_a_template_is_called_one() {
    for text in [
        "DriverInfo:\n- {{ range .Drivers }}\n",
        "DriverInfo:\n  Name: {x}.y\n",
        "DriverInfo: {Name: a, MaxFileSize: ${size}}\n",
    ] {
        let message = error(text);
        assert!(message.ends_with("is this a template that was not filled in?"), "{text}: {message}");
    }
    assert!(!error("DriverInfo: {Name: a\n").contains("template"));
}

#[test]
fn the_place_is_shown() {
    let written = Written::new("DriverInfo:\n  Name: a\n  SupportedSizeRange:\n    Min: 5GB # too small\n");
    assert_eq!(
        written.load().unwrap_err().to_string(),
        format!(
            "{}:4:10: DriverInfo.SupportedSizeRange.Min: \"5GB\" is not a quantity; write for example 1Gi, 500M or 1073741824\n  \
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
