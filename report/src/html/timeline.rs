//! Calls that overlapped, drawn one below the other from left to right.

use std::time::Duration;

use csi_harness::spec::verdict::CallSpan;

use super::markup::Html;
use super::scrolling;
use crate::journal::{CallEntry, CheckEntry};
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

/// Draws the calls of a check, if any of them overlapped.
pub(super) fn write(html: &mut Html, check: &CheckEntry) {
    let spans = spans(check);
    let end_us = spans.iter().map(|span| span.to_us).max().unwrap_or(0).max(1);
    if spans.is_empty() {
        return;
    }
    let label = label(&spans);
    html.element("figure", &[], |figure| {
        figure.element("figcaption", &[], |caption| {
            caption.text(&format!("When the calls were under way, in {}", duration_text(end_us)));
        });
        scrolling(figure, "Time line", |html| draw(html, &spans, end_us, &label));
    });
}

/// The calls in the check's own description, or else its last ones.
fn spans(check: &CheckEntry) -> Vec<CallSpan> {
    match &check.timeline[..] {
        [] => overlapping(&check.calls),
        described => described.iter().take(CALLS_MAX).cloned().collect(),
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
fn label(spans: &[CallSpan]) -> String {
    let each = |span: &CallSpan| {
        let (from, to) = (duration_text(span.from_us), duration_text(span.to_us));
        format!("worker {}: {} from {from} to {to}: {}", span.worker, cut(&span.call), cut(&span.answer))
    };
    spans.iter().map(each).collect::<Vec<_>>().join("; ")
}

fn draw(html: &mut Html, spans: &[CallSpan], end_us: u64, label: &str) {
    let height = spans.len() as u64 * ROW + 24;
    let x = |us: u64| {
        let inside = u128::from(us.min(end_us)) * u128::from(WIDTH - 2 * MARGIN) / u128::from(end_us);
        MARGIN + inside as u64
    };
    let view = format!("0 0 {WIDTH} {height}");
    let attributes =
        [("class", "timeline"), ("viewBox", view.as_str()), ("role", "img"), ("aria-label", label)];
    html.element("svg", &attributes, |svg| {
        for (row, span) in spans.iter().enumerate() {
            let top = row as u64 * ROW;
            let (text_y, bar_y) = ((top + 14).to_string(), (top + 20).to_string());
            let text = format!("worker {}  {} → {}", span.worker, cut(&span.call), cut(&span.answer));
            svg.leaf("text", &[("x", &MARGIN.to_string()), ("y", &text_y)], &text);
            let (from, width) = (x(span.from_us), x(span.to_us).saturating_sub(x(span.from_us)).max(3));
            let rect = [
                ("class", "call"),
                ("x", &from.to_string()),
                ("y", bar_y.as_str()),
                ("width", &width.to_string()),
                ("height", "10"),
                ("rx", "2"),
            ];
            svg.empty("rect", &rect);
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
    fn no_more_are_drawn_than_can_be_seen() {
        let calls: Vec<CallEntry> = (0..1_000).map(|at| call(at, 5, false)).collect();
        assert_eq!(overlapping(&calls).len(), CALLS_MAX);
    }
}
