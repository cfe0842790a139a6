//! Two runs beside each other: what got better, what got worse.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use csi_harness::results::outcome::{self, OutcomeKind};
use serde::{Serialize, Serializer};

use crate::entry::{CheckEntry, RpcEntry};
use crate::journal::Run;
use crate::markdown::{code, escaped};
use crate::terminal::plain;
use crate::words::{count, duration_text};

/// Calls of an RPC in each run without which nothing is said of how long it takes.
const CALLS_MIN: u64 = 5;
/// Longer by less than this is noise, whatever the ratio.
const SLOWER_BY_US: u64 = 5_000;
/// An RPC that takes this many times as long is reported, unless the user sets another factor.
const SLOWER_FACTOR: f64 = 2.0;
/// Entries of each kind that texts for people have; JSON has all.
const ENTRIES_MAX: usize = 200;

/// The differences between two runs.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    /// The driver of the earlier run.
    pub old: Side,
    /// The driver of the later one.
    pub new: Side,
    /// The reasons why the two runs cannot be compared one to one, a sentence each.
    pub cautions: Vec<String>,
    /// Checks that failed and pass.
    pub fixed: Vec<Entry>,
    /// Checks that failed and pass, but have tried less than before, which proves little.
    pub tried_less: Vec<Entry>,
    /// Checks that fail and did not, or were not there.
    pub new_failures: Vec<Entry>,
    /// Checks that failed and fail, known or not.
    pub still_failing: Vec<Entry>,
    /// Checks that judged and cannot any more.
    pub newly_not_judged: Vec<Entry>,
    /// Checks that judged and are skipped.
    pub newly_skipped: Vec<Entry>,
    /// Checks that judged and are not there, although the later run was asked for them.
    pub gone: Vec<Entry>,
    /// Checks that judged, and that the later run was not asked for.
    pub not_asked: usize,
    /// Checks that judged, and that the later run did not come to, because it was interrupted or ended after a failure.
    pub not_run: usize,
    /// Checks whose failure did not come again when it was repeated, and that only warn.
    pub flaky: Vec<Entry>,
    /// Checks that warn and did not.
    pub newly_warned: Vec<Entry>,
    /// Times that the driver died, and things it left behind, that are more than before.
    pub new_trouble: Vec<String>,
    /// RPCs that take longer.
    pub slower: Vec<Slower>,
    /// True if anything got worse: a new failure or trouble, or a check that no longer judges; and something slower, where
    /// that counts.
    pub is_worse: bool,
}

/// One of the two runs.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The driver and its version.
    pub driver: String,
    /// The verdict on it.
    pub verdict: &'static str,
    /// The version of csi-sanity.
    pub tool_version: String,
}

/// A check that ended in another way, or failed again.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Its label.
    pub id: String,
    /// The earlier outcome, if the check was there.
    #[serde(serialize_with = "named")]
    pub was: Option<OutcomeKind>,
    /// The later outcome, if the check is there.
    #[serde(serialize_with = "named")]
    pub is: Option<OutcomeKind>,
    /// The violation, or the reason of a skip or an inconclusive check; from the later run, if the check is there.
    pub message: String,
}

/// An RPC that takes longer.
#[derive(Debug, Serialize)]
pub struct Slower {
    /// The RPC, such as `CreateVolume`.
    pub rpc: String,
    /// The earlier median of its calls, in microseconds.
    pub old_median_us: u64,
    /// The later median of its calls, in microseconds.
    pub new_median_us: u64,
    /// The later median divided by the earlier one.
    pub factor: f64,
}

