//! Measures how much of its time a check spends on anything but the calls that it judges.

use std::time::{Duration, Instant};

use csi_proto::lock::Mutex;

/// A part of the work of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The calls that the check judges.
    #[default]
    Checking,
    /// Making small what has gone wrong.
    Shrinking,
    /// Looking once more, with all the time that a driver may need.
    Confirming,
    /// Undoing what it has made.
    Undoing,
}

/// The time that a check spent on each part of its work. The rest of its time went into the calls that it judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpent {
    /// Time spent on shortening a failing case.
    pub shrinking: Duration,
    /// Time spent on looking once more, with all the time that a driver may need.
    pub confirming: Duration,
    /// Time spent on undoing.
    pub undoing: Duration,
    /// Time spent in pauses, while the driver got ready or caught up. It is contained in the other times.
    pub waiting: Duration,
}

/// Counts the time of a check by its parts.
#[derive(Debug)]
pub(crate) struct Clock(Mutex<Counting>);

#[derive(Debug)]
struct Counting {
    part: Part,
    since: Instant,
    spent: TimeSpent,
}

/// A part that ends when this is dropped.
#[derive(Debug)]
pub struct TimerGuard<'a> {
    clock: &'a Clock,
    before: Part,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let (part, spent) = Default::default();
        Clock(Mutex::new(Counting { part, since: Instant::now(), spent }))
    }

    /// Begins a part. Its end goes back to the one before it.
    pub(crate) fn begin(&self, part: Part) -> TimerGuard<'_> {
        TimerGuard { clock: self, before: self.turn_to(part) }
    }

    /// Counts a pause, whichever part it belongs to.
    pub(crate) fn waited(&self, pause: Duration) {
        self.0.lock().spent.waiting += pause;
    }

    pub(crate) fn spent(&self) -> TimeSpent {
        let part = self.0.lock().part;
        self.turn_to(part);
        self.0.lock().spent
    }

    fn turn_to(&self, part: Part) -> Part {
        let mut counting = self.0.lock();
        let elapsed = counting.since.elapsed();
        match counting.part {
            Part::Checking => {}
            Part::Shrinking => counting.spent.shrinking += elapsed,
            Part::Confirming => counting.spent.confirming += elapsed,
            Part::Undoing => counting.spent.undoing += elapsed,
        }
        counting.since = Instant::now();
        std::mem::replace(&mut counting.part, part)
    }
}

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        self.clock.turn_to(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_inside_another_is_counted_apart() {
        let clock = Clock::start();
        let pause = Duration::from_millis(2);
        {
            let _shrinking = clock.begin(Part::Shrinking);
            std::thread::sleep(pause);
            let _undoing = clock.begin(Part::Undoing);
            std::thread::sleep(pause);
        }
        clock.waited(pause);
        let spent = clock.spent();
        assert!(spent.shrinking >= pause && spent.undoing >= pause, "{spent:?}");
        assert_eq!((spent.confirming, spent.waiting), (Duration::ZERO, pause));
        assert_eq!(clock.spent(), spent, "what it is about is not counted");
    }
}
