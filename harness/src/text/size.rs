//! Sizes as people read them.

use std::fmt;

/// Units of sizes, the largest first.
const UNITS: [(&str, u32); 5] = [("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// A number of bytes: exact, and, where it is a whole number of a larger unit, in that unit as well, as in
/// `1073741824 bytes (1Gi)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(i128);

impl<N: Into<i128>> From<N> for Bytes {
    fn from(bytes: N) -> Bytes {
        Bytes(bytes.into())
    }
}

impl Bytes {
    /// The number with the largest unit that it is a whole number of, as Kubernetes writes it: `1Gi`.
    fn in_unit(self) -> Option<String> {
        let unit = UNITS.into_iter().find(|(_, bits)| self.0 != 0 && self.0 % (1 << bits) == 0);
        unit.map(|(unit, bits)| format!("{}{unit}", self.0 >> bits))
    }

    /// Displays the value of a field whose name contains the unit, such as capacity_bytes: `1073741824 (1Gi)`.
    pub fn of_field(self) -> String {
        self.in_unit().map_or_else(|| self.0.to_string(), |unit| format!("{} ({unit})", self.0))
    }

    /// No longer than it has to be, for lists of calls: `1Gi`, or the bytes where there is no such unit.
    pub fn short(self) -> String {
        self.in_unit().unwrap_or_else(|| self.to_string())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "byte" } else { "bytes" })?;
        self.in_unit().map_or(Ok(()), |unit| write!(f, " ({unit})"))
    }
}

/// The size as people read it.
pub fn sized(number: impl Into<i128>) -> Bytes {
    number.into().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_units_are_named_and_no_byte_is_lost() {
        let numbers = [0, 1, 1023, 1024, (1 << 30) + 1, 1 << 30, 320 << 20, 3 << 49, -(1 << 20)];
        let written = numbers.map(|number: i64| sized(number).to_string());
        let expected = [
            "0 bytes",
            "1 byte",
            "1023 bytes",
            "1024 bytes (1Ki)",
            "1073741825 bytes",
            "1073741824 bytes (1Gi)",
            "335544320 bytes (320Mi)",
            "1688849860263936 bytes (1536Ti)",
            "-1048576 bytes (-1Mi)",
        ];
        assert_eq!(written, expected);
        assert_eq!(sized(1 << 30).of_field(), "1073741824 (1Gi)");
        assert_eq!(sized(1023).of_field(), "1023");
        let short = [1 << 30, 320 << 20, (1 << 30) + 1].map(|number: i64| sized(number).short());
        assert_eq!(short, ["1Gi", "320Mi", "1073741825 bytes"]);
    }
}