/// Compares two runs. RPCs that take `slower_than` times as long count as worse, if that is given.
pub fn compare(old: &Run, new: &Run, slower_than: Option<f64>) -> Comparison {
    let mut comparison = Comparison {
        old: side(old),
        new: side(new),
        cautions: cautions(old, new),
        new_trouble: new_trouble(old, new),
        slower: slower(old, new, slower_than.unwrap_or(SLOWER_FACTOR)),
        ..Comparison::default()
    };
    let mut left: BTreeMap<&str, &CheckEntry> =
        old.checks.iter().map(|check| (check.id.as_str(), check)).collect();
    for check in &new.checks {
        let was = left.remove(check.id.as_str());
        // In another run, another one of several checks may report a fault first.
        if shows_fault_of(check, old) && !was.is_some_and(|was| fails(was.counts_as())) {
            comparison.still_failing.push(Entry::of(was, check));
        } else if !(check.counts_as().passes() && was.is_some_and(|was| shows_fault_of(was, new))) {
            comparison.add(was, Some(check));
        }
    }
    if asks_for_as_much(old, new) {
        left.into_values().for_each(|check| comparison.add(Some(check), None));
    } else {
        comparison.not_asked = left.into_values().filter(|check| judges(check.counts_as())).count();
    }
    comparison.is_worse = !(comparison.new_failures.is_empty()
        && comparison.newly_not_judged.is_empty()
        && comparison.newly_skipped.is_empty()
        && comparison.gone.is_empty()
        && comparison.new_trouble.is_empty()
        && (slower_than.is_none() || comparison.slower.is_empty()));
    comparison
}

/// Compares each of several runs with the one before it.
pub fn compare_each(runs: &[Run], slower_than: Option<f64>) -> Vec<Comparison> {
    runs.windows(2).map(|pair| compare(&pair[0], &pair[1], slower_than)).collect()
}

fn named<S: Serializer>(kind: &Option<OutcomeKind>, serializer: S) -> Result<S::Ok, S::Error> {
    kind.map(OutcomeKind::name).serialize(serializer)
}

/// Returns true if the driver breaks a rule, listed as known or not, and whichever check reports it.
fn fails(kind: OutcomeKind) -> bool {
    matches!(kind, OutcomeKind::Failed | OutcomeKind::KnownFailure)
}

fn judges(kind: OutcomeKind) -> bool {
    fails(kind) || kind.passes()
}

/// Returns true if the check shows a fault that another check reports in its run, and if that one fails in the other run too.
fn shows_fault_of(check: &CheckEntry, other: &Run) -> bool {
    let first = check.reported_in().filter(|_| fails(check.counts_as()));
    first.is_some_and(|first| other.checks.iter().any(|one| one.id == first && fails(one.counts_as())))
}

/// Returns true if the later run was asked for all checks of the earlier one, as far as the terms show that.
fn asks_for_as_much(old: &Run, new: &Run) -> bool {
    let has_suite = |suite| new.selection.suites.contains(suite);
    let is_whole = new.selection.terms.is_empty() && new.shard.is_none();
    is_whole && old.selection.suites.iter().all(has_suite) || asked(old) == asked(new)
}

fn asked(run: &Run) -> (&[String], &[String], Option<(u32, u32)>) {
    let place = run.shard.as_ref().map(|shard| (shard.index, shard.of));
    (&run.selection.suites, &run.selection.terms, place)
}

impl Entry {
    fn of(old: Option<&CheckEntry>, latest: &CheckEntry) -> Entry {
        let (was, is) = (old.map(CheckEntry::outcome), Some(latest.outcome()));
        Entry { id: latest.id.clone(), was, is, message: latest.message.clone() }
    }

    fn tried_less(old: &CheckEntry, new: &CheckEntry) -> Entry {
        let message =
            format!("{} tries, formerly {}; with as many as before it may still fail", new.tried, old.tried);
        Entry { id: new.id.clone(), was: Some(old.outcome()), is: Some(new.outcome()), message }
    }
}

