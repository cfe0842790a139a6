//! A fault is reported with the smallest number of calls that show it.

use csi_harness::config::{Config, Effort};
use csi_mock_driver::Defect;
use csi_test_support::mock;
use libtest_mimic::{Failed, Trial};

use crate::pairs::short;
use crate::registry;

/// The report must be minimal at each of these seeds, at which the defect is first found in different sequences.
const SEEDS: [u64; 2] = [1, 2];

/// Each entry has the defect, the check, and the calls that the report must have.
const MINIMAL: [(&str, &str, &[&str]); 18] = [
    ("create-volume-forgets-names", "property/volumes", &["CreateVolume", "CreateVolume"]),
    // The first sequence that shows the defect requests a copy under the name.
    (
        "delete-volume-keeps-name",
        "property/volumes",
        &["CreateVolume", "CreateVolume", "DeleteVolume", "CreateVolume"],
    ),
    ("create-volume-exceeds-limit", "property/volumes", &["CreateVolume"]),
    ("create-volume-rounds-down", "property/volumes", &["CreateVolume"]),
    ("create-volume-repeat-ignores-limit", "property/volumes", &["CreateVolume", "CreateVolume"]),
    ("create-volume-refuses-limit-repeats", "property/volumes", &["CreateVolume", "CreateVolume"]),
    ("create-volume-keeps-parameters-in-part", "property/volumes", &["CreateVolume", "CreateVolume"]),
    ("controller-expand-exceeds-limit", "property/volumes", &["CreateVolume", "ControllerExpandVolume"]),
    (
        "create-snapshot-repeat-changes-time",
        "property/snapshots",
        &["CreateVolume", "CreateSnapshot", "CreateSnapshot"],
    ),
    (
        "create-snapshot-refuses-repeats",
        "idempotency/each-call-repeated",
        &["CreateVolume", "CreateSnapshot", "CreateSnapshot"],
    ),
    (
        "create-group-snapshot-repeat-drops-members",
        "property/group-snapshots",
        &["CreateVolume", "CreateVolume", "CreateVolumeGroupSnapshot", "CreateVolumeGroupSnapshot"],
    ),
    (
        "create-group-snapshot-drops-last-source",
        "property/group-snapshots",
        &["CreateVolume", "CreateVolume", "CreateVolumeGroupSnapshot"],
    ),
    (
        "delete-snapshot-group-member-as-internal",
        "property/group-snapshots",
        &["CreateVolume", "CreateVolumeGroupSnapshot", "DeleteSnapshot"],
    ),
    (
        "controller-publish-refuses-repeats",
        "idempotency/each-call-repeated",
        &["CreateVolume", "ControllerPublishVolume", "ControllerPublishVolume"],
    ),
    (
        "node-stage-refuses-repeats",
        "idempotency/each-call-repeated",
        &["CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodeStageVolume"],
    ),
    ("node-unpublish-refuses-repeats", "property/nodes", &["CreateVolume", "NodeUnpublishVolume"]),
    ("create-volume-ignores-size-conflict", "idempotency/after-an-error", &["CreateVolume", "CreateVolume"]),
    // The check only warns of this defect.
    (
        "delete-volume-deletes-in-use",
        "property/volumes",
        &["CreateVolume", "ControllerPublishVolume", "DeleteVolume"],
    ),
];

/// A report of calls that contradict each other may have this number of steps: these calls, the calls that made their objects, and the ends
/// of the driver.
const CONTRADICTION_STEPS_MAX: usize = 8;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(defect, check, calls): (&'static str, &'static str, &'static [&'static str])| {
        Trial::test(format!("minimal/{defect}/{check}"), move || is_minimal(defect, check, calls))
    };
    let contradiction =
        || Trial::test("minimal/restart-forgets-names/restart/under-load", is_short_under_load);
    let order =
        || Trial::test("minimal/delete-volume-refusal-blocks/after-error/unusual-order", has_the_order);
    MINIMAL.into_iter().map(trial).chain([contradiction(), order()]).collect()
}

/// The load makes hundreds of calls. The report has only those that matter, and begins with the one that made the volume.
fn is_short_under_load() -> Result<(), Failed> {
    let mock = csi_mock_driver::Config { defects: vec![Defect::RestartForgetsNames], ..Default::default() };
    let config = Config { effort: Effort { kills: 24, ..Effort::default() }, ..short() };
    let run = mock::run(registry(), mock, config, SEEDS[0], |other| other.id == "restart/under-load")?;
    let mut violations = run.reports.iter().filter_map(|report| report.outcome.violation());
    let steps = violations.next().ok_or("nothing is found")?.reproduction.to_vec();
    let has_end = steps.iter().any(|step| step.rpc.is_none());
    match steps.iter().find_map(|step| step.rpc.as_deref()) {
        Some("CreateVolume") if has_end && steps.len() <= CONTRADICTION_STEPS_MAX => Ok(()),
        _ => Err(Failed::from(format!("{steps:#?}"))),
    }
}

/// The volume is in use before the first call in the unusual order, and the report has the calls that led there.
fn has_the_order() -> Result<(), Failed> {
    let mock =
        csi_mock_driver::Config { defects: vec![Defect::DeleteVolumeRefusalBlocks], ..Default::default() };
    let check = "after-error/unusual-order";
    let run = mock::run(registry(), mock, short(), SEEDS[0], |other| other.id == check)?;
    let mut violations = run.reports.iter().filter_map(|report| report.outcome.violation());
    let violation = violations.next().ok_or("nothing is found")?;
    let steps: Vec<&str> = violation.reproduction.iter().filter_map(|step| step.rpc.as_deref()).collect();
    let order = [
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "DeleteVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
    ];
    if steps == order { Ok(()) } else { Err(Failed::from(format!("{steps:#?}"))) }
}

fn is_minimal(defect: &str, check: &str, calls: &[&str]) -> Result<(), Failed> {
    let defect: Defect = defect.parse().map_err(|_| format!("there is no defect {defect}"))?;
    for seed in SEEDS {
        let mock = csi_mock_driver::Config { defects: vec![defect], ..Default::default() };
        let effort = Effort { faults: 1, ..Effort::default() };
        let config = Config { effort, ..short() };
        let run = mock::run(registry(), mock, config, seed, |other| other.id == check)?;
        let mut violations = run.reports.iter().filter_map(|report| report.outcome.violation());
        let violation = violations.next().ok_or_else(|| format!("nothing is found at seed {seed}"))?;
        let reported: Vec<&str> = violation.transcript.iter().filter_map(|line| call(line)).collect();
        if reported != calls {
            return Err(Failed::from(format!("at seed {seed}:\n{}", violation.transcript.join("\n"))));
        }
    }
    Ok(())
}

/// Returns the RPC in a line of a table of calls, such as `>   2  CreateVolume v1 …`.
fn call(line: &str) -> Option<&str> {
    let mut words = line.trim_start_matches('>').split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    words.next()
}
