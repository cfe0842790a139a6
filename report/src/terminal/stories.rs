//! Writes each fault once at the end of a run, with the checks that met it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anstyle::Style;
use csi_harness::results::outcome::OutcomeKind;
use csi_harness::text::shorten::shortened;

use super::wrap::wrapped;
use super::{BAD, BOLD, DIM, Detail, ODD, plain};
use crate::entry::CheckEntry;
use crate::fault;
use crate::words::count;

/// Checks named below a story that several of them share.
const NAMES_SHOWN_MAX: usize = 10;

/// The outcomes that have a story, each with its heading, in the order in which stories are written: the gravest last, where the
/// reader's eyes are.
const STORIES: [(OutcomeKind, Style, &str); 6] = [
    (OutcomeKind::Warned, ODD, "WARNING"),
    (OutcomeKind::KnownFailure, ODD, "KNOWN FAILURE"),
    (OutcomeKind::Flaky, ODD, "FLAKY"),
    (OutcomeKind::Broken, ODD, "INCONCLUSIVE"),
    (OutcomeKind::UnexpectedPass, BAD, "UNEXPECTED PASS"),
    (OutcomeKind::Failed, BAD, "FAILED"),
];

/// The stories at the end of a run.
#[derive(Debug, Default)]
pub(crate) struct Stories {
    stories: Vec<OneStory>,
    /// The reasons of skips, in the order of their first checks.
    skips: Vec<Skip>,
    /// Checks that show a fault again, by label, with the label of the one that reports it.
    again: BTreeMap<String, String>,
}

/// A reason for skipping, with the checks it kept from running.
#[derive(Debug)]
struct Skip {
    fault: String,
    reason: String,
    labels: Vec<String>,
}

#[derive(Debug)]
struct OneStory {
    /// The place of its outcome in [`STORIES`].
    place: usize,
    /// The key by which stories are recognised as one fault.
    fault: String,
    words: Words,
    labels: Vec<String>,
}

#[derive(Debug)]
struct Words {
    title: String,
    /// The violation, as one sentence.
    headline: String,
    text: String,
}

impl Stories {
    pub(crate) fn add(&mut self, check: &CheckEntry, detail: Detail) {
        if let Some(first) = check.reported_in() {
            return self.again(&check.id, first);
        }
        let headline = match (&check.known_because, check.outcome()) {
            (Some(reason), OutcomeKind::UnexpectedPass) => reason.clone(),
            (Some(reason), _) => format!("{} ({reason})", check.message),
            (None, _) => check.message.clone(),
        };
        let by_hand = if detail > Detail::Quiet { &check.by_hand[..] } else { &[] };
        let words = || Words { title: plain(&check.title), headline, text: check.story_with(by_hand) };
        self.insert(check.outcome(), check.fault.clone(), check.id.clone(), words);
    }

    fn again(&mut self, label: &str, first: &str) {
        self.again.insert(label.to_owned(), first.to_owned());
    }

    /// Names checks that show a fault again with the one that reports it.
    fn bring_together(&mut self) {
        let firsts: BTreeMap<&str, &str> =
            self.again.iter().map(|(label, first)| (label.as_str(), first.as_str())).collect();
        for label in firsts.keys() {
            let first = fault::reported(&firsts, label);
            let shows = |story: &&mut OneStory| story.labels.iter().any(|label| label == first);
            if let Some(story) = self.stories.iter_mut().find(shows) {
                story.labels.push((*label).to_owned());
            }
        }
    }

    fn insert(&mut self, outcome: OutcomeKind, fault: String, label: String, words: impl FnOnce() -> Words) {
        if outcome == OutcomeKind::Skipped {
            match self.skips.iter_mut().find(|skip| skip.fault == fault) {
                Some(skip) => skip.labels.push(label),
                None => self.skips.push(Skip { fault, reason: words().headline, labels: vec![label] }),
            }
            return;
        }
        let Some(place) = STORIES.iter().position(|(kind, ..)| *kind == outcome) else { return };
        match self.stories.iter_mut().find(|story| story.place == place && story.fault == fault) {
            Some(story) => story.labels.push(label),
            None => self.stories.push(OneStory { place, fault, words: words(), labels: vec![label] }),
        }
    }

    pub(crate) fn write(
        mut self,
        out: &mut impl Write,
        detail: Detail,
        columns: Option<usize>,
    ) -> io::Result<()> {
        self.bring_together();
        if detail > Detail::Quiet {
            write_skips(out, &self.skips, detail, columns)?;
        }
        // Checks end in another order in each run; two reports should be easy to compare.
        self.stories.sort_by(|a, b| (a.place, a.labels.first()).cmp(&(b.place, b.labels.first())));
        let mut has_short_warnings = false;
        for story in &self.stories {
            let (kind, ..) = STORIES[story.place];
            let is_minor = matches!(kind, OutcomeKind::Warned | OutcomeKind::KnownFailure);
            if !is_minor || detail >= Detail::Full {
                write_full(out, story, columns)?;
            } else if detail > Detail::Quiet {
                has_short_warnings |= kind == OutcomeKind::Warned;
                write_short(out, story, columns)?;
            }
        }
        if has_short_warnings {
            write_headed(out, DIM, "warnings", "in full, and why they are no failures: -vv", columns)?;
        }
        Ok(())
    }
}

fn write_full(out: &mut impl Write, story: &OneStory, columns: Option<usize>) -> io::Result<()> {
    let (_, style, word) = STORIES[story.place];
    let (first, others) = story.labels.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    writeln!(out, "\n{style}{word}{style:#} {BOLD}{first}{BOLD:#}")?;
    writeln!(out, "  {DIM}{}{DIM:#}", story.words.title)?;
    write!(out, "{}", wrapped(&plain(&story.words.text), columns))?;
    if others.is_empty() {
        return Ok(());
    }
    let same = format!("  the same in  {}\n", named(others));
    write!(out, "{}", wrapped(&same, columns))
}

fn write_short(out: &mut impl Write, story: &OneStory, columns: Option<usize>) -> io::Result<()> {
    let (_, style, word) = STORIES[story.place];
    let text = format!("{}: {}", named(&story.labels), plain(&shortened(&story.words.headline)));
    write_headed(out, style, word, &text, columns)
}

/// A line with a painted word in front. It is painted after the breaking, since colour codes have no width.
fn write_headed(
    out: &mut impl Write,
    style: Style,
    word: &str,
    text: &str,
    columns: Option<usize>,
) -> io::Result<()> {
    let text = wrapped(&format!("{word} {text}\n"), columns);
    write!(out, "{style}{word}{style:#}{}", text.strip_prefix(word).unwrap_or(&text))
}

fn write_skips(
    out: &mut impl Write,
    skips: &[Skip],
    detail: Detail,
    columns: Option<usize>,
) -> io::Result<()> {
    for Skip { reason, labels, .. } in skips {
        write_headed(
            out,
            DIM,
            "skipped",
            &format!("{}: {}", count(labels.len(), "check"), plain(&shortened(reason))),
            columns,
        )?;
        if detail >= Detail::Full {
            labels.iter().try_for_each(|label| writeln!(out, "          {label}"))?;
        }
    }
    Ok(())
}

fn named(labels: &[String]) -> String {
    let shown = labels[..labels.len().min(NAMES_SHOWN_MAX)].join(", ");
    match labels.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => shown,
        hidden => format!("{shown} and {}", count(hidden, "more check")),
    }
}
