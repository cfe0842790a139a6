//! Versions of the protocol, and by which of them a driver is judged. The wire is one: what a version took away keeps its
//! number, so that one decoder reads drivers of all of them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
pub enum Version {
    /// 1.12, and those before it that lack nothing of what is checked.
    #[serde(rename = "1.12")]
    V1_12,
    /// 1.13, with the health of volumes and topologies of snapshots.
    #[serde(rename = "1.13")]
    V1_13,
    /// A draft of 1.14, with what the controller knows of nodes. It applies only where the user names it, since its
    /// numbers may change.
    #[serde(rename = "1.14-preview")]
    V1_14Preview,
}

impl Version {
    /// All that are known, from the oldest on.
    pub const ALL: [Version; 3] = [Version::V1_12, Version::V1_13, Version::V1_14Preview];
    /// The newest one that is released.
    pub const RELEASED: Version = Version::V1_13;
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Version::V1_12 => "1.12",
            Version::V1_13 => "1.13",
            Version::V1_14Preview => "1.14-preview",
        })
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let known = Version::ALL.into_iter().find(|version| version.to_string() == text);
        known.ok_or_else(|| {
            format!("{text:?} is not a known version of CSI; write 1.12, 1.13 or 1.14-preview")
        })
    }
}

/// The versions that have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    first: Version,
    last: Version,
}

impl Versions {
    /// All of them.
    pub const ALL: Versions = Versions { first: Version::V1_12, last: Version::V1_14Preview };

    /// These versions, starting with `first`.
    #[must_use]
    pub const fn since(self, first: Version) -> Versions {
        Versions { first, ..self }
    }

    /// The versions up to one.
    #[must_use]
    pub const fn until(self, last: Version) -> Versions {
        Versions { last, ..self }
    }

    /// The oldest of them.
    pub fn first(self) -> Version {
        self.first
    }

    /// Returns true if a version is among them.
    pub fn has(self, version: Version) -> bool {
        self.first <= version && version <= self.last
    }

    /// The version of a driver that has something of these versions: the first one, or the last one if it was taken
    /// away. A driver of any version has what all of them have.
    pub fn sign(self) -> Option<Version> {
        match (self.first == Versions::ALL.first, self.last == Versions::ALL.last) {
            (true, true) => None,
            (true, false) => Some(self.last),
            (false, _) => Some(self.first),
        }
    }
}

/// The version of CSI by which a driver is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CsiVersion {
    /// The version follows from the capabilities and messages of the driver.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// The driver is judged as one of 1.12; later features are not tested.
    #[serde(rename = "1.12")]
    V1_12,
    /// The driver is judged as one of 1.13. RPCs and fields that 1.13 removed are judged as well if the driver still offers them.
    #[serde(rename = "1.13")]
    V1_13,
    /// The driver is judged as one of 1.13, and also by what a draft of 1.14 adds.
    #[serde(rename = "1.14-preview")]
    V1_14Preview,
}

impl CsiVersion {
    /// The version that the user has named.
    pub fn named(self) -> Option<Version> {
        match self {
            CsiVersion::Auto => None,
            CsiVersion::V1_12 => Some(Version::V1_12),
            CsiVersion::V1_13 => Some(Version::V1_13),
            CsiVersion::V1_14Preview => Some(Version::V1_14Preview),
        }
    }

    /// The newest version whose features are tested. A preview has to be named.
    pub(crate) fn newest(self) -> Version {
        self.named().unwrap_or(Version::RELEASED)
    }
}

impl fmt::Display for CsiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.named() {
            None => f.pad("auto"),
            Some(version) => version.fmt(f),
        }
    }
}

impl FromStr for CsiVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<CsiVersion, String> {
        match text {
            "auto" => Ok(CsiVersion::Auto),
            "1.12" => Ok(CsiVersion::V1_12),
            "1.13" => Ok(CsiVersion::V1_13),
            "1.14-preview" => Ok(CsiVersion::V1_14Preview),
            _ => Err(format!("{text:?} is not a version; write auto, 1.12, 1.13 or 1.14-preview")),
        }
    }
}

/// The versions by which a driver is judged, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// One, or both where the driver has what only either has.
    pub versions: Vec<Version>,
    /// The reason for the choice of versions, for people.
    pub sign: String,
}

impl Judged {
    /// Decides by the user's setting, or else by signs: features of the driver that only one version has.
    pub(crate) fn by(setting: CsiVersion, signs: &[(Version, String)]) -> Judged {
        if let Some(version) = setting.named() {
            return Judged { versions: vec![version], sign: format!("csi-version: {version}") };
        }
        let sign_of = |version| signs.iter().find(|(of, _)| *of == version).map(|(_, sign)| sign.clone());
        let found: Vec<_> =
            Version::ALL.into_iter().filter_map(|version| Some((version, sign_of(version)?))).collect();
        if found.is_empty() {
            let sign =
                "it shows nothing that only one version has, and the rules that apply are the same in all";
            return Judged { versions: vec![Version::V1_12], sign: sign.to_owned() };
        }
        let signs: Vec<_> = found.iter().map(|(_, sign)| sign.as_str()).collect();
        Judged {
            sign: signs.join(", and "),
            versions: found.into_iter().map(|(version, _)| version).collect(),
        }
    }

    /// Returns true if the rules of a version apply.
    pub fn has(&self, version: Version) -> bool {
        self.versions.contains(&version)
    }

    /// Returns true if any of these versions is one that the driver is judged by.
    pub fn has_any_of(&self, versions: Versions) -> bool {
        self.versions.iter().any(|version| versions.has(*version))
    }

    /// The versions in words: `1.12`, or `1.12 and 1.13`.
    pub fn name(&self) -> String {
        self.versions.iter().map(Version::to_string).collect::<Vec<_>>().join(" and ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_decides_and_else_what_is_seen() {
        let old = (Version::V1_12, "it advertises VOLUME_CONDITION".to_owned());
        let new = (Version::V1_13, "it advertises GET_VOLUME_HEALTH".to_owned());
        let judged = |setting, signs: &[(Version, String)]| Judged::by(setting, signs).name();
        assert_eq!(judged(CsiVersion::Auto, &[]), "1.12");
        assert_eq!(judged(CsiVersion::Auto, std::slice::from_ref(&new)), "1.13");
        assert_eq!(judged(CsiVersion::Auto, &[new.clone(), old.clone()]), "1.12 and 1.13");
        assert_eq!(judged(CsiVersion::V1_12, &[new]), "1.12");
        assert_eq!(judged(CsiVersion::V1_13, std::slice::from_ref(&old)), "1.13");
        assert_eq!(judged(CsiVersion::V1_14Preview, &[old]), "1.14-preview");
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let all = [CsiVersion::Auto, CsiVersion::V1_12, CsiVersion::V1_13, CsiVersion::V1_14Preview];
        for setting in all {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        assert!("1.14".parse::<CsiVersion>().is_err());
    }
}
