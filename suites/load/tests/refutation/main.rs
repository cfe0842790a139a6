//! Shows that a load finds what it should: a correct driver passes, and a preset finds each wrong one. With `MATRIX=1/1`, correct drivers
//! are tried with several seeds.

use std::process::ExitCode;
use std::time::Duration;

use csi_faulty_driver::Defect as HostpathDefect;
use csi_harness::checks::registry::Registry;
use csi_harness::config::{Config, Effort};
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_mock_driver::{Defect, Quirk};
use csi_suite_load::workload::{Changes, Workload};
use csi_suite_load::{Results, SUITE, suite};
use csi_test_support::matrix::{self, Row, sampled};
use csi_test_support::mock::{self, everything_set};
use csi_test_support::run::{Run, options, outcomes};
use csi_test_support::{hostpath, process, quirks};
use libtest_mimic::{Arguments, Failed, Trial};

/// This number of loads run at the same time. They spend most of their time on waiting for the next life cycle to be due.
const TRIALS_AT_ONCE: usize = 6;
const SEEDS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// A load that missed a defect is made once more, and takes this number of times as long.
const LONGER: u32 = 3;
/// A default run usually has this time, in which its load takes two seconds and a burst.
const QUIRK_BUDGET_MS: u64 = 24_000;

fn main() -> ExitCode {
    if let Some(code) = process::serve_if_asked().or_else(hostpath::serve_if_asked) {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    let mut trials = Vec::new();
    let is_daily = matrix::part().is_none();
    let seeds = if is_daily { &SEEDS[..1] } else { &SEEDS };
    let quirky = if is_daily { &["smoke"][..] } else { &["smoke", "attach-storm"] };
    for seed in seeds.iter().copied() {
        for preset in ["smoke", "attach-storm", "polling", "snapshot-tree", "node-restart", "rejections"] {
            let name = format!("healthy/{preset}/seed-{seed}");
            trials.push(Trial::test(name, move || no_accusation(&played(preset, short(6), "", seed)?)));
        }
        // Volumes that are used for the first time take up storage, which is no leak.
        let unused = Changes { volumes: Some(400), ..short(8) };
        for (preset, backend, changes) in [
            ("smoke", "directory", short(8)),
            ("attach-storm", "image", few_volumes()),
            ("10k-volumes", "directory", unused),
        ] {
            trials.push(Trial::test(format!("reference-driver/{preset}/seed-{seed}"), move || {
                on_reference_driver(preset, backend, changes, None, seed)?
                    .map_or(Ok(()), |reports| no_accusation(&reports))
            }));
        }
        for preset in ["smoke", "attach-storm", "polling", "rejections"] {
            let quirk = Quirk::HeapCollectedInWaves;
            trials.push(Trial::test(format!("{preset}/{quirk}/seed-{seed}"), move || {
                // Only the memory of a process shows this quirk.
                no_accusation(&played(preset, short(6), quirk.id(), seed)?)
            }));
        }
        for quirk in [Quirk::ThrottlesEveryFifthCall, Quirk::SlowCalls] {
            for preset in quirky.iter().copied() {
                let name = format!("{preset}/{quirk}/seed-{seed}");
                trials.push(Trial::test(name, move || unusual(preset, quirk, seed)));
            }
        }
    }
    // One check finds all of these defects, so that the sample has to prove each of its rules.
    let mut rows = Vec::new();
    for (defect, preset, changes, expected) in refutations() {
        let test =
            move || found_in_time(&changes, |changes| played(preset, changes, defect, 1).map(Some), expected);
        let trial = Trial::test(format!("defect/{defect}"), test);
        rows.push(Row { proves: vec![expected[0].to_owned()], trial });
    }
    for (defect, resource) in
        [(HostpathDefect::LeavesMounts, "mount"), (HostpathDefect::LeavesLoopDevices, "loop device")]
    {
        let trial = Trial::test(format!("defect/{}", defect.id()), move || {
            let play = |changes| on_reference_driver("attach-storm", "image", changes, Some(defect), 1);
            found_in_time(&few_volumes(), play, ["LOAD-003", resource])
        });
        rows.push(Row { proves: vec!["LOAD-003".to_owned()], trial });
    }
    trials.extend(sampled(&arguments, rows));
    let effort = Effort { budget_ms: Some(QUIRK_BUDGET_MS), ..mock::little() };
    trials.extend(quirks::trials(|| Registry::new([SUITE]), &effort));
    trials.push(Trial::test("default-run/healthy", || no_accusation(&default_run("", 1)?)));
    trials.push(Trial::test("default-run/create-volume-forgets-under-load", || {
        is_found(&default_run("create-volume-forgets-under-load", 1)?, ["LOAD-001", "not deleted"])
    }));
    trials.push(Trial::test("threshold/a-stall-is-not-in-the-mean", a_stall_is_not_in_the_mean));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns each defect with the preset that finds it, and the rule and a text of the finding.
fn refutations() -> Vec<(&'static str, &'static str, Changes, [&'static str; 2])> {
    let fast = |seconds, rate| Changes { rate: Some(rate), ..short(seconds) };
    let many = Changes { volumes: Some(500), ..short(3) };
    vec![
        ("create-volume-stalls", "smoke", stalling(), ["LOAD-005", "CreateVolume p99 < 1s"]),
        ("list-volumes-quadratic", "10k-volumes", many, ["LOAD-006", "ListVolumes grows with n^"]),
        (
            "node-publish-refusal-keeps-file",
            "rejections",
            short(6),
            // The report has to name the request that leaks.
            ["LOAD-003", "NodePublishVolume {"],
        ),
        ("delete-volume-keeps-file", "smoke", fast(8, 60.0), ["LOAD-003", "open file"]),
        ("controller-publish-hidden-limit", "256-on-a-node", short(3), ["LOAD-004", "after 200 volumes"]),
        ("create-volume-forgets-under-load", "attach-storm", short(3), ["LOAD-001", "not deleted"]),
        ("restart-refuses-published", "node-restart", short(6), ["LOAD-002", "NodePublishVolume"]),
        (
            "node-publish-slows-down",
            "smoke",
            Changes { callers: Some(32), volumes: Some(48), ..fast(20, 30.0) },
            ["LOAD-006", "NodePublishVolume becomes slower"],
        ),
        ("create-snapshot-keeps-thread", "snapshot-tree", short(8), ["LOAD-003", "thread"]),
        ("controller-publish-keeps-socket", "attach-storm", short(6), ["LOAD-003", "socket"]),
        ("node-stage-keeps-child", "attach-storm", short(6), ["LOAD-003", "child process"]),
        ("node-unpublish-leaves-zombie", "attach-storm", short(6), ["LOAD-003", "zombie"]),
        ("controller-expand-leaves-file", "smoke", fast(8, 60.0), ["LOAD-003", "of the driver"]),
        ("one-lock-for-all-volumes", "attach-storm", short(3), ["LOAD-007", "waits for NodeStageVolume"]),
        ("node-publish-ends", "1000-publications", Changes::default(), ["LOAD-002", "NodePublishVolume"]),
        ("create-volume-names-run-out", "100k-names", Changes::default(), ["LOAD-002", "CreateVolume"]),
        ("rejections-keep-memory", "rejections", short(24), ["LOAD-003", "of memory"]),
    ]
}

fn short(seconds: u64) -> Changes {
    Changes { duration: Some(Duration::from_secs(seconds)), ..Changes::default() }
}

/// Returns a load with which a driver with real mounts can keep up, even if it leaves something behind with each call.
fn few_volumes() -> Changes {
    Changes { volumes: Some(8), rate: Some(20.0), ..short(10) }
}

/// Returns a load of one caller. Life cycles wait behind it while the driver stalls, and the time of the wait counts.
fn stalling() -> Changes {
    let thresholds = ["CreateVolume p99 < 1s", "CreateVolume mean < 800ms"].map(|text| text.parse());
    let thresholds = thresholds.into_iter().flatten().collect();
    Changes { thresholds, rate: Some(40.0), callers: Some(1), ..short(16) }
}

fn registry(preset: &str, changes: Changes, results: &Results) -> Result<Registry, Failed> {
    Ok(Registry::new([suite(&Workload::preset(preset, changes)?, results)]))
}

/// Runs a preset on the mock driver in a process of its own, so that the harness can measure its resources.
fn played(preset: &str, changes: Changes, variants: &str, seed: u64) -> Result<Vec<CheckReport>, Failed> {
    let registry = registry(preset, changes, &Results::default())?;
    let check = registry.checks().next().map(|(_, check)| check.clone()).ok_or("the suite has a check")?;
    process::played(registry.clone(), &check, variants, seed)
}

/// Runs a load until it finds the defect: once as it is, and once for longer, because a busy machine makes fewer life cycles.
fn found_in_time(
    changes: &Changes,
    play: impl Fn(Changes) -> Result<Option<Vec<CheckReport>>, Failed>,
    expected: [&str; 2],
) -> Result<(), Failed> {
    let found = |changes| play(changes)?.map_or(Ok(()), |reports| is_found(&reports, expected));
    found(changes.clone()).or_else(|_| {
        let duration = changes.duration.map(|duration| duration * LONGER);
        found(Changes { duration, ..changes.clone() })
    })
}

/// Runs a preset on the mock driver in this process.
fn with_defect(
    preset: &str,
    changes: Changes,
    defect: &str,
    results: &Results,
) -> Result<Vec<CheckReport>, Failed> {
    let defects = vec![defect.parse::<Defect>().map_err(|unknown| unknown.to_string())?];
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    Ok(mock::run(registry(preset, changes, results)?, mock, everything_set(), 1, |_| true)?.reports)
}

fn unusual(preset: &str, quirk: Quirk, seed: u64) -> Result<(), Failed> {
    let mock = csi_mock_driver::Config { quirks: vec![quirk], ..Default::default() };
    let registry = registry(preset, short(6), &Results::default())?;
    let run = mock::run(registry, mock, everything_set(), seed, |_| true)?;
    no_accusation(&run.reports)
}

/// Runs the load of a default run on the mock driver.
fn default_run(defects: &str, seed: u64) -> Result<Vec<CheckReport>, Failed> {
    let registry = Registry::new([SUITE]);
    let check = registry.checks().next().map(|(_, check)| check.clone()).ok_or("the suite has a check")?;
    process::played(registry.clone(), &check, defects, seed)
}

/// Runs a preset on the reference driver, with real mounts, so that the contents of volumes are read under load as well. Returns `None` if
/// this machine cannot mount anything.
fn on_reference_driver(
    preset: &str,
    backend: &str,
    changes: Changes,
    defect: Option<HostpathDefect>,
    seed: u64,
) -> Result<Option<Vec<CheckReport>>, Failed> {
    let played = hostpath::in_directory(async |root| -> Result<Run, Failed> {
        let config = Config {
            endpoint: Some(hostpath::endpoint(root).to_string()),
            state_dir: Some(root.join("state")),
            mount_dir: Some(root.join("mount")),
            staging_dir: Some(root.join("staging")),
            volume_size_bytes: Some(16 << 20),
            parameters: Default::default(),
            mutable_parameters: Default::default(),
            nodes: Vec::new(),
            ..everything_set()
        };
        let registry = registry(preset, changes, &Results::default())?;
        let driver = hostpath::child(root, &[&format!("--backend={backend}")], defect)?;
        Run::on(driver, config, options(registry, seed), |_| true).await
    });
    played.map(|run| Ok(run?.reports)).transpose()
}

fn no_accusation(reports: &[CheckReport]) -> Result<(), Failed> {
    let is_content = |outcome: &&Outcome| matches!(outcome, Outcome::Passed);
    let accused: Vec<String> = reports
        .iter()
        .filter(|report| !outcomes(report).all(|outcome| is_content(&outcome)) || !report.warnings.is_empty())
        .map(|report| format!("{:#?}\n{:#?}\n{:#?}", report.outcome, report.warnings, report.notes))
        .collect();
    match accused.is_empty() && !reports.is_empty() {
        true => Ok(()),
        false => Err(accused.join("\n").into()),
    }
}

/// Checks that a failure or a warning names the rule, and that its words or the notes beside it contain a text.
fn is_found(reports: &[CheckReport], [rule, text]: [&str; 2]) -> Result<(), Failed> {
    let findings = reports.iter().flat_map(|report| {
        let failed = outcomes(report).filter_map(Outcome::violation);
        failed.chain(&report.warnings).collect::<Vec<_>>()
    });
    let found = findings.filter(|found| found.requirement.is_some_and(|one| one.id == rule)).any(|found| {
        format!("{} {} {}", found.message, found.actual, found.transcript.join(" ")).contains(text)
    });
    match found {
        true => Ok(()),
        false => Err(format!("{rule} {text:?} is missing: {reports:#?}").into()),
    }
}

/// Calls that wait behind a stalled one count from the moment at which they were due.
fn a_stall_is_not_in_the_mean() -> Result<(), Failed> {
    let results = Results::default();
    with_defect("smoke", stalling(), "create-volume-stalls", &results)?;
    let met: Vec<bool> = results.report("smoke").thresholds.iter().map(|one| one.is_met).collect();
    match met[..] {
        [false, true] => Ok(()),
        _ => Err(format!("{:#?}", results.report("smoke")).into()),
    }
}
