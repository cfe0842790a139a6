//! Calls that overlapped, drawn one below the other from left to right. The writes of a workload are drawn in one row, and the moment of a copy
//! through all rows.

use std::time::Duration;

use csi_harness::spec::verdict::CallSpan;

use super::markup::Html;
use super::scrolling;
use crate::entry::{CallEntry, CheckEntry};
use crate::words::duration_text;

/// Calls that are drawn: the last ones, which led to the verdict.
const CALLS_MAX: usize = 24;
/// Characters of what was asked and answered.
const CHARS_MAX: usize = 80;
/// Size of the picture.
const WIDTH: u64 = 720;
const ROW: u64 = 38;
/// Free space at its sides.
const MARGIN: u64 = 8;
/// Width of a bar for a call that took no time.
const WIDTH_MIN: u64 = 3;

/// Draws the calls of a check, if any of them overlapped.
pub(super) fn write(html: &mut Html, check: &CheckEntry) {
    let spans = spans(check);
    let rows = rows(&spans);
    let end_us = rows.iter().flatten().map(|span| span.to_us).max().unwrap_or(0).max(1);
    if rows.is_empty() {
        return;
    }
    html.element("figure", &[], |figure| {
        figure.element("figcaption", &[], |caption| {
            let what = match rows.iter().any(|row| row[0].party.is_some()) {
                true => "The writes of the workload, and the calls beside it",
                false => "When the calls were under way",
            };
            caption.text(&format!("{what}, in {}", duration_text(end_us)));
        });
        scrolling(figure, "Time line", |html| draw(html, &rows, end_us));
    });
}

/// The calls in the check's own description, or else its last ones.
fn spans(check: &CheckEntry) -> Vec<CallSpan> {
    match &check.timeline[..] {
        [] => overlapping(&check.calls),
        described => described.to_vec(),
    }
}

/// The last calls, if two of them were under way at one time.
fn overlapping(calls: &[CallEntry]) -> Vec<CallSpan> {
    let made: Vec<&CallEntry> = calls.iter().filter(|call| !call.cleanup).collect();
    let last = &made[made.len().saturating_sub(CALLS_MAX)..];
    let overlap = |a: &CallEntry, b: &CallEntry| {
        a.sent_after < b.sent_after + b.duration && b.sent_after < a.sent_after + a.duration
    };
    let overlaps = |at: usize| last[at + 1..].iter().any(|later| overlap(last[at], later));
    if !(0..last.len()).any(overlaps) {
        return Vec::new();
    }
    let begin = last.iter().map(|call| call.sent_after).min().unwrap_or_default();
    let us = |time: Duration| u64::try_from((time - begin).as_micros()).unwrap_or(u64::MAX);
    let span = |call: &&CallEntry| CallSpan {
        worker: call.worker,
        party: None,
        call: call.rpc.clone(),
        answer: answer(call),
        from_us: us(call.sent_after),
        to_us: us(call.sent_after + call.duration),
    };
    last.iter().map(span).collect()
}

fn answer(call: &CallEntry) -> String {
    match (&call.status, &call.no_answer) {
        (Some(status), _) => format!("{} {}", status.code, status.message),
        (None, Some(why)) => why.clone(),
        (None, None) => "OK".to_owned(),
    }
}

/// Describes the picture in words.
fn label(rows: &[Vec<&CallSpan>]) -> String {
    let each = |row: &Vec<&CallSpan>| match row[..] {
        [span] => {
            let (from, to) = (duration_text(span.from_us), duration_text(span.to_us));
            format!("{}: {} from {from} to {to}: {}", maker(span), cut(&span.call), cut(&span.answer))
        }
        _ => heading(row),
    };
    rows.iter().map(each).collect::<Vec<_>>().join("; ")
}

/// The worker or the party that has made a call.
fn maker(span: &CallSpan) -> String {
    span.party.clone().unwrap_or_else(|| format!("worker {}", span.worker))
}

/// The rows of the picture, at most as many as can be seen. A party does one thing after the other, and has one row.
fn rows(spans: &[CallSpan]) -> Vec<Vec<&CallSpan>> {
    let mut rows: Vec<Vec<&CallSpan>> = Vec::new();
    for span in spans {
        let own = rows.iter_mut().find(|row| span.party.is_some() && row[0].party == span.party);
        match own {
            Some(row) => row.push(span),
            None => rows.push(vec![span]),
        }
    }
    rows.truncate(CALLS_MAX);
    rows
}

/// The text above a row.
fn heading(row: &[&CallSpan]) -> String {
    let described = |span: &CallSpan| format!("{} → {}", cut(&span.call), cut(&span.answer));
    match row {
        [one] if one.party.is_none() => format!("{}  {}", maker(one), described(one)),
        [one] => described(one),
        several => {
            let longest = several.iter().max_by_key(|span| span.to_us.saturating_sub(span.from_us));
            let longest = longest.map(|span| {
                format!("{} in {}", described(span), duration_text(span.to_us.saturating_sub(span.from_us)))
            });
            let ends = [several.first(), several.last()].map(|end| end.map_or("", |span| &span.call));
            format!(
                "{}: {} to {}; the longest: {}",
                maker(several[0]),
                ends[0],
                ends[1],
                longest.unwrap_or_default()
            )
        }
    }
}

