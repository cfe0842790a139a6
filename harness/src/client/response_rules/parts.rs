//! Finds parts of secrets in replies: a secret may have been cut, or shortened on purpose so that a reader recognises
//! it.

use std::collections::HashSet;

/// Bytes of a part that is found nowhere by chance: so few where it has more than the digits of numbers with base 16 in it, as ids have.
const SHORT_BYTES: usize = 8;
const LONG_BYTES: usize = 12;
/// Times that letters follow on digits, or digits on letters: other than in names with a number.
const TURNS_MIN: usize = 3;
/// Only the beginning of a longer secret, such as a certificate, is looked for.
const SECRET_BYTES_MAX: usize = 4 << 10;

/// The parts of some secrets.
#[derive(Debug, Default)]
pub(super) struct Parts {
    short: HashSet<[u8; SHORT_BYTES]>,
    long: HashSet<[u8; LONG_BYTES]>,
}

impl Parts {
    pub(super) fn of<'a>(secrets: impl Iterator<Item = &'a String>) -> Parts {
        let mut parts = Parts::default();
        for secret in secrets {
            let bytes = &secret.as_bytes()[..secret.len().min(SECRET_BYTES_MAX)];
            parts.short.extend(windows(bytes).filter(|part| turns(part) >= TURNS_MIN && !is_hex(part)));
            parts.long.extend(windows(bytes).filter(|part| turns(part) >= TURNS_MIN));
        }
        parts
    }

    /// The parts that occur in a text.
    pub(super) fn found_in<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let short = text.windows(SHORT_BYTES).filter(|part| self.short.contains(*part));
        short.chain(text.windows(LONG_BYTES).filter(|part| self.long.contains(*part)))
    }
}

fn windows<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.windows(N).filter_map(|part| part.try_into().ok())
}

fn turns(part: &[u8]) -> usize {
    let is_turn = |pair: &&[u8]| {
        pair.iter().all(u8::is_ascii_alphanumeric) && pair[0].is_ascii_digit() != pair[1].is_ascii_digit()
    };
    part.windows(2).filter(is_turn).count()
}

fn is_hex(part: &[u8]) -> bool {
    part.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(secret: &str, text: &str) -> bool {
        Parts::of([secret.to_owned()].iter()).found_in(text.as_bytes()).next().is_some()
    }

    #[test]
    fn what_is_left_of_a_secret_is_found() {
        assert!(shows("k9Q2xv7Lm4Tz8Rp1", "login with ****7Lm4Tz8R failed"));
        assert!(!shows("k9Q2xv7Lm4Tz8Rp1", "login with ****4Tz8Rp1 failed"), "7 bytes may be chance");
        assert!(shows("7f3a91c2d45e7f3a", "token 7f3a91c2d45e…"));
        assert!(!shows("7f3a91c2d45e7f3a", "volume 7f3a91c2"), "so has an id now and then");
    }

    #[test]
    fn names_in_secrets_are_no_secrets() {
        assert!(!shows("admin@storage01.example.com", "server storage01.example.com"));
        assert!(!shows("cluster-2024-01-main", "pool cluster-2024-01-main-pool"));
    }
}
