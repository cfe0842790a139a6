//! The table of results.

use std::fmt;

use crate::peers::Samples;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Higher is better.
    PerSecond,
    /// Lower is better.
    Milliseconds,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Unit::PerSecond => "1/s",
            Unit::Milliseconds => "ms",
        })
    }
}

/// The medians of both drivers, and how many times faster this driver is.
#[derive(Debug)]
pub(crate) struct Table {
    compares: bool,
    rows: Vec<(String, Unit, Samples)>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(compares: bool) -> Table {
        Table { compares, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: String, unit: Unit, samples: Samples) {
        self.rows.push((name, unit, samples));
    }

    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        if self.compares {
            writeln!(f, "{:width$}  unit       ours       peer  times as fast", "medians")?;
        } else {
            writeln!(f, "{:width$}  unit       ours", "medians")?;
        }
        for (name, unit, samples) in &self.rows {
            write!(f, "{name:width$}  {unit:4}")?;
            let (ours, peer) = (samples.median(0), samples.median(1));
            for value in [ours, peer].into_iter().flatten() {
                write!(f, " {value:10.2}")?;
            }
            if let (Some(ours), Some(peer)) = (ours, peer) {
                let ratio = if *unit == Unit::PerSecond { ours / peer } else { peer / ours };
                write!(f, "  {ratio:13.2}")?;
            }
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
