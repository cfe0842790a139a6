//! The progress of long work that has no reporter: one line that is overwritten on a terminal, and a line now and then elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

/// The time between two updates of the line on a terminal.
const ON_TERMINAL: Duration = Duration::from_secs(1);
/// The time between two updates where there is no terminal, so that each of them is a line of its own.
const ELSEWHERE: Duration = Duration::from_secs(30);
/// The time between two looks at the clock.
const TICK: Duration = Duration::from_millis(250);
/// Moves the cursor to the beginning of the line, and clears it.
const ANEW: &str = "\r\x1b[2K";

/// The line that was printed last, and when.
#[derive(Debug)]
pub(crate) struct Standing {
    begun: Instant,
    last: Instant,
    is_terminal: bool,
}

impl Standing {
    pub(crate) fn begin() -> Standing {
        let now = Instant::now();
        Standing { begun: now, last: now, is_terminal: std::io::stderr().is_terminal() }
    }

    /// Waits for something, and shows the progress meanwhile.
    pub(crate) async fn during<T>(&mut self, at: &str, something: impl Future<Output = T>) -> T {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(something);
        loop {
            tokio::select! {
                biased;
                done = &mut something => return done,
                _ = tick.tick() => {
                    if let Some(line) = self.line(at, Instant::now()) {
                        // Progress that cannot be written does not stop the work.
                        let _ = std::io::stderr().write_all(line.as_bytes());
                    }
                }
            }
        }
    }

    /// The text to write; `None` if it is too early.
    fn line(&mut self, at: &str, now: Instant) -> Option<String> {
        let pause = if self.is_terminal { ON_TERMINAL } else { ELSEWHERE };
        if now.duration_since(self.last) < pause {
            return None;
        }
        self.last = now;
        let line = format!("{} s: {at}", now.duration_since(self.begun).as_secs());
        Some(if self.is_terminal { format!("{ANEW}{line}") } else { format!("{line}\n") })
    }

    /// Clears the line on a terminal.
    pub(crate) fn clear(&self) {
        if self.is_terminal {
            // A closed stderr must not stop the work.
            let _ = std::io::stderr().write_all(ANEW.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_each_second_or_each_half_minute_in_a_log() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut log = Standing { begun, last: begun, is_terminal: false };
        assert_eq!(log.line("1 of 9", at(29)), None);
        assert_eq!(log.line("2 of 9", at(31)).unwrap(), "31 s: 2 of 9\n");
        assert_eq!(log.line("3 of 9", at(32)), None);
        let mut terminal = Standing { begun, last: begun, is_terminal: true };
        assert_eq!(terminal.line("1 of 9", at(1)).unwrap(), format!("{ANEW}1 s: 1 of 9"));
        assert_eq!(terminal.line("2 of 9", at(1)), None);
    }
}