impl Comparison {
    fn add(&mut self, old: Option<&CheckEntry>, new: Option<&CheckEntry>) {
        // A fault that only warns stays a warning where another check shows it.
        let (was, is) = (old.map(CheckEntry::counts_as), new.map(CheckEntry::counts_as));
        let is_flaky = |check: &CheckEntry| {
            check.outcome() == OutcomeKind::Flaky && check.counts_as() == OutcomeKind::Warned
        };
        if let Some(check) = new.filter(|check| is_flaky(check)) {
            return self.flaky.push(Entry::of(old, check));
        }
        // A check that was flaky failed, if only once.
        let was = if old.is_some_and(is_flaky) { Some(OutcomeKind::Failed) } else { was };
        let judged = was.is_some_and(judges);
        let tried = |check: Option<&CheckEntry>| check.map_or(0, |check| check.tried);
        let list = match is {
            Some(kind) if fails(kind) && was.is_some_and(fails) => &mut self.still_failing,
            Some(kind) if fails(kind) => &mut self.new_failures,
            Some(kind) if kind.passes() && was.is_some_and(fails) && tried(new) < tried(old) => {
                return self.tried_less.extend(old.zip(new).map(|(old, new)| Entry::tried_less(old, new)));
            }
            Some(kind) if kind.passes() && was.is_some_and(fails) => &mut self.fixed,
            Some(OutcomeKind::Broken) if judged => &mut self.newly_not_judged,
            Some(OutcomeKind::Skipped)
                if judged && new.is_some_and(|new| outcome::is_of_early_end(&new.message)) =>
            {
                self.not_run += 1;
                return;
            }
            Some(OutcomeKind::Skipped) if judged => &mut self.newly_skipped,
            Some(OutcomeKind::Warned) if was != Some(OutcomeKind::Warned) => &mut self.newly_warned,
            None if judged => &mut self.gone,
            _ => return,
        };
        let Some(latest) = new.or(old) else { return };
        let (was, is) = (old.map(CheckEntry::outcome), new.map(CheckEntry::outcome));
        list.push(Entry { id: latest.id.clone(), was, is, message: latest.message.clone() });
    }
}

fn side(run: &Run) -> Side {
    Side { driver: run.target.driver(), verdict: run.verdict.name(), tool_version: run.tool.version.clone() }
}

fn cautions(old: &Run, new: &Run) -> Vec<String> {
    let mut cautions = Vec::new();
    if old.target.name != new.target.name {
        cautions.push(format!("these are two drivers: {} and {}", old.target.driver(), new.target.driver()));
    }
    if old.tool.version != new.tool.version {
        let (old, new) = (&old.tool.version, &new.tool.version);
        cautions
            .push(format!("csi-sanity {old} made one report and {new} the other: checks may have changed"));
    }
    if asked(old) != asked(new) {
        cautions.push("the two runs were asked for different checks".to_owned());
    }
    for (which, run) in [("the old", old), ("the new", new)] {
        if run.interrupted {
            cautions.push(format!("{which} run did not come to its end"));
        }
    }
    cautions
}

fn new_trouble(old: &Run, new: &Run) -> Vec<String> {
    let ours = |run: &Run| run.leaks.iter().filter(|leak| leak.ours).count();
    let counts = [
        ("death of the driver", "deaths of the driver", old.crashes.len(), new.crashes.len()),
        ("thing left behind", "things left behind", ours(old), ours(new)),
    ];
    let more = |(one, several, was, is): (&str, &str, usize, usize)| {
        (is > was).then(|| format!("{is} {}, formerly {was}", if is == 1 { one } else { several }))
    };
    counts.into_iter().filter_map(more).collect()
}

/// The RPCs that take `factor` times as long, the worst first.
fn slower(old: &Run, new: &Run, factor: f64) -> Vec<Slower> {
    let enough = |calls: &&RpcEntry| calls.done >= CALLS_MIN;
    let mut slower: Vec<Slower> = new
        .rpcs
        .iter()
        .filter(enough)
        .filter_map(|calls| {
            let was = old.rpcs.iter().filter(enough).find(|was| was.rpc == calls.rpc)?;
            let (was_us, is_us) = (was.median_us, calls.median_us);
            let ratio = is_us as f64 / was_us.max(1) as f64;
            let is_slower = ratio >= factor && is_us.saturating_sub(was_us) >= SLOWER_BY_US;
            is_slower.then(|| Slower {
                rpc: calls.rpc.clone(),
                old_median_us: was_us,
                new_median_us: is_us,
                factor: (ratio * 10.0).round() / 10.0,
            })
        })
        .collect();
    slower.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    slower
}

