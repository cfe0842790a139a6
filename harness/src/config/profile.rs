//! The profiles, which decide what a driver has to comply with.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rules that make a run fail. Each profile contains the ones before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Every MUST that stands in the text of the specification.
    #[default]
    Csi,
    /// Also what kubelet and the sidecars of Kubernetes rely on.
    Kubernetes,
    /// Also recommendations, and remarks of every other kind.
    Strict,
}

impl Profile {
    /// All of them, the mildest first.
    pub const ALL: [Profile; 3] = [Profile::Csi, Profile::Kubernetes, Profile::Strict];

    /// The name in flags and files.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Csi => "csi",
            Profile::Kubernetes => "kubernetes",
            Profile::Strict => "strict",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Profile, String> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("{text:?} is not a profile; allowed are csi, kubernetes and strict"))
    }
}

/// The result of a failure that did not come again when its check was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlakyResult {
    /// It makes the run fail, as any other failure does.
    Fail,
    /// It only warns, even if it proves damage.
    Warn,
}

impl FromStr for FlakyResult {
    type Err = String;

    fn from_str(text: &str) -> Result<FlakyResult, String> {
        match text {
            "fail" => Ok(FlakyResult::Fail),
            "warn" => Ok(FlakyResult::Warn),
            other => Err(format!("{other:?} is not a result of a flaky failure; allowed are fail and warn")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse(), Ok(profile));
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.name());
        }
        assert!(Profile::ALL.is_sorted() && Profile::ALL[0] == Profile::default());
        assert!("k8s".parse::<Profile>().is_err());
        for result in [FlakyResult::Fail, FlakyResult::Warn] {
            let word = serde_json::to_value(result).unwrap();
            assert_eq!(word.as_str().unwrap().parse(), Ok(result));
        }
        assert!("pass".parse::<FlakyResult>().is_err());
    }
}
