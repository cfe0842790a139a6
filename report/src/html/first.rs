//! Writes the top of the page: the verdict, the failures, and the next step.

use csi_harness::results::outcome::OutcomeKind;
use csi_harness::text::message::times;
use csi_harness::text::shorten::shortened;

use super::markup::Html;
use super::{checks, driver, mark, outcome, place};
use crate::conclusion::{Concluded, Severity, by_profile};
use crate::entry::CheckEntry;
use crate::fault::{self, FaultGroup};
use crate::journal::Run;
use crate::rules::Rule;
use crate::statement::{Line, Says};
use crate::words::count;

/// Faults that are named before the reader has scrolled.
const FAULTS_MAX: usize = 6;

pub(super) fn write(html: &mut Html, run: &Run, rules: &[Rule<'_>]) {
    html.leaf("p", &[("class", "kind")], "Statement of conformance to the Container Storage Interface");
    html.element("h1", &[], |h1| h1.leaf("bdi", &[], &driver(run)));
    let conclusion = run.conclude();
    html.element("p", &[("class", "verdict")], |html| {
        mark(html, look(conclusion.name.mood(), &conclusion.words));
    });
    html.element("p", &[], |p| {
        p.text(&(sentence(run) + &untested(run) + " "));
        if !run.by_profile.is_empty() {
            p.text(&format!("By profile: {}. ", by_profile(&run.by_profile, run.profile)));
        }
        p.leaf("a", &[("href", "#requirements")], &super::requirements::sentence(run, rules));
    });
    if !run.selection.is_whole {
        html.element("p", &[("class", "note")], |html| {
            html.leaf("b", &[], "This is a part of the checks: ");
            html.text(&part(run));
        });
    }
    write_bar(html, run);
    write_cut_short(html, run);
    write_failed(html, run);
    write_next(html, run, conclusion.name);
}

/// The colour and sign of a verdict.
pub(super) fn look(mood: Severity, words: &str) -> (&'static str, &'static str, &str) {
    let (class, sign) = match mood {
        Severity::Good => ("good yes", "✓"),
        Severity::Fair => ("odd known", "≈"),
        Severity::Bad => ("bad no", "✗"),
        Severity::Open => ("odd open", "?"),
    };
    (class, sign, words)
}

fn sentence(run: &Run) -> String {
    let counts = run.checks.iter().map(CheckEntry::counts_as);
    let gave_a_verdict = |kind: &OutcomeKind| !matches!(kind, OutcomeKind::Skipped | OutcomeKind::Broken);
    let (passing, failing): (Vec<_>, Vec<_>) = counts.filter(gave_a_verdict).partition(|kind| kind.passes());
    let (passed, judged) = (passing.len(), passing.len() + failing.len());
    let day = run.started.split('T').next().unwrap_or_default();
    format!(
        "{passed} of {judged} checks that gave a verdict passed, on {day}, against CSI {}.",
        run.specification
    )
}

/// The areas that a whole run says nothing of.
fn untested(run: &Run) -> String {
    let is_untested = |line: &&Line| run.selection.is_whole && line.says == Says::NotTested;
    let areas: Vec<&str> = run.statement.iter().filter(is_untested).map(|line| line.area.as_str()).collect();
    if areas.is_empty() { String::new() } else { format!(" Not tested: {}.", areas.join(", ")) }
}

fn part(run: &Run) -> String {
    let suites = run.selection.suites.join(", ");
    match &run.selection.terms[..] {
        [] => format!("only of {suites}."),
        terms => format!("only those of {suites} that {} selects.", terms.join(" ")),
    }
}

/// The number of checks by outcome, as a bar and as a list that leads to them.
fn write_bar(html: &mut Html, run: &Run) {
    let summary = run.to_summary().counts.checks;
    let counts = [
        (OutcomeKind::Passed, summary.passed, "checks"),
        (OutcomeKind::Warned, summary.warned, "warnings"),
        (OutcomeKind::Flaky, summary.flaky, "flaky"),
        (OutcomeKind::KnownFailure, summary.known_failures, "known"),
        (OutcomeKind::UnexpectedPass, summary.unexpected_passes, "unexpected"),
        (OutcomeKind::Failed, summary.failed, "failures"),
        (OutcomeKind::SameFault, summary.same_fault, "checks"),
        (OutcomeKind::Broken, summary.broken, "not-judged"),
        (OutcomeKind::Skipped, summary.skipped, "skipped"),
    ];
    let all: usize = counts.iter().map(|(_, count, _)| count).sum();
    // The list below has all that the bar shows.
    let attributes = [
        ("class", "bar"),
        ("viewBox", "0 0 1000 20"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
        ("focusable", "false"),
    ];
    html.element("svg", &attributes, |svg| {
        let mut from = 0.0;
        for (kind, count, _) in counts {
            let width = count as f64 * 1000.0 / all.max(1) as f64;
            if count > 0 {
                let (x, width_text) = (format!("{from:.1}"), format!("{:.1}", (width - 2.0).max(1.0)));
                let class = format!("fill {}", outcome(kind).0);
                let rect = [
                    ("class", class.as_str()),
                    ("x", &x),
                    ("y", "0"),
                    ("width", &width_text),
                    ("height", "20"),
                ];
                svg.empty("rect", &rect);
            }
            from += width;
        }
    });
    html.element("ul", &[("class", "counts")], |list| {
        for (kind, count, section) in counts.into_iter().filter(|(_, count, _)| *count > 0) {
            let (class, sign, words) = outcome(kind);
            let (to, text) = (format!("#{section}"), format!("{count} {words}"));
            list.element("li", &[], |item| {
                item.element("a", &[("href", &to)], |link| mark(link, (class, sign, &text)));
            });
        }
    });
}

/// The checks that met their time limits, with how much of their work they did.
fn write_cut_short(html: &mut Html, run: &Run) {
    let summary = run.to_summary();
    if summary.cut_short.is_empty() {
        return;
    }
    html.element("div", &[("class", "note")], |html| {
        html.leaf("b", &[], crate::words::DID_LESS);
        html.element("ul", &[], |list| {
            for (check, work) in &summary.cut_short {
                list.leaf("li", &[], &format!("{check}: {work}"));
            }
        });
    });
}

/// The faults by which the driver deviates, each with a link to its description.
fn write_failed(html: &mut Html, run: &Run) {
    let mut faults = fault::each(run, OutcomeKind::Failed);
    faults.extend(fault::flaky(run, OutcomeKind::Failed));
    if faults.is_empty() && run.crashes.is_empty() {
        return;
    }
    html.element("div", &[("class", "box bad")], |html| {
        html.leaf("h2", &[], "What failed");
        html.element("ul", &[("class", "plain")], |list| {
            for FaultGroup { first, others } in faults.iter().take(FAULTS_MAX) {
                list.element("li", &[], |item| {
                    item.element("a", &[("href", &format!("#{}", place(first)))], |link| {
                        link.leaf("bdi", &[], &shortened(&first.message));
                    });
                    let rule = first.requirements.first().map_or("", String::as_str);
                    let again = if others.is_empty() {
                        String::new()
                    } else {
                        format!(", in {}", checks(1 + others.len()))
                    };
                    item.leaf("span", &[("class", "dim")], &format!(" {rule}{again}"));
                });
            }
            if let Some(hidden @ 1..) = faults.len().checked_sub(FAULTS_MAX) {
                list.element("li", &[], |item| {
                    item.leaf("a", &[("href", "#failures")], &format!("and {}", count(hidden, "more fault")));
                });
            }
            if !run.crashes.is_empty() {
                list.element("li", &[], |item| {
                    let died = format!("the driver died {}", times(run.crashes.len() as u64));
                    item.leaf("a", &[("href", "#crashes")], &died);
                });
            }
        });
    });
}

/// The next step, with a command.
fn write_next(html: &mut Html, run: &Run, concluded: Concluded) {
    let first = run
        .checks
        .iter()
        .find(|check| check.outcome() != OutcomeKind::SameFault && check.counts_as() == OutcomeKind::Failed);
    let rule = first.and_then(|check| check.requirements.first());
    let mut steps: Vec<(&str, String)> = Vec::new();
    match concluded {
        Concluded::Deviates => {
            if let Some(rule) = rule {
                steps.push(("Why the first rule is there, and how it is tested", format!("csi-sanity explain {rule}")));
            }
            if let Some(check) = first {
                steps.push(("Once it is fixed, run that check again", check.repeat.clone()));
            }
            steps.push((
                "What is to stay for now becomes a list, so that a gate shows only what is new",
                "csi-sanity baseline report.json --output known-failing.txt".to_owned(),
            ));
        }
        Concluded::NotJudged | Concluded::Interrupted => steps.push((
            "What this machine and the settings lack, with the same flags for the driver",
            "csi-sanity doctor".to_owned(),
        )),
        Concluded::KnownFailingListOutOfDate => steps.push((
            "Out of the list goes what passes by now",
            "csi-sanity baseline report.json --keep-reasons known-failing.txt --output known-failing.txt".to_owned(),
        )),
        Concluded::ConformsInPart | Concluded::ConformsInPartButForKnownFailures => steps.push((
            "All suites, with the same flags for the driver; only that is a statement on the driver as a whole",
            "csi-sanity run".to_owned(),
        )),
        Concluded::Conforms | Concluded::ConformsButForKnownFailures => {
            steps.push(("A badge for a README", "csi-sanity badge report.json".to_owned()));
            steps.push((
                "What a later version changes",
                "csi-sanity compare report.json later.json --report html=history.html".to_owned(),
            ));
        }
    }
    html.element("div", &[("class", "box next")], |html| {
        html.leaf("h2", &[], "Next");
        html.element("ul", &[("class", "plain")], |list| {
            for (why, command) in steps {
                list.element("li", &[], |item| {
                    item.leaf("span", &[("class", "dim")], &format!("{why}: "));
                    item.leaf("code", &[("data-copy", "the command")], &command);
                });
            }
        });
    });
}
