//! Texts that nothing may print, wherever they come from: the secrets that a program was given, which a driver may send back in
//! any field and any error.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::lock::RwLock;
use crate::redact::STRIPPED;

/// Bytes of the shortest text that is hidden: shorter ones stand in any text by chance.
pub const HIDDEN_BYTES_MIN: usize = 6;
/// Texts that are hidden at the most.
const TEXTS_MAX: usize = 10_000;

/// Of one text that is part of another, the longer one comes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LongestFirst(std::cmp::Reverse<usize>, String);

static HIDDEN: RwLock<BTreeSet<LongestFirst>> = RwLock::new(BTreeSet::new());

/// Hides a secret from now on, in each of its [forms], for as long as this process lives.
pub fn hide(secret: &str) {
    let mut hidden = HIDDEN.write();
    for form in forms(secret).into_iter().filter(|form| form.len() >= HIDDEN_BYTES_MIN) {
        if hidden.len() < TEXTS_MAX {
            hidden.insert(LongestFirst(std::cmp::Reverse(form.len()), form));
        }
    }
}

/// The text with [`STRIPPED`] in place of each secret that is hidden.
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

/// The forms in which programs pass a secret on: as it is, line by line, quoted, in base64 and percent-encoded.
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
    fn a_secret_is_hidden_in_each_form_and_the_rest_stays() {
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
    fn what_stands_anywhere_by_chance_is_not_hidden() {
        hide("a-b-c");
        assert_eq!(strip("a-b-c"), "a-b-c");
    }

    #[test]
    fn a_secret_that_is_part_of_another_hides_no_half_of_it() {
        hide("hidden-one");
        hide("hidden-one-and-more");
        assert_eq!(strip("hidden-one-and-more"), STRIPPED);
    }
}
