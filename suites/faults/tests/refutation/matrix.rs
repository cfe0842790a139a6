//! Every mistake is found by the check that names it, when the fault that shows it is met, and the matrix of checks and mistakes is the
//! committed one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_faulty_driver::plain::Mistake;
use csi_harness::config::AccessType;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_harness::run::refutation::{Trial, on_a_defect};
use csi_proto::lock::Mutex;
use csi_suite_faults::SUITE;
use csi_test_support::matrix::{Row, sampled};
use csi_test_support::run::{Run, outcomes};
use libtest_mimic::{Arguments, Failed};

use crate::bench::{self, Played, Tries};

const HEADER: &str = "\
# Which checks say something of the plain driver with one mistake, when they meet the fault that shows it: the mistake, then the checks, a
# line each, with the rule that they blame it for.
# UPDATE=1 cargo test -p csi-suite-faults --test refutation writes this file.
";
/// Time for the faults of a mistake.
const BUDGET_MS: u64 = 240_000;
/// How often a mistake is met before it counts as not found: a mount that somebody else holds for a moment makes the same driver err
/// in its life without faults, and nothing more is tried then.
const PLAYS: u32 = 3;
/// How long what was healed may take: these drivers need no time at all.
const SETTLES_MS: u64 = 4_000;

/// The fault that shows a mistake, or the faults, where several checks name it.
const SHOWN_BY: &[(&str, &str)] = &[
    // What takes longest comes first.
    ("plain/stays-offline", "hooks/node-stage/storage/broken"),
    ("plain/keeps-dead-connection", "backend-network/node-stage/backend:1/reset"),
    ("plain/waits-without-limit", "backend-network/node-stage/backend:1/half-open"),
    ("plain/never-forgets-timeout", "backend-network/node-stage/backend:1/black-hole"),
    (
        "plain/keeps-lock-after-error",
        "commands/node-publish/mount:1/code-32 resources/create-volume/files/full",
    ),
    ("plain/gives-up-on-mount", "commands/node-unpublish/umount:1/code-32"),
    ("plain/formats-what-it-cannot-read", "commands/node-stage-with-data/blkid:1/code-2"),
    ("plain/formats-what-it-cannot-repair", "commands/node-stage-with-data/e2fsck:1/code-4"),
    ("plain/formats-what-it-cannot-mount", "commands/node-stage-with-data/mount:1/code-32"),
    ("plain/formats-what-it-cannot-grow", "commands/node-stage-with-data/resize2fs:1/code-1"),
    ("plain/ignores-failed-umount", "commands/node-unpublish/umount:1/code-32"),
    ("plain/believes-umount", "commands/node-unpublish/umount:1/code-0"),
    ("plain/removes-below-a-mount", "commands/node-unpublish/umount:1/code-32"),
    ("plain/ignores-failed-mount", "commands/node-publish/mount:1/code-32"),
    ("plain/ignores-failed-resize", "commands/node-stage-with-data/resize2fs:1/code-1"),
    ("plain/ignores-failed-copy", "commands/create-volume-from-snapshot/cp:1/code-1"),
    ("plain/takes-half-a-copy-for-all", "commands/create-volume-from-snapshot/cp:1/dies-half-way"),
    ("plain/leaves-temporary-files", "commands/create-snapshot/cp:1/dies-at-the-end"),
    ("plain/locks-everything", "commands/node-publish/mount:1/hangs"),
    ("plain/leaks-loop-devices", "commands/node-stage/mount:1/code-32"),
    ("plain/ignores-failed-detach", "commands/node-unstage/losetup:1/code-1"),
    ("plain/takes-first-loop-device", "commands/node-stage/losetup:1/code-1"),
    ("plain/notes-published-too-early", "commands/node-publish/mount:1/code-32"),
    ("plain/refuses-half-formatted", "commands/node-stage/mkfs.ext4:1/code-1"),
    ("plain/formats-again-each-time", "commands/node-stage/mkfs.ext4:1/code-1"),
    ("plain/forgets-before-removing", "commands/delete-volume/rm:1/code-1"),
    ("plain/makes-another-each-time", "commands/create-volume/truncate:1/dies-at-the-end"),
    ("plain/needs-every-image", "commands/create-volume/truncate:1/code-1"),
    (
        "plain/ends-on-error",
        "commands/node-publish/mount:1/code-32 resources/node-publish/driver/no-descriptors",
    ),
    ("plain/says-unknown", "commands/node-publish/mount:1/code-32"),
    ("plain/says-not-found", "commands/node-publish/mount:1/code-32"),
    ("plain/writes-in-place", "crash-points/create-volume/call:4/killed"),
    ("plain/answers-before-writing", "crash-points/create-volume/answer/killed"),
    ("plain/takes-offline-for-gone", "hooks/delete-volume/storage/broken"),
    ("plain/unmounts-at-start", "crash-points/create-volume/answer/killed"),
    ("plain/syncs-nothing", "power/create-volume/answer/keeps-none"),
    ("plain/syncs-no-contents", "power/create-volume/answer/keeps-names"),
    ("plain/syncs-no-directory", "power/create-volume/answer/keeps-none"),
    ("plain/syncs-no-copy", "power/create-snapshot/answer/keeps-names"),
    // NodeStageVolume is the first call that needs the volume, which is lost.
    ("plain/writes-one-late", "power/node-stage/change:1/keeps-none"),
    ("plain/lists-nothing-unreached", "backend-network/node-stage/backend:1/reset"),
    ("plain/believes-half-an-answer", "backend-network/node-stage/backend:1/cut-in-answer"),
    ("plain/takes-unreadable-for-unmounted", "commands/node-unpublish/mountpoint:1/code-1"),
    ("plain/remembers-mounts", "power/node-publish/answer/keeps-none"),
    ("plain/cleans-at-start", "crash-points/node-publish/answer/killed"),
    ("plain/notes-grown-too-early", "commands/node-stage-with-data/resize2fs:1/code-1"),
    ("plain/takes-corrected-for-broken", "commands/node-stage-with-data/e2fsck:1/code-1"),
    ("plain/ignores-failed-write", "system-calls/create-volume/rename:1/EIO"),
];