impl Comparison {
    fn lists(&self) -> [(&'static str, &[Entry]); 9] {
        [
            ("new failure", &self.new_failures),
            ("newly inconclusive", &self.newly_not_judged),
            ("newly skipped", &self.newly_skipped),
            ("gone", &self.gone),
            ("newly warned", &self.newly_warned),
            ("flaky", &self.flaky),
            ("still failing", &self.still_failing),
            ("passes, tried less", &self.tried_less),
            ("fixed", &self.fixed),
        ]
    }

    fn verdict(&self) -> &'static str {
        if self.is_worse { "something got worse" } else { "nothing got worse" }
    }

    pub(crate) fn slower_text(slower: &Slower) -> String {
        let (was, is) = (duration_text(slower.old_median_us), duration_text(slower.new_median_us));
        format!("{} takes {is}, formerly {was}: {:.1} times as long", slower.rpc, slower.factor)
    }

    /// The comparison for a terminal, without control characters from a driver.
    pub fn text(&self) -> String {
        let mut text = format!("{} → {}\n", plain(&self.old.driver), plain(&self.new.driver));
        // Writing into a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        self.cautions.iter().try_for_each(|caution| writeln!(text, "note: {}", plain(caution)))?;
        for (kind, entries) in self.lists() {
            for entry in entries.iter().take(ENTRIES_MAX) {
                let colon = if entry.message.is_empty() { "" } else { ": " };
                writeln!(
                    text,
                    "{kind:<18}  {}{colon}{}",
                    plain(&entry.id),
                    one_line(&plain(&entry.message))
                )?;
            }
            if let Some(hidden @ 1..) = entries.len().checked_sub(ENTRIES_MAX) {
                writeln!(text, "{kind:<18}  and {}; --format json has all", count(hidden, "more check"))?;
            }
        }
        self.new_trouble.iter().try_for_each(|trouble| writeln!(text, "{:<18}  {trouble}", "new trouble"))?;
        for slower in &self.slower {
            writeln!(text, "{:<18}  {}", "slower", plain(&Comparison::slower_text(slower)))?;
        }
        let [failures, not_judged, skipped, gone, warned, flaky, still, tried_less, fixed] =
            self.lists().map(|(_, entries)| entries.len());
        writeln!(
            text,
            "\n{}: {failures} newly failing, {fixed} fixed, {still} still failing, {not_judged} newly inconclusive, \
             {skipped} newly skipped, {gone} gone, {warned} newly warned, {flaky} flaky, {} slower",
            self.verdict(),
            self.slower.len()
        )?;
        self.left_out().try_for_each(|line| writeln!(text, "{line}"))?;
        match tried_less {
            0 => Ok(()),
            more => writeln!(text, "{} not shown to be fixed: fewer tries than before", count(more, "check")),
        }
    }

    /// Lines about the checks of the old run that are not compared.
    fn left_out(&self) -> impl Iterator<Item = String> {
        let line = |number: usize, why: &str| {
            let were = if number == 1 { "was" } else { "were" };
            (number > 0).then(|| format!("{} of the old run {were} {why}", count(number, "check")))
        };
        let not_asked = line(self.not_asked, "not asked for in the new one");
        not_asked.into_iter().chain(line(self.not_run, "not run in the new one, which ended early"))
    }

