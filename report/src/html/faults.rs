//! Lists each fault once, then what stayed behind and what was left out.

use csi_harness::resources::cleanup::LeftBehind;
use csi_harness::results::outcome::OutcomeKind;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::shorten::{named, shortened};

use super::markup::Html;
use super::{LISTED_MAX, calls, checks, link_here, mark, names, outcome, place, requirements, timeline};
use crate::entry::CheckEntry;
use crate::fault::{self, FaultGroup};
use crate::journal::Run;
use crate::words::count;

/// Lines of a driver that died.
const PRINTED_MAX: usize = 40;
const NOTES_MAX: usize = 20;

pub(super) fn write(html: &mut Html, section: &str, faults: &[FaultGroup<'_>]) {
    faults.iter().take(LISTED_MAX).for_each(|fault| write_fault(html, fault));
    if let Some(hidden @ 1..) = faults.len().checked_sub(LISTED_MAX) {
        html.leaf("p", &[], &format!("{hidden} more {section} are in --report json=FILE."));
    }
}

fn write_fault(html: &mut Html, FaultGroup { first, others }: &FaultGroup<'_>) {
    let (id, title) = (place(first), format!("{}-title", place(first)));
    let class = format!("fault {}", outcome(first.outcome()).0);
    let attributes = [("class", class.as_str()), ("id", &id), ("aria-labelledby", &title)];
    html.element("article", &attributes, |article| {
        article.element("h3", &[("id", &title)], |h3| {
            mark(h3, outcome(first.outcome()));
            h3.text(" ");
            h3.leaf("bdi", &[], &shortened(&first.message));
            link_here(h3, &id);
        });
        article.element("p", &[("class", "dim")], |p| {
            p.leaf("code", &[], &first.id);
            p.text(&format!(" — {}", first.title));
        });
        article.element("dl", &[], |list| write_facts(list, first));
        timeline::write(article, first);
        calls::write(article, first);
        write_printed(article, first);
        if !others.is_empty() {
            article.element("details", &[], |details| {
                details.leaf("summary", &[], &format!("The same in {}", count(others.len(), "more check")));
                names(details, others.iter().copied());
            });
        }
    });
}

fn write_facts(list: &mut Html, check: &CheckEntry) {
    let fact = |list: &mut Html, name: &str, value: &str| {
        if !value.is_empty() {
            list.leaf("dt", &[], name);
            list.element("dd", &[], |item| item.leaf("bdi", &[], &shortened(value)));
        }
    };
    let is_breach = matches!(
        check.outcome(),
        OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::Warned | OutcomeKind::KnownFailure
    );
    let broken = check.requirements.first().filter(|_| is_breach);
    let row = broken.and_then(|id| Requirement::find(id));
    if let Some(rule) = broken.filter(|_| row.is_none()) {
        fact(list, "requirement", &format!("{rule}, a rule of ours: csi-sanity explain {rule}"));
    }
    if let Some(rule) = row {
        list.leaf("dt", &[], "requirement");
        list.element("dd", &[], |item| {
            requirements::write_link(item, rule);
            item.text(&format!(" ({}), {}", rule.strength(), rule.section));
        });
        fact(list, "it says", &rule.sentence());
        let why = rule.why_only_warned().filter(|_| check.outcome() == OutcomeKind::Warned);
        fact(list, "only warns", why.unwrap_or_default());
    }
    fact(list, "repeated", &check.repeated());
    fact(list, "known because", check.known_because.as_deref().unwrap_or_default());
    fact(list, "expected", &check.expected);
    fact(list, "actual", &check.actual);
    if let Some(began) = &check.began_with {
        fact(list, "began with", &format!("{}: {} ended with {}", began.check, began.rpc, began.how));
    }
    check.notes.iter().take(NOTES_MAX).for_each(|note| fact(list, "note", note));
    check.left_behind.iter().take(NOTES_MAX).for_each(|left| fact(list, "left behind", left));
    if let Some((command, notes)) = check.by_hand.split_first() {
        list.leaf("dt", &[], "by hand");
        list.element("dd", &[], |item| {
            item.leaf("code", &[("data-copy", "the command")], command);
            notes.iter().for_each(|note| item.leaf("div", &[], note));
        });
    }
    list.leaf("dt", &[], "repeat");
    list.element("dd", &[], |item| item.leaf("code", &[("data-copy", "the command")], &check.repeat));
}

/// Writes the output of the driver, if it died.
fn write_printed(html: &mut Html, check: &CheckEntry) {
    if !check.driver_printed.is_empty() {
        let last = &check.driver_printed[check.driver_printed.len().saturating_sub(PRINTED_MAX)..];
        html.element("details", &[], |details| {
            details.leaf("summary", &[], "What the driver printed last");
            details.leaf("pre", &[("data-copy", "what the driver printed")], &last.join("\n"));
        });
    }
}

pub(super) fn write_crashes(html: &mut Html, run: &Run) {
    html.element("ul", &[], |list| {
        for crash in run.crashes.iter().take(LISTED_MAX) {
            let after = if crash.back { "was back afterwards" } else { "stayed away" };
            let log = crash
                .log
                .as_ref()
                .map_or_else(String::new, |log| format!("; it printed to {}", log.display()));
            let during = crash.under_way.join(", ");
            list.leaf("li", &[], &format!("The driver died during {during}, and {after}{log}."));
        }
    });
}

pub(super) fn write_leaks(html: &mut Html, run: &Run) {
    html.element("ul", &[], |list| {
        for leak in run.leaks.iter().take(LISTED_MAX) {
            let whose = if leak.ours { "left behind" } else { "new, but named in no reply to this run" };
            list.element("li", &[], |item| {
                item.text(&format!("{} ", leak.kind));
                item.leaf("code", &[], &shortened(&named(&leak.id)));
                item.text(&format!(" is {whose}"));
                if let Some(check) = &leak.check {
                    item.text(", made by ");
                    item.leaf("code", &[], check);
                }
            });
        }
        if let Some(hidden @ 1..) = run.leaks.len().checked_sub(LISTED_MAX) {
            list.leaf("li", &[], &format!("and {}", count(hidden, "more thing")));
        }
        run.left_behind.iter().take(LISTED_MAX).for_each(|left| write_left_behind(list, left));
        if let Some(hidden @ 1..) = run.left_behind.len().checked_sub(LISTED_MAX) {
            list.leaf("li", &[], &format!("and {}", count(hidden, "more thing")));
        }
    });
}

fn write_left_behind(list: &mut Html, left: &LeftBehind) {
    list.element("li", &[], |item| {
        item.leaf("code", &[], &shortened(&left.what));
        item.text(if left.in_doubt { " may be left behind: " } else { " is left behind: " });
        item.leaf("bdi", &[], &shortened(&left.why));
        if let Some(check) = &left.check {
            item.text("; made by ");
            item.leaf("code", &[], check);
        }
        if let Some(command) = &left.remove {
            item.text("; to remove it: ");
            item.leaf("code", &[], command);
        }
    });
}

/// Lists skipped checks by reason. The reason with the most checks comes first.
pub(super) fn write_skipped(html: &mut Html, run: &Run) {
    let mut reasons = fault::each(run, OutcomeKind::Skipped);
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.others.len()));
    for FaultGroup { first, others } in reasons.iter().take(LISTED_MAX) {
        html.element("details", &[], |details| {
            let all = 1 + others.len();
            details.leaf("summary", &[], &format!("{}: {}", checks(all), first.message));
            let labels: Vec<&str> =
                std::iter::once(first.id.as_str()).chain(others.iter().copied()).collect();
            names(details, labels.into_iter());
        });
    }
    if let Some(hidden @ 1..) = reasons.len().checked_sub(LISTED_MAX) {
        html.leaf("p", &[], &format!("{hidden} more reasons are in --report json=FILE."));
    }
}

pub(super) fn write_remarks(html: &mut Html, run: &Run) {
    html.element("ul", &[], |list| {
        run.remarks.iter().take(LISTED_MAX).for_each(|remark| list.leaf("li", &[], &shortened(remark)));
    });
}
