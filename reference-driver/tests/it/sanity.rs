//! Runs the sanity suite on this driver: with every back end and file system, with mount and block access, and with
//! all features switched on.

use std::path::Path;

use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::config::{AccessType, Config, HealthHooks, Secret};
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_harness::run::runner::RunOptions;
use csi_proto::{Endpoint, Listener};
use csi_test_support::run::Run;
use tokio::sync::oneshot;

use crate::support::*;

const FLAGS: [&str; 9] = [
    "--enable-attach",
    "--attach-limit=60",
    // The limit is much smaller than the free space, which changes on a busy machine while the suite looks at it.
    "--max-volume-size=4294967296",
    "--enable-topology",
    "--enable-snapshot-metadata",
    "--enable-list-snapshots",
    "--enable-volume-expansion",
    "--enable-controller-modify-volume",
    "--accepted-mutable-parameter-names=iops,tier",
];
/// A check may be skipped for these reasons. Checks of anything else that the driver advertises have to run.
const MAY_BE_SKIPPED: [&str; 12] = [
    // Some checks are for drivers that lack a capability.
    "for drivers ",
    // Some checks need pre-provisioned volumes.
    "needs volumes of --config to be configured",
    // Only the driver can read its state.
    "needs inspect-command of --config to be configured",
    // The driver serves one node, in one topology.
    "needs a second node",
    "needs two topologies",
    // This RPC has no secrets.
    "no other RPC has secrets",
    // The driver supports online expansion, which includes this.
    "the driver does not advertise OFFLINE",
    // These capabilities are from a draft of the specification.
    "the driver does not advertise GET_NODE_INFO",
    "the driver does not advertise NODE_INFO_FROM_CONTROLLER",
    // The driver creates volumes from one byte on, and accepts unknown parameters without an effect.
    "the driver reports no minimum_volume_size above 1",
    "the driver ignores unknown parameters",
    // A mounted ext4 cannot grow if the process lacks CAP_SYS_RESOURCE, as in many containers.
    "the driver answers FAILED_PRECONDITION to NodeExpandVolume of a volume in use",
];

/// Returns the violations that a report contains.
fn accusations(report: &CheckReport) -> Vec<String> {
    let warnings = report.warnings.iter().map(|warning| format!("{}: {warning:?}", report.label()));
    let outcome = match &report.outcome {
        Outcome::Passed => None,
        Outcome::Skipped(reason) if MAY_BE_SKIPPED.iter().any(|known| reason.starts_with(known)) => None,
        outcome => Some(format!("{}: {outcome:?}", report.label())),
    };
    outcome.into_iter().chain(warnings).collect()
}

fn settings(root: &Path, backend: &str, fs_type: &str) -> Config {
    for part in ["mounts", "staging"] {
        std::fs::create_dir(root.join(part)).unwrap();
    }
    Config {
        endpoint: Some(format!("unix://{}/csi.sock", root.display())),
        profile: Profile::Strict,
        mount_dir: Some(root.join("mounts")),
        staging_dir: Some(root.join("staging")),
        access_types: vec![AccessType::Mount, AccessType::Block],
        fs_type: fs_type.to_owned(),
        volume_size_bytes: Some(1 << 30),
        expand_size_bytes: Some(2 << 30),
        size_min_bytes: (backend == "directory").then_some(1),
        size_max_bytes: Some(4 << 30),
        parameters: map(&[("backend", backend), ("tier", "silver")]),
        mutable_parameters: map(&[("iops", "3000"), ("tier", "gold")]),
        attach_limit: true,
        health: health_hooks(root),
        secrets: [("CreateVolume".to_owned(), Secret(map(&[("token", "reference-7f3a91c2d45e")])))].into(),
        ..Config::default()
    }
}

/// Returns commands that make the driver report a bad health, through a file in its state directory.
fn health_hooks(root: &Path) -> HealthHooks {
    let state = root.join("state");
    let file = format!("{}/$([ \"$1\" = backend ] && echo storage || echo \"$1\").health", state.display());
    let status = "$([ \"$1\" = backend ] && echo STORAGE_DEGRADED || echo DEGRADED)";
    // The command renames the complete file, so that a reader finds all of it or nothing.
    let report_ill = format!(
        r#"printf '{{"status":"%s","reason":"Worn","message":"a test says so"}}' "{status}" > "{file}.$$" && mv "{file}.$$" "{file}""#
    );
    HealthHooks {
        make_ill: Some(report_ill),
        make_well: Some(format!("rm -f \"{file}\"")),
        ..HealthHooks::default()
    }
}

/// The volumes of a suite together use less storage than this at any time.
const ROOM_BYTES: u64 = 2 << 30;

async fn run_suite(backend: &str, fs_type: &str) {
    needs_mounts!();
    let rig = Rig::new(&FLAGS).await;
    let space = rustix::fs::statvfs(&rig.fixture.root).unwrap();
    let free_bytes = space.f_bavail * space.f_frsize;
    let root = rig.fixture.root.display();
    assert!(free_bytes >= ROOM_BYTES, "{root} needs {ROOM_BYTES} free bytes, and has {free_bytes}");
    let settings = settings(&rig.fixture.root, backend, fs_type);
    let endpoint: Endpoint = settings.endpoint.as_deref().unwrap().parse().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let listener = Listener::bind(&endpoint).await.unwrap();
    let serving = tokio::spawn(listener.serve(rig.driver.routes(), async {
        let _ = stopped.await;
    }));
    let target = Target::connect(settings).await.unwrap();
    let options =
        RunOptions { seed: 1, registry: Registry::new([csi_suite_sanity::SUITE]), ..RunOptions::default() };
    let plan =
        Registry::new([csi_suite_sanity::SUITE]).select(&Filter::default(), &target.config().access_types);
    let run = Run::of(target, plan, options).await;
    let accusations: Vec<String> = run.reports.iter().flat_map(accusations).collect();
    assert!(accusations.is_empty(), "{accusations:#?}");
    let summary = &run.summary;
    assert!(summary.leaks.is_empty() && summary.crashes.is_empty(), "{summary:?}");
    assert!(summary.counts.passed > 300, "{summary:?}");
    drop((run, stop));
    serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_volumes_pass_the_suite() {
    run_suite("directory", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ext4_volumes_pass_the_suite() {
    run_suite("image", "ext4").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn xfs_volumes_pass_the_suite() {
    run_suite("image", "xfs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn btrfs_volumes_pass_the_suite() {
    run_suite("image", "btrfs").await;
}
