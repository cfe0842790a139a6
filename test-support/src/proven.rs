//! The committed matrix of a suite that is proven on the reference driver: every check finds the defects that it names, and what all checks
//! say about each defect is written down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use csi_faulty_driver::Defect;
use csi_harness::checks::check::Runs;
use csi_harness::checks::registry::Suite;
use csi_harness::config::profile::Profile;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_harness::run::refutation::{Trial, on_a_defect};
use csi_harness::spec::requirements::req;
use csi_proto::lock::Mutex;
use libtest_mimic::{Arguments, Failed};

use crate::matrix::{Row, sampled};
use crate::run::Run;

/// Times that a defect is tried if a check misses it whose result depends on time. Every other check has to find it the first time.
const PLAYS_MAX: u32 = 2;

/// The checks of a suite, the defects of the reference driver, and the file that says which check finds which defect.
#[derive(Debug)]
pub struct Matrix {
    pub suite: Suite,
    /// The file.
    pub path: PathBuf,
    /// The comment with which the file begins.
    pub header: &'static str,
    /// Returns true for a line of the row of a defect that may differ from run to run.
    pub varies: fn(Defect, &str) -> bool,
    /// Runs the wanted checks on a driver with a defect; returns nothing where this machine cannot.
    pub play: Play,
}

impl Matrix {
    /// A trial for each defect that a check names, of which the daily sample is tried. With UPDATE set, the trials write the file;
    /// with MATRIX set, they compare it.
    pub fn trials(self, arguments: &Arguments) -> Vec<libtest_mimic::Trial> {
        let (matrix, rows) = (Arc::new(self), Rows::default());
        let named = Defect::ALL.iter().filter(|defect| !matrix.refuted(**defect).is_empty());
        let row = |defect: &'static Defect| {
            let (proves, matrix, rows) = (matrix.refuted(*defect), matrix.clone(), rows.clone());
            let test = move || matrix.is_found(&rows, *defect);
            Row { proves, trial: libtest_mimic::Trial::test(format!("defect/{}", defect.id()), test) }
        };
        sampled(arguments, named.map(row).collect())
    }

    /// The checks that name a defect.
    fn refuted(&self, defect: Defect) -> Vec<String> {
        let checks = self.suite.checks.iter().filter(|check| check.refuted_by.contains(&defect.id()));
        checks.map(|check| check.id.to_string()).collect()
    }

    fn is_found(&self, rows: &Rows, defect: Defect) -> Result<(), Failed> {
        let named = self.refuted(defect);
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let (updates, compares) = (is_set("UPDATE"), is_set("MATRIX"));
        // What judges the whole run needs one.
        let needs_all = self
            .suite
            .checks
            .iter()
            .any(|check| check.course() == Runs::Finally && named.iter().any(|named| *named == check.id));
        let is_wanted = |id: &str| match updates || compares || needs_all {
            true => self.suite.checks.iter().any(|check| check.id == id),
            false => named.iter().any(|named| named == id),
        };
        let mut plays = 0;
        let played = loop {
            let Some(played) = (self.play)(defect, &is_wanted)? else { return Ok(()) };
            plays += 1;
            let missing = named.iter().find_map(|check| match on_a_defect(&played.outcomes_of(check)) {
                Trial::Good => None,
                Trial::Skipped(why) | Trial::Bad(why) => Some((check, why)),
            });
            match missing {
                None => break played,
                Some((check, _)) if plays < PLAYS_MAX && self.depends_on_time(check) => {}
                Some((check, why)) => {
                    return Err(Failed::from(format!("{check} does not find {}: {why}", defect.id())));
                }
            }
        };
        let row = row(&played)?;
        if updates {
            let mut seen = rows.lock();
            seen.insert(defect.id(), row);
            return self.write(&seen);
        }
        if !compares {
            return Ok(());
        }
        let committed = self.read()?;
        let expected = committed.get(defect.id()).map_or("", String::as_str);
        match self.fixed(defect, expected) == self.fixed(defect, &row) {
            true => Ok(()),
            false => Err(Failed::from(format!("the matrix says\n{expected}\nbut now it is\n{row}"))),
        }
    }

    fn depends_on_time(&self, check: &str) -> bool {
        self.suite.checks.iter().any(|other| other.varies && other.id == check)
    }

    /// The lines that are the same in every run.
    fn fixed<'a>(&self, defect: Defect, row: &'a str) -> Vec<&'a str> {
        row.lines().filter(|line| !(self.varies)(defect, line)).collect()
    }

    fn read(&self) -> Result<BTreeMap<String, String>, Failed> {
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

    /// Writes the rows seen in this run, and keeps the others as they are.
    fn write(&self, seen: &BTreeMap<&'static str, String>) -> Result<(), Failed> {
        let committed = self.read()?;
        let mut text = String::from(self.header);
        for defect in Defect::ALL {
            let row = seen.get(defect.id()).or_else(|| committed.get(defect.id())).map_or("", String::as_str);
            if !row.is_empty() {
                text.push_str(&format!("\n{}\n{row}", defect.id()));
            }
        }
        Ok(std::fs::write(&self.path, text)?)
    }
}

/// Runs the checks that are wanted, by id.
pub type Play = fn(Defect, &dyn Fn(&str) -> bool) -> Result<Option<Run>, Failed>;

/// The rows seen so far, by defect.
type Rows = Arc<Mutex<BTreeMap<&'static str, String>>>;

/// Fails unless each defect that a check of the suite names exists.
///
/// # Errors
/// Names the check and the defect.
pub fn names_agree(suite: &Suite) -> Result<(), Failed> {
    let all: BTreeSet<&str> = Defect::ALL.iter().map(|defect| defect.id()).collect();
    for check in suite.checks.iter() {
        if let Some(unknown) = check.refuted_by.iter().find(|id| !all.contains(*id)) {
            return Err(Failed::from(format!("{} names {unknown}, which does not exist", check.id)));
        }
    }
    Ok(())
}

/// A line for each check that has something to say.
fn row(played: &Run) -> Result<String, Failed> {
    let mut lines = String::new();
    for (label, report) in played.by_label() {
        let (Finding { violation, binds_from, .. }, warns) = match &report.outcome {
            Outcome::Failed(finding) => (finding, ""),
            Outcome::Warned(finding) => (finding, " (warns)"),
            _ => continue,
        };
        let check = &report.planned.check;
        let rule = violation.requirement.unwrap_or(check.requirements[0]);
        let expected = rule.binds_from();
        if *binds_from != expected && expected == Profile::Kubernetes {
            return Err(Failed::from(format!(
                "{label} only remarks on {}, which Kubernetes relies on",
                rule.id
            )));
        }
        // A mount that stays when everything is undone is blamed wherever it happens.
        let is_of_undoing = [&req::NODE_UNPUBLISH_002, &req::NODE_UNSTAGE_002].contains(&rule);
        if !check.requirements.contains(&rule) && !is_of_undoing {
            return Err(Failed::from(format!("{label} blames {}, which it does not name", rule.id)));
        }
        lines.push_str(&format!("  {label} {}{warns}\n", rule.id));
    }
    Ok(lines)
}
