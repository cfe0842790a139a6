//! Growth shows only in the process of a driver, so that this program starts itself as the driver.

use std::collections::BTreeSet;

use csi_harness::checks::check::Check;
use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::prelude::*;
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_mock_driver::{Defect, Quirk};
use csi_test_support::mock::{self, everything_set};
use csi_test_support::process;
use csi_test_support::run::{from_environment, outcomes};
use libtest_mimic::{Failed, Trial};

use crate::registry;

pub(crate) fn trials() -> Vec<Trial> {
    let healthy = checks()
        .map(|check| Trial::test(format!("healthy-process/{}", check.id), move || no_accusation(&check, "")));
    // Only the memory of a process shows this quirk. In this process, the driver would have nothing unusual.
    let collected = checks().map(|check| {
        let quirk = Quirk::HeapCollectedInWaves;
        Trial::test(format!("{quirk}/{}", check.id), move || no_accusation(&check, quirk.id()))
    });
    let others = [
        Trial::test("defect/all-that-grow-are-named", all_are_named),
        Trial::test("growth/what-another-check-left-excuses-nothing", a_leak_excuses_no_other),
        Trial::test("growth/the-directory-of-a-driver-is-found", a_directory_is_found),
        Trial::test("growth/an-accepted-request-is-no-rejection", an_accepted_request_is_no_rejection),
        Trial::test("growth/rejections-grow-beside-an-accepted-request", rejections_grow_beside_an_accepted),
    ];
    healthy.chain(collected).chain(others).collect()
}

/// A right driver in a process of its own, with a quirk or none, is not accused.
fn no_accusation(check: &Check, quirk: &str) -> Result<(), Failed> {
    let accused: Vec<String> = played(check, quirk, seed())?
        .iter()
        .flat_map(outcomes)
        .filter_map(|outcome| outcome.violation())
        .map(|violation| format!("{violation:#?}"))
        .collect();
    if accused.is_empty() { Ok(()) } else { Err(Failed::from(accused.join("\n"))) }
}

const SUITE: Suite = Suite { name: "leaves", checks: Checks::Declared(&[&[&LEAVES, &FINDS]]), retired: &[] };

check! {
    /// Meets the driver's leak before the check that looks for it begins.
    LEAVES {
        id: "leaves/clone",
        title: "clones a volume",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["create-volume-leaves-snapshot-of-source"],
        runs: Serial,
    }
    async |cx| {
        let volume_id = cx.new_volume().await?.volume_id;
        let request = cx.create_volume_request().copy_of(v1::VolumeContentSource::volume(volume_id), 0);
        cx.create_volume(request).setup("a clone").await.map(drop)
    }
}

check! {
    /// Reports the directory in which the driver was seen to keep its files.
    FINDS {
        id: "leaves/finds",
        title: "finds the directory of the driver",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["create-volume-leaves-snapshot-of-source"],
        runs: Serial,
    }
    async |cx| {
        let directory = cx.driver_directory().await;
        cx.note(directory.map_or_else(|| "unknown".to_owned(), |directory| directory.display().to_string()));
        Ok(())
    }
}

/// If the back end was empty at first, objects that earlier checks left belong to the run, so that a leak still fails the check.
fn a_leak_excuses_no_other() -> Result<(), Failed> {
    let defects = vec![Defect::CreateVolumeLeavesSnapshotOfSource];
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let suites = Registry::new([SUITE, csi_suite_stateful::growth::SUITE]);
    let wanted = |check: &Check| ["leaves/clone", "growth/back-end"].contains(&&*check.id);
    let run = mock::run(suites, mock, everything_set(), 1, wanted)?;
    match &run.by_label().get("growth/back-end").ok_or("it was not run")?.outcome {
        Outcome::Failed(_) => Ok(()),
        other => Err(Failed::from(format!("{other:#?}"))),
    }
}

/// If no setting names the directory, the harness finds it by watching the driver.
fn a_directory_is_found() -> Result<(), Failed> {
    let found = |is_named: bool| -> Result<Vec<String>, Failed> {
        let check = &Registry::new([SUITE])
            .checks()
            .find(|(_, check)| check.id == "leaves/finds")
            .map(|(_, check)| check.clone())
            .ok_or("no check")?;
        let reports = process::played_on(Registry::new([SUITE]), check, "", 1, is_named)?;
        Ok(reports.into_iter().flat_map(|report| report.notes).collect())
    };
    let (named, seen) = (found(true)?, found(false)?);
    let is_state = |notes: &[String]| notes.iter().any(|note| note.ends_with("/state"));
    match is_state(&named) && is_state(&seen) {
        true => Ok(()),
        false => Err(Failed::from(format!("{named:?} {seen:?}"))),
    }
}

/// A driver that wrongly accepts one request and keeps something of each volume must not be accused of keeping something of rejected
/// requests.
fn an_accepted_request_is_no_rejection() -> Result<(), Failed> {
    match &*growth_of_rejections("create-volume-accepts-crossed-range,delete-volume-keeps-file")? {
        [Outcome::Passed] => Ok(()),
        others => Err(Failed::from(format!("{others:#?}"))),
    }
}

/// The requests that the driver does reject must show what it keeps of them.
fn rejections_grow_beside_an_accepted() -> Result<(), Failed> {
    match &*growth_of_rejections("create-volume-accepts-crossed-range,create-volume-keeps-rejected-names")? {
        [Outcome::Failed(_)] => Ok(()),
        others => Err(Failed::from(format!("{others:#?}"))),
    }
}

fn growth_of_rejections(defects: &str) -> Result<Vec<Outcome>, Failed> {
    let check = checks().find(|check| check.id == "growth/refused-volumes").ok_or("no check")?;
    Ok(played(&check, defects, seed())?.into_iter().map(|report| report.outcome).collect())
}

fn checks() -> impl Iterator<Item = Check> {
    registry().checks().map(|(_, check)| check.clone()).filter(needs_process).collect::<Vec<_>>().into_iter()
}

fn seed() -> u64 {
    from_environment("SEED").unwrap_or(1)
}

/// Returns true if the check cannot see anything of a driver in this process.
pub(crate) fn needs_process(check: &Check) -> bool {
    check.id.starts_with("growth/")
}

pub(crate) fn played(check: &Check, variants: &str, seed: u64) -> Result<Vec<CheckReport>, Failed> {
    process::played(registry(), check, variants, seed)
}

fn all_are_named() -> Result<(), Failed> {
    let named: BTreeSet<&str> = checks().flat_map(|check| check.refuted_by.iter().copied()).collect();
    let unnamed: Vec<_> = Defect::OVER_TIME.iter().filter(|defect| !named.contains(defect.id())).collect();
    if unnamed.is_empty() { Ok(()) } else { Err(Failed::from(format!("no check is for {unnamed:?}"))) }
}
