//! The run as a person reads it: progress while it lasts, everything that matters once at the end.

mod progress;
mod stories;
mod wrap;

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use csi_harness::client::patience::Waiting;
use csi_harness::client::target::Target;
use csi_harness::resources::cleanup::LeftBehind;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::failure_report;
use csi_harness::results::outcome::{CheckReport, Crash, Halt, Leak, OutcomeKind, Summary, is_of_early_end};
use csi_harness::text::shorten::{named, shortened};

use crate::areas::{Area, Areas, Verdict};
use crate::conclusion::{Conclusion, Facts, Severity, by_profile, differ};
use crate::entry::{CheckEntry, Selection, ShardEntry, SpentEntry, check_entry, target_entry};
use crate::fault::WrongCodes;
use crate::journal::{Run, SPECIFICATION};
use crate::words::{DID_LESS, Outcomes, count, numbers};
use progress::Progress;
use stories::Stories;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();

/// Number of shown objects that others made during the run.
const OTHERS_SHOWN_MAX: usize = 20;
/// Number of objects shown that were left behind, of those that may have been, and of the commands that remove them.
const LEFT_SHOWN_MAX: usize = 50;
/// Things shown at most that one check may have left behind for one reason.
const ALIKE_SHOWN_MAX: usize = 3;

/// Checks that failed and are listed in the end.
const FAILED_SHOWN_MAX: usize = 100;

/// Time that a check spent on anything but the calls that it judges is shown from this length on.
const WORTH_A_WORD_MS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Failures and the last line.
    Quiet,
    /// Failures, what was skipped and why, and the areas.
    Normal,
    /// Also a line for each check as it ends.
    Verbose,
    /// Also the whole story of warnings and known failures.
    Full,
}

/// The texts with the measurements of a run that measures. They may have codes for colours.
pub struct Measurements {
    /// Makes the lines below the bar of progress, which is there until the run ends.
    pub live: Box<dyn Fn() -> String>,
    /// Makes the text that stands before failures and verdict, once the checks have ended.
    pub whole: Box<dyn Fn() -> String>,
}

impl std::fmt::Debug for Measurements {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measurements").finish_non_exhaustive()
    }
}

/// Prints a run for a person.
///
/// Colour codes are always written; give it a stream that removes them where they are not wanted. When the reader goes
/// away, it falls silent.
pub struct Terminal<W: Write> {
    out: W,
    detail: Detail,
    columns: Option<usize>,
    traces: bool,
    /// The time that the run may take, if that is known before.
    first_line: Option<String>,
    measurements: Option<Measurements>,
    progress: Progress,
    stories: Stories,
    areas: Areas,
    /// The checks that were asked for, and the shard of them that this is.
    asked: (Selection, Option<ShardEntry>),
    /// The driver, once it has said who it is.
    driver: String,
    /// The version by which a stored run judged the driver, and the sign of it.
    judged: Option<(String, String)>,
    /// Labels of the checks that failed.
    failed: Vec<String>,
    wrong_codes: WrongCodes,
    /// Labels of those that are flaky and count as failed.
    flaky_failures: Vec<String>,
    /// The reasons why checks did not apply, with the number of checks.
    skipped: BTreeMap<String, usize>,
    /// The number of slowest checks that are named at the end.
    durations: usize,
    /// The duration of each check in milliseconds, with its label.
    took: Vec<(u64, String)>,
    lost: Option<io::Error>,
}

impl<W: Write> std::fmt::Debug for Terminal<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("detail", &self.detail).finish_non_exhaustive()
    }
}

impl<W: Write> Terminal<W> {
    /// Writes the run to `out`, and progress to the standard error if that is a terminal.
    pub fn new(out: W, detail: Detail) -> Terminal<W> {
        Terminal {
            out,
            detail,
            columns: None,
            traces: false,
            first_line: None,
            measurements: None,
            progress: Progress::hidden(),
            stories: Stories::default(),
            areas: Areas::default(),
            asked: (Selection { is_whole: true, ..Selection::default() }, None),
            driver: String::new(),
            judged: None,
            failed: Vec::new(),
            wrong_codes: WrongCodes::default(),
            flaky_failures: Vec::new(),
            skipped: BTreeMap::new(),
            durations: 0,
            took: Vec::new(),
            lost: None,
        }
    }

