//! The reports of the shards of a run, put together to one of the whole.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::checks::check::{Check, SAME_RULE};
use csi_harness::checks::registry::Registry;
use csi_harness::checks::shard;
use csi_harness::client::tally::Times;
use csi_harness::results::outcome::{Leak, OutcomeKind, SameFault, Summary, Verdict};
use csi_harness::spec::faults::asks_for_several;
use csi_harness::spec::requirements::req;

use crate::areas::Areas;
use crate::entry::{CheckEntry, PartEntry, RpcEntry, SameFaultEntry, Selection, ShardEntry, Tool};
use crate::journal::{Run, SCHEMA, SPECIFICATION};
use crate::statement::Statement;

/// The reasons why reports do not make a run.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error(
        "there is no report; name those that the shards have written with --report json=FILE, or the directory they are in"
    )]
    None,
    /// Some of the reports are of shards, and others are not.
    #[error(
        "{file}: not the report of a shard, as others are; put the shards together first, then join what they make with it"
    )]
    NotAShard { file: String },
    /// Two reports contain checks of one suite.
    #[error(
        "{file} and {other} both contain the suite {suite}; name only one of them, and see with `csi-sanity compare` what differs"
    )]
    SameSuite {
        suite: String,
        /// One of the files.
        file: String,
        /// The other file.
        other: String,
    },
    /// A report holds what no run writes.
    #[error("{file}: {problem}; write it again, and do not edit it")]
    Spoilt { file: String, problem: String },
    /// Another version of the program made a report.
    #[error(
        "{file}: made by csi-sanity {theirs}, and this is {ours}; put it together with the version that made it"
    )]
    OtherVersion {
        file: String,
        /// The version that made the file.
        theirs: String,
        /// The version of this program.
        ours: &'static str,
    },
    /// Two reports are of different runs.
    #[error(
        "{file} and {other} are not of one run: {what} is {one} in the first and {another} in the second"
    )]
    Differ {
        /// One of the files.
        file: String,
        /// The other file.
        other: String,
        /// The name of the setting or property.
        what: &'static str,
        /// Its value in one report.
        one: String,
        /// Its value in the other report.
        another: String,
    },
    /// Two reports are of one shard.
    #[error("{file} and {other} are both of shard {shard}; name only one of them")]
    Twice {
        shard: String,
        /// One of the files.
        file: String,
        /// The other file.
        other: String,
    },
    /// Reports of some shards are not there.
    #[error("no report of {}; the run cannot be judged without {}", missing.join(", "), if missing.len() == 1 { "it" } else { "them" })]
    Missing {
        /// The missing shards or reports, such as `shard 2/4`.
        missing: Vec<String>,
    },
}

/// Facts about the whole run that its reports do not contain.
#[derive(Debug)]
pub struct Whole {
    pub version: &'static str,
    /// The command line that puts them together.
    pub command: String,
    /// Returns true if these suites, without terms, are all checks of the specification that exist.
    pub is_whole: fn(&Selection) -> bool,
}

/// A report, and the file that it was read from.
pub type Part = (String, Run);

/// Puts the reports of all shards of a run together, or joins those of several suites.
///
/// # Errors
/// They are not of one run, or not all of them are there; or not of one driver.
pub fn merge(mut parts: Vec<Part>, registry: &Registry, whole: &Whole) -> Result<Run, MergeError> {
    parts.iter().try_for_each(|part| is_usable(part, whole.version))?;
    if parts.iter().all(|(_, run)| run.shard.is_none()) {
        return join(parts, registry, whole);
    }
    if let Some((file, _)) = parts.iter().find(|(_, run)| run.shard.is_none()) {
        return Err(MergeError::NotAShard { file: file.clone() });
    }
    parts.sort_by_key(|(_, run)| run.shard.as_ref().map(|shard| shard.index));
    let shards = shards(&parts)?;
    let checks = checks(&mut parts);
    is_complete(&parts, &shards, &checks)?;
    Ok(put_together(parts, folded(checks, registry), whole))
}

