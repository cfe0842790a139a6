//! The checks that name a mistake of the plain driver find it when they meet the fault that shows it, and the matrix of checks and mistakes
//! is the committed one.

use std::path::Path;

use csi_faulty_driver::plain::Mistake;
use csi_suite_faults::SUITE;
use csi_test_support::matrix::MatrixFile;
use csi_test_support::proven::Matrix;
use csi_test_support::run::Run;
use libtest_mimic::{Arguments, Failed};

use crate::bench::{self, Played, Tries};

const HEADER: &str = "\
# Which checks say something of the plain driver with one mistake, when they meet the fault that shows it: the mistake, then the checks, a
# line each, with the rule that they blame it for.
# UPDATE=1 cargo test -p csi-suite-faults --test refutation writes this file.
";
/// The run tries the faults of a mistake within this time.
const BUDGET_MS: u64 = 240_000;
/// The driver may take this time to recover, but needs none.
const SETTLES_MS: u64 = 4_000;

/// Each entry has a mistake and the fault that shows it, or several faults if several checks name the mistake.
const SHOWN_BY: &[(&str, &str)] = &[
    // The slowest trials come first.
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

pub(crate) fn trials(arguments: &Arguments) -> Vec<libtest_mimic::Trial> {
    let mut trials = matrix().trials(arguments);
    trials.push(libtest_mimic::Trial::test("names-agree", || matrix().names_agree()));
    trials.push(libtest_mimic::Trial::test("every-mistake-is-tried", every_mistake_is_tried));
    trials
}

fn matrix() -> Matrix<(&'static str, &'static str)> {
    Matrix {
        suite: SUITE,
        defects: SHOWN_BY,
        id: |(id, _)| id,
        file: MatrixFile::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt"), HEADER),
        is_always_compared: true,
        varies: |_, _| false,
        play: |(id, faults), _| play(id, faults),
    }
}

/// Asserts that each mistake is shown by a fault and named by a check.
fn every_mistake_is_tried() -> Result<(), Failed> {
    for id in Mistake::ALL.iter().map(|mistake| mistake.id()) {
        let is_shown = SHOWN_BY.iter().any(|(shown, _)| *shown == id);
        let is_named = SUITE.checks.iter().any(|check| check.refuted_by.contains(&id));
        if !(is_shown && is_named) {
            return Err(Failed::from(format!(
                "{id}: shown by a fault: {is_shown}, named by a check: {is_named}"
            )));
        }
    }
    Ok(())
}

/// Runs all checks with the faults that show the mistake.
fn play(id: &str, faults: &str) -> Result<Option<Run>, Failed> {
    bench::play(Played::wrong(id)?, &Tries::new(faults.split(' '), BUDGET_MS, SETTLES_MS))
}
