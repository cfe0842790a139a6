//! Numbers as people read them.

use std::fmt::Display;

use csi_harness::results::outcome::Summary;

/// `1 check`, `2 checks`.
pub(crate) fn count(number: usize, what: impl Display) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Numbers of checks by outcome, such as `3 failed`. Rare outcomes are left out where they are 0. Together they are all checks.
pub(crate) fn numbers(summary: &Summary) -> Vec<(usize, String, Outcomes)> {
    let counts = &summary.counts;
    let tally = &counts.checks;
    let faults = |checks: usize, faults: usize| match faults == checks {
        true => String::new(),
        false => format!(" ({})", count(faults, "fault")),
    };
    let flaky = match counts.flaky_failures {
        0 => String::new(),
        1 => " (1 fault counts as failed)".to_owned(),
        more => format!(" ({more} faults count as failed)"),
    };
    let known = faults(tally.known_failures, counts.known_failures);
    let all = [
        (tally.passed, "passed", String::new(), Outcomes::Good),
        (tally.failed, "failed", faults(tally.failed, counts.failed), Outcomes::Bad),
        (tally.skipped, "skipped", String::new(), Outcomes::Quiet),
        (tally.flaky, "flaky", flaky, Outcomes::Odd),
        (tally.warned, "with warnings", faults(tally.warned, counts.warned), Outcomes::Odd),
        (tally.same_fault, "with a fault reported by another check", String::new(), Outcomes::Odd),
        (tally.broken, "inconclusive", String::new(), Outcomes::Odd),
        (tally.known_failures, "failed as known", known, Outcomes::Odd),
        (tally.unexpected_passes, "passed unexpectedly", String::new(), Outcomes::Bad),
    ];
    const ALWAYS: usize = 3;
    let is_shown =
        |(at, (number, ..)): &(usize, (usize, &str, String, Outcomes))| *at < ALWAYS || *number > 0;
    let shown = all.into_iter().enumerate().filter(is_shown);
    shown.map(|(_, (number, word, more, how))| (number, format!("{number} {word}{more}"), how)).collect()
}

/// The numbers as a sentence.
pub(crate) fn in_words(summary: &Summary) -> String {
    numbers(summary).into_iter().map(|(_, text, _)| text).collect::<Vec<_>>().join(", ")
}

/// The colour of a number of checks, by how good the outcome is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcomes {
    Good,
    Bad,
    Odd,
    Quiet,
}

/// The heading of the list of checks that met their time limits.
pub(crate) const DID_LESS: &str = "Based on less work than planned: these checks met their time limits.";

/// The text behind a number of faults that this many other checks show again.
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
