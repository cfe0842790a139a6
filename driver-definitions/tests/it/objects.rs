//! Checks Secrets and CSIDrivers in manifests.

use csi_driver_definitions::{
    CsiDriver, FsGroupPolicy, LoadError, Objects, TokenRequest, VolumeLifecycleMode,
};

use crate::Written;

fn read(text: &str) -> Result<Objects, LoadError> {
    let written = Written::new(text);
    Objects::read(&[written.path()])
}

#[test]
fn what_a_driver_is_installed_with_is_picked_out() {
    let objects = read(
        "# a chart\n---\nkind: Deployment\nspec: {replicas: 1}\n---\n\
         kind: Secret\nmetadata: {name: creds, namespace: storage}\ndata: {user: YWRtaW4=, pin: b2xk}\nstringData: {pin: new}\n---\n\
         kind: Secret\nmetadata: {name: plain}\n---\n\
         kind: CSIDriver\nmetadata: {name: a.example}\nspec:\n  attachRequired: false\n  fsGroupPolicy: File\n  \
         volumeLifecycleModes: [Ephemeral]\n  requiresRepublish: true\n  tokenRequests: [{audience: vault}]\n  storageCapacity: true\n---\n\
         kind: CSIDriver\nmetadata: {name: b.example}\n",
    );
    let objects = objects.expect("objects");
    let creds = objects.secret("storage", "creds").expect("the Secret");
    assert_eq!((creds["user"].as_str(), creds["pin"].as_str()), ("admin", "new"));
    assert!(objects.secret("default", "plain").is_some_and(|pairs| pairs.is_empty()));
    assert_eq!(objects.secret("default", "creds"), None);
    let driver = CsiDriver {
        attach_required: false,
        fs_group_policy: FsGroupPolicy::File,
        volume_lifecycle_modes: vec![VolumeLifecycleMode::Ephemeral],
        storage_capacity: true,
        requires_republish: true,
        token_requests: vec![TokenRequest { audience: "vault".to_owned(), expiration_seconds: 3600 }],
        ..CsiDriver::default()
    };
    assert_eq!(objects.csi_driver("a.example"), Some(&driver));
    assert_eq!(objects.csi_driver("b.example"), Some(&CsiDriver::default()));
    assert!(!format!("{objects:?}").contains("admin"));
}

#[test]
fn what_is_wrong_is_told_without_what_is_secret() {
    for (text, why) in [
        ("kind: Secret\nmetadata: {name: a}\ndata: {pin: hunter2!}", "data.pin is not the base64 of a text"),
        ("kind: Secret\nmetadata: {name: a}\ndata: {pin: /w==}", "data.pin is not the base64 of a text"),
        (
            "kind: Secret\nmetadata: {name: a}\nstringData: {pin: 2222}",
            "expected a string in quotes, got a number",
        ),
        ("kind: Secret\nmetadata: {name: a}\nstringData: hunter2", "expected a map, got a string"),
        ("kind: Secret\nstringData: {pin: hunter2}", "this Secret has no name"),
        ("kind: CSIDriver\nmetadata: {name: a}\nspec: {fsGroupPolicy: Files}", "unknown variant `Files`"),
        ("kind: Secret\nstringData: {pin: hunter2", ""),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(why) && error.contains("driver.yaml:"), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("2222"), "{error}");
    }
}