    /// Breaks long lines at this width. Commands to be copied stay whole.
    pub fn wrap_at(mut self, columns: Option<usize>) -> Terminal<W> {
        self.columns = columns;
        self
    }

    /// States in the verdict which checks it is based on, if these are not all.
    pub fn asked(mut self, selection: Selection, shard: Option<ShardEntry>) -> Terminal<W> {
        self.asked = (selection, shard);
        self
    }

    /// Says, before the first check, how long the run may take.
    pub fn first_line(mut self, first_line: Option<String>) -> Terminal<W> {
        self.first_line = first_line;
        self
    }

    /// Shows what the run measures.
    pub fn measurements(mut self, measurements: Option<Measurements>) -> Terminal<W> {
        self.measurements = measurements;
        self
    }

    /// Names so many of the checks that took longest at the end.
    pub fn durations(mut self, durations: usize) -> Terminal<W> {
        self.durations = durations;
        self
    }

    /// Says what to do next, as a command; after the run.
    pub fn next(&mut self, command: &str) {
        if self.detail > Detail::Quiet {
            self.write(|out| writeln!(out, "{BOLD}next{BOLD:#}: {}", plain(command)));
        }
    }

    /// Also writes the calls of each check, if the run keeps them.
    pub fn trace(mut self, traces: bool) -> Terminal<W> {
        self.traces = traces;
        self
    }

    /// Ends the output.
    ///
    /// # Errors
    /// The first error met while writing. A reader that went away early is none.
    pub fn finish(mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        let ended = self.lost.map_or(flushed, Err);
        ended.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
    }