    /// The comparison for the summary of a CI step.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = self.write_markdown(&mut text);
        text
    }

    fn write_markdown(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "## {} → {}: {}\n", code(&self.old.driver), code(&self.new.driver), self.verdict())?;
        for caution in &self.cautions {
            writeln!(text, "> {}\n", escaped(caution))?;
        }
        let slower = self.slower.len();
        writeln!(text, "| what | checks |\n|---|--:|")?;
        self.lists()
            .iter()
            .try_for_each(|(kind, entries)| writeln!(text, "| {kind} | {} |", entries.len()))?;
        writeln!(text, "| slower RPCs | {slower} |\n")?;
        self.left_out().try_for_each(|line| writeln!(text, "{line}.\n"))?;
        for (kind, entries) in self.lists().iter().filter(|(_, entries)| !entries.is_empty()) {
            writeln!(text, "<details><summary>{kind}: {}</summary>\n", entries.len())?;
            for entry in entries.iter().take(ENTRIES_MAX) {
                writeln!(text, "- {} {}", code(&entry.id), escaped(&one_line(&entry.message)))?;
            }
            if let Some(hidden @ 1..) = entries.len().checked_sub(ENTRIES_MAX) {
                writeln!(text, "- and {}", count(hidden, "more check"))?;
            }
            writeln!(text, "\n</details>\n")?;
        }
        self.new_trouble.iter().try_for_each(|trouble| writeln!(text, "- {trouble}"))?;
        self.slower
            .iter()
            .try_for_each(|slower| writeln!(text, "- {}", escaped(&Comparison::slower_text(slower))))
    }
}

