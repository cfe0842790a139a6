//! Forms of values as text: hexadecimal digits, words of a shell, UIDs, hashes of texts, and messages of the protocol.

use sha2::{Digest as _, Sha256};

/// The bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes behind hexadecimal digits; `None` if these are none.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// The text as a shell takes it for one word.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=,%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A UID in its usual form, another one for each name.
pub fn uid(name: &str) -> String {
    let digits = hex(&Sha256::digest(name));
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]).join("-")
}

/// The FNV-1a hash, which is stable across machines and versions.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A message as it is on the wire, as JSON without secrets: for what was expected, and what came.
pub fn wire<M: prost::Name + 'static>(message: &M) -> String {
    csi_proto::redact::json(message).to_string()
}

/// Encodes several messages, or one that may be missing.
pub fn wires<'a, M: prost::Name + 'static>(messages: impl IntoIterator<Item = &'a M>) -> String {
    let messages: Vec<String> = messages.into_iter().map(wire).collect();
    if messages.is_empty() { "none".to_owned() } else { messages.join(", ") }
}

/// A time of the protocol in UTC, in the format of RFC 3339, or "none".
pub fn moment(time: Option<&prost_types::Timestamp>) -> String {
    time.map_or_else(|| "none".to_owned(), prost_types::Timestamp::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_the_bytes_that_they_came_from() {
        assert_eq!(hex(&[0, 0x7f, 0xff]), "007fff");
        assert_eq!(from_hex("007fff"), Some(vec![0, 0x7f, 0xff]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        for wrong in ["0x", "g0", "é"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_shell_takes_each_text_for_one_word() {
        assert_eq!(shell_word("/a-b_c.d:e@f=g,h%i+j"), "/a-b_c.d:e@f=g,h%i+j");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a b"), "'a b'");
    }

    #[test]
    fn names_have_uids_of_their_own() {
        assert_eq!(uid("a").split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_ne!(uid("a"), uid("b"));
    }

    #[test]
    fn the_hash_is_that_of_others() {
        assert_eq!(fnv1a([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(*b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_moment_is_a_date_whatever_a_driver_sends() {
        let moment = |seconds, nanos| moment(Some(&prost_types::Timestamp { seconds, nanos }));
        assert_eq!(moment(1_795_723_244, 500_000_000), "2026-11-26T20:00:44.500Z");
        assert_eq!(moment(0, 0), "1970-01-01T00:00:00Z");
        for seconds in [i64::MIN, -1, i64::MAX] {
            for nanos in [i32::MIN, -1, i32::MAX] {
                assert!(!moment(seconds, nanos).is_empty());
            }
        }
    }
}
