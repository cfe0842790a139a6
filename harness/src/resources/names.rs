//! Names that no other run, check or user has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use csi_proto::lock::Mutex;

/// Number of digits that identify a run among all runs on one back end.
const RUN_DIGITS: usize = 6;

/// The parts that all names of one run share.
#[derive(Debug)]
pub(crate) struct Names {
    prefix: String,
    length_max: usize,
    /// The number of times that each check asked for names, by its number.
    runs: Mutex<BTreeMap<usize, usize>>,
}

impl Names {
    /// Names that begin with `prefix` and a number that no other run has.
    pub(crate) fn new(prefix: &str, length_max: usize) -> Names {
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        // Microseconds and process id, combined by XOR: enough to distinguish runs.
        let run = (now_ns / 1000) as u64 ^ (u64::from(std::process::id()) << 32);
        let run = base36(run ^ (run >> 32));
        Names {
            prefix: format!("{prefix}{}", &run[run.len() - RUN_DIGITS..]),
            length_max,
            runs: Mutex::default(),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The names of one check, by its number. They are equal in each run but for the prefix; a check that runs again
    /// gets others.
    pub(crate) fn of_check(&self, check: usize) -> CheckNames {
        let mut runs = self.runs.lock();
        let before = runs.entry(check).or_default();
        let check = format!("{check:x}{}", "r".repeat(*before));
        *before += 1;
        CheckNames {
            prefix: self.prefix.clone(),
            length_max: self.length_max,
            check,
            next: AtomicU64::new(0),
        }
    }
}

/// The last digits of a number, at least [`RUN_DIGITS`] of them.
fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.len() < RUN_DIGITS {
        digits.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize]));
        number /= 36;
    }
    digits.into_iter().rev().collect()
}

/// Hands out names to one check.
#[derive(Debug)]
pub(crate) struct CheckNames {
    prefix: String,
    length_max: usize,
    check: String,
    next: AtomicU64,
}

impl CheckNames {
    /// A text that no other check, run or call of this function has.
    pub(crate) fn number(&self) -> String {
        format!("{}-{:x}", self.check, self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn unique(&self) -> String {
        format!("{}-{}", self.prefix, self.number())
    }

    /// A unique name of exactly `length` bytes, or of what the back end can take if that is less.
    pub(crate) fn unique_of_length(&self, length: usize) -> String {
        let name = format!("{}-", self.unique());
        let length = length.min(self.length_max);
        format!("{name:x<length$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_fit() {
        let run = Names::new("sanity-", 64);
        let names = run.of_check(7);
        let (a, b) = (names.unique(), names.unique());
        assert_ne!(a, b);
        assert!(a.starts_with(run.prefix()));
        assert_ne!(run.of_check(8).unique(), a);
        assert_ne!(run.of_check(7).unique(), a);
        assert_eq!(names.unique_of_length(128).len(), 64);
        assert_eq!(Names::new("", 128).of_check(0).unique_of_length(128).len(), 128);
    }

    #[test]
    fn names_are_the_same_in_each_run_but_for_its_prefix() {
        let (one, other) = (Names::new("a", 128), Names::new("b", 128));
        for run in [one, other] {
            assert_eq!(run.of_check(300).unique().strip_prefix(run.prefix()), Some("-12c-0"));
        }
    }
}
