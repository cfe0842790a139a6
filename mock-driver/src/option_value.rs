//! The values of options: names of RPCs, delays, failures and sizes.

use std::str::FromStr;
use std::time::Duration;

use csi_proto::{RPCS, code_name};
use serde::{Deserialize, Serialize};
use tonic::Code;

use crate::named::{UnknownId, nearest};

/// The longest delay that can be configured.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// The name of an RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub struct RpcName(pub(crate) &'static str);

// A derived implementation would require input with a static lifetime.
impl<'de> Deserialize<'de> for RpcName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl RpcName {
    /// The name, such as `CreateVolume`.
    pub fn as_str(&self) -> &'static str {
        self.0
    }
}

impl FromStr for RpcName {
    type Err = UnknownId;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        RPCS.iter().find(|rpc| rpc.method == given).map(|rpc| Self(rpc.method)).ok_or_else(|| UnknownId {
            kind: "RPC",
            given: given.to_owned(),
            nearest: nearest(given, RPCS.iter().map(|rpc| rpc.method)),
        })
    }
}

impl From<RpcName> for String {
    fn from(name: RpcName) -> Self {
        name.0.to_owned()
    }
}

/// A duration, written as a whole number with `ms` or `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Delay(pub Duration);

/// An option value that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseOptionError {
    /// Not a duration.
    #[error("`{0}` is no delay: write a whole number with `ms` or `s`, at most one hour, such as `200ms`")]
    Delay(String),
    /// Not a failure.
    #[error("`{0}` is no failure: write a gRPC code and optionally how often, such as `UNAVAILABLE:3`")]
    Failure(String),
    /// Not a size.
    #[error("`{0}` is no size: write bytes, or a number with Ki, Mi, Gi or Ti")]
    Size(String),
    /// Not a pair.
    #[error("`{0}` is no pair: write KEY=VALUE")]
    Pair(String),
    /// Not a step.
    #[error("`{0}` is no step: an RPC has `before-answer`, and `before-commit` if it changes something")]
    Step(String),
    /// The left side of a pair is not a known id.
    #[error(transparent)]
    Name(#[from] UnknownId),
}

impl FromStr for Delay {
    type Err = ParseOptionError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (digits, unit_ms) = match given.strip_suffix("ms") {
            Some(digits) => (digits, 1),
            None => (given.strip_suffix('s').unwrap_or_default(), 1000),
        };
        let number: Option<u64> = digits.parse().ok();
        let delay = number.and_then(|number| number.checked_mul(unit_ms)).map(Duration::from_millis);
        delay
            .filter(|delay| *delay <= DELAY_MAX)
            .map(Self)
            .ok_or_else(|| ParseOptionError::Delay(given.to_owned()))
    }
}

impl TryFrom<String> for Delay {
    type Error = ParseOptionError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<Delay> for String {
    fn from(delay: Delay) -> Self {
        format!("{}ms", delay.0.as_millis())
    }
}

/// An error that an RPC returns a number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Failure {
    /// The gRPC code.
    pub code: Code,
    /// The number of failures.
    pub times: u32,
}

impl FromStr for Failure {
    type Err = ParseOptionError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseOptionError::Failure(given.to_owned());
        let (name, times) = given.split_once(':').unwrap_or((given, "1"));
        // Code 0 is OK, which is not a failure.
        let code = (1..=16).map(Code::from_i32).find(|code| code_name(*code) == name).ok_or_else(wrong)?;
        Ok(Self { code, times: times.parse().map_err(|_| wrong())? })
    }
}

impl TryFrom<String> for Failure {
    type Error = ParseOptionError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        format!("{}:{}", code_name(failure.code), failure.times)
    }
}

/// Parses a size in bytes, as a number or with a binary suffix.
pub(crate) fn parse_size(given: &str) -> Result<i64, ParseOptionError> {
    let suffixes = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40)];
    let (digits, unit) = suffixes
        .iter()
        .find_map(|(suffix, unit)| Some((given.strip_suffix(suffix)?, *unit)))
        .unwrap_or((given, 1));
    let number: Option<i64> = digits.parse().ok();
    let size = number.and_then(|number| number.checked_mul(unit)).filter(|size| *size >= 0);
    size.ok_or_else(|| ParseOptionError::Size(given.to_owned()))
}

/// Parses a `KEY=VALUE` pair, and both of its sides.
pub(crate) fn parse_pair<K, V>(given: &str) -> Result<(K, V), ParseOptionError>
where
    K: FromStr,
    V: FromStr,
    ParseOptionError: From<K::Err> + From<V::Err>,
{
    let (key, value) = given.split_once('=').ok_or_else(|| ParseOptionError::Pair(given.to_owned()))?;
    Ok((key.parse()?, value.parse()?))
}

impl From<std::convert::Infallible> for ParseOptionError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_delays_and_failures_are_read_strictly() {
        assert_eq!(parse_size("10Gi"), Ok(10 << 30));
        assert_eq!(parse_size("4096"), Ok(4096));
        assert!(parse_size("9999999Ti").is_err());
        assert!(parse_size("-1").is_err());
        assert_eq!("200ms".parse(), Ok(Delay(Duration::from_millis(200))));
        assert!("5".parse::<Delay>().is_err());
        assert!("2h".parse::<Delay>().is_err());
        assert_eq!("UNAVAILABLE:3".parse(), Ok(Failure { code: Code::Unavailable, times: 3 }));
        assert!("OK".parse::<Failure>().is_err());
        assert_eq!("CreateVolum".parse::<RpcName>().unwrap_err().nearest, Some("CreateVolume"));
    }
}
