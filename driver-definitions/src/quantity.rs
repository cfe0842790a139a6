//! Kubernetes quantities: `1Gi`, `10G`, `63.9Ti`, `1e9`, `1073741824`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::document::parsed;

/// An amount of bytes. As in Kubernetes, a fraction of a byte counts as a whole one.
///
/// It is written as a string: a number with a suffix that is decimal (`k`, `M`, `G`, `T`, `P`, `E`, also `m`, `u` and `n`
/// for fractions), binary (`Ki` to `Ei`), or an exponent (`e9`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct Quantity {
    bytes: u64,
}

/// Says why a text is no amount of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the form of a quantity.
    #[error("{0:?} is not a quantity; write for example 1Gi, 500M or 1073741824")]
    Syntax(String),
    /// The amount is negative.
    #[error("{0:?} is a negative amount of bytes")]
    Negative(String),
    /// The amount does not fit into 64 bits, or has more than 20 significant digits.
    #[error("{0:?} is too large, or more exact than bytes can be; the most is 18446744073709551615")]
    TooLarge(String),
}

/// The decimal suffixes with their powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// The binary suffixes with their powers of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Limits the significant digits: it suffices for 64 bits, and with any suffix the value still fits into 128 bits.
const DIGITS_MAX: usize = 20;

impl Quantity {
    /// Makes a quantity of bytes.
    pub const fn from_bytes(bytes: u64) -> Quantity {
        Quantity { bytes }
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        let syntax = || QuantityError::Syntax(text.to_owned());
        let too_large = || QuantityError::TooLarge(text.to_owned());
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.len() < 1 + usize::from(number.contains('.')) || fraction.contains('.') {
            return Err(syntax());
        }
        let (power_of_two, power_of_ten) = scale(suffix).ok_or_else(syntax)?;
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Quantity { bytes: 0 });
        }
        if text.starts_with('-') {
            return Err(QuantityError::Negative(text.to_owned()));
        }
        if digits.len() > DIGITS_MAX {
            return Err(too_large());
        }
        let value = digits.parse::<u128>().map_err(|_| syntax())? << power_of_two;
        let shift = i64::from(power_of_ten) - i64::try_from(fraction.len()).map_err(|_| too_large())?;
        let bytes = times_power_of_ten(value, shift).ok_or_else(too_large)?;
        Ok(Quantity { bytes: bytes.try_into().map_err(|_| too_large())? })
    }
}

/// Returns the powers of two and ten of a suffix.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((*power, 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((0, *power));
    }
    suffix.strip_prefix(['e', 'E'])?.parse().ok().map(|power| (0, power))
}

/// Moves the decimal point and rounds up; returns `None` if the value becomes too large.
fn times_power_of_ten(value: u128, power: i64) -> Option<u128> {
    let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_u128.checked_pow(power));
    match (factor, power < 0) {
        (Some(factor), true) => Some(value.div_ceil(factor)),
        (Some(factor), false) => value.checked_mul(factor),
        // The value is less than a byte.
        (None, true) => Some(1),
        (None, false) => None,
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        parsed(deserializer, Quantity::from_str)
    }
}

/// Writes the largest binary suffix that leaves a whole number.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, power): &&(&str, u32)| self.bytes.trailing_zeros() >= *power;
        match BINARY.iter().rev().find(whole) {
            Some((suffix, power)) if self.bytes > 0 => f.pad(&format!("{}{suffix}", self.bytes >> power)),
            _ => f.pad(&self.bytes.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, bytes) in [
            ("0", 0),
            ("-0", 0),
            ("1073741824", 1 << 30),
            ("1Gi", 1 << 30),
            ("10G", 10_000_000_000),
            ("1k", 1000),
            ("+5Mi", 5 << 20),
            ("63.9Ti", 70_258_793_014_887),
            (".5Ki", 512),
            ("5.Ki", 5120),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1.5e+3", 1500),
            ("2E", 2_000_000_000_000_000_000),
            ("1500m", 2),
            ("1e-30", 1),
            ("1e-99", 1),
            ("10Ei", 10 << 60),
            ("0.00000000000000000000000000001Ei", 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Quantity { bytes }), "{text}");
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        for text in
            ["", ".", "Gi", "1GB", "1gi", "1 Gi", "1..5", "1.5.5", "e3", "1e", "1e1.5", "--1", "1K", "∞"]
        {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::Syntax(text.into())), "{text}");
        }
        assert_eq!("-1Gi".parse::<Quantity>(), Err(QuantityError::Negative("-1Gi".into())));
        for text in ["16Ei", "18446744073709551616", "1e20", "1e2147483647", "123456789012345678901"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::TooLarge(text.into())), "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for (bytes, text) in [(0, "0"), (1, "1"), (1000, "1000"), (1 << 30, "1Gi"), (1536 << 20, "1536Mi")] {
            assert_eq!(Quantity { bytes }.to_string(), text);
            assert_eq!(text.parse(), Ok(Quantity { bytes }));
        }
    }
}
