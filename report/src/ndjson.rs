//! The run as a stream of events: a line of JSON for each, written as it happens.

use std::io::{self, Write};

use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::{Counts, Crash, Leak, Verdict};
use serde::Serialize;

use crate::entry::{CheckEntry, TargetEntry, check_entry, ms, target_entry};
use crate::journal::Run;

/// The name and version of the format of events. Within one version, events and fields may be added, and none changes
/// its meaning.
pub const EVENTS_SCHEMA: &str = "csi-sanity/events/v1";

/// A line of the stream.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    RunStarted { schema: &'static str, target: &'a TargetEntry, checks: usize, seed: u64 },
    CheckStarted { id: &'a str },
    CheckFinished { check: &'a CheckEntry },
    Remark { text: &'a str },
    DriverDied { crash: &'a Crash },
    LeftBehind { leaks: &'a [Leak] },
    RunFinished { verdict: Verdict, interrupted: bool, duration_ms: u64, summary: Counts },
}

/// Writes events as they come. After the first error it stays silent until [`finish`](Stream::finish) reports it.
pub struct Stream {
    out: Box<dyn Write>,
    lost: Option<io::Error>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream that writes to `out`.
    pub fn new(out: Box<dyn Write>) -> Stream {
        Stream { out, lost: None }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// The first error met while writing. A reader that went away early is none.
    pub fn finish(self) -> io::Result<()> {
        match self.lost {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&mut self, line: &Line<'_>) {
        if self.lost.is_none() {
            let text = text(line);
            self.lost = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).err();
        }
    }
}

impl Reporter for Stream {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { target, planned, seed } => self.write(&Line::RunStarted {
                schema: EVENTS_SCHEMA,
                target: &target_entry(target),
                checks: *planned,
                seed: *seed,
            }),
            Event::Remark(text) => self.write(&Line::Remark { text }),
            Event::CheckStarted(planned) => self.write(&Line::CheckStarted { id: &planned.label() }),
            // A check is reported once its outcome is certain, and not each second.
            Event::CheckEnded(_) | Event::Waiting(_) | Event::Tick { .. } => {}
            Event::CheckFinished(report) => self.write(&Line::CheckFinished { check: &check_entry(report) }),
            Event::Crashed(crash) => self.write(&Line::DriverDied { crash }),
            Event::Leaked(leaks) => self.write(&Line::LeftBehind { leaks }),
            Event::Finished(summary) => self.write(&Line::RunFinished {
                verdict: summary.verdict(),
                interrupted: summary.halt != Default::default(),
                duration_ms: ms(summary.duration),
                summary: summary.counts,
            }),
        }
    }
}

/// The events of a run that is over.
pub(crate) fn render(run: &Run) -> String {
    let started = Line::RunStarted {
        schema: EVENTS_SCHEMA,
        target: &run.target,
        checks: run.checks.len(),
        seed: run.seed,
    };
    let finished = Line::RunFinished {
        verdict: run.verdict,
        interrupted: run.interrupted,
        duration_ms: run.duration_ms,
        summary: run.summary,
    };
    let mut lines = vec![text(&started)];
    lines.extend(run.remarks.iter().map(|remark| text(&Line::Remark { text: remark })));
    lines.extend(run.checks.iter().map(|check| text(&Line::CheckFinished { check })));
    lines.extend(run.crashes.iter().map(|crash| text(&Line::DriverDied { crash })));
    if !run.leaks.is_empty() {
        lines.push(text(&Line::LeftBehind { leaks: &run.leaks }));
    }
    lines.push(text(&finished));
    lines.concat()
}

fn text(line: &Line<'_>) -> String {
    // Strings, numbers and lists with string keys: nothing that JSON cannot say. JSON has no line breaks within a value.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}
