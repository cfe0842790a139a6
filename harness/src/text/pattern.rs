//! Patterns over labels of checks: `*` stands for any text, slashes included; `?` for one character.

use std::fmt;

/// Longest pattern accepted, in bytes.
const PATTERN_BYTES_MAX: usize = 512;

/// A pattern such as `controller/create-volume/*`. A prefix that ends in a slash stands for everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
}

impl Pattern {
    /// Parses a pattern of the user.
    ///
    /// # Errors
    /// It is empty, too long, or has characters that no label has.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-/_@*?.:".contains(c);
        if text.is_empty() {
            return Err("a pattern is empty".to_owned());
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("a pattern is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        if let Some(c) = text.chars().find(|c| !allowed(*c)) {
            return Err(format!(
                "{c:?} cannot stand in a pattern; ids are like controller/create-volume/no-name"
            ));
        }
        let text = if text.ends_with('/') { format!("{text}*") } else { text.to_owned() };
        Ok(Pattern { text })
    }

    /// The pattern as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Changes a pattern for a check to the check's new id.
    pub(crate) fn rename(&mut self, id: &str, successor: &str) {
        self.text = self.text.replacen(id, successor, 1);
    }

    /// Returns true if the pattern is a prefix of the label's path, as `controller` is of
    /// `controller/create-volume/works`.
    pub(crate) fn is_above(&self, label: &str) -> bool {
        label.strip_prefix(&self.text).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns true if the pattern covers all of the label.
    pub fn matches(&self, label: &str) -> bool {
        matches(self.text.as_bytes(), label.as_bytes())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Greedy match with one step back to the last star, so that time stays quadratic at worst.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, label, expected) in [
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/", "a/b/c", true),
            ("a/*", "a/b/c", true),
            ("*name*", "x/no-name", true),
            ("a/*/c", "a/b/d/c", true),
            ("a/?/c", "a/b/c", true),
            ("a/?/c", "a/bb/c", false),
            ("*", "", true),
            ("**a", "ba", true),
            ("a", "", false),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(label), expected, "{pattern} on {label}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Pattern::new("").is_err());
        assert!(Pattern::new("a b").is_err());
        assert!(Pattern::new(&"a".repeat(600)).is_err());
    }
}
