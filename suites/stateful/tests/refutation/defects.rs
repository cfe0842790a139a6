//! Every check finds the defects that it names. A committed table says how many of its tries a check needs at each of some seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat_n;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_harness::checks::check::Check;
use csi_harness::config::Config;
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_harness::run::refutation::{Trial, on_a_defect};
use csi_mock_driver::Defect;
use csi_proto::lock::Mutex;
use csi_test_support::matrix::{Row, sampled};
use csi_test_support::mock::{self, everything_set};
use csi_test_support::run::check_rules;
use libtest_mimic::{Arguments, Failed};

use crate::{growth, plays_of, registry};

/// Checks have to find their defects at these seeds.
const SEEDS: [u64; 1] = [1];
const SEEDS_OF_TABLE: [u64; 5] = [1, 2, 3, 4, 5];
/// A driver in this process starts at once if it starts at all.
const DIAL_MS: u64 = 5_000;
/// If a check names defects that no single call shows, the table has the number of tries that it needed.
const HEADER: &str = "\
# How many tries (sequences, or rounds of calls) a check needs to find a defect, at the seeds 1 to 5.
# `end` is a check that finds it when everything is done, `-` one that does not find it. Behind it, the rule that it blames, and whether
# it only warns.
# UPDATE=1 cargo test -p csi-suite-stateful --test refutation defect/ writes this file.
";

type Rows = Arc<Mutex<BTreeMap<String, String>>>;

pub(crate) fn trials(arguments: &Arguments) -> Vec<libtest_mimic::Trial> {
    let rows = Rows::default();
    let pairs: Vec<(Check, &'static str)> = registry()
        .checks()
        .flat_map(|(_, check)| check.refuted_by.iter().map(move |defect| (check.clone(), *defect)))
        // The tests of the data suite try the defects that show only on real mounts, on the reference driver.
        .filter(|(_, defect)| !defect.starts_with("hostpath/"))
        .collect();
    let row = |(check, defect): (Check, &'static str)| {
        let (id, rows) = (check.id.to_string(), rows.clone());
        let title = format!("defect/{defect}/{id}");
        let test = move || is_found(&rows, &check, defect);
        Row { proves: vec![id], trial: libtest_mimic::Trial::test(title, test) }
    };
    sampled(arguments, pairs.into_iter().map(row).collect())
}

fn updates() -> bool {
    std::env::var_os("UPDATE").is_some()
}

fn is_found(rows: &Rows, check: &Check, defect: &'static str) -> Result<(), Failed> {
    let updates = updates();
    let mut tries = Vec::new();
    let mut blamed = BTreeSet::new();
    for seed in if updates { &SEEDS_OF_TABLE[..] } else { &SEEDS[..] } {
        let (said, trial) = played_at(check, defect, *seed)?;
        tries.push(match trial {
            Trial::Good => tries_of(&said),
            Trial::Skipped(why) | Trial::Bad(why) if !updates => {
                return Err(Failed::from(format!("{} does not find {defect}: {why}", check.id)));
            }
            Trial::Skipped(_) | Trial::Bad(_) => "-".to_owned(),
        });
        check_rules(check, &said)?;
        blamed.extend(said.iter().filter_map(|said| blamed_by(check, &said.outcome)));
    }
    if updates {
        let mut rows = rows.lock();
        let blamed: String = blamed.iter().map(|rule| format!(" ({rule})")).collect();
        rows.insert(format!("{defect} {}", check.id), tries.join(" ") + &blamed);
        write(&rows)?;
    }
    Ok(())
}

fn played_at(check: &Check, defect: &str, seed: u64) -> Result<(Vec<CheckReport>, Trial), Failed> {
    // Most defects show with either access type. The table has both, and a driver that is a process is tried with both anyway.
    let with_one = usize::from(!updates() && !growth::needs_process(check));
    let with_both = plays_of(&check.id).saturating_sub(with_one).max(1);
    let (mut said, mut trial) = (Vec::new(), Trial::Bad("it was not tried".to_owned()));
    for access_types in repeat_n(1, with_one).chain(repeat_n(2, with_both)) {
        if !matches!(trial, Trial::Good) {
            (said, trial) = play_once(check, defect, seed, access_types)?;
        }
    }
    Ok((said, trial))
}

fn play_once(
    check: &Check,
    defect: &str,
    seed: u64,
    access_types: usize,
) -> Result<(Vec<CheckReport>, Trial), Failed> {
    let said = said_at(check, defect, seed, access_types)?;
    let outcomes: Vec<&Outcome> = said.iter().map(|said| &said.outcome).collect();
    let trial = on_a_defect(&outcomes);
    Ok((said, trial))
}

fn said_at(check: &Check, defect: &str, seed: u64, access_types: usize) -> Result<Vec<CheckReport>, Failed> {
    if growth::needs_process(check) {
        return growth::played(check, defect, seed);
    }
    let defect: Defect = defect.parse().map_err(|_| format!("there is no defect {defect}"))?;
    let mock = csi_mock_driver::Config { defects: vec![defect], ..Default::default() };
    let mut config: Config = everything_set();
    config.access_types.truncate(access_types);
    config.time_limits.settle_ms = Some(100);
    config.time_limits.dial_ms = DIAL_MS;
    config.effort.faults = 1;
    Ok(mock::run(registry(), mock, config, seed, |other| other.id == check.id)?.reports)
}

/// Returns the rule that a check blames, and whether it only warns.
fn blamed_by(check: &Check, outcome: &Outcome) -> Option<String> {
    let rule = outcome.violation()?.requirement.unwrap_or(check.requirements[0]);
    let warns = if matches!(outcome, Outcome::Warned(_)) { " warns" } else { "" };
    Some(format!("{}{warns}", rule.id))
}

/// Returns the number of tries that the notes of the check name, or "end" if they name none.
fn tries_of(said: &[CheckReport]) -> String {
    let number = |note: &String| {
        let mut words = note.split(' ').skip_while(|word| !["sequence", "round"].contains(word));
        note.contains("the first fault was in ")
            .then(|| words.nth(1).and_then(|word| word.trim_end_matches(',').parse::<u32>().ok()))
    };
    let tries = said.iter().flat_map(|said| &said.notes).filter_map(number).flatten().min();
    tries.map_or_else(|| "end".to_owned(), |tries| tries.to_string())
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/tries.txt")
}

/// Writes the rows of this run, and keeps the others that are still named.
fn write(seen: &BTreeMap<String, String>) -> Result<(), Failed> {
    let committed = std::fs::read_to_string(path()).unwrap_or_default();
    let mut rows: BTreeMap<String, String> = committed
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": ").map(|(row, tries)| (row.to_owned(), tries.to_owned())))
        .collect();
    rows.extend(seen.clone());
    let named = |row: &str| {
        registry()
            .checks()
            .any(|(_, check)| check.refuted_by.iter().any(|defect| row == format!("{defect} {}", check.id)))
    };
    let lines: String =
        rows.iter().filter(|(row, _)| named(row)).map(|(row, tries)| format!("{row}: {tries}\n")).collect();
    Ok(std::fs::write(path(), format!("{HEADER}{lines}"))?)
}
