//! Sends hostile requests to a driver that makes real mounts.

use std::path::Path;

use csi_faulty_driver::Defect;
use csi_harness::checks::filter::Filter;
use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::run::runner::RunOptions;
use csi_test_support::hostpath;
use csi_test_support::run::Run;
use libtest_mimic::{Failed, Trial};

use crate::registry;

/// The check that requests file systems such as `ext4,noatime`.
const ODD_FILE_SYSTEMS: &str = "hostile/mount-options/texts";
/// Large enough for a file system.
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
        endpoint: Some(hostpath::endpoint(root).to_string()),
        mount_dir: Some(root.join("mount")),
        staging_dir: Some(root.join("staging")),
        volume_size_bytes: Some(VOLUME_BYTES),
        fs_type: "ext4".to_owned(),
        ..Config::default()
    };
    let target = Target::connect_to(driver.clone(), config).await?;
    let mut plan = registry().select(&Filter::default(), &target.config().access_types);
    plan.retain(|planned| planned.check.id == ODD_FILE_SYSTEMS);
    let run =
        Run::of(target, plan, RunOptions { seed: 1, registry: registry(), ..RunOptions::default() }).await;
    driver.leave().await?;
    let found = run.target.mismatches().into_iter();
    Ok(found.map(|one| format!("{}: {} ({})", one.what, one.actual, one.call)).collect())
}
