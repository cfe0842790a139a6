//! Parses durations in Go's format: `300ms`, `10s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// The units in nanoseconds. A unit comes before those that are a prefix of it.
const UNITS_NS: [(&str, u128); 8] = [
    ("ms", 1_000_000),
    ("us", 1000),
    ("µs", 1000),
    ("μs", 1000),
    ("ns", 1),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];
/// The largest duration in Go, an int64 of nanoseconds, which is about 292 years.
const NANOSECONDS_MAX: u128 = i64::MAX as u128;

/// The text is no duration, or a negative one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration; write for example 500ms, 10s or 1m30s")]
pub struct DurationError(String);

/// Reads a duration: one or more numbers with units, or `0`. Fractions of a nanosecond are dropped.
///
/// # Errors
/// Fails if the text is no duration, is negative, or is longer than 292 years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    nanoseconds(text).map(Duration::from_nanos).ok_or_else(|| DurationError(text.to_owned()))
}

fn nanoseconds(text: &str) -> Option<u64> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let (unit, factor) = UNITS_NS.iter().find(|(unit, _)| after.starts_with(unit))?;
        rest = &after[unit.len()..];
        total = total.checked_add(times(number, *factor)?)?;
    }
    (total <= NANOSECONDS_MAX).then_some(total as u64)
}

/// Multiplies a decimal number with an integer.
fn times(number: &str, factor: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Further digits are less than a nanosecond in the longest unit.
    let fraction = &fraction[..fraction.len().min(15)];
    let value: u128 = format!("0{whole}{fraction}").parse().ok()?;
    Some(value.checked_mul(factor)? / 10_u128.pow(fraction.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("1m30s", 90_000_000_000),
            ("300ms", 300_000_000),
            ("1.5h", 5_400_000_000_000),
            ("2h0m1s", 7_201_000_000_000),
            ("1000µs", 1_000_000),
            ("1μs", 1000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("0", 0),
            ("+0s", 0),
            ("0.1ns", 0),
            ("0.333333333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "",
            "+",
            "10",
            "s",
            ".s",
            "1d",
            "1m30",
            "-5s",
            "1e3s",
            "1..5s",
            "1.5.5s",
            "9223372036854775808ns",
            "99999999999999999999999999999999999999999h",
            "1 s",
            "∞s",
            "5 m",
        ] {
            assert_eq!(parse_duration(text), Err(DurationError(text.into())), "{text}");
        }
    }
}
