//! Measures how long a driver takes to start, and describes why one is not back.

use std::fmt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::DriverError;

/// The limit of a start, as a multiple of the longest one seen: machines get busy, and later starts read more state.
pub(crate) const START_FACTOR: u32 = 10;

/// The starts of a driver that were seen.
#[derive(Debug, Default)]
pub(super) struct Starts {
    since: Option<Instant>,
    longest: Option<Duration>,
}

impl Starts {
    pub(super) fn begin(&mut self) {
        self.since = Some(Instant::now());
    }

    pub(super) fn has_answered(&mut self) {
        if let Some(since) = self.since.take() {
            self.longest = self.longest.max(Some(since.elapsed()));
        }
    }

    /// Discards a start that was ended before the driver answered, because its duration proves nothing.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    pub(super) fn since(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }

    pub(super) fn longest(&self) -> Option<Duration> {
        self.longest
    }
}

/// The reason why a driver is not back.
#[derive(Debug)]
pub enum Away {
    /// It could not be started.
    Unstarted(DriverError),
    /// Its process has ended again.
    Ended(ExitStatus),
    /// It does not answer.
    Silent {
        /// The time that was waited.
        waited: Duration,
        /// The longest that it has taken to start before, if a start was seen.
        longest_start: Option<Duration>,
    },
}

impl Away {
    /// Returns true if the driver is to blame, and not a limit that is too short for it.
    pub fn is_fault(&self) -> bool {
        match self {
            Away::Unstarted(error) => matches!(error, DriverError::Serve(_)),
            Away::Ended(_) => true,
            Away::Silent { waited, longest_start } => {
                longest_start.is_some_and(|longest| *waited >= longest.saturating_mul(START_FACTOR))
            }
        }
    }
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Away::Unstarted(error) => f.write_str(&crate::text::message::error_chain(error)),
            Away::Ended(status) => write!(f, "its process has ended ({status})"),
            Away::Silent { waited, longest_start } => {
                write!(f, "no answer within {} ms", waited.as_millis())?;
                match longest_start {
                    Some(longest) => {
                        write!(f, "; earlier starts took at most {} ms", longest.as_millis())
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(waited_ms: u64, longest_ms: Option<u64>) -> Away {
        let longest_start = longest_ms.map(Duration::from_millis);
        Away::Silent { waited: Duration::from_millis(waited_ms), longest_start }
    }

    #[test]
    fn a_slow_start_is_blamed_only_after_faster_ones() {
        assert!(silent(30_000, Some(200)).is_fault());
        assert!(silent(120_000, Some(12_000)).is_fault());
        assert!(!silent(10_000, Some(12_000)).is_fault());
        assert!(!silent(119_000, Some(12_000)).is_fault());
        assert!(!silent(30_000, None).is_fault());
        assert!(!Away::Unstarted(DriverError::RestartCommand("it failed".to_owned())).is_fault());
        assert!(Away::Unstarted(DriverError::Serve("the state cannot be read".into())).is_fault());
        assert_eq!(
            silent(10_000, Some(12_000)).to_string(),
            "no answer within 10000 ms; earlier starts took at most 12000 ms"
        );
    }
}
