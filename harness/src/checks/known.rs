//! Lists of checks that are known to fail: one pattern a line, with the reason behind a `#`.

use std::path::{Path, PathBuf};

use crate::checks::registry::Registry;
use crate::text::pattern::Pattern;

/// A list of known failures. A listed check has to fail, and a pattern has to match a check.
#[derive(Clone, Debug, Default)]
pub struct KnownFailing {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    pattern: Pattern,
    reason: String,
    line: usize,
}

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnownFailingError {
    /// The file cannot be read.
    #[error("failed to read the known-failing list {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not `pattern # reason`.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

impl KnownFailing {
    /// Reads a list.
    ///
    /// # Errors
    /// The file cannot be read, or an entry has no reason or a malformed pattern.
    pub fn load(path: &Path) -> Result<KnownFailing, KnownFailingError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| KnownFailingError::Read { path: path.to_owned(), source })?;
        KnownFailing::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<KnownFailing, KnownFailingError> {
        let mut entries = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line_number = at + 1;
            let wrong =
                |problem| KnownFailingError::Line { path: path.to_owned(), line: line_number, problem };
            let (pattern, reason) = line.split_once('#').unwrap_or((line, ""));
            let (pattern, reason) = (pattern.trim(), reason.trim());
            if pattern.is_empty() {
                continue;
            }
            if reason.is_empty() {
                return Err(wrong(format!("{pattern} has no reason; write `{pattern}  # why it fails`")));
            }
            let pattern = Pattern::new(pattern).map_err(wrong)?;
            entries.push(Entry { pattern, reason: reason.to_owned(), line: line_number });
        }
        Ok(KnownFailing { path: path.to_owned(), entries })
    }

    /// Puts successors in the place of retired ids, and says what became of each.
    pub fn follow(&mut self, registry: &Registry) -> Vec<String> {
        self.entries.iter_mut().filter_map(|entry| registry.follow(&mut entry.pattern)).collect()
    }

    /// Why a check is listed, or `None` if it is not.
    pub fn reason(&self, label: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.pattern.matches(label)).map(|entry| entry.reason.as_str())
    }

    /// Every entry: its pattern, its reason, and its line, from 1.
    pub fn entries(&self) -> impl Iterator<Item = (&Pattern, &str, usize)> {
        self.entries.iter().map(|entry| (&entry.pattern, entry.reason.as_str(), entry.line))
    }

    /// Entries that match none of the labels, as `file:line: pattern`.
    pub fn unmatched<'a>(&self, labels: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
        self.entries
            .iter()
            .filter(|entry| !labels.clone().any(|label| entry.pattern.matches(label)))
            .map(|entry| format!("{}:{}: {}", self.path.display(), entry.line, entry.pattern))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<KnownFailing, String> {
        KnownFailing::parse(Path::new("known"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_listed_check_has_its_reason() {
        let known = list("# a comment\n\ncontroller/*/no-name  # names are optional here\n").unwrap();
        assert_eq!(known.reason("controller/create-volume/no-name"), Some("names are optional here"));
        assert_eq!(known.reason("controller/create-volume/no-id"), None);
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
}
