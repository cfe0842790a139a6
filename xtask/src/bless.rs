//! Writes every derived file that is committed, by the tests that compare it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{generate, root};

/// Tests of quick files: documents, ids, and what reports show.
const QUICK: &[&str] =
    &["--workspace", "--bins", "--test", "it", "--", "docs", "ids", "scenarios", "snapshots", "cases"];
/// Tests of matrices, each of which tries all defects.
const MATRICES: [&str; 5] =
    ["csi-suite-data", "csi-suite-e2e", "csi-suite-faults", "csi-suite-stateful", "csi-suite-sanity"];

/// Writes the files anew; with `matrices`, also what each defect is found by, which takes minutes.
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
        // One after the other: a test must not read what another one is writing. Refutations have a number of their own.
        .envs([("UPDATE", "1"), ("INSTA_UPDATE", "always"), ("RUST_TEST_THREADS", "1")])
        .current_dir(root())
        .status()
        .context("cargo cannot be run")?;
    ensure!(status.success(), "`UPDATE=1 INSTA_UPDATE=always cargo test {}` failed", args.join(" "));
    Ok(())
}
