//! Where the run stands: a bar on a terminal, now and then a line elsewhere.

use std::time::{Duration, Instant};

use csi_harness::outcome::{CheckReport, Outcome, Planned};
use csi_harness::patience::Waiting;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines where there is no terminal, so that a CI log shows that the run is alive.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// A wait that is told there, if it may be so long.
const WORTH_A_LINE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    planned: usize,
    done: usize,
    failed: usize,
    last_line: Instant,
}

impl Progress {
    pub(crate) fn hidden() -> Progress {
        Progress::on(ProgressBar::hidden(), 0)
    }

    /// A bar on the standard error, which shows nothing unless that is a terminal.
    pub(crate) fn new(planned: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(planned as u64), ProgressDrawTarget::stderr());
        // The template is a constant; a bar in the default style would do as well.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Progress::on(bar, planned)
    }

    fn on(bar: ProgressBar, planned: usize) -> Progress {
        Progress { bar, planned, done: 0, failed: 0, last_line: Instant::now() }
    }

    pub(crate) fn started(&self, planned: &Planned) {
        self.bar.set_message(self.message(&planned.label()));
    }

    /// Shows what is waited for. The line that says so where no bar does, if it is time for one.
    pub(crate) fn waiting(&mut self, waiting: &Waiting) -> Option<String> {
        let seconds = waiting.longest.as_secs() + 1;
        let what = format!("waiting for {}, {seconds} s at the most", waiting.what);
        self.bar.set_message(self.message(&what));
        if waiting.longest < WORTH_A_LINE { None } else { self.line_of(&what) }
    }

    pub(crate) fn finished(&mut self, report: &CheckReport) {
        self.done += 1;
        self.failed += usize::from(matches!(report.outcome, Outcome::Failed(_)));
        self.bar.inc(1);
    }

    /// A line that says how far the run is, if it is time for one and no bar says it.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.line_of(&format!("{} of {} done", self.done, self.planned))
    }

    fn line_of(&mut self, what: &str) -> Option<String> {
        let due = self.bar.is_hidden() && self.last_line.elapsed() >= LINE_INTERVAL;
        due.then(|| {
            self.last_line = Instant::now();
            self.message(what)
        })
    }

    /// Does something while the bar is off the screen.
    pub(crate) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn message(&self, what: &str) -> String {
        match self.failed {
            0 => what.to_owned(),
            failed => format!("{failed} failed, {what}"),
        }
    }
}