    /// Writes unless writing has failed before.
    fn write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.lost.is_none() {
            let Terminal { out, progress, .. } = self;
            self.lost = progress.aside(|| write(out).and_then(|()| out.flush())).err();
        }
    }

    /// Writes a run that is over.
    pub fn run(&mut self, run: &Run) {
        if self.detail > Detail::Quiet {
            self.write(|out| write_stored_target(out, run));
        }
        run.checks.iter().for_each(|check| self.add(check));
        self.driver = run.target.driver();
        self.judged = Some((run.specification.clone(), run.specification_by.clone()));
        self.asked = (run.selection.clone(), run.shard.clone());
        let summary = run.to_summary();
        summary.crashes.iter().for_each(|crash| self.crashed(crash));
        self.finished(&summary);
    }

    fn started(&mut self, target: &Target, planned: usize, seed: u64) {
        let checks = count(planned, "check");
        self.driver = target_entry(target).driver();
        if self.detail > Detail::Quiet {
            let first_line = self.first_line.take();
            self.write(|out| {
                writeln!(out, "seed {seed}")?;
                write_target(out, target)?;
                writeln!(out, "{checks}")?;
                first_line.iter().try_for_each(|line| writeln!(out, "{line}"))
            });
            self.progress = Progress::new(planned, self.measurements.is_some());
        }
    }

    fn waiting(&mut self, waiting: &Waiting) {
        if let Some(line) = self.progress.waiting(waiting).filter(|_| self.detail > Detail::Quiet) {
            self.write(|out| writeln!(out, "{line}"));
        }
    }

    fn check_finished(&mut self, report: &CheckReport) {
        let check = check_entry(report);
        self.progress.finished(report);
        self.add(&check);
        if self.traces && !report.calls.is_empty() {
            self.write(|out| write_trace(out, report));
        }
        if self.detail > Detail::Quiet {
            for note in &check.notes {
                self.write(|out| writeln!(out, "{}: {}", check.id, plain(&shortened(note))));
            }
        }
    }

    /// Adds the result of a check, of this run or of a stored one.
    fn add(&mut self, check: &CheckEntry) {
        self.areas.add(check.area(), check.counts_as());
        self.stories.add(check, self.detail);
        self.wrong_codes.add(check);
        if self.detail >= Detail::Verbose {
            let why = check.known_because.as_ref().unwrap_or(&check.message);
            let time = time(check.duration_ms, &check.spent_ms);
            self.write(|out| write_line(out, check.outcome(), &check.id, &time, why));
        }
        match check.outcome() {
            OutcomeKind::Failed => self.failed.push(check.id.clone()),
            OutcomeKind::Flaky if check.counts_as() == OutcomeKind::Failed => {
                self.flaky_failures.push(check.id.clone());
            }
            OutcomeKind::Skipped => *self.skipped.entry(check.message.clone()).or_default() += 1,
            _ => {}
        }
        self.took.push((check.duration_ms, check.id.clone()));
    }

    fn crashed(&mut self, crash: &Crash) {
        let after = if crash.back { "it is back, and the run goes on" } else { "it stayed away" };
        self.write(|out| {
            writeln!(
                out,
                "{BAD}the driver died, or stopped answering{BAD:#}; {after}. Calls without an answer:"
            )?;
            crash.under_way.iter().try_for_each(|call| writeln!(out, "  {}", plain(call)))?;
            crash.log.iter().try_for_each(|log| writeln!(out, "what it printed is in {}", log.display()))
        });
    }

    fn finished(&mut self, summary: &Summary) {
        self.progress.end();
        if let Some(measurements) = self.measurements.take().filter(|_| self.detail > Detail::Quiet) {
            let text = (measurements.whole)();
            self.write(|out| out.write_all(text.as_bytes()));
        }
        let stories = std::mem::take(&mut self.stories);
        let areas = std::mem::take(&mut self.areas);
        let skipped = std::mem::take(&mut self.skipped);
        let (detail, columns) = (self.detail, self.columns);
        let mut failed = std::mem::take(&mut self.failed);
        let mut flaky_failures = std::mem::take(&mut self.flaky_failures);
        let wrong_codes = std::mem::take(&mut self.wrong_codes);
        failed.sort();
        flaky_failures.sort();
        let mut took = std::mem::take(&mut self.took);
        took.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.cmp(b)));
        took.truncate(self.durations);
        let driver = std::mem::take(&mut self.driver);
        let (selection, shard) = &self.asked;
        let facts = Facts::of(summary, summary.verdict(), selection, shard.as_ref());
        let judged = summary.judged.as_ref().map(|judged| (judged.name(), judged.sign.clone()));
        let judged = judged.or_else(|| self.judged.take());
        let conclusion = facts.conclude();
        let profiles = facts.under_each(summary);
        self.write(|out| {
            stories.write(out, detail, columns)?;
            write_left_behind(out, summary, columns)?;
            if detail > Detail::Quiet {
                write_areas(out, &areas)?;
                write_inconclusive(out, summary, columns)?;
            }
            write_durations(out, &took)?;
            write_failed(out, "failed", &failed)?;
            write_failed(out, "flaky, and counted as failed", &flaky_failures)?;
            if detail > Detail::Quiet {
                write_wrong_codes(out, &wrong_codes, columns)?;
                write_cut_short(out, summary)?;
            }
            write_conclusion(out, &driver, &conclusion)?;
            if let Some((version, sign)) = judged.filter(|_| detail > Detail::Quiet) {
                write_judged(out, &version, &sign)?;
            }
            if detail > Detail::Quiet && differ(&profiles) {
                writeln!(out, "by profile: {}", by_profile(&profiles, summary.profile))?;
            }
            write_summary(out, summary)?;
            write_skipped(out, summary, &skipped)
        });
    }
}

