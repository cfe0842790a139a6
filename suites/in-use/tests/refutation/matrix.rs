//! Every check finds the defects that it names, and the matrix of checks and defects is the committed one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_faulty_driver::Defect;
use csi_harness::checks::check::Runs;
use csi_harness::config::profile::Profile;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_harness::run::refutation::{Trial, on_a_defect};
use csi_harness::spec::requirements::req;
use csi_proto::lock::Mutex;
use csi_suite_in_use::SUITE;
use csi_test_support::run::Run;
use libtest_mimic::Failed;

use crate::bench::{self, Backend};
use crate::is_own;

const HEADER: &str = "\
# The checks that accuse the reference driver with one defect: the defect, then the checks, a line each, with the rule
# that they name.
# UPDATE=1 cargo test -p csi-suite-in-use --test refutation writes this file; ci/matrix compares it.
";

/// The rows seen so far, by defect.
type Rows = Arc<Mutex<BTreeMap<&'static str, String>>>;

pub(crate) fn trials() -> impl Iterator<Item = libtest_mimic::Trial> {
    let rows = Rows::default();
    let named = |defect: &&Defect| !refuted(**defect).is_empty();
    Defect::ALL.iter().filter(named).map(move |defect| {
        let rows = rows.clone();
        libtest_mimic::Trial::test(format!("defect/{}", defect.id()), move || is_found(&rows, *defect))
    })
}

/// The checks that name a defect.
fn refuted(defect: Defect) -> Vec<String> {
    let suite = SUITE;
    let checks = suite.checks.iter().filter(|check| check.refuted_by.contains(&defect.id()));
    checks.map(|check| check.id.to_string()).collect()
}

fn is_found(rows: &Rows, defect: Defect) -> Result<(), Failed> {
    let named = refuted(defect);
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let (updates, compares) = (is_set("UPDATE"), is_set("MATRIX"));
    // What judges the whole run needs one.
    let suite = SUITE;
    let needs_all = suite
        .checks
        .iter()
        .any(|check| check.course() == Runs::Finally && named.iter().any(|named| *named == check.id));
    let is_wanted = |check: &str| match updates || compares || needs_all {
        true => is_own(check),
        false => named.iter().any(|named| named == check),
    };
    let Some(played) = bench::play(Backend::Images, Some(defect), is_wanted)? else { return Ok(()) };
    for check in &named {
        match on_a_defect(&played.outcomes_of(check)) {
            Trial::Good => {}
            Trial::Skipped(why) | Trial::Bad(why) => {
                return Err(Failed::from(format!("{check} does not find {}: {why}", defect.id())));
            }
        }
    }
    let row = row(&played)?;
    if updates {
        let mut seen = rows.lock();
        seen.insert(defect.id(), row);
        return write(&seen);
    }
    if !compares {
        return Ok(());
    }
    let committed = read();
    let expected = committed.get(defect.id()).map_or("", String::as_str);
    match fixed(expected) == fixed(&row) {
        true => Ok(()),
        false => Err(Failed::from(format!("the matrix says\n{expected}\nbut now it is\n{row}"))),
    }
}

/// The lines that do not depend on how fast calls are: what a call is doing when it is given up, or when another one comes, varies.
fn fixed(row: &str) -> Vec<&str> {
    const VARY: [&str; 3] =
        ["in-use/calls-given-up", "in-use/calls-in-pairs", "in-use/driver-killed-in-snapshot"];
    row.lines().filter(|line| !VARY.iter().any(|check| line.contains(check))).collect()
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

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt")
}

fn read() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path()).unwrap();
    let mut rows = BTreeMap::<String, String>::new();
    let mut defect = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.starts_with(' ') {
            true => rows.entry(defect.to_owned()).or_default().push_str(&format!("{line}\n")),
            false => defect = line,
        }
    }
    rows
}

/// Writes the rows seen in this run, and keeps the others as they are.
fn write(seen: &BTreeMap<&'static str, String>) -> Result<(), Failed> {
    let committed = read();
    let mut text = String::from(HEADER);
    for defect in Defect::ALL {
        let row = seen.get(defect.id()).or_else(|| committed.get(defect.id())).map_or("", String::as_str);
        if !row.is_empty() {
            text.push_str(&format!("\n{}\n{row}", defect.id()));
        }
    }
    Ok(std::fs::write(path(), text)?)
}
