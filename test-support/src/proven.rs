//! The committed matrix of a suite that is proven on drivers with one defect each: every check finds the defects that it names, and the
//! verdicts of all checks on each defect are written down.

use std::collections::BTreeSet;
use std::sync::Arc;

use csi_harness::checks::check::Runs;
use csi_harness::checks::registry::Suite;
use csi_harness::config::profile::Profile;
use csi_harness::run::refutation::{Trial, on_a_defect};
use csi_harness::spec::requirements::req;
use libtest_mimic::{Arguments, Failed};

use crate::matrix::{MatrixFile, Row, accusation, sampled};
use crate::run::Run;

/// If the result of a check depends on time, a defect that it misses is tried this number of times. Every other check has to find it the
/// first time.
const PLAYS_MAX: u32 = 3;

/// A matrix has the checks of a suite, the defects of a driver, and the file that says which check finds which defect.
#[derive(Debug)]
pub struct Matrix<D: 'static> {
    pub suite: Suite,
    /// The defects are tried and written in this order.
    pub defects: &'static [D],
    /// Returns the name by which checks and the file know a defect.
    pub id: fn(&D) -> &'static str,
    pub file: MatrixFile,
    /// True if `play` tries all that the file says of a defect, so that every trial compares the row. Otherwise the rows are compared
    /// only with MATRIX set, when all checks are run.
    pub is_always_compared: bool,
    /// Returns true for a line of the row of a defect that may differ from run to run.
    pub varies: fn(&D, &str) -> bool,
    /// Runs the wanted checks on a driver with a defect; returns nothing if this machine cannot.
    pub play: Play<D>,
}

impl<D: Sync> Matrix<D> {
    /// Returns a trial for each defect that a check names, of which the daily sample is tried. With UPDATE set, the trials write the file.
    pub fn trials(self, arguments: &Arguments) -> Vec<libtest_mimic::Trial> {
        let matrix = Arc::new(self);
        let named = matrix.defects.iter().filter(|defect| !matrix.refuted(defect).is_empty());
        let row = |defect: &'static D| {
            let (proves, matrix) = (matrix.refuted(defect), matrix.clone());
            let title = format!("defect/{}", (matrix.id)(defect));
            let test = move || matrix.is_found(defect);
            Row { proves, trial: libtest_mimic::Trial::test(title, test) }
        };
        sampled(arguments, named.map(row).collect())
    }

    /// Fails unless each defect that a check of the suite names exists.
    ///
    /// # Errors
    /// Names the check and the defect.
    pub fn names_agree(&self) -> Result<(), Failed> {
        let all: BTreeSet<&str> = self.defects.iter().map(self.id).collect();
        for check in self.suite.checks.iter() {
            if let Some(unknown) = check.refuted_by.iter().find(|id| !all.contains(*id)) {
                return Err(Failed::from(format!("{} names {unknown}, which does not exist", check.id)));
            }
        }
        Ok(())
    }

    /// Returns the checks that name a defect.
    fn refuted(&self, defect: &D) -> Vec<String> {
        let id = (self.id)(defect);
        let checks = self.suite.checks.iter().filter(|check| check.refuted_by.contains(&id));
        checks.map(|check| check.id.to_string()).collect()
    }

    fn is_found(&self, defect: &D) -> Result<(), Failed> {
        let (id, named) = ((self.id)(defect), self.refuted(defect));
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let (updates, compares) = (is_set("UPDATE"), is_set("MATRIX") || self.is_always_compared);
        // A check that judges the whole run needs the calls of all other checks.
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
                    let stories = played.stories_of(check).join("\n");
                    return Err(Failed::from(format!("{check} does not find {id}: {why}\n{stories}")));
                }
            }
        };
        let row = row(&played)?;
        if updates {
            return self.file.write(self.defects.iter().map(self.id), id, row);
        }
        if !compares {
            return Ok(());
        }
        let expected = self.file.row(id)?;
        match self.fixed(defect, &expected) == self.fixed(defect, &row) {
            true => Ok(()),
            false => Err(Failed::from(format!("the matrix says\n{expected}\nbut now it is\n{row}"))),
        }
    }

    fn depends_on_time(&self, check: &str) -> bool {
        self.suite.checks.iter().any(|other| other.varies && other.id == check)
    }

    /// Returns the lines that are equal in every run.
    fn fixed<'a>(&self, defect: &D, row: &'a str) -> Vec<&'a str> {
        row.lines().filter(|line| !(self.varies)(defect, line)).collect()
    }
}

/// Runs the checks whose ids are wanted.
pub type Play<D> = fn(&D, &dyn Fn(&str) -> bool) -> Result<Option<Run>, Failed>;

/// Returns a line for each check that accuses the driver.
fn row(played: &Run) -> Result<String, Failed> {
    let mut lines = String::new();
    for (label, report) in played.by_label() {
        let Some((line, finding, rule)) = accusation(report) else { continue };
        let expected = rule.binds_from();
        if finding.binds_from != expected && expected == Profile::Kubernetes {
            return Err(Failed::from(format!(
                "{label} only remarks on {}, which Kubernetes relies on",
                rule.id
            )));
        }
        // A mount that stays after everything was undone is a fault in whichever check it happens.
        let is_of_undoing = [&req::NODE_UNPUBLISH_002, &req::NODE_UNSTAGE_002].contains(&rule);
        if !report.planned.check.requirements.contains(&rule) && !is_of_undoing {
            return Err(Failed::from(format!("{label} blames {}, which it does not name", rule.id)));
        }
        lines.push_str(&line);
    }
    Ok(lines)
}
