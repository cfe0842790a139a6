//! Removes secrets from everything that is printed: a driver may send a secret back in any field and any error.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::lock::RwLock;

/// Replaces a secret, as in the logs of the Kubernetes sidecars.
pub const STRIPPED: &str = "***stripped***";

/// The length of the shortest text that is hidden, in bytes: shorter texts occur anywhere by chance.
pub const HIDDEN_BYTES_MIN: usize = 6;
/// The limit on hidden texts.
const TEXTS_MAX: usize = 10_000;

/// Sorts longer texts first, so that a text which contains another is replaced as a whole.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LongestFirst(std::cmp::Reverse<usize>, String);

static HIDDEN: RwLock<BTreeSet<LongestFirst>> = RwLock::new(BTreeSet::new());

/// Hides a secret in each of its [forms] until this process ends.
pub fn hide(secret: &str) {
    let mut hidden = HIDDEN.write();
    for form in forms(secret).into_iter().filter(|form| form.len() >= HIDDEN_BYTES_MIN) {
        if hidden.len() < TEXTS_MAX {
            hidden.insert(LongestFirst(std::cmp::Reverse(form.len()), form));
        }
    }
}

/// Returns the text with [`STRIPPED`] in place of each hidden secret.
pub fn strip(text: &str) -> Cow<'_, str> {
    let hidden = HIDDEN.read();
    let mut shown = Cow::Borrowed(text);
    for LongestFirst(_, secret) in hidden.iter() {
        if shown.contains(secret) {
            shown = Cow::Owned(shown.replace(secret, STRIPPED));
        }
    }
    shown
}

/// Returns the forms in which programs repeat a secret: unchanged, line by line, quoted, in base64 and
/// percent-encoded.
pub fn forms(secret: &str) -> BTreeSet<String> {
    let lines =
        secret.lines().map(str::trim).flat_map(|line| [line.to_owned(), line.escape_debug().to_string()]);
    let encoded = [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|base64| base64.encode(secret));
    let mut forms: BTreeSet<String> = lines.chain(encoded).collect();
    forms.extend([secret.to_owned(), percent_encoded(secret)]);
    forms.remove("");
    forms
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            // Writing to a string does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_secret_is_hidden() {
        let secret = "pa ss\"wörd\nsecond-line";
        hide(secret);
        for form in forms(secret) {
            let text = format!("before {form} behind");
            assert!(!strip(&text).contains(&form), "{form}");
            assert!(strip(&text).starts_with("before ") && strip(&text).ends_with(" behind"), "{form}");
        }
        assert_eq!(strip("see second-line="), format!("see {STRIPPED}="));
        assert_eq!(strip("nothing to see"), "nothing to see");
    }

    #[test]
    fn short_text_is_not_hidden() {
        hide("a-b-c");
        assert_eq!(strip("a-b-c"), "a-b-c");
    }

    #[test]
    fn secret_inside_a_longer_secret_is_hidden() {
        hide("hidden-one");
        hide("hidden-one-and-more");
        assert_eq!(strip("hidden-one-and-more"), STRIPPED);
    }
}
