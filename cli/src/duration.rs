//! Durations as Go writes them: `300ms`, `10s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Units, the longer names before those that begin them.
const UNITS_S: [(&str, f64); 7] =
    [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
/// Longest duration that makes sense here.
const SECONDS_MAX: f64 = 30.0 * 24.0 * 3600.0;

/// Reads a duration of at least a millisecond.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write for example 500ms, 10s or 1m30s");
    let mut rest = text;
    let mut total_s = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let (unit, factor) = UNITS_S.iter().find(|(unit, _)| rest.starts_with(unit)).ok_or_else(wrong)?;
        rest = &rest[unit.len()..];
        total_s += number * factor;
    }
    if text.is_empty() || !total_s.is_finite() {
        return Err(wrong());
    }
    if !(0.001..=SECONDS_MAX).contains(&total_s) {
        return Err(format!("{text:?} is out of range; allowed are 1ms to 720h"));
    }
    Ok(Duration::from_secs_f64(total_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("300ms", 300),
            ("1.5h", 5_400_000),
            ("2h0m1s", 7_201_000),
            ("1000µs", 1),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_millis(), ms, "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in ["", "10", "s", "1d", "1m30", "-5s", "+1s", "1e3s", "1..5s", "0s", "9999h", "1 s", "∞s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
