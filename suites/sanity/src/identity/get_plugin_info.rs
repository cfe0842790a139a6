//! GetPluginInfo returns the name and version of the plugin.

use csi_harness::prelude::*;

/// The limit on the bytes of a plugin's name.
const NAME_BYTES_MAX: usize = 63;

check! {
    /// Orchestrators store all data about a driver under this name.
    NAME {
        id: "identity/get-plugin-info/name",
        title: "GetPluginInfo returns a name",
        spec: [req::ID_INFO_004, req::GEN_FIELD_002],
        refuted_by: ["get-plugin-info-name-empty", "get-plugin-info-fails"],
        replaces: ["Identity Service GetPluginInfo should return appropriate information"],
    }
    async |cx| {
        let info = cx.call(v1::GetPluginInfoRequest {}).await.must("return information about the plugin")?;
        ensure!(!info.name.is_empty(), "the plugin has no name"; expected: "a name", actual: "an empty one");
        Ok(())
    }
}

check! {
    /// The name is used in paths, and in Kubernetes names and label values.
    NAME_FORM {
        id: "identity/get-plugin-info/name-form",
        title: "the plugin's name has domain-name form",
        spec: [req::ID_INFO_001, req::ID_INFO_003],
        refuted_by: [
            "get-plugin-info-name-too-long",
            "get-plugin-info-name-with-slash",
            "get-plugin-info-name-ends-in-dash",
            "get-plugin-info-name-with-underscore",
        ],
    }
    async |cx| {
        let name = cx.call(v1::GetPluginInfoRequest {}).setup("the plugin's name").await?.name;
        if name.is_empty() {
            return Err(Stop::skip("the plugin has no name"));
        }
        ensure!(
            name.len() <= NAME_BYTES_MAX,
            "the plugin's name is too long";
            expected: "63 characters or fewer",
            actual: format!("{} in {name:?}", name.len())
        );
        let at_ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        ensure!(
            at_ends(name.chars().next()) && at_ends(name.chars().last()) && name.chars().all(inside),
            "the plugin's name has characters that a domain name cannot have";
            of: &req::ID_INFO_003,
            expected: "letters, digits, dashes and dots, a letter or digit at both ends",
            actual: format!("{name:?}")
        );
        Ok(())
    }
}

check! {
    /// Another vendor may use the same name if it has no domain.
    NAME_HAS_DOMAIN {
        id: "identity/get-plugin-info/name-has-domain",
        title: "the plugin's name begins with a domain of its vendor",
        spec: [req::ID_INFO_002],
        refuted_by: ["get-plugin-info-name-without-host"],
    }
    async |cx| {
        let name = cx.call(v1::GetPluginInfoRequest {}).setup("the plugin's name").await?.name;
        ensure!(
            name.is_empty() || name.contains('.'),
            "the plugin's name has no domain";
            expected: "a name such as csi.example.com",
            actual: format!("{name:?}")
        );
        Ok(())
    }
}

check! {
    /// Support staff need the version first.
    VENDOR_VERSION {
        id: "identity/get-plugin-info/vendor-version",
        title: "GetPluginInfo returns a vendor_version",
        spec: [req::ID_INFO_005],
        refuted_by: ["get-plugin-info-version-empty"],
    }
    async |cx| {
        let info = cx.call(v1::GetPluginInfoRequest {}).setup("the plugin's version").await?;
        ensure!(!info.vendor_version.is_empty(), "vendor_version is empty"; expected: "a version");
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&NAME, &NAME_FORM, &NAME_HAS_DOMAIN, &VENDOR_VERSION];
