//! Calls that no order explains, drawn one below the other from left to right.

use std::fmt;
use std::time::Duration;

use csi_harness::spec::verdict::CallSpan;
use serde::Serialize;

use super::{History, Unordered};
use crate::names::legend;

/// Calls that no order explains, as data; `{}` draws them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Timeline {
    /// The rule that is broken.
    pub requirement: &'static str,
    /// The violation, as one sentence.
    pub message: String,
    /// The answer of a right driver.
    pub expected: String,
    /// The answer of this driver.
    pub actual: String,
    /// The calls by their beginning.
    pub rows: Vec<Row>,
    /// The row whose answer is wrong in any order, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_itself: Option<usize>,
    /// Explains names that are not obvious.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub legend: Vec<String>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The worker that made it.
    pub worker: u16,
    /// The call, as text.
    pub call: String,
    /// The end of the call, as text.
    pub answer: String,
    /// The time of its beginning, in microseconds from the first beginning.
    pub from_us: u64,
    /// The time of its end, in microseconds from the first beginning.
    pub to_us: u64,
}

impl Row {
    /// The call as reports show it.
    fn span(&self) -> CallSpan {
        CallSpan {
            party: None,
            worker: self.worker.into(),
            call: self.call.clone(),
            answer: self.answer.clone(),
            from_us: self.from_us,
            to_us: self.to_us,
        }
    }
}

impl Timeline {
    /// The calls of a history that no order explains.
    pub fn new(history: &History, unordered: &Unordered) -> Timeline {
        let entry = |place: &usize| Some((*place, history.entries.get(*place)?));
        let mut entries: Vec<_> = unordered.calls.iter().filter_map(entry).collect();
        entries.sort_by_key(|(_, entry)| (entry.span.invoked, entry.span.returned));
        let by_itself = entries.iter().position(|(place, _)| Some(*place) == unordered.by_itself);
        let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
        let start = entries.first().map_or(Duration::ZERO, |entry| entry.span.invoked);
        let micros =
            |time: Duration| u64::try_from(time.saturating_sub(start).as_micros()).unwrap_or(u64::MAX);
        let rows = entries.iter().map(|entry| Row {
            worker: entry.worker,
            call: entry.call.to_string(),
            answer: entry.answer.to_string(),
            from_us: micros(entry.span.invoked),
            to_us: micros(entry.span.returned),
        });
        Timeline {
            requirement: unordered.breach.rule.id,
            message: unordered.breach.message.clone(),
            expected: unordered.breach.expected.clone(),
            actual: unordered.breach.actual.clone(),
            rows: rows.collect(),
            by_itself,
            legend: legend(entries.iter().flat_map(|entry| entry.call.ids())),
        }
    }
}

impl Timeline {
    /// The calls with their times.
    pub fn into_spans(self) -> Vec<CallSpan> {
        self.rows.iter().map(Row::span).collect()
    }

    /// The calls, a line each, and what is wrong with them.
    pub fn lines(&self) -> Vec<String> {
        let end_us = self.rows.iter().map(|row| row.to_us).max().unwrap_or(0);
        let call_width = self.rows.iter().map(|row| row.call.chars().count()).max().unwrap_or(0);
        let line = |(at, row): (usize, &Row)| {
            let mark = if Some(at) == self.by_itself && self.rows.len() > 1 { '>' } else { ' ' };
            let (bar, width) = (row.span().bar(end_us), CallSpan::BAR_COLUMNS + 2);
            let (worker, call, answer) = (row.worker, &row.call, &row.answer);
            format!("{mark} worker {worker:<3} {call:<call_width$}  {bar:<width$}  {answer}")
        };
        self.rows.iter().enumerate().map(line).chain(self.verdict()).chain(self.legend.clone()).collect()
    }

    /// States the contradiction between the answers.
    fn verdict(&self) -> Vec<String> {
        let wrong = match self.rows.len() {
            2.. if self.by_itself.is_some() => {
                "  the marked answer is wrong, in whichever order the calls took effect".to_owned()
            }
            0 | 1 => "  whatever was done before or at the same time, this answer is wrong".to_owned(),
            2 => {
                "  the two answers cannot both be right, whichever of the calls took effect first".to_owned()
            }
            rows => {
                format!("  the {rows} answers cannot all be right, in whichever order the calls took effect")
            }
        };
        let moment = "  (a call takes effect at some moment between its beginning and its end)".to_owned();
        std::iter::once(wrong).chain((self.rows.len() > 1).then_some(moment)).collect()
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if !self.expected.is_empty() {
            writeln!(f, "  expected  {}", self.expected)?;
            writeln!(f, "  actual    {}", self.actual)?;
        }
        write!(f, "  {}", self.requirement)
    }
}
