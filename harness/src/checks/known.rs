//! Lists of checks that are known to fail: one pattern a line, with the reason behind a `#`.
//!
//! `flaky:` before the pattern lets the checks pass as well, and `until` with a date behind it ends the entry after that day.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prost_types::Timestamp;

use crate::checks::registry::Registry;
use crate::text::pattern::Pattern;

/// A list of known failures. A listed check has to fail, one listed as flaky may fail, and a pattern has to match a check.
#[derive(Clone, Debug, Default)]
pub struct KnownFailing {
    path: PathBuf,
    entries: Vec<Entry>,
}

/// A line of the list: `pattern  # reason`, with `flaky:` in front of the pattern or `until 2027-03-01` behind it where that applies.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The checks that it covers.
    pub pattern: Pattern,
    /// The reason why they fail.
    pub reason: String,
    /// The checks may pass as well.
    pub is_flaky: bool,
    /// The last day on which it holds, as `2027-03-01` in UTC.
    pub until: Option<String>,
    /// Its line in the file, from 1.
    pub line: usize,
    /// True if its last day is over, so that its checks are judged like any others.
    pub is_expired: bool,
}

/// The word before the pattern of an entry that may pass.
const FLAKY: &str = "flaky:";
/// The word between a pattern and the last day on which the entry holds.
const UNTIL: &str = "until";
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The reasons why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownFailingError {
    /// The file cannot be read.
    #[error("failed to read the known-failing list {}", path.display())]
    Read {
        /// The list that cannot be read.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// A line is not `pattern # reason`.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The list with the mistake.
        path: PathBuf,
        /// The line in the file, from 1.
        line: usize,
        /// The mistake, as a sentence.
        problem: String,
    },
}

impl KnownFailing {
    /// Reads a list.
    ///
    /// # Errors
    /// The file cannot be read, or an entry has no reason, a malformed pattern or a malformed date.
    pub fn load(path: &Path) -> Result<KnownFailing, KnownFailingError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| KnownFailingError::Read { path: path.to_owned(), source })?;
        KnownFailing::parse(path, &text, SystemTime::now().into())
    }

    fn parse(path: &Path, text: &str, now: Timestamp) -> Result<KnownFailing, KnownFailingError> {
        let mut entries = Vec::new();
        for (at, text) in text.lines().enumerate() {
            let line = at + 1;
            let entry = Entry::parse(text, line, now);
            let wrong = |problem| KnownFailingError::Line { path: path.to_owned(), line, problem };
            entries.extend(entry.map_err(wrong)?);
        }
        Ok(KnownFailing { path: path.to_owned(), entries })
    }

    /// Puts successors in the place of retired ids, and says what became of each.
    pub fn follow(&mut self, registry: &Registry) -> Vec<String> {
        self.entries.iter_mut().filter_map(|entry| registry.follow(&mut entry.pattern)).collect()
    }

    /// The entry that covers a check and has not expired. Where several do, one that is not flaky wins.
    pub fn entry(&self, label: &str) -> Option<&Entry> {
        let covers = |entry: &&Entry| !entry.is_expired && entry.pattern.matches(label);
        self.entries.iter().filter(covers).min_by_key(|entry| entry.is_flaky)
    }

    /// Every entry, expired or not.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Says of each expired entry, by file and line, that its checks count again.
    pub fn expired(&self) -> Vec<String> {
        let expired = self.entries.iter().filter_map(|entry| Some((entry, entry.until.as_ref()?)));
        expired
            .filter(|(entry, _)| entry.is_expired)
            .map(|(entry, until)| {
                let place = self.place(entry);
                format!("{place} expired after {until}: a failure counts again; fix it, or set a later date")
            })
            .collect()
    }

    /// Entries that match none of the labels, as `file:line: pattern`.
    pub fn unmatched<'a>(&self, labels: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
        let matches = |entry: &&Entry| labels.clone().any(|label| entry.pattern.matches(label));
        self.entries.iter().filter(|entry| !matches(entry)).map(|entry| self.place(entry)).collect()
    }

    fn place(&self, entry: &Entry) -> String {
        format!("{}:{}: {}", self.path.display(), entry.line, entry.pattern)
    }
}

