//! The versions of Kubernetes whose tests and components are played, and what differs between them.

use std::fmt;
use std::str::FromStr;

/// A minor version of Kubernetes, with its newest patches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V1_34,
    V1_35,
    V1_36,
    #[default]
    V1_37,
}

impl Version {
    /// All versions, the oldest first.
    pub const ALL: [Version; 4] = [Version::V1_34, Version::V1_35, Version::V1_36, Version::V1_37];

    fn minor(self) -> u32 {
        match self {
            Version::V1_34 => 34,
            Version::V1_35 => 35,
            Version::V1_36 => 36,
            Version::V1_37 => 37,
        }
    }

    /// Returns the version that is nearest to that of a cluster, such as `v1.33.1-gke.100`; the newest one if the text is none.
    pub fn of_cluster(text: &str) -> Version {
        let minor =
            text.trim_start_matches('v').split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        let Some(minor) = minor else { return Version::default() };
        let known = Version::ALL.into_iter().rev().find(|version| version.minor() <= minor);
        known.unwrap_or(Version::ALL[0])
    }

    /// Returns whether e2e.test leaves out tests that would always be skipped, instead of skipping them.
    pub fn leaves_out_skipped(self) -> bool {
        self >= Version::V1_37
    }

    /// Returns whether kubelet passes SELinux contexts for volumes of every access mode. Before, it does so only for volumes whose
    /// single access mode is ReadWriteOncePod.
    pub(crate) fn labels_every_access_mode(self) -> bool {
        self >= Version::V1_37
    }

    /// Returns whether kubelet knows `serviceAccountTokenInSecrets`.
    pub(crate) fn has_tokens_in_secrets(self) -> bool {
        self >= Version::V1_35
    }

    /// Returns whether kubelet and the health monitor call the RPCs about health.
    pub(crate) fn asks_for_health(self) -> bool {
        self >= Version::V1_37
    }

    /// Returns whether a suite exists.
    pub(crate) fn has_suite(self, name: &str) -> bool {
        SUITES.iter().all(|(newer, since)| *newer != name || self >= *since)
    }

    /// Returns the labels that the name of a test has behind that of a feature gate.
    pub(crate) fn labels_of_gate(self, gate: &str) -> &'static [&'static str] {
        match GATES.iter().find(|(name, ..)| *name == gate) {
            Some((_, stable, _)) if self >= *stable => &[],
            Some((_, _, true)) => &["Beta"],
            Some((_, _, false)) => &["Beta", "Feature:OffByDefault"],
            None => &[],
        }
    }
}

/// Suites that older versions lack, with the first version that has them.
const SUITES: [(&str, Version); 7] = [
    ("pvc-deletion-performance", Version::V1_35),
    ("seLinuxMount", Version::V1_35),
    ("snapshotmetadata", Version::V1_36),
    ("snapshot-metadata-stress", Version::V1_37),
    ("snapshot-topology", Version::V1_37),
    ("volume-health", Version::V1_37),
    ("seLinuxMountDifferent", Version::V1_37),
];

/// Feature gates that were in beta, with the first version in which they are stable, and true if they were on by default before.
const GATES: [(&str, Version, bool); 3] = [
    ("SELinuxMountReadWriteOncePod", Version::V1_36, true),
    ("SELinuxChangePolicy", Version::V1_36, true),
    ("SELinuxMount", Version::V1_37, false),
];

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor())
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let found = Version::ALL.into_iter().find(|version| version.to_string() == text);
        found.ok_or_else(|| {
            let known: Vec<String> = Version::ALL.iter().map(ToString::to_string).collect();
            format!("one of {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites;

    #[test]
    fn a_cluster_has_the_nearest_known_version() {
        let versions = [
            ("v1.36.2", Version::V1_36),
            ("v1.34.0-gke.100", Version::V1_34),
            ("v1.29.3", Version::V1_34),
            ("v1.40.0", Version::V1_37),
            ("", Version::V1_37),
        ];
        for (text, version) in versions {
            assert_eq!(Version::of_cluster(text), version, "{text}");
        }
        assert_eq!("1.35".parse(), Ok(Version::V1_35));
        assert!("1.33".parse::<Version>().unwrap_err().contains("1.34, 1.35"));
    }

    #[test]
    fn suites_of_the_table_exist() {
        for (name, _) in SUITES {
            assert!(suites::ALL.iter().any(|suite| suite.name == name), "{name}");
        }
    }
}
