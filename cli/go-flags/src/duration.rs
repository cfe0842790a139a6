//! Durations as Go writes them: `300ms`, `10s`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Longest duration that makes sense here.
const DURATION_MAX: Duration = Duration::from_secs(720 * 3600);
/// Shortest duration that does.
const DURATION_MIN: Duration = Duration::from_millis(1);

/// Reads a duration of at least a millisecond.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = csi_driver_definitions::parse_duration(text).map_err(|error| error.to_string())?;
    if !(DURATION_MIN..=DURATION_MAX).contains(&duration) {
        return Err(format!("{text:?} is out of range; allowed are 1ms to 720h"));
    }
    Ok(duration)
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
    fn what_is_none_or_out_of_range_is_refused() {
        for text in ["", "10", "s", "1d", "1m30", "-5s", "1e3s", "1..5s", "0s", "9999h", "1 s", "∞s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