impl Entry {
    /// Reads a line, which may be empty or a comment.
    fn parse(text: &str, line: usize, now: Timestamp) -> Result<Option<Entry>, String> {
        let (text, reason) = text.split_once('#').unwrap_or((text, ""));
        let (text, reason) = (text.trim(), reason.trim());
        if text.is_empty() {
            return Ok(None);
        }
        if reason.is_empty() {
            return Err(format!("{text} has no reason; write `{text}  # why it fails`"));
        }
        let (is_flaky, text) = match text.strip_prefix(FLAKY) {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (pattern, until) = match words[..] {
            [pattern, UNTIL, day] => (pattern, Some(day)),
            [.., UNTIL] => return Err(format!("no date follows `{UNTIL}`; write `{UNTIL} 2027-03-01`")),
            _ => (text, None),
        };
        let is_expired = match until {
            Some(day) => now.seconds >= end_of(day)?,
            None => false,
        };
        Ok(Some(Entry {
            pattern: Pattern::new(pattern)?,
            reason: reason.to_owned(),
            is_flaky,
            until: until.map(str::to_owned),
            line,
            is_expired,
        }))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_flaky {
            write!(f, "{FLAKY} ")?;
        }
        write!(f, "{}", self.pattern)?;
        if let Some(until) = &self.until {
            write!(f, " {UNTIL} {until}")?;
        }
        write!(f, "  # {}", self.reason)
    }
}

/// The end of a day in UTC, in seconds since 1970.
fn end_of(day: &str) -> Result<i64, String> {
    let wrong = || format!("{day:?} is not a date; write year, month and day, such as 2027-03-01");
    let is_day = day.len() == "2027-03-01".len();
    let begins: Timestamp = format!("{day}T00:00:00Z").parse().map_err(|_| wrong())?;
    if is_day { Ok(begins.seconds + DAY_SECONDS) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<KnownFailing, String> {
        let now = "2027-03-01T23:59:59Z".parse().unwrap();
        KnownFailing::parse(Path::new("known"), text, now).map_err(|error| error.to_string())
    }

    #[test]
    fn a_listed_check_has_its_reason() {
        let known = list("# a comment\n\ncontroller/*/no-name  # names are optional here\n").unwrap();
        let reason = |label| known.entry(label).map(|entry| entry.reason.as_str());
        assert_eq!(reason("controller/create-volume/no-name"), Some("names are optional here"));
        assert_eq!(reason("controller/create-volume/no-id"), None);
    }

    #[test]
    fn an_entry_without_a_reason_is_refused_by_line() {
        assert_eq!(
            list("a/b # fine\nc/d\n").unwrap_err(),
            "known:2: c/d has no reason; write `c/d  # why it fails`"
        );
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_named() {
        let known = list("a/b # x\nc/* # y\n").unwrap();
        assert_eq!(known.unmatched(["a/b", "d/e"].into_iter()), ["known:2: c/*"]);
    }

    #[test]
    fn a_flaky_entry_gives_way_to_a_plain_one() {
        let known = list("flaky: property/*  # a race\nproperty/volumes # always\n").unwrap();
        assert!(known.entry("property/snapshots").is_some_and(|entry| entry.is_flaky));
        assert!(known.entry("property/volumes").is_some_and(|entry| !entry.is_flaky));
    }

    #[test]
    fn an_entry_ends_after_its_last_day() {
        let known = list("a/b until 2027-03-01 # today\nflaky: c/d until 2027-02-28  # yesterday\n").unwrap();
        assert!(known.entry("a/b").is_some());
        assert!(known.entry("c/d").is_none());
        let expired = known.expired();
        assert_eq!(expired.len(), 1);
        assert!(expired[0].starts_with("known:2: c/d expired after 2027-02-28"), "{expired:?}");
        let lines: Vec<String> = known.entries().map(Entry::to_string).collect();
        assert_eq!(lines, ["a/b until 2027-03-01  # today", "flaky: c/d until 2027-02-28  # yesterday"]);
    }

    #[test]
    fn a_wrong_date_is_refused_by_line() {
        for day in ["2027-13-01", "2027-02-30", "tomorrow", "2027-3-1", ""] {
            let refused = list(&format!("# one\na/b until {day} # x\n")).unwrap_err();
            assert!(refused.starts_with("known:2: ") && refused.contains("2027-03-01"), "{day}: {refused}");
        }
    }
}
