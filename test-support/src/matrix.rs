//! The matrix of checks and drivers: the part of it that a run tries, a small one every day and a shard of the whole matrix at night, and the
//! files that hold it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use csi_harness::checks::shard::Shard;
use csi_harness::results::outcome::{CheckReport, Finding, Outcome};
use csi_harness::spec::requirements::Requirement;
use csi_proto::lock::Mutex;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::run::from_environment;

/// The daily sample takes every row that it needs for a check, and one in this number of the others.
const ONE_IN: usize = 6;
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// A row is a trial that proves checks on one wrong driver.
#[derive(Debug)]
pub struct Row {
    /// The checks that have to find what is wrong, or the rules where one check has many.
    pub proves: Vec<String>,
    pub trial: Trial,
}

/// Returns the trials of all rows, of which those outside the daily sample are ignored, as libtest has it. The sample
/// proves each check at least once. It depends on the day, or on the number `SAMPLE`, so that another part is tried tomorrow.
///
/// Nothing is ignored with a filter, with `--include-ignored`, or with the environment variables MATRIX or UPDATE.
///
/// # Panics
/// Panics if `SAMPLE` is no number.
#[expect(clippy::print_stderr, reason = "a sample shows how it is repeated")]
pub fn sampled(arguments: &Arguments, rows: Vec<Row>) -> Vec<Trial> {
    let is_whole = arguments.filter.is_some() || part().is_some() || std::env::var_os("UPDATE").is_some();
    if is_whole || arguments.include_ignored {
        return rows.into_iter().map(|row| row.trial).collect();
    }
    let seed = from_environment("SAMPLE").unwrap_or_else(day);
    let is_tried = sample(&rows, seed);
    if !arguments.list {
        let tried = is_tried.iter().filter(|is_tried| **is_tried).count();
        eprintln!(
            "{tried} of {} rows: SAMPLE={seed} repeats this sample, --include-ignored tries all",
            rows.len()
        );
    }
    let trials = rows.into_iter().zip(is_tried);
    trials.map(|(row, is_tried)| row.trial.with_ignored_flag(!is_tried)).collect()
}

/// Returns for each row whether it is in the sample.
fn sample(rows: &[Row], seed: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    let mut proven = BTreeSet::new();
    let mut is_tried = vec![false; rows.len()];
    for (place, row) in order.into_iter().enumerate() {
        let proven_before = proven.len();
        proven.extend(&rows[row].proves);
        is_tried[row] = proven.len() > proven_before || place % ONE_IN == 0;
    }
    is_tried
}

/// Returns the number of days since 1970, in UTC.
fn day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / SECONDS_PER_DAY)
}

/// A committed file that has a row for each defect: its id, then a line for each check that accuses the driver.
#[derive(Debug)]
pub struct MatrixFile {
    path: PathBuf,
    /// The comment with which the file begins.
    header: &'static str,
    /// The rows seen in this run, by defect.
    seen: Mutex<BTreeMap<&'static str, String>>,
}

impl MatrixFile {
    /// Names the file, and the comment with which it begins.
    pub fn new(path: PathBuf, header: &'static str) -> MatrixFile {
        MatrixFile { path, header, seen: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the committed row of a defect, which is empty if there is none.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn row(&self, id: &str) -> Result<String, Failed> {
        Ok(self.rows()?.remove(id).unwrap_or_default())
    }

    /// Writes the row of a defect, and keeps those of other defects that are in the file, in the order of `ids`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn write(
        &self,
        ids: impl IntoIterator<Item = &'static str>,
        id: &'static str,
        row: String,
    ) -> Result<(), Failed> {
        let mut seen = self.seen.lock();
        seen.insert(id, row);
        let committed = self.rows()?;
        let mut text = String::from(self.header);
        for id in ids {
            let row = seen.get(id).or_else(|| committed.get(id)).map_or("", String::as_str);
            if !row.is_empty() {
                text.push_str(&format!("\n{id}\n{row}"));
            }
        }
        Ok(std::fs::write(&self.path, text)?)
    }

    fn rows(&self) -> Result<BTreeMap<String, String>, Failed> {
        let text = std::fs::read_to_string(&self.path)?;
        let mut rows = BTreeMap::<String, String>::new();
        let mut defect = "";
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.starts_with(' ') {
                true => rows.entry(defect.to_owned()).or_default().push_str(&format!("{line}\n")),
                false => defect = line,
            }
        }
        Ok(rows)
    }
}

/// Returns the line of a check that accuses the driver, with the finding and the rule that it names.
pub(crate) fn accusation(report: &CheckReport) -> Option<(String, &Finding, &'static Requirement)> {
    let (finding, warns) = match &report.outcome {
        Outcome::Failed(finding) => (finding, ""),
        Outcome::Warned(finding) => (finding, " (warns)"),
        _ => return None,
    };
    let rule = finding.violation.requirement.unwrap_or(report.planned.check.requirements[0]);
    Some((format!("  {} {}{warns}\n", report.label(), rule.id), finding, rule))
}

/// Returns the line of a check that accuses the driver.
pub fn line(report: &CheckReport) -> Option<String> {
    accusation(report).map(|(line, ..)| line)
}

/// Returns the shard that `MATRIX` names, such as `MATRIX=2/4` for the second quarter of the whole matrix, or `None`
/// for the daily selection.
///
/// # Panics
/// Panics if the variable is no shard.
pub fn part() -> Option<Shard> {
    from_environment("MATRIX")
}

/// Distributes variants of correct drivers over a number of drivers, so that each driver has several of them; those
/// in `alone` get a driver of their own. Neighbours in the list tend to be alike, so they go to different drivers. In
/// a shard of the whole matrix each variant has its own driver.
pub(crate) fn distribute<T: Copy + PartialEq + ToString>(
    all: &[T],
    alone: &[T],
    drivers: usize,
) -> Vec<Vec<T>> {
    if let Some(part) = part() {
        let here = all.iter().filter(|one| part.has(&one.to_string()));
        return here.map(|one| vec![*one]).collect();
    }
    let others: Vec<T> = all.iter().filter(|one| !alone.contains(one)).copied().collect();
    let shared = |first: usize| others.iter().skip(first).step_by(drivers).copied().collect();
    alone.iter().map(|one| vec![*one]).chain((0..drivers).map(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: usize) -> Vec<Row> {
        let row = |number: usize| Row {
            proves: vec![format!("check-{}", number % 7), format!("check-{}", number % 11)],
            trial: Trial::test(format!("{number}"), || Ok(())),
        };
        (0..number).map(row).collect()
    }

    #[test]
    fn a_sample_proves_each_check_and_leaves_rows_out() {
        let rows = rows(200);
        for seed in 0..50 {
            let is_tried = sample(&rows, seed);
            let tried: Vec<&Row> =
                rows.iter().zip(&is_tried).filter(|(_, tried)| **tried).map(|(row, _)| row).collect();
            let proven: BTreeSet<&String> = tried.iter().flat_map(|row| &row.proves).collect();
            assert_eq!(proven.len(), 11, "seed {seed}");
            assert!(tried.len() < rows.len() / 3, "seed {seed}: {}", tried.len());
        }
    }

    #[test]
    fn every_row_is_in_the_sample_of_some_day() {
        let rows = rows(200);
        let mut is_ever_tried = vec![false; rows.len()];
        for seed in 0..100 {
            for (ever, tried) in is_ever_tried.iter_mut().zip(sample(&rows, seed)) {
                *ever |= tried;
            }
        }
        assert!(is_ever_tried.into_iter().all(|ever| ever));
    }
}