/// Joins the reports of runs of different suites against one driver to one statement.
fn join(mut parts: Vec<Part>, registry: &Registry, whole: &Whole) -> Result<Run, MergeError> {
    let Some((first, rest)) = parts.split_first() else { return Err(MergeError::None) };
    rest.iter().try_for_each(|part| is_of_one_driver(first, part))?;
    for (at, part) in parts.iter().enumerate() {
        parts[at + 1..].iter().try_for_each(|other| have_no_suite_in_common(part, other))?;
    }
    let selection = joined_selection(&parts);
    let joined = parts.iter().enumerate().map(|(at, (_, run))| part_entry(at, run)).collect();
    let is_alone = parts.len() == 1;
    let checks = checks(&mut parts);
    let command = parts.first().map(|(_, run)| run.command.clone()).unwrap_or_default();
    let mut run = put_together(parts, folded(checks, registry), whole);
    run.selection = selection;
    run.conclusion = run.conclude();
    match is_alone {
        true => run.command = command,
        false => run.joined = joined,
    }
    Ok(run)
}

fn is_of_one_driver(one: &Part, other: &Part) -> Result<(), MergeError> {
    let of_driver = |run: &Run| {
        let [name, version, _, specification, profile, ..] = facts(run);
        [name, version, specification, profile]
    };
    agree(one, other, &of_driver(&one.1), &of_driver(&other.1))
}

fn have_no_suite_in_common((file, one): &Part, (other, another): &Part) -> Result<(), MergeError> {
    match one.selection.suites.iter().find(|suite| another.selection.suites.contains(suite)) {
        Some(suite) => {
            let (suite, file, other) = (suite.clone(), file.clone(), other.clone());
            Err(MergeError::SameSuite { suite, file, other })
        }
        None => Ok(()),
    }
}

/// Everything that was asked for. Where one run was whole, others only add to it.
fn joined_selection(parts: &[Part]) -> Selection {
    let all = |of: fn(&Selection) -> &[String]| {
        parts.iter().flat_map(|(_, run)| of(&run.selection)).cloned().collect::<Vec<_>>()
    };
    Selection {
        suites: all(|selection| &selection.suites),
        terms: all(|selection| &selection.terms),
        is_whole: parts.iter().any(|(_, run)| run.selection.is_whole),
    }
}

fn is_usable((file, run): &Part, ours: &'static str) -> Result<(), MergeError> {
    let spoilt = |problem: &str| Err(MergeError::Spoilt { file: file.clone(), problem: problem.to_owned() });
    // The text becomes a part of web pages and of terminal output.
    let strange = |c: char| c.is_control() || "<>|`".contains(c);
    if run.tool.version != ours {
        let theirs = run.tool.version.clone();
        return Err(MergeError::OtherVersion { file: file.clone(), theirs, ours });
    }
    if run.shard.as_ref().is_some_and(|shard| shard::Shard::new(shard.index, shard.of).is_none()) {
        return spoilt("there is no such shard");
    }
    match run.checks.iter().any(|check| check.id.contains(strange)) {
        true => spoilt("an id of a check has characters that no id has"),
        false => Ok(()),
    }
}

/// The shards of reports in their order, if they are all those of one run.
fn shards(parts: &[Part]) -> Result<Vec<ShardEntry>, MergeError> {
    let Some((first, rest)) = parts.split_first() else { return Err(MergeError::None) };
    rest.iter().try_for_each(|part| is_of_one_run(first, part))?;
    let shards: Vec<ShardEntry> = parts.iter().filter_map(|(_, run)| run.shard.clone()).collect();
    for (at, pair) in shards.windows(2).enumerate() {
        if pair[0].index == pair[1].index {
            let (file, other) = (parts[at].0.clone(), parts[at + 1].0.clone());
            return Err(MergeError::Twice {
                shard: format!("{}/{}", pair[0].index, pair[0].of),
                file,
                other,
            });
        }
    }
    let there: BTreeSet<u32> = shards.iter().map(|shard| shard.index).collect();
    let of = shards.iter().map(|shard| shard.of).max().unwrap_or_default();
    let missing: Vec<String> =
        (1..=of).filter(|index| !there.contains(index)).map(|index| format!("shard {index}/{of}")).collect();
    if missing.is_empty() { Ok(shards) } else { Err(MergeError::Missing { missing }) }
}