fn draw(html: &mut Html, rows: &[Vec<&CallSpan>], end_us: u64) {
    let label = label(rows);
    let height = rows.len() as u64 * ROW + 24;
    let x = |us: u64| {
        let inside = u128::from(us.min(end_us)) * u128::from(WIDTH - 2 * MARGIN) / u128::from(end_us);
        MARGIN + inside as u64
    };
    let bar = |svg: &mut Html, span: &CallSpan, class: &str, top: u64, height: u64| {
        let (from, width) = (x(span.from_us), x(span.to_us).saturating_sub(x(span.from_us)).max(WIDTH_MIN));
        let numbers = [from, top, width, height].map(|number| number.to_string());
        let names = ["x", "y", "width", "height"];
        let mut rect = vec![("class", class), ("rx", "2")];
        rect.extend(names.into_iter().zip(numbers.iter().map(String::as_str)));
        svg.empty("rect", &rect);
    };
    let view = format!("0 0 {WIDTH} {height}");
    let attributes =
        [("class", "timeline"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", label.as_str())];
    html.element("svg", &attributes, |svg| {
        let is_copy = |span: &CallSpan| span.party.as_deref() == Some(CallSpan::COPY);
        for copy in rows.iter().flatten().filter(|span| is_copy(span)) {
            bar(svg, copy, "moment", 0, height - 18);
        }
        for (nth, row) in rows.iter().enumerate() {
            let top = nth as u64 * ROW;
            svg.leaf("text", &[("x", &MARGIN.to_string()), ("y", &(top + 14).to_string())], &heading(row));
            let class = if is_copy(row[0]) { "copy" } else { "call" };
            row.iter().for_each(|span| bar(svg, span, class, top + 20, 10));
        }
        let (axis, text) = ((height - 18).to_string(), (height - 4).to_string());
        let (left, right) = (MARGIN.to_string(), (WIDTH - MARGIN).to_string());
        let line = [("class", "axis"), ("x1", &left), ("x2", &right), ("y1", &axis), ("y2", axis.as_str())];
        svg.empty("line", &line.map(|(name, value)| (name, value as &str)));
        svg.leaf("text", &[("x", &left), ("y", &text)], "0");
        let end = [("x", right.as_str()), ("y", &text), ("text-anchor", "end")];
        svg.leaf("text", &end, &duration_text(end_us));
    });
}

/// The beginning of a long text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(from_us: u64, duration_us: u64, cleanup: bool) -> CallEntry {
        CallEntry {
            rpc: "Probe".to_owned(),
            node: 0,
            worker: 0,
            sent_after: Duration::from_micros(from_us),
            duration: Duration::from_micros(duration_us),
            cleanup,
            request: serde_json::json!({}),
            response: None,
            status: None,
            no_answer: None,
            times: 0,
            accused: false,
        }
    }

    #[test]
    fn only_calls_at_the_same_time_are_drawn() {
        assert!(overlapping(&[call(10, 5, false), call(15, 5, false), call(16, 9, true)]).is_empty());
        let spans = overlapping(&[call(10, 6, false), call(15, 5, false)]);
        let times: Vec<(u64, u64)> = spans.iter().map(|span| (span.from_us, span.to_us)).collect();
        assert_eq!(times, [(0, 6), (5, 10)], "from the first beginning");
    }

    #[test]
    fn a_workload_has_a_row_that_names_its_longest_write() {
        let span = |party: &str, call: &str, from_us: u64, to_us: u64| CallSpan {
            worker: 0,
            party: Some(party.to_owned()),
            call: call.to_owned(),
            answer: "durable".to_owned(),
            from_us,
            to_us,
        };
        let spans = [
            span("workload", "write 1", 0, 2_000),
            span("workload", "write 2", 20_000, 60_000),
            span("workload", "write 3", 60_000, 61_000),
            span(CallSpan::COPY, "the copy", 20_000, 21_000),
            span("caller", "CreateSnapshot", 10_000, 50_000),
        ];
        let rows = rows(&spans);
        let headings: Vec<String> = rows.iter().map(|row| heading(row)).collect();
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 1]);
        assert_eq!(headings[0], "workload: write 1 to write 3; the longest: write 2 → durable in 40 ms");
        assert_eq!(headings[2], "CreateSnapshot → durable");
    }

    #[test]
    fn no_more_are_drawn_than_can_be_seen() {
        let calls: Vec<CallEntry> = (0..1_000).map(|at| call(at, 5, false)).collect();
        assert_eq!(overlapping(&calls).len(), CALLS_MAX);
    }
}