impl<W: Write> Reporter for Terminal<W> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { target, planned, seed } => self.started(target, *planned, *seed),
            Event::Remark(remark) => {
                if self.detail > Detail::Quiet {
                    self.write(|out| writeln!(out, "{ODD}note{ODD:#}: {}", shortened(remark)));
                }
            }
            Event::CheckStarted(planned) => self.progress.started(planned),
            Event::CheckEnded(planned) => self.progress.ended(planned),
            Event::Waiting(waiting) => self.waiting(waiting),
            Event::Tick { stages } => {
                if let Some(measurements) = &self.measurements {
                    self.progress.below(&measurements.live);
                }
                if let Some(line) = self.progress.tick(stages).filter(|_| self.detail > Detail::Quiet) {
                    self.write(|out| writeln!(out, "{line}"));
                }
            }
            Event::CheckFinished(report) => self.check_finished(report),
            Event::Crashed(crash) => self.crashed(crash),
            // Leaks are written at the end, from the summary.
            Event::Leaked(_) => {}
            Event::Finished(summary) => self.finished(summary),
        }
    }
}

/// Writes the version by which the driver was judged, unless it shows nothing beyond the oldest.
fn write_judged(out: &mut impl Write, version: &str, sign: &str) -> io::Result<()> {
    match version == SPECIFICATION {
        true => Ok(()),
        false => writeln!(out, "judged by CSI {}: {}", plain(version), plain(sign)),
    }
}

/// The calls one by one in the order in which they were sent, each with the seconds since the check began.
fn write_trace(out: &mut impl Write, report: &CheckReport) -> io::Result<()> {
    writeln!(out, "{BOLD}calls of {}{BOLD:#}", report.label())?;
    for call in &report.calls {
        writeln!(
            out,
            "  {:>9.3} {}",
            call.sent_after.as_secs_f64(),
            plain(&failure_report::call_line(call))
        )?;
    }
    match report.calls_dropped {
        0 => Ok(()),
        dropped => writeln!(out, "  {} more from the middle were not kept", count(dropped, "call")),
    }
}

fn write_driver(out: &mut impl Write, name: &str, version: &str) -> io::Result<()> {
    let name = if name.is_empty() { "a driver without a name" } else { name };
    let space = if version.is_empty() { "" } else { " " };
    write!(out, "{BOLD}{}{BOLD:#}{space}{}", plain(name), plain(version))
}

fn write_target(out: &mut impl Write, target: &Target) -> io::Result<()> {
    write_driver(out, &target.info().name, &target.info().vendor_version)?;
    write!(out, " at {}", plain(&target.place()))?;
    let place_of = |endpoint| plain(&target.config().place_of(endpoint)).to_string();
    for (number, node) in target.nodes().iter().enumerate().skip(1) {
        write!(out, ", node {} at {}", number + 1, place_of(node.endpoint()))?;
    }
    if let Some(controller) = target.controller_endpoint() {
        write!(out, ", controller at {}", place_of(controller))?;
    }
    writeln!(out)
}

/// Writes what was tested, and in how many parts.
fn write_stored_target(out: &mut impl Write, run: &Run) -> io::Result<()> {
    write_driver(out, &run.target.name, &run.target.vendor_version)?;
    match run.shards.len() {
        0 => writeln!(out)?,
        shards => writeln!(out, " in {}", count(shards, "shard"))?,
    }
    writeln!(out, "{}", count(run.checks.len(), "check"))
}

