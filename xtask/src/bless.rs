//! Writes every derived file that is committed, through the tests that compare it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{generate, root};

/// Arguments of the quick tests, which write documents, ids and snapshots.
const QUICK: &[&str] = &[
    "--workspace",
    "--bins",
    "--test",
    "it",
    "--",
    "docs",
    "ids",
    "scenarios",
    "snapshots",
    "html",
    "cases",
];
/// Packages with tests that write a matrix, each of which tries all defects.
const MATRICES: [&str; 7] = [
    "csi-suite-data",
    "csi-suite-e2e",
    "csi-suite-faults",
    "csi-suite-in-use",
    "csi-suite-stateful",
    "csi-suite-sanity",
    "csi-suite-upgrade",
];

/// Writes the files. With `matrices` it also writes the checks that find each defect, which takes minutes.
pub(crate) fn bless(matrices: bool) -> Result<()> {
    generate::write()?;
    test(QUICK)?;
    if matrices {
        for package in MATRICES {
            test(&["--package", package, "--test", "refutation"])?;
        }
    }
    Ok(())
}

fn test(args: &[&str]) -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .arg("test")
        .args(args)
        // The tests run one after the other, because a test must not read a file that another is writing. Refutation
        // tests run several drivers at once by themselves.
        .envs([("UPDATE", "1"), ("INSTA_UPDATE", "always"), ("RUST_TEST_THREADS", "1")])
        .current_dir(root())
        .status()
        .context("cargo cannot be run")?;
    ensure!(status.success(), "`UPDATE=1 INSTA_UPDATE=always cargo test {}` failed", args.join(" "));
    Ok(())
}
