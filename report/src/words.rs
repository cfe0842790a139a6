//! Numbers as people read them.

use std::fmt::Display;

/// `1 check`, `2 checks`.
pub(crate) fn count(number: usize, what: impl Display) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What stands behind a number of faults, where so many other checks show them again.
pub(crate) fn again(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => "and 1 check that shows the same".to_owned(),
        more => format!("and {more} checks that show the same"),
    }
}

/// Microseconds, in the unit that needs the fewest digits.
pub(crate) fn duration_text(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let texts = [7, 1_500, 12_345, 2_000_000].map(duration_text);
        assert_eq!(texts, ["7 µs", "1.5 ms", "12 ms", "2.0 s"]);
    }
}
