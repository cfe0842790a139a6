//! `csi-sanity baseline`: the list of known failures that fits a run, out of its JSON report.

use std::io::{self, Write as _};
use std::path::Path;

use csi_harness::checks::known::{Entry, KnownFailing};
use csi_harness::results::outcome::OutcomeKind;
use csi_harness::text::shorten::shortened;
use csi_report::{Destination, Run};

use crate::args::BaselineArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::note;

/// The first line of a list that had none.
const HEADING: &str = "# Checks that are known to fail: `pattern  # reason` on each line. One that passes is an error, unless `flaky:` stands before it.";

/// Writes the list.
pub(crate) fn baseline(args: &BaselineArgs) -> Result<Exit, Error> {
    let run = Run::load(&args.report)?;
    if run.shard.is_some() {
        let problem = "is the report of one shard, but a list is for the whole run: merge the reports of all shards with `csi-sanity merge` first";
        return Err(Error::Settings(format!("{}: {problem}", args.report.display())));
    }
    let old = match &args.keep_reasons {
        Some(path) => Some((KnownFailing::load(path)?, read(path)?)),
        None => None,
    };
    let List { text, notes } = list(&run, old.as_ref().map(|(known, text)| (known, text.as_str())));
    match &args.output {
        Some(path) => {
            let failed = |source| Error::List { source };
            Destination::open(path).map_err(failed)?.write(&text).map_err(failed)?;
        }
        None => io::stdout().write_all(text.as_bytes())?,
    }
    notes.iter().for_each(note);
    Ok(Exit::Success)
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| {
        csi_harness::checks::known::KnownFailingError::Read { path: path.to_owned(), source }.into()
    })
}

/// A list, and remarks about it.
struct List {
    text: String,
    notes: Vec<String>,
}

/// The lines of the earlier list that still apply, in their order, followed by a line for each failed check that no line covers.
fn list(run: &Run, old: Option<(&KnownFailing, &str)>) -> List {
    let mut lines = Vec::new();
    let mut notes = Vec::new();
    let mut listed: Vec<&str> = Vec::new();
    if let Some((known, text)) = old {
        for (at, line) in text.lines().enumerate() {
            let Some(Entry { pattern, reason, is_flaky, until, is_expired, .. }) =
                known.entries().find(|entry| entry.line == at + 1)
            else {
                lines.push(line.trim_end().to_owned());
                continue;
            };
            if *is_expired {
                let until = until.as_deref().unwrap_or_default();
                notes.push(format!("{pattern} is left out: it expired after {until}"));
                continue;
            }
            let of_it = || run.checks.iter().filter(|check| pattern.matches(&check.id));
            let failing: Vec<&str> =
                of_it().filter(|check| fails(check.outcome())).map(|check| check.id.as_str()).collect();
            let passing = of_it().filter(|check| check.outcome().passes()).count();
            match (failing.is_empty(), passing) {
                _ if *is_flaky => lines.push(line.trim_end().to_owned()),
                // The check was not run, or was inconclusive, so the list stays as it is.
                (_, 0) => lines.push(line.trim_end().to_owned()),
                (true, _) => notes.push(format!("{pattern} is left out: it passes")),
                // The pattern is too wide by now.
                (false, _) => {
                    notes.push(format!(
                        "{pattern} matches checks that pass, so it is replaced by the ids of those that fail"
                    ));
                    let until = until.as_ref().map(|day| format!(" until {day}")).unwrap_or_default();
                    lines.extend(failing.iter().map(|id| entry(&format!("{id}{until}"), reason)));
                }
            }
            listed.extend(failing);
        }
    } else {
        lines.push(HEADING.to_owned());
    }
    let mut new: Vec<_> = run
        .checks
        .iter()
        .filter(|check| fails(check.outcome()) && check.outcome() != OutcomeKind::SameFault)
        .filter(|check| !listed.contains(&check.id.as_str()))
        .map(|check| {
            let flaky = if check.outcome() == OutcomeKind::Flaky { "flaky: " } else { "" };
            let reason = check.known_because.as_deref().unwrap_or(&check.message);
            (&check.id, entry(&format!("{flaky}{}", check.id), reason))
        })
        .collect();
    new.sort();
    let new = new.into_iter().map(|(_, line)| line);
    lines.extend(new);
    if !run.crashes.is_empty() || run.leaks.iter().any(|leak| leak.ours) {
        notes.push(
            "the driver died or left something behind in this run; the list covers that only through the check in which it happened"
                .to_owned(),
        );
    }
    if run.interrupted {
        notes.push(
            "the run was stopped early, so checks that it did not reach are not in the list".to_owned(),
        );
    }
    List { text: lines.iter().map(|line| format!("{line}\n")).collect(), notes }
}

