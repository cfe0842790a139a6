//! Names that no other run, check or user has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Hands out names that begin with a prefix of this run.
#[derive(Debug)]
pub(crate) struct Names {
    prefix: String,
    next: AtomicU64,
    length_max: usize,
}

impl Names {
    pub(crate) fn new(length_max: usize) -> Names {
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        // Microseconds and process id, folded into eight digits: enough to tell runs on one back end apart.
        let run = (now_ns / 1000) as u64 ^ (u64::from(std::process::id()) << 32);
        let run = (run ^ (run >> 32)) as u32;
        Names { prefix: format!("csi-sanity-{run:08x}"), next: AtomicU64::new(0), length_max }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn unique(&self) -> String {
        format!("{}-{:x}", self.prefix, self.number())
    }

    /// A unique name of exactly `length` bytes, or of what the back end can take if that is less.
    pub(crate) fn unique_of_length(&self, length: usize) -> String {
        let mut name = self.unique();
        name.push('-');
        while name.len() < length.min(self.length_max) {
            name.push('x');
        }
        name.truncate(self.length_max.min(name.len()));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_fit() {
        let names = Names::new(64);
        let (a, b) = (names.unique(), names.unique());
        assert_ne!(a, b);
        assert!(a.starts_with(names.prefix()));
        assert_eq!(names.unique_of_length(128).len(), 64);
        assert_eq!(Names::new(128).unique_of_length(128).len(), 128);
    }
}