fn one_line(text: &str) -> String {
    csi_harness::text::shorten::shortened(text).replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use csi_harness::results::outcome::{Crash, Leak};

    use super::*;
    use crate::entry::{Selection, TargetEntry};

    /// A report with these outcomes, in which CreateVolume took this time.
    fn report(name: &str, checks: &[(&str, &str)], median_us: u64) -> Run {
        let check = |(id, outcome): &(&str, &str)| match *outcome {
            "same_fault" => {
                let same = serde_json::json!({ "check": "x", "outcome": "failed" });
                serde_json::json!({ "id": id, "outcome": "skipped", "message": "", "same_fault": same })
            }
            _ => {
                serde_json::json!({ "id": id, "outcome": outcome, "message": format!("{id} says <b>") })
            }
        };
        let checks = checks.iter().map(check).collect();
        let rpc = RpcEntry { rpc: "CreateVolume".to_owned(), done: 9, median_us, ..RpcEntry::default() };
        Run {
            selection: Selection { suites: vec!["sanity".to_owned()], terms: Vec::new(), is_whole: true },
            target: TargetEntry {
                name: name.to_owned(),
                vendor_version: "1".to_owned(),
                ..TargetEntry::default()
            },
            checks: serde_json::from_value(checks).unwrap(),
            rpcs: vec![rpc],
            ..Run::default()
        }
    }

    fn ids(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.id.as_str()).collect()
    }

    #[test]
    fn each_check_is_in_the_list_of_what_became_of_it() {
        let old = [
            ("fixed", "failed"),
            ("gone", "passed"),
            ("gone-skipped", "skipped"),
            ("known", "failed"),
            ("led", "failed"),
            ("new", "passed"),
            ("not-judged", "passed"),
            ("same", "passed"),
            ("skipped", "warned"),
            ("warned", "passed"),
        ];
        let new = [
            ("fixed", "passed"),
            ("fresh", "failed"),
            ("known", "known_failure"),
            ("led", "same_fault"),
            ("new", "failed"),
            ("not-judged", "broken"),
            ("same", "passed"),
            ("skipped", "skipped"),
            ("warned", "warned"),
        ];
        let found = compare(&report("a", &old, 1), &report("a", &new, 1), None);
        assert_eq!(ids(&found.fixed), ["fixed"]);
        assert_eq!(ids(&found.new_failures), ["fresh", "new"]);
        assert_eq!(ids(&found.still_failing), ["known", "led"]);
        assert_eq!(ids(&found.newly_not_judged), ["not-judged"]);
        assert_eq!(ids(&found.newly_skipped), ["skipped"]);
        assert_eq!(ids(&found.gone), ["gone"]);
        assert_eq!(ids(&found.newly_warned), ["warned"]);
        assert!(found.is_worse && found.cautions.is_empty(), "{found:?}");
        assert!(found.text().contains("new failure         fresh: fresh says <b>"), "{}", found.text());
        assert!(found.markdown().contains("- `fresh` fresh says &lt;b&gt;"), "{}", found.markdown());
    }

    #[test]
    fn what_the_later_run_was_not_asked_for_is_not_gone() {
        let old = report("a", &[("failed", "failed"), ("passed", "passed"), ("skipped", "skipped")], 1);
        let mut new = report("a", &[("failed", "passed")], 1);
        assert_eq!(ids(&compare(&old, &new, None).gone), ["passed"]);
        new.selection.terms = vec!["--only-failed report.json".to_owned()];
        let found = compare(&old, &new, None);
        assert_eq!((ids(&found.gone), found.not_asked, found.is_worse), (vec![], 1, false), "{found:?}");
        assert_eq!(ids(&found.fixed), ["failed"]);
        let line = "1 check of the old run was not asked for in the new one";
        assert!(found.text().contains(line) && found.markdown().contains(line), "{}", found.text());
        new.selection.terms.clear();
        new.selection.suites.push("data".to_owned());
        assert_eq!(
            ids(&compare(&old, &new, None).gone),
            ["passed"],
            "more was asked for, and this is not there"
        );
        new.selection.suites = vec!["data".to_owned()];
        assert_eq!(compare(&old, &new, None).not_asked, 1);
    }

    #[test]
    fn checks_that_a_run_did_not_come_to_are_not_newly_skipped() {
        let old = report("a", &[("failed", "failed"), ("late", "passed"), ("later", "passed")], 1);
        let mut new = report("a", &[("failed", "failed"), ("late", "skipped"), ("later", "skipped")], 1);
        new.checks[1].message =
            "the run stopped before this check, after a failure (--fail-fast or --maxfail 1)".to_owned();
        new.checks[2].message = "interrupted".to_owned();
        let found = compare(&old, &new, None);
        assert_eq!((found.newly_skipped.len(), found.not_run, found.is_worse), (0, 2, false), "{found:?}");
        let line = "2 checks of the old run were not run in the new one, which ended early";
        assert!(found.text().contains(line) && found.markdown().contains(line), "{}", found.text());
    }

    #[test]
    fn a_flaky_failure_is_neither_fixed_nor_new() {
        let flaky = |counts_as| {
            let mut report = report("a", &[("x", "flaky")], 1);
            report.checks[0].counts_as = Some(counts_as);
            report
        };
        let warns = flaky(OutcomeKind::Warned);
        for was in ["passed", "failed", "flaky"] {
            let found = compare(&report("a", &[("x", was)], 1), &warns, None);
            assert_eq!(
                (ids(&found.flaky), found.fixed.len(), found.is_worse),
                (vec!["x"], 0, false),
                "{was}"
            );
        }
        let failed = report("a", &[("x", "failed")], 1);
        assert_eq!(ids(&compare(&warns, &failed, None).still_failing), ["x"]);
        assert_eq!(ids(&compare(&warns, &report("a", &[("x", "passed")], 1), None).fixed), ["x"]);
        let damage = flaky(OutcomeKind::Failed);
        assert_eq!(ids(&compare(&report("a", &[("x", "passed")], 1), &damage, None).new_failures), ["x"]);
    }

    #[test]
    fn what_passes_with_fewer_tries_is_not_called_fixed() {
        let tried = |outcome, tries| {
            let mut report = report("a", &[("property/x", outcome)], 1);
            report.checks[0].tried = tries;
            report
        };
        let found = compare(&tried("failed", 64), &tried("passed", 4), None);
        assert_eq!(
            (ids(&found.tried_less), found.fixed.len(), found.is_worse),
            (vec!["property/x"], 0, false)
        );
        assert!(
            found.text().contains("passes, tried less  property/x: 4 tries, formerly 64"),
            "{}",
            found.text()
        );
        assert_eq!(ids(&compare(&tried("failed", 64), &tried("passed", 64), None).fixed), ["property/x"]);
    }

    /// Older reports say by `reported_in` alone that a check shows a fault again.
    #[test]
    fn a_fault_reported_elsewhere_is_not_fixed() {
        let failed = report("a", &[("x", "failed")], 1);
        let mut led = report("a", &[("x", "skipped")], 1);
        led.checks[0].reported_in = Some("y".to_owned());
        for (old, new) in [(&failed, &led), (&led, &failed), (&led, &report("a", &[("x", "same_fault")], 1))]
        {
            let found = compare(old, new, None);
            assert_eq!((ids(&found.still_failing), found.is_worse), (vec!["x"], false), "{found:?}");
        }
    }

    #[test]
    fn a_fault_that_another_check_reports_is_as_old_as_its_failure() {
        let first = report("a", &[("x", "failed"), ("y", "passed"), ("z", "same_fault")], 1);
        let later = report("a", &[("x", "failed"), ("y", "same_fault"), ("z", "passed")], 1);
        let found = compare(&first, &later, None);
        assert_eq!(ids(&found.still_failing), ["x", "y"], "{found:?}");
        assert_eq!((ids(&found.new_failures), ids(&found.fixed), found.is_worse), (vec![], vec![], false));
        let fixed = report("a", &[("x", "passed"), ("y", "passed"), ("z", "passed")], 1);
        assert_eq!(ids(&compare(&first, &fixed, None).fixed), ["x", "z"]);
    }

    #[test]
    fn what_got_better_or_only_warns_is_not_worse() {
        for (was, is) in
            [("failed", "passed"), ("failed", "failed"), ("passed", "warned"), ("skipped", "passed")]
        {
            let found = compare(&report("a", &[("x", was)], 1), &report("a", &[("x", is)], 1), None);
            assert!(!found.is_worse, "{was} → {is}");
        }
    }

    #[test]
    fn a_warning_shown_by_another_check_is_not_new() {
        let passed = report("a", &[("x", "passed")], 1);
        let mut shows = report("a", &[("x", "same_fault")], 1);
        assert_eq!(ids(&compare(&passed, &shows, None).new_failures), ["x"]);
        if let Some(same) = &mut shows.checks[0].same_fault {
            same.outcome = OutcomeKind::Warned;
        }
        let found = compare(&passed, &shows, None);
        assert_eq!((ids(&found.new_failures), ids(&found.newly_warned)), (vec![], vec!["x"]), "{found:?}");
        assert!(!found.is_worse);
        assert!(compare(&shows, &passed, None).fixed.is_empty());
    }

    #[test]
    fn another_driver_is_named() {
        let found = compare(&report("a", &[], 1), &report("b", &[], 1), None);
        assert_eq!(found.cautions, ["these are two drivers: a 1 and b 1"]);
        assert!(found.text().contains("note: these are two drivers"));
    }

    #[test]
    fn slower_counts_only_on_request_and_beyond_noise() {
        let slower = |was, is, factor| {
            let found = compare(&report("a", &[], was), &report("a", &[], is), factor);
            (found.slower.len(), found.is_worse)
        };
        assert_eq!(slower(10_000, 20_000, None), (1, false), "reported");
        assert_eq!(slower(10_000, 20_000, Some(1.5)), (1, true));
        assert_eq!(slower(10_000, 20_000, Some(3.0)), (0, false));
        assert_eq!(
            slower(100, 4_000, Some(1.5)),
            (0, false),
            "forty times as long, and nothing that anybody waits for"
        );
    }

    #[test]
    fn new_trouble_is_worse() {
        let mut new = report("a", &[], 1);
        new.leaks.push(Leak { kind: "volume".to_owned(), id: "v".to_owned(), ours: true, check: None });
        new.crashes.push(Crash { under_way: Vec::new(), back: true, known: false, log: None });
        let found = compare(&report("a", &[], 1), &new, None);
        assert_eq!(
            found.new_trouble,
            ["1 death of the driver, formerly 0", "1 thing left behind, formerly 0"]
        );
        assert!(found.is_worse);
    }
}