/// The time that a check took, and the parts of it that did not go into the calls that it judges.
fn time(ms: u64, spent: &SpentEntry) -> String {
    let parts = [
        ("shrinking", spent.shrinking),
        ("confirming", spent.confirming),
        ("undoing", spent.undoing),
        ("waiting", spent.waiting),
    ];
    let parts = parts.iter().filter(|(_, ms)| *ms >= WORTH_A_WORD_MS);
    std::iter::once(format!("{ms} ms"))
        .chain(parts.map(|(what, ms)| format!("{ms} {what}")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn write_line(
    out: &mut impl Write,
    outcome: OutcomeKind,
    label: &str,
    time: &str,
    why: &str,
) -> io::Result<()> {
    let (style, word) = match outcome {
        OutcomeKind::Passed => (GOOD, "passed"),
        OutcomeKind::Failed => (BAD, "FAILED"),
        OutcomeKind::Flaky => (ODD, "flaky"),
        OutcomeKind::Warned => (ODD, "warned"),
        OutcomeKind::Skipped => (DIM, "skipped"),
        OutcomeKind::Broken => (ODD, "inconclusive"),
        OutcomeKind::SameFault => (ODD, "same fault"),
        OutcomeKind::KnownFailure => (ODD, "known"),
        OutcomeKind::UnexpectedPass => (BAD, "UNEXPECTED"),
    };
    write!(out, "{style}{word:>12}{style:#} {label} {DIM}({time}){DIM:#}")?;
    if why.is_empty() { writeln!(out) } else { writeln!(out, "  {}", plain(&shortened(why))) }
}

/// Writes what stayed behind, what may have, and how to remove it. Objects that others made meanwhile are only
/// mentioned.
fn write_left_behind(out: &mut impl Write, summary: &Summary, columns: Option<usize>) -> io::Result<()> {
    let (leaks, left) = summary.certainly_left();
    let doubtful = summary.left_behind.iter().filter(|left| left.in_doubt);
    let others = summary.leaks.iter().filter(|leak| !leak.ours);
    let ours = leaks.into_iter().map(leak_line).chain(left.into_iter().map(left_line)).collect();
    let lists: [(String, Vec<String>, usize); 3] = [
        (format!("{BAD}LEFT BEHIND{BAD:#} by this run"), ours, LEFT_SHOWN_MAX),
        (format!("{ODD}MAY BE LEFT BEHIND{ODD:#}"), doubtful_lines(doubtful), LEFT_SHOWN_MAX),
        (
            format!("{ODD}note{ODD:#}: new, but named in no reply to this run"),
            others.map(leak_line).collect(),
            OTHERS_SHOWN_MAX,
        ),
    ];
    for (title, lines, shown_max) in lists {
        if !lines.is_empty() {
            writeln!(out, "\n{title}")?;
        }
        lines.iter().take(shown_max).try_for_each(|line| write!(out, "{}", wrap::wrapped(line, columns)))?;
        match lines.len().saturating_sub(shown_max) {
            0 => {}
            hidden => writeln!(out, "  … {}; --report json=FILE has all", count(hidden, "more thing"))?,
        }
    }
    write_removal(out, summary)
}

fn leak_line(leak: &Leak) -> String {
    let made = leak.check.as_ref().map(|check| format!(", made by {check}"));
    format!("  {} {}{}\n", leak.kind, shortened(&named(&leak.id)), made.unwrap_or_default())
}

fn left_line(left: &LeftBehind) -> String {
    let made = left.check.as_ref().map(|check| format!(", made by {check}")).unwrap_or_default();
    format!("  {}{made}: {}\n", plain(&shortened(&left.what)), plain(&shortened(&left.why)))
}

/// A line for each object, or one for many that a check may have left for one reason.
fn doubtful_lines<'a>(doubtful: impl Iterator<Item = &'a LeftBehind>) -> Vec<String> {
    let mut groups: Vec<Vec<&LeftBehind>> = Vec::new();
    for left in doubtful {
        let is_alike = |group: &&mut Vec<&LeftBehind>| {
            group.first().is_some_and(|first| (&first.check, &first.why) == (&left.check, &left.why))
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(left),
            None => groups.push(vec![left]),
        }
    }
    let lines = |group: Vec<&LeftBehind>| match group.len().checked_sub(ALIKE_SHOWN_MAX) {
        Some(hidden @ 2..) => {
            let mut lines: Vec<String> = group.into_iter().take(ALIKE_SHOWN_MAX).map(left_line).collect();
            lines.push(format!("  … and {} for this reason\n", count(hidden, "more thing")));
            lines
        }
        _ => group.into_iter().map(left_line).collect(),
    };
    groups.into_iter().flat_map(lines).collect()
}

/// The commands that remove what was left behind, each once.
fn write_removal(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let mut commands: Vec<&str> = Vec::new();
    for command in summary.left_behind.iter().filter_map(|left| left.remove.as_deref()) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if !commands.is_empty() {
        writeln!(out, "to remove it")?;
    }
    commands.iter().take(LEFT_SHOWN_MAX).try_for_each(|command| writeln!(out, "  {}", plain(command)))?;
    match commands.len().saturating_sub(LEFT_SHOWN_MAX) {
        0 => Ok(()),
        hidden => writeln!(out, "  … {}; --report json=FILE has all", count(hidden, "more command")),
    }
}

/// A line for each area: how many of the checks that ran did pass, and what that means.
fn write_areas(out: &mut impl Write, areas: &Areas) -> io::Result<()> {
    let areas: Vec<&Area> = areas.as_slice().iter().filter(|area| area.is_listed()).collect();
    let width = areas.iter().map(|area| area.name.len()).max().unwrap_or(0);
    let run_width = areas.iter().map(|area| area.run.to_string().len()).max().unwrap_or(0);
    writeln!(out)?;
    for area in areas {
        let style = match area.verdict {
            Verdict::NotTested => DIM,
            Verdict::Passed => GOOD,
            Verdict::Failed | Verdict::UnexpectedPass => BAD,
            Verdict::Warned | Verdict::Broken | Verdict::KnownFailure => ODD,
        };
        let counts = match area.run {
            0 => String::new(),
            run => format!("{:>run_width$}/{run:>run_width$}", area.passed),
        };
        let counts_width = 2 * run_width + 1;
        writeln!(out, "  {:width$}  {counts:counts_width$}  {style}{}{style:#}", area.name, area.verdict)?;
    }
    writeln!(out)
}

/// Explains the word "inconclusive" where it is used.
fn write_inconclusive(out: &mut impl Write, summary: &Summary, columns: Option<usize>) -> io::Result<()> {
    if summary.counts.broken == 0 {
        return Ok(());
    }
    let text = "inconclusive: something kept the check from saying yes or no: its preparations failed, no answer came, \
                or what it made could not be undone\n";
    writeln!(out, "{}", wrap::wrapped(text, columns))
}

/// The checks that failed, each on a line of its own: fit for --filter, and with reasons for --known-failing.
fn write_failed(out: &mut impl Write, heading: &str, failed: &[String]) -> io::Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    writeln!(out, "{BOLD}{heading}{BOLD:#}")?;
    failed.iter().take(FAILED_SHOWN_MAX).try_for_each(|label| writeln!(out, "  {label}"))?;
    match failed.len().saturating_sub(FAILED_SHOWN_MAX) {
        0 => {}
        hidden => writeln!(out, "  … {hidden} more; --report json=FILE has all of them")?,
    }
    writeln!(out)
}

/// The wrong codes that many failures have in common.
fn write_wrong_codes(out: &mut impl Write, codes: &WrongCodes, columns: Option<usize>) -> io::Result<()> {
    for sentence in codes.sentences() {
        writeln!(out, "{}", wrap::wrapped(&format!("{sentence}\n"), columns))?;
    }
    Ok(())
}

fn write_durations(out: &mut impl Write, took: &[(u64, String)]) -> io::Result<()> {
    if took.is_empty() {
        return Ok(());
    }
    writeln!(out, "{BOLD}slowest checks{BOLD:#}")?;
    for (ms, label) in took {
        writeln!(out, "  {:>7.1} s  {label}", *ms as f64 / 1e3)?;
    }
    writeln!(out)
}

/// The checks that met their time limits, with how much of their work they did.
fn write_cut_short(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    if summary.cut_short.is_empty() {
        return Ok(());
    }
    writeln!(out, "{ODD}note{ODD:#}: {DID_LESS}")?;
    for (check, work) in &summary.cut_short {
        writeln!(out, "  {check}: {work}")?;
    }
    writeln!(out)
}

fn write_conclusion(out: &mut impl Write, driver: &str, conclusion: &Conclusion) -> io::Result<()> {
    let style = match conclusion.name.mood() {
        Severity::Good => GOOD,
        Severity::Fair | Severity::Open => ODD,
        Severity::Bad => BAD,
    };
    writeln!(out, "{} {style}{}{style:#}", plain(driver), plain(&conclusion.words))
}

/// The last line; its parts keep their order, and rare ones are left out when there is nothing to count.
fn write_summary(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let painted = |(number, text, how): (usize, String, Outcomes)| {
        let style = match how {
            _ if number == 0 => Style::new(),
            Outcomes::Good => GOOD,
            Outcomes::Bad => BAD,
            Outcomes::Odd => ODD,
            Outcomes::Quiet => DIM,
        };
        format!("{style}{text}{style:#}")
    };
    let mut parts: Vec<String> = numbers(summary).into_iter().map(painted).collect();
    let (leaks, left) = summary.certainly_left();
    let (left, crashes) = (leaks.len() + left.len(), summary.crashes.len());
    for (number, word) in [(left, "left behind"), (crashes, if crashes == 1 { "crash" } else { "crashes" })] {
        if number > 0 {
            parts.push(format!("{BAD}{number} {word}{BAD:#}"));
        }
    }
    if summary.halt != Halt::None {
        parts.push(format!("{ODD}stopped early{ODD:#}"));
    }
    writeln!(out, "{} {DIM}in {:.1} s{DIM:#}", parts.join(", "), summary.duration.as_secs_f64())
}

/// If most checks did not apply, writes how little was tested, and the commonest reason. Reasons that name a flag come
/// first, because users can change these.
fn write_skipped(
    out: &mut impl Write,
    summary: &Summary,
    reasons: &BTreeMap<String, usize>,
) -> io::Result<()> {
    let commonest = |named: bool| {
        let some = reasons.iter().filter(|(why, _)| !named || why.contains("--"));
        some.max_by_key(|(_, times)| **times)
    };
    let Some((why, times)) = commonest(true).or_else(|| commonest(false)) else { return Ok(()) };
    if is_of_early_end(why) {
        return Ok(());
    }
    let of_flags = if why.contains("--") { " that a flag can change" } else { "" };
    let checks = summary.checks();
    if summary.counts.skipped * 2 <= checks || summary.halt != Halt::None {
        return Ok(());
    }
    let little = format!("only {} of {} applied", checks - summary.counts.skipped, count(checks, "check"));
    writeln!(
        out,
        "{ODD}note{ODD:#}: {little}; the most common reason{of_flags}, of {}: {}",
        count(*times, "check"),
        plain(why)
    )
}

/// Text from a driver, without power over the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use csi_harness::results::outcome::Counts;

    use super::*;

    fn said(skipped: usize, reasons: &[(&str, usize)]) -> String {
        let summary =
            Summary { counts: Counts { passed: 4, skipped, ..Counts::default() }, ..Summary::default() };
        let reasons = reasons.iter().map(|(why, times)| ((*why).to_owned(), *times)).collect();
        let mut out = anstream::StripStream::new(Vec::new());
        write_skipped(&mut out, &summary, &reasons).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn many_doubtful_leftovers_of_one_reason_are_a_few_lines() {
        let left = |nth: usize, why: &str| LeftBehind {
            what: format!("volume {nth}"),
            why: why.to_owned(),
            in_doubt: true,
            check: Some("c".to_owned()),
            ..LeftBehind::default()
        };
        let mut all: Vec<LeftBehind> = (0..5).map(|nth| left(nth, "no answer")).collect();
        all.push(left(5, "no time"));
        let lines = doubtful_lines(all.iter());
        assert_eq!(
            lines[2..],
            [
                "  volume 2, made by c: no answer\n",
                "  … and 2 more things for this reason\n",
                "  volume 5, made by c: no time\n",
            ]
        );
    }

    #[test]
    fn a_user_learns_why_little_was_tested() {
        let reasons = [("it cannot", 5), ("--config names no `volumes`", 2)];
        assert_eq!(said(4, &reasons), "", "half of the checks");
        let some = "note: only 4 of 11 checks applied; ";
        assert_eq!(
            said(7, &reasons),
            format!(
                "{some}the most common reason that a flag can change, of 2 checks: --config names no `volumes`\n"
            )
        );
        assert_eq!(said(7, &reasons[..1]), format!("{some}the most common reason, of 5 checks: it cannot\n"));
    }
}
