//! The reports of a workload, and the durations of its writes.

use std::collections::VecDeque;
use std::fmt;

use rustix::io::Errno;

use crate::layout::Place;
use crate::process::Event;

/// Records that are kept: more than an hour of them at the default rate.
const RECORDS_MAX: usize = 200_000;
/// Troubles that are kept.
const TROUBLES_MAX: usize = 8;

/// A record with its times on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number.
    pub number: u32,
    /// The time at which it was begun, in microseconds.
    pub begun_us: u64,
    /// The time at which it was durable, in microseconds; `None` if it is not.
    pub durable_us: Option<u64>,
}

/// A problem that a driver must not cause for a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// An operation failed.
    Failed {
        /// The place of the record.
        place: Place,
        /// The operation.
        operation: String,
        /// The number of the error, where there is one.
        errno: Option<i32>,
        /// The error in words.
        error: String,
    },
    /// The volume holds something else than was written.
    Deviates {
        /// The place.
        place: Place,
        /// The actual content.
        found: String,
        /// The expected content.
        expected: String,
    },
}

impl Trouble {
    /// Returns true if the volume or what is below it is full, which says nothing about a driver.
    pub fn is_lack_of_space(&self) -> bool {
        self.is_one_of(&[Errno::NOSPC, Errno::DQUOT])
    }

    /// Returns true if the file system of the volume, which was writable, is read-only now.
    pub fn is_read_only(&self) -> bool {
        self.is_one_of(&[Errno::ROFS])
    }

    /// Returns true if the kernel has ended all writing to the file system. An operation that was under way then fails with an I/O error, and
    /// each one that begins later finds the file system read-only.
    pub fn is_end_of_writing(&self) -> bool {
        self.is_one_of(&[Errno::ROFS, Errno::IO])
    }

    fn is_one_of(&self, errors: &[Errno]) -> bool {
        matches!(self, Trouble::Failed { errno: Some(errno), .. } if errors.iter().any(|one| one.raw_os_error() == *errno))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Failed { place, operation, error, .. } => {
                write!(f, "{place}: {operation}: {error}")?;
                match self.is_read_only() {
                    true => f.write_str("; the file system was writable, and has become read-only"),
                    false => Ok(()),
                }
            }
            Trouble::Deviates { place, found, expected } => {
                write!(f, "{place} holds {found}, but has to hold {expected}")
            }
        }
    }
}

/// The reports of one workload.
#[derive(Clone, Debug, Default)]
pub struct Log {
    records: VecDeque<Record>,
    troubles: Vec<Trouble>,
    has_ended: bool,
    /// The time of the last event.
    heard_us: u64,
}

impl Log {
    pub(crate) fn take(&mut self, mut event: Event) {
        self.heard_us = event.at_us().copied().unwrap_or(self.heard_us);
        let trouble = match event {
            Event::Begun { number, at_us } => {
                if self.records.len() == RECORDS_MAX {
                    self.records.pop_front();
                }
                self.records.push_back(Record { number, begun_us: at_us, durable_us: None });
                return;
            }
            Event::Acknowledged { at_us, .. } => {
                if let Some(last) = self.records.back_mut() {
                    last.durable_us = Some(at_us);
                }
                return;
            }
            Event::Failed { place, operation, errno, error, .. } => {
                Trouble::Failed { place, operation, errno, error }
            }
            Event::Deviates { place, found, expected } => Trouble::Deviates { place, found, expected },
            Event::Ended | Event::Alive { .. } | Event::Ready { .. } | Event::Unable { .. } => {
                self.has_ended |= matches!(event, Event::Ended);
                return;
            }
        };
        if self.troubles.len() < TROUBLES_MAX {
            self.troubles.push(trouble);
        }
    }

    /// The last record that is durable; 0 if there is none.
    pub fn acknowledged(&self) -> u32 {
        let durable = self.records.iter().rev().find(|record| record.durable_us.is_some());
        durable.map_or(0, |record| record.number)
    }

    /// The last record that was begun up to a time.
    pub fn begun_by(&self, at_us: u64) -> u32 {
        let begun = self.records.iter().rev().find(|record| record.begun_us <= at_us);
        begun.map_or(0, |record| record.number)
    }

    /// A record, if it is kept.
    pub fn record(&self, number: u32) -> Option<Record> {
        self.records.iter().rev().find(|record| record.number == number).copied()
    }

    /// The records, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }

    /// Everything that went wrong with the operations so far.
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// The time of the last report.
    pub fn heard_us(&self) -> u64 {
        self.heard_us
    }

    /// Returns true if the workload has ended, and was not killed.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The record that took longest of those in progress between two times, and its duration in microseconds until now.
    pub fn longest(&self, from_us: u64, to_us: u64, now_us: u64) -> Option<(Record, u64)> {
        let took = |record: &Record| record.durable_us.unwrap_or(now_us).saturating_sub(record.begun_us);
        let overlaps =
            |record: &&Record| record.begun_us <= to_us && record.durable_us.is_none_or(|end| end >= from_us);
        let beside = self.records.iter().filter(overlaps);
        beside.map(|record| (*record, took(record))).max_by_key(|(_, took_us)| *took_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(records: &[(u64, Option<u64>)]) -> Log {
        let mut log = Log::default();
        for (number, (begun_us, durable_us)) in (1..).zip(records) {
            log.take(Event::Begun { number, at_us: *begun_us });
            if let Some(at_us) = *durable_us {
                log.take(Event::Acknowledged { number, at_us });
            }
        }
        log
    }

    #[test]
    fn times_say_which_records_a_call_came_between() {
        let log = log(&[(10, Some(20)), (30, Some(80)), (90, None)]);
        assert_eq!((log.acknowledged(), log.begun_by(29), log.begun_by(30), log.begun_by(9)), (2, 1, 2, 0));
        let longest = |from, to| log.longest(from, to, 100).map(|(record, took)| (record.number, took));
        assert_eq!(longest(0, 25), Some((1, 10)));
        assert_eq!(longest(25, 85), Some((2, 50)));
        assert_eq!(longest(95, 95), Some((3, 10)));
        assert_eq!(longest(22, 25), None);
    }

    #[test]
    fn a_file_system_that_turned_read_only_is_named() {
        let failed = |errno: Errno| Trouble::Failed {
            place: Place::Renamed,
            operation: "write".to_owned(),
            errno: Some(errno.raw_os_error()),
            error: errno.to_string(),
        };
        assert!(failed(Errno::ROFS).is_read_only() && !failed(Errno::IO).is_read_only());
        assert!([Errno::ROFS, Errno::IO].into_iter().all(|errno| failed(errno).is_end_of_writing()));
        assert!(!failed(Errno::NOSPC).is_end_of_writing());
        let words = "the file system was writable, and has become read-only";
        assert!(failed(Errno::ROFS).to_string().ends_with(words));
        assert!(!failed(Errno::IO).to_string().contains(words));
    }

    #[test]
    fn a_log_does_not_grow_for_ever() {
        let mut log = Log::default();
        for number in 1..=u32::try_from(RECORDS_MAX).unwrap() + 5 {
            log.take(Event::Begun { number, at_us: u64::from(number) });
        }
        for _ in 0..2 * TROUBLES_MAX {
            let place = Place::Renamed;
            log.take(Event::Deviates { place, found: String::new(), expected: String::new() });
        }
        assert_eq!((log.records.len(), log.troubles.len()), (RECORDS_MAX, TROUBLES_MAX));
        assert_eq!((log.record(5), log.record(6).map(|record| record.begun_us)), (None, Some(6)));
    }
}
