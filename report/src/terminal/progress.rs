//! Shows the progress of a run: a bar on a terminal, and a line now and then elsewhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use csi_harness::checks::check::Planned;
use csi_harness::client::patience::Waiting;
use csi_harness::client::stages::Stage;
use csi_harness::results::outcome::{CheckReport, Outcome};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines where there is no terminal, so that a CI log shows that the run is alive.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
/// A wait that may last this long gets a line where there is no terminal.
const WORTH_A_LINE: Duration = Duration::from_secs(5);
/// A wait that was not announced again for so long is over.
const WAIT_IS_NEWS: Duration = Duration::from_secs(2);
/// Time after which a bar is drawn again, whatever else happens.
const REDRAWN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    planned: usize,
    done: usize,
    failed: usize,
    begun: Instant,
    /// The checks that run, in the order in which they began.
    running: Vec<(String, Instant)>,
    stages: BTreeMap<String, Stage>,
    /// The thing that is waited for, the time of the announcement, and the latest end.
    waiting: Option<(String, Instant, Instant)>,
    last_line: Instant,
}

impl Progress {
    pub(crate) fn hidden() -> Progress {
        Progress::on(ProgressBar::hidden(), 0)
    }

    /// A bar on the standard error, which shows nothing unless that is a terminal. It may have lines below it.
    pub(crate) fn new(planned: usize, has_lines: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(planned as u64), ProgressDrawTarget::stderr());
        let template = match has_lines {
            true => "{bar:20} {pos}/{len} {elapsed} {wide_msg}\n{prefix}",
            false => "{bar:20} {pos}/{len} {elapsed} {wide_msg}",
        };
        // The template is a constant; a bar in the default style would do as well.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(REDRAWN);
        }
        Progress::on(bar, planned)
    }

    fn on(bar: ProgressBar, planned: usize) -> Progress {
        let now = Instant::now();
        Progress {
            bar,
            planned,
            done: 0,
            failed: 0,
            begun: now,
            running: Vec::new(),
            stages: BTreeMap::new(),
            waiting: None,
            last_line: now,
        }
    }

    pub(crate) fn started(&mut self, planned: &Planned) {
        self.running.push((planned.label(), Instant::now()));
        self.show();
    }

    pub(crate) fn ended(&mut self, planned: &Planned) {
        let label = planned.label();
        self.running.retain(|(running, _)| *running != label);
        self.show();
    }

    /// Shows what is waited for. The line that says so where no bar does, if it is time for one.
    pub(crate) fn waiting(&mut self, waiting: &Waiting) -> Option<String> {
        let now = Instant::now();
        self.waiting = Some((waiting.what.to_string(), now, now + waiting.longest));
        self.show();
        if waiting.longest < WORTH_A_LINE { None } else { self.line() }
    }

    /// Shows these lines below the bar, if there is one.
    pub(crate) fn below(&self, lines: impl Fn() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_prefix(lines());
        }
    }

    /// Shows how far the checks are. The line that says so where no bar does, if it is time for one.
    pub(crate) fn tick(&mut self, stages: &[(String, Stage)]) -> Option<String> {
        self.stages = stages.iter().cloned().collect();
        self.show();
        self.line()
    }

    pub(crate) fn finished(&mut self, report: &CheckReport) {
        self.done += 1;
        let fails = match &report.outcome {
            Outcome::Failed(_) => true,
            Outcome::Flaky(flaky) => flaky.fails,
            _ => false,
        };
        self.failed += usize::from(fails);
        self.bar.inc(1);
        self.ended(&report.planned);
    }

    /// A line that says how far the run is, if it is time for one and no bar says it.
    pub(crate) fn line(&mut self) -> Option<String> {
        let now = Instant::now();
        let due = self.bar.is_hidden() && now.duration_since(self.last_line) >= LINE_INTERVAL;
        due.then(|| {
            self.last_line = now;
            let elapsed = seconds(now.duration_since(self.begun));
            format!("{elapsed}: {} of {} done; {}", self.done, self.planned, self.message(now))
        })
    }

    fn show(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_message(self.message(Instant::now()));
        }
    }

    /// Does something while the bar is off the screen.
    pub(crate) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Describes the failures, the check that has run longest with its stage, or the activity between checks, and the
    /// thing that is waited for.
    fn message(&self, now: Instant) -> String {
        let mut parts = Vec::new();
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        if let Some((label, since)) = self.running.first() {
            let stage = self.stages.get(label).map(|stage| format!(", {stage}")).unwrap_or_default();
            let others = match self.running.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            parts.push(format!("{label} ({}{stage}){others}", seconds(now.duration_since(*since))));
        } else if let Some(stage) = self.stages.values().next() {
            parts.push(stage.to_string());
        }
        if let Some((what, said, until)) = &self.waiting
            && now.duration_since(*said) < WAIT_IS_NEWS
        {
            let left = until.saturating_duration_since(now);
            parts.push(format!("waiting for {what}, {} more at the most", seconds(left + REDRAWN)));
        }
        parts.join(", ")
    }
}

/// Formats a time in whole seconds, with minutes if there are any.
fn seconds(time: Duration) -> String {
    match (time.as_secs() / 60, time.as_secs() % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use csi_harness::client::patience::Settles;

    use super::*;

    #[test]
    fn progress_shows_the_oldest_check_and_its_wait() {
        let mut progress = Progress::on(ProgressBar::hidden(), 9);
        let begun = progress.begun;
        assert_eq!(progress.message(begun), "");
        let at = |seconds| begun + Duration::from_secs(seconds);
        progress.running = vec![("property/a".to_owned(), begun), ("b/c".to_owned(), at(1))];
        let stage = Stage { what: "sequence", number: 83, of: Some(256) };
        assert_eq!(progress.tick(&[("property/a".to_owned(), stage)]), None, "a line each 30 s");
        assert_eq!(progress.message(at(75)), "property/a (1 min 15 s, sequence 83/256) and 1 more");
        progress.failed = 2;
        progress.running.remove(0);
        let what = Settles::SnapshotReady.to_string();
        progress.waiting = Some((what.clone(), at(10), at(21)));
        let expected = format!("2 failed, b/c (10 s), waiting for {what}, 11 s more at the most");
        assert_eq!(progress.message(at(11)), expected);
        assert_eq!(progress.message(at(13)), "2 failed, b/c (12 s)", "it was not said again");
        progress.running.clear();
        let stage = Stage { what: "looking for what is left", number: 0, of: None };
        assert_eq!(progress.tick(&[("beside the checks".to_owned(), stage)]), None);
        assert_eq!(progress.message(at(14)), "2 failed, looking for what is left");
        progress.running = vec![("b/c".to_owned(), Instant::now())];
        progress.last_line = begun.checked_sub(LINE_INTERVAL).unwrap();
        let line = progress.tick(&[]).unwrap();
        assert!(line.contains(": 0 of 9 done; 2 failed, b/c (0 s)"), "{line}");
        assert_eq!(progress.tick(&[]), None);
    }
}