fn fails(outcome: OutcomeKind) -> bool {
    matches!(
        outcome,
        OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::KnownFailure | OutcomeKind::SameFault
    )
}

/// A line of the list for these checks. The reason may contain words of a driver, and is kept on one line.
fn entry(checks: &str, reason: &str) -> String {
    let reason: String = shortened(reason).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let reason = if reason.trim().is_empty() { "no reason is known" } else { reason.trim() };
    format!("{checks}  # {reason}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(checks: &[(&str, &str, &str)]) -> Run {
        let checks: Vec<_> = checks
            .iter()
            .map(|(id, outcome, message)| json!({"id": id, "outcome": outcome, "message": message}))
            .collect();
        serde_json::from_value(json!({
            "schema": csi_report::SCHEMA,
            "tool": {"version": "0"}, "specification": "1.12",
            "selection": {"suites": ["sanity"], "terms": [], "is_whole": false},
            "target": {"name": "d", "vendor_version": "1"}, "verdict": "deviates", "interrupted": false,
            "summary": {"passed": 1, "failed": 1, "warned": 0, "known_failures": 0, "unexpected_passes": 0},
            "checks": checks, "leaks": [], "crashes": [], "rpcs": [],
        }))
        .unwrap()
    }

    fn parsed(text: &str) -> KnownFailing {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known");
        std::fs::write(&path, text).unwrap();
        KnownFailing::load(&path).unwrap()
    }

    #[test]
    fn a_run_gives_a_list_that_can_be_read() {
        let run = run(&[
            ("b/fails@block", "failed", "says\n::error::no # really"),
            ("a/fails", "failed", ""),
            ("a/passes", "passed", ""),
            ("a/skips", "skipped", "it cannot"),
            ("a/listed", "known_failure", "again"),
            ("b/now-and-then", "flaky", "once"),
        ]);
        let List { text, notes } = list(&run, None);
        assert_eq!(
            text,
            format!(
                "{HEADING}\na/fails  # no reason is known\na/listed  # again\nb/fails@block  # says\\n::error::no # really\nflaky: b/now-and-then  # once\n"
            )
        );
        assert!(notes.is_empty());
        let known = parsed(&text);
        let reason = |label| known.entry(label).map(|entry| entry.reason.as_str());
        assert_eq!(reason("b/fails@block"), Some("says\\n::error::no # really"));
        assert_eq!(reason("a/passes"), None);
        assert!(known.entry("b/now-and-then").is_some_and(|entry| entry.is_flaky));
    }

    #[test]
    fn a_flaky_entry_stays_and_an_expired_one_goes() {
        let old = "flaky: a/*  # a race\nb/one until 2020-01-01 # late\nc/* until 2999-01-01 # not yet\n";
        let run = run(&[
            ("a/one", "passed", ""),
            ("b/one", "failed", "still"),
            ("c/one", "known_failure", "x"),
            ("c/two", "unexpected_pass", ""),
        ]);
        let List { text, notes } = list(&run, Some((&parsed(old), old)));
        assert_eq!(text, "flaky: a/*  # a race\nc/one until 2999-01-01  # not yet\nb/one  # still\n");
        assert!(
            notes.iter().any(|note| note == "b/one is left out: it expired after 2020-01-01"),
            "{notes:?}"
        );
        assert!(parsed(&text).entry("c/one").is_some());
    }

    #[test]
    fn reasons_and_comments_are_kept_and_what_passes_goes() {
        let old = "# ours\n\na/mended # issue 1\nb/* # issue 2\nc/* # issue 3\nd/not-run # issue 4\n";
        let run = run(&[
            ("a/mended", "unexpected_pass", ""),
            ("b/one", "known_failure", "x"),
            ("b/two", "failed", "x"),
            ("c/one", "known_failure", "x"),
            ("c/two", "unexpected_pass", ""),
            ("e/new", "failed", "it is new"),
        ]);
        let List { text, notes } = list(&run, Some((&parsed(old), old)));
        assert_eq!(
            text,
            "# ours\n\nb/* # issue 2\nc/one  # issue 3\nd/not-run # issue 4\ne/new  # it is new\n"
        );
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("a/mended is left out"), "{notes:?}");
        assert!(notes[1].starts_with("c/* matches checks that pass, so it is replaced"), "{notes:?}");
    }
}
