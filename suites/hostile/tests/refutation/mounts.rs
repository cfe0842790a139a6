//! Sends hostile requests to a driver that makes real mounts.

use std::path::Path;

use csi_faulty_driver::Defect;
use csi_harness::config::Config;
use csi_test_support::hostpath;
use csi_test_support::run::{Run, options};
use libtest_mimic::{Failed, Trial};

use crate::registry;

/// This check requests file systems such as `ext4,noatime`.
const ODD_FILE_SYSTEMS: &str = "hostile/mount-options/texts";
/// The size is large enough for a file system.
const VOLUME_BYTES: i64 = 16 << 20;

/// A run compares mounts with the requests that made them. For a file system that does not exist no mount is right or
/// wrong, so a driver that makes another one is not accused.
pub(crate) fn trial() -> Trial {
    Trial::test("mounts-are-not-compared-with-hostile-requests", || {
        let played = hostpath::in_directory(play);
        match played.transpose()?.unwrap_or_default() {
            found if found.is_empty() => Ok(()),
            found => Err(Failed::from(found.join("\n"))),
        }
    })
}

async fn play(root: &Path) -> Result<Vec<String>, Failed> {
    let driver = hostpath::driver(root, &["--backend=image"], Some(Defect::IgnoresFsType));
    let config = Config {
        volume_size_bytes: Some(VOLUME_BYTES),
        fs_type: "ext4".to_owned(),
        ..hostpath::run_config(root)
    };
    let run = Run::on(driver, config, options(registry(), 1), |check| check.id == ODD_FILE_SYSTEMS).await?;
    let found = run.target.mismatches().into_iter();
    Ok(found.map(|one| format!("{}: {} ({})", one.what, one.actual, one.call)).collect())
}
