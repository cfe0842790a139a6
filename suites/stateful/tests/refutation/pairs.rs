//! One fault does not hide another: on a driver with a shallow defect and a graver one, a check blames the driver for the graver one in the
//! words with which it does so if that defect is the only one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_harness::checks::check::Check;
use csi_harness::config::{Config, Effort};
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_mock_driver::Defect;
use csi_proto::lock::Mutex;
use csi_test_support::matrix::{Row, sampled};
use csi_test_support::mock::{self, everything_set};
use csi_test_support::run::outcomes;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{plays_of, registry};

/// All pairs are tried at this seed.
const SEED: u64 = 1;
const HEADER: &str = "\
# A shallow defect, a graver one, the check that has to find the second beside the first, and in which words it then blames the driver:
# those in which it does so without the first, and in which it never speaks of that one.
# UPDATE=1 cargo test -p csi-suite-stateful --test refutation pair/ writes the words anew.
";
const PAIRS: &str = include_str!("pairs.txt");

type Rows = Arc<Mutex<BTreeSet<String>>>;

/// A pair is a line of the table.
#[derive(Clone, Copy)]
struct Pair {
    shallow: &'static str,
    grave: &'static str,
    check: &'static str,
    /// The check has to blame the driver for the graver defect with one of these sentences.
    words: &'static str,
}

impl Pair {
    fn of(line: &'static str) -> Pair {
        let (pair, words) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        let mut names = pair.split(' ');
        let mut name = || names.next().unwrap_or_default();
        Pair { shallow: name(), grave: name(), check: name(), words }
    }
}

pub(crate) fn trials(arguments: &Arguments) -> Vec<Trial> {
    let rows = Rows::default();
    let pairs = PAIRS.lines().filter(|line| !line.starts_with('#')).map(Pair::of);
    let row = |pair: Pair| {
        let rows = rows.clone();
        let title = format!("pair/{}/{}/{}", pair.shallow, pair.grave, pair.check);
        let test = move || is_found_behind(&rows, pair);
        Row { proves: vec![pair.check.to_owned()], trial: Trial::test(title, test) }
    };
    sampled(arguments, pairs.map(row).collect())
}

fn is_found_behind(rows: &Rows, pair: Pair) -> Result<(), Failed> {
    let words = match std::env::var_os("UPDATE") {
        None => pair.words.split(" | ").map(str::to_owned).collect(),
        Some(_) => {
            let of_shallow = blamed(pair.check, &[pair.shallow])?;
            let of_grave = blamed(pair.check, &[pair.grave])?;
            let words: BTreeSet<String> = of_grave.difference(&of_shallow).cloned().collect();
            let joined = words.iter().map(String::as_str).collect::<Vec<_>>().join(" | ");
            let mut rows = rows.lock();
            rows.insert(format!("{} {} {}: {joined}\n", pair.shallow, pair.grave, pair.check));
            std::fs::write(
                path(),
                format!("{HEADER}{}", rows.iter().map(String::as_str).collect::<String>()),
            )?;
            words
        }
    };
    let mut seen = BTreeSet::new();
    for _ in 0..plays_of(pair.check) {
        seen = blamed(pair.check, &[pair.shallow, pair.grave])?;
        if words.iter().any(|words| seen.contains(words)) {
            return Ok(());
        }
    }
    Err(Failed::from(format!(
        "seed {SEED}: {} does not find {} behind {}: it says {seen:#?}, and not {words:#?}",
        pair.check, pair.grave, pair.shallow
    )))
}

/// Returns the sentences with which a check blames a driver with these defects.
fn blamed(check: &str, defects: &[&str]) -> Result<BTreeSet<String>, Failed> {
    let defect = |id: &&str| id.parse::<Defect>().map_err(|_| format!("there is no defect {id}"));
    let defects = defects.iter().map(defect).collect::<Result<_, _>>()?;
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let run = mock::run(registry(), mock, short(), SEED, |other| other.id == check)?;
    let registry = registry();
    let check = registry.checks().find(|(_, other)| other.id == check).map(|(_, check)| check);
    let check = check.ok_or("there is no such check")?;
    Ok(run.reports.iter().flat_map(|report| words(check, report)).collect())
}

/// Returns settings for defects that are found soon, with one access type.
pub(crate) fn short() -> Config {
    let mut config = everything_set();
    config.time_limits.settle_ms = Some(100);
    config.access_types.truncate(1);
    config.effort = Effort {
        cases: 30,
        operations: 200,
        kills: 2,
        repeat: 2,
        check_budget_ms: 60_000,
        ..Effort::default()
    };
    config
}

fn words(check: &Check, report: &CheckReport) -> Vec<String> {
    let violations = outcomes(report).filter_map(Outcome::violation);
    let text = |one: &csi_harness::spec::verdict::Violation| {
        format!("{} {}", one.requirement.unwrap_or(check.requirements[0]).id, one.message)
    };
    violations.map(text).collect()
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refutation/pairs.txt")
}