/// The rows seen so far, by mistake.
type Rows = Arc<Mutex<BTreeMap<&'static str, String>>>;

pub(crate) fn trials(arguments: &Arguments) -> Vec<libtest_mimic::Trial> {
    let rows = Rows::default();
    let row = |(id, fault): &(&'static str, &'static str)| {
        let (id, fault, rows) = (*id, *fault, rows.clone());
        let test = move || is_found(&rows, id, fault);
        Row { proves: refuted(id), trial: libtest_mimic::Trial::test(format!("mistake/{id}"), test) }
    };
    let mut trials = sampled(arguments, SHOWN_BY.iter().map(row).collect());
    trials.push(libtest_mimic::Trial::test("names-agree", names_agree));
    trials
}

/// Each mistake is named by a check, and shown by a fault.
fn names_agree() -> Result<(), Failed> {
    for mistake in Mistake::ALL {
        let (shown, named) =
            (SHOWN_BY.iter().any(|(id, _)| *id == mistake.id()), !refuted(mistake.id()).is_empty());
        if !(shown && named) {
            return Err(Failed::from(format!(
                "{}: shown by a fault: {shown}, named by a check: {named}",
                mistake.id()
            )));
        }
    }
    for check in SUITE.checks.iter() {
        if let Some(unknown) =
            check.refuted_by.iter().find(|id| !SHOWN_BY.iter().any(|(known, _)| known == *id))
        {
            return Err(Failed::from(format!("{} names {unknown}, which does not exist", check.id)));
        }
    }
    Ok(())
}

/// The checks that name a mistake.
fn refuted(id: &str) -> Vec<String> {
    let suite = SUITE;
    let checks = suite.checks.iter().filter(|check| check.refuted_by.contains(&id));
    checks.map(|check| check.id.to_string()).collect()
}

fn is_found(rows: &Rows, id: &'static str, fault: &str) -> Result<(), Failed> {
    let mistake = bench::mistake(id)?;
    let (only, access) = (fault.split(' ').map(str::to_owned).collect(), vec![AccessType::Mount]);
    let (budget_ms, settle_ms) = (BUDGET_MS, SETTLES_MS);
    let tries = Tries { only, budget_ms, settle_ms, seed: 1, access, ..Tries::default() };
    let mut missed = String::new();
    for _ in 0..PLAYS {
        let Some(run) = bench::play(Played::Plain(Some(mistake)), &tries)? else { return Ok(()) };
        match missed_by(&run, id) {
            None => return is_as_committed(rows, id, row(&run)?),
            Some(why) => missed = why,
        }
    }
    Err(Failed::from(format!("in {PLAYS} plays, {missed}")))
}

/// Why a check that names the mistake has not found it.
fn missed_by(run: &Run, id: &str) -> Option<String> {
    refuted(id).into_iter().find_map(|check| match on_a_defect(&run.outcomes_of(&check)) {
        Trial::Bad(why) | Trial::Skipped(why) => {
            let notes: Vec<String> = run.reports.iter().flat_map(|report| report.notes.clone()).collect();
            Some(format!("{check} does not find {id}: {why}\n{}", notes.join("\n")))
        }
        _ => None,
    })
}

fn is_as_committed(rows: &Rows, id: &'static str, row: String) -> Result<(), Failed> {
    let mut seen = rows.lock();
    seen.insert(id, row.clone());
    if std::env::var_os("UPDATE").is_some() {
        return write(&seen);
    }
    let committed = read();
    let expected = committed.get(id).map_or("", String::as_str);
    match expected == row {
        true => Ok(()),
        false => Err(Failed::from(format!("the matrix says\n{expected}\nbut now it is\n{row}"))),
    }
}

/// A line for each check and rule that it has something to say by.
fn row(run: &Run) -> Result<String, Failed> {
    let mut lines = String::new();
    for (label, report) in run.by_label() {
        let check = &report.planned.check;
        for outcome in outcomes(report) {
            let (violation, warns) = match outcome {
                Outcome::Failed(Finding { violation, .. }) => (violation, ""),
                Outcome::Warned(Finding { violation, .. }) => (violation, " (warns)"),
                _ => continue,
            };
            let rule = violation.requirement.unwrap_or(check.requirements[0]);
            if !check.requirements.contains(&rule) {
                return Err(Failed::from(format!("{label} blames {}, which it does not name", rule.id)));
            }
            lines.push_str(&format!("  {label} {}{warns}\n", rule.id));
        }
    }
    Ok(lines)
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt")
}

fn read() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path()).unwrap();
    let mut rows = BTreeMap::<String, String>::new();
    let mut mistake = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.starts_with(' ') {
            true => rows.entry(mistake.to_owned()).or_default().push_str(&format!("{line}\n")),
            false => mistake = line,
        }
    }
    rows
}

/// Writes the rows seen in this run, and keeps the others as they are.
fn write(seen: &BTreeMap<&'static str, String>) -> Result<(), Failed> {
    let committed = read();
    let mut text = String::from(HEADER);
    for (id, _) in SHOWN_BY {
        let row = seen.get(id).or_else(|| committed.get(*id)).map_or("", String::as_str);
        if !row.is_empty() {
            text.push_str(&format!("\n{id}\n{row}"));
        }
    }
    Ok(std::fs::write(path(), text)?)
}