fn is_of_one_run(one: &Part, other: &Part) -> Result<(), MergeError> {
    agree(one, other, &facts(&one.1), &facts(&other.1))
}

/// Fails if two reports differ in one of these facts.
fn agree(
    (file, _): &Part,
    (other, _): &Part,
    ours: &[(&'static str, String)],
    theirs: &[(&'static str, String)],
) -> Result<(), MergeError> {
    match ours.iter().zip(theirs).find(|(a, b)| a != b) {
        None => Ok(()),
        Some(((what, one), (_, another))) => Err(MergeError::Differ {
            file: file.clone(),
            other: other.clone(),
            what,
            one: one.clone(),
            another: another.clone(),
        }),
    }
}

/// The facts that all shards of a run share.
fn facts(run: &Run) -> [(&'static str, String); 10] {
    let shard = run.shard.as_ref();
    let list = |texts: &[String]| if texts.is_empty() { "none".to_owned() } else { texts.join(" ") };
    [
        ("the driver", format!("{:?}", run.target.name)),
        ("the driver's version", format!("{:?}", run.target.vendor_version)),
        ("what the driver can do", list(&run.target.capabilities)),
        ("the specification", run.specification.clone()),
        ("the profile", run.profile.to_string()),
        ("the number of shards", shard.map_or_else(String::new, |shard| shard.of.to_string())),
        ("the suites", list(&run.selection.suites)),
        ("the terms that choose checks", list(&run.selection.terms)),
        ("the settings", shard.map_or_else(String::new, |shard| list(&shard.settings))),
        ("the digest of the checks", shard.map_or_else(String::new, |shard| shard.digest.clone())),
    ]
}

/// The checks of all shards. One that ran in each, over what that one saw, ends as it did where it ended worst.
fn checks(parts: &mut [Part]) -> BTreeMap<String, CheckEntry> {
    let mut all = BTreeMap::<String, CheckEntry>::new();
    for check in parts.iter_mut().flat_map(|(_, run)| std::mem::take(&mut run.checks)) {
        match all.get_mut(&check.id) {
            Some(other) if gravity(other.outcome()) >= gravity(check.outcome()) => {}
            _ => drop(all.insert(check.id.clone(), check)),
        }
    }
    all
}

/// Orders the outcomes of a check in several shards. A pass in one shard proves nothing against a failure in another.
fn gravity(outcome: OutcomeKind) -> usize {
    match outcome {
        OutcomeKind::Skipped => 0,
        OutcomeKind::Passed => 1,
        OutcomeKind::UnexpectedPass => 2,
        OutcomeKind::Warned => 3,
        OutcomeKind::Broken => 4,
        OutcomeKind::Flaky => 5,
        OutcomeKind::SameFault => 6,
        OutcomeKind::KnownFailure => 7,
        OutcomeKind::Failed => 8,
    }
}

/// Fails if checks are missing that were to run.
fn is_complete(
    parts: &[Part],
    shards: &[ShardEntry],
    checks: &BTreeMap<String, CheckEntry>,
) -> Result<(), MergeError> {
    let digest = shard::digest(checks.keys().cloned());
    match (shards.first(), parts.first()) {
        (Some(shard), Some((file, _))) if shard.digest != digest => Err(MergeError::Spoilt {
            file: file.clone(),
            problem: format!(
                "the reports contain {} checks, and {} others were to run",
                checks.len(),
                shard.checks
            ),
        }),
        _ => Ok(()),
    }
}

/// Leaves checks untold that show again what one of another shard shows, as the run does within a shard.
fn folded(mut checks: BTreeMap<String, CheckEntry>, registry: &Registry) -> BTreeMap<String, CheckEntry> {
    let order: BTreeMap<&str, (usize, bool)> = registry
        .checks()
        .enumerate()
        .map(|(at, (_, check))| (&*check.id, (at, check.duplicate_of == Some(SAME_RULE))))
        .collect();
    let of = |check: &CheckEntry| {
        let id = Check::id_of(&check.id);
        order.get(id).copied().unwrap_or((usize::MAX, false))
    };
    let accuses = |check: &&CheckEntry| {
        matches!(
            check.outcome(),
            OutcomeKind::Failed | OutcomeKind::Flaky | OutcomeKind::Warned | OutcomeKind::KnownFailure
        )
    };
    // A check that only warns cannot stand in for a failure.
    let key = |check: &CheckEntry| {
        let (at, follows) = of(check);
        (follows, check.counts_as() == OutcomeKind::Warned, at, check.id.clone())
    };
    let mut accusing: Vec<_> = checks.values().filter(accuses).map(key).collect();
    accusing.sort();
    let mut rules = BTreeMap::<String, (String, OutcomeKind)>::new();
    for (follows, _, _, id) in accusing {
        let Some(check) = checks.get_mut(&id) else { continue };
        let rule = check.requirements.first().cloned().unwrap_or_default();
        let key = if asks_for_several(&rule) { check.fault.clone() } else { rule.clone() };
        match rules.get(&key) {
            // Each death is a fault of its own.
            Some((first, counts_as))
                if follows
                    && rule != req::GEN_ERR_001.id
                    && (*counts_as != OutcomeKind::Warned || check.counts_as() == OutcomeKind::Warned) =>
            {
                let (first, counts_as) = (first.clone(), *counts_as);
                let deviates = check.counts_as() != OutcomeKind::Warned;
                let same = SameFault { first, message: rule, counts_as, deviates };
                suppress(check, &same);
                checks.values_mut().for_each(|other| retarget(other, &id, &same));
            }
            Some(_) => {}
            None => drop(rules.insert(key, (id, check.counts_as()))),
        }
    }
    checks
}

fn suppress(check: &mut CheckEntry, same: &SameFault) {
    check.shows_again(same);
    check.known_because = None;
    for text in [&mut check.expected, &mut check.actual, &mut check.findings, &mut check.transcript] {
        text.clear();
    }
    (check.calls, check.calls_left_out) = (Vec::new(), 0);
    check.also.clear();
    (check.reproduction, check.injected) = (Vec::new(), None);
    (check.explanation, check.timeline, check.driver_printed) = (Vec::new(), Vec::new(), Vec::new());
}

/// Replaces references to a check that no longer reports its fault by references to the check that does.
fn retarget(check: &mut CheckEntry, from: &str, to: &SameFault) {
    if check.reported_in.as_deref() == Some(from) {
        check.reported_in = Some(to.first.clone());
    }
    if let Some(same) = check.same_fault.as_mut().filter(|same| same.check == from) {
        *same = SameFaultEntry { check: to.first.clone(), outcome: to.counts_as };
    }
}

fn put_together(mut parts: Vec<Part>, checks: BTreeMap<String, CheckEntry>, whole: &Whole) -> Run {
    let runs: Vec<&Run> = parts.iter().map(|(_, run)| run).collect();
    let (mut areas, lines) = (Areas::default(), runs.iter().flat_map(|run| run.statement.clone()));
    let mut statement = Statement::again(&lines.collect::<Vec<_>>());
    let profile = runs.first().map(|run| run.profile).unwrap_or_default();
    let mut summary = Summary { profile, ..Summary::default() };
    for check in checks.values() {
        areas.add(check.area(), check.counts_as());
        statement.add(check);
        summary.count(check.outcome(), check.counts_as(), &check.fault, check.binds_from);
    }
    let halted = |verdict| runs.iter().any(|run| run.interrupted && run.verdict == verdict);
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "csi-sanity".to_owned(), version: whole.version.to_owned() },
        specification: runs.first().map_or_else(|| SPECIFICATION.to_owned(), |run| run.specification.clone()),
        specification_by: runs.first().map(|run| run.specification_by.clone()).unwrap_or_default(),
        started: runs.iter().map(|run| run.started.clone()).min().unwrap_or_default(),
        command: whole.command.clone(),
        selection: runs.first().map(|run| run.selection.clone()).unwrap_or_default(),
        target: runs.first().map(|run| run.target.clone()).unwrap_or_default(),
        seed: runs.first().map_or(0, |run| run.seed),
        duration_ms: runs.iter().map(|run| run.duration_ms).max().unwrap_or_default(),
        shards: runs.iter().filter_map(|run| part(run)).collect(),
        profile,
        settings: distinct(runs.iter().flat_map(|run| run.settings.clone())),
        driver_image: runs.iter().find_map(|run| run.driver_image.clone()),
        machine: runs.first().and_then(|run| run.machine.clone()),
        verdict: if halted(Verdict::Interrupted) { Verdict::Interrupted } else { Verdict::default() },
        interrupted: runs.iter().any(|run| run.interrupted),
        summary: summary.counts,
        checks: checks.into_values().collect(),
        statement: statement.into_lines(),
        areas: areas.into_vec(),
        leaks: leaks(&runs),
        left_behind: runs.iter().flat_map(|run| run.left_behind.clone()).collect(),
        crashes: runs.iter().flat_map(|run| run.crashes.clone()).collect(),
        remarks: distinct(runs.iter().flat_map(|run| run.remarks.clone())),
        untested: runs
            .iter()
            .map(|run| &run.untested)
            .max_by_key(|untested| untested.len())
            .cloned()
            .unwrap_or_default(),
        ..Run::default()
    };
    run.selection.is_whole = (whole.is_whole)(&run.selection);
    run.rpcs = rpcs(parts.iter_mut().flat_map(|(_, run)| std::mem::take(&mut run.rpcs)));
    let summary = Summary { under: summary.under, ..run.to_summary() };
    run.verdict = summary.verdict();
    run.conclude_from(&summary);
    run
}

fn part(run: &Run) -> Option<PartEntry> {
    Some(PartEntry { index: run.shard.as_ref()?.index, ..part_entry(0, run) })
}

/// A run among others, by its place from 0.
fn part_entry(at: usize, run: &Run) -> PartEntry {
    PartEntry {
        index: u32::try_from(at + 1).unwrap_or(u32::MAX),
        started: run.started.clone(),
        duration_ms: run.duration_ms,
        endpoint: run.target.endpoint.clone(),
        seed: run.seed,
        command: run.command.clone(),
        verdict: run.verdict,
    }
}

/// Each thing that stayed once: what is new to one shard may be what another one made.
fn leaks(runs: &[&Run]) -> Vec<Leak> {
    let mut leaks = BTreeMap::<(String, String), Leak>::new();
    for leak in runs.iter().flat_map(|run| &run.leaks) {
        let key = (leak.kind.clone(), leak.id.clone());
        if leak.ours || !leaks.contains_key(&key) {
            leaks.insert(key, leak.clone());
        }
    }
    leaks.into_values().collect()
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// The calls of all shards.
fn rpcs(entries: impl Iterator<Item = RpcEntry>) -> Vec<RpcEntry> {
    let mut all: Vec<(RpcEntry, Times)> = Vec::new();
    for entry in entries {
        let at = all.iter().position(|(other, _)| other.rpc == entry.rpc).unwrap_or(all.len());
        if at == all.len() {
            all.push((RpcEntry { rpc: entry.rpc.clone(), ..RpcEntry::default() }, Times::default()));
        }
        let (sum, times) = &mut all[at];
        sum.done = sum.done.saturating_add(entry.done);
        sum.refused = sum.refused.saturating_add(entry.refused);
        sum.unanswered = sum.unanswered.saturating_add(entry.unanswered);
        sum.longest_pause_us = sum.longest_pause_us.max(entry.longest_pause_us);
        entry.steps.iter().for_each(|step| times.add_step(step.us, step.calls));
    }
    all.into_iter()
        .map(|(mut entry, times)| {
            entry.took(&times);
            entry
        })
        .collect()
}
