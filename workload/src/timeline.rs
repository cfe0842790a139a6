//! A time line for a report: the writes of a workload, the moment of a copy, and the call.

use csi_harness::spec::verdict::CallSpan;

use crate::checker::Moment;
use crate::log::{Log, Record};
use crate::now_us;

/// Writes that are kept at each end of the call. Texts show fewer.
const WRITES_MAX: usize = 100;
/// The time before and after a call that is shown, in microseconds.
const AROUND_US: u64 = 150_000;

/// The party that writes.
const WORKLOAD: &str = "workload";

/// The writes around calls, the moment of a copy that they made, and the calls. Nothing if no write is near: calls alone have no time line.
pub(crate) fn timeline(
    log: &Log,
    calls: impl IntoIterator<Item = CallSpan>,
    cut: Option<Moment>,
) -> Vec<CallSpan> {
    let calls: Vec<CallSpan> = calls.into_iter().collect();
    let from_us = calls.iter().map(|call| call.from_us.saturating_sub(AROUND_US)).min().unwrap_or_default();
    let to_us = calls.iter().map(|call| call.to_us.saturating_add(AROUND_US)).max().unwrap_or_default();
    let end = |record: &Record| record.durable_us.unwrap_or_else(now_us);
    let is_near = |record: &&Record| record.begun_us <= to_us && end(record) >= from_us;
    let near: Vec<&Record> = log.records().filter(is_near).collect();
    if near.is_empty() {
        return Vec::new();
    }
    let is_shown = |nth: usize| nth < WRITES_MAX || nth + WRITES_MAX >= near.len();
    let longest = near.iter().map(|record| end(record) - record.begun_us).max();
    let shown = near
        .iter()
        .enumerate()
        .filter(|(nth, record)| is_shown(*nth) || Some(end(record) - record.begun_us) == longest);
    let mut spans: Vec<CallSpan> = shown
        .map(|(_, record)| CallSpan {
            worker: 0,
            party: Some(WORKLOAD.to_owned()),
            call: format!("write {}", record.number),
            answer: if record.durable_us.is_some() { "durable" } else { "not durable" }.to_owned(),
            from_us: record.begun_us,
            to_us: end(record),
        })
        .collect();
    let last_us = spans.iter().map(|span| span.to_us).max().unwrap_or(to_us);
    spans.extend(cut.filter(|cut| cut.after_us > 0).map(|cut| CallSpan {
        worker: 0,
        party: Some(CallSpan::COPY.to_owned()),
        call: "the copy".to_owned(),
        answer: "its latest write is of this moment".to_owned(),
        from_us: cut.after_us,
        to_us: cut.before_us.clamp(cut.after_us, last_us.max(cut.after_us)),
    }));
    spans.extend(calls);
    let first_us = spans.iter().map(|span| span.from_us).min().unwrap_or_default();
    for span in &mut spans {
        span.from_us -= first_us;
        span.to_us -= first_us;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Event;

    #[test]
    fn a_call_far_from_all_writes_has_no_time_line() {
        let mut log = Log::default();
        log.take(Event::Begun { number: 1, at_us: 10 });
        log.take(Event::Acknowledged { number: 1, at_us: 20 });
        let at = |us| CallSpan {
            worker: 0,
            party: None,
            call: "CreateSnapshot".to_owned(),
            answer: "returned".to_owned(),
            from_us: us,
            to_us: us,
        };
        assert_eq!(timeline(&log, [at(30)], None).len(), 2);
        assert!(timeline(&log, [at(31 + AROUND_US)], None).is_empty());
    }
}
