//! Checks that every defect is found by the checks that name it, and that the matrix of defects and checks is the
//! committed one. By default it tries the checks in each row and those that should be in it. With `MATRIX=1/1` it
//! tries every check on every defect, so that a check that accuses more defects than before is noticed, too; with
//! `MATRIX=2/4` it does so for the second quarter.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use csi_harness::checks::check::Check;
use csi_harness::client::answer::Answer;
use csi_harness::config::AccessType;
use csi_harness::results::failure_report::explaining_calls;
use csi_harness::results::outcome::{CheckReport, Outcome};
use csi_harness::run::refutation::{Trial, by_its_rules, is_of_preview};
use csi_harness::spec::requirements::req;
use csi_mock_driver::{Capability, Defect};
use csi_test_support::matrix::{self, MatrixFile, Row, sampled};
use csi_test_support::run::Run;
use libtest_mimic::{Arguments, Failed};

use crate::bench::{self, everything_on, everything_set, lacks, lacks_for_rules, registry};

const HEADER: &str = "\
# Which checks say something of a driver with one defect: the defect, then the checks, a line each, with the rule that they
# blame it for.
# Defects that no check finds are left out; suites/unfound.txt says why.
# A check that goes by another rule where the driver lacks a capability is tried without it, too.
# UPDATE=1 cargo test -p csi-suite-sanity --test refutation writes this file; ci/matrix compares all of it.
";

/// Contains the results of checks, each with the label of its run.
type Lines = BTreeSet<(String, String)>;

pub(crate) fn trials(arguments: &Arguments) -> Vec<libtest_mimic::Trial> {
    let file = Arc::new(matrix_file());
    let part = matrix::part();
    // The slowest trials come first.
    let slow = [Defect::CreateVolumeCrashesAfterWork];
    let others = defects().filter(|defect| !slow.contains(defect));
    let all = slow.into_iter().chain(others);
    let here = all.filter(|defect| part.is_none_or(|part| part.has(defect.id())));
    let row = |defect: Defect| {
        let (proves, file) =
            (refuted_by(defect.id()).map(|check| check.id.to_string()).collect(), file.clone());
        let test = move || is_found(&file, defect);
        Row { proves, trial: libtest_mimic::Trial::test(format!("defect/{defect}"), test) }
    };
    let mut trials = sampled(arguments, here.map(row).collect());
    trials.push(libtest_mimic::Trial::test("defects/exist", names_exist));
    trials
        .push(libtest_mimic::Trial::test("defects/the-rejected-name-is-marked", the_rejected_name_is_marked));
    for (defect, check) in [
        (Defect::CreateVolumeReusesIds, "controller/create-volume/distinct-ids"),
        (Defect::SnapshotIdFromSource, "controller/create-snapshot/distinct-ids"),
    ] {
        let one_reports = move || one_reports(defect, check);
        trials.push(libtest_mimic::Trial::test(format!("defects/one-check-reports-{defect}"), one_reports));
    }
    trials.push(libtest_mimic::Trial::test(
        "defects/a-snapshot-that-was-never-listed-is-not-deleted-with-its-volume",
        a_snapshot_that_was_never_listed,
    ));
    trials
}

/// Checks that DeleteVolume is not blamed for a snapshot that the list has never had.
fn a_snapshot_that_was_never_listed() -> Result<(), Failed> {
    let defects = vec![Defect::ListSnapshotsLacksNewest];
    let mock = csi_mock_driver::Config { seed: Some(1), defects, ..everything_on() };
    let mut config = everything_set();
    config.time_limits.settle_ms = Some(100);
    let check = "controller/delete-volume/with-snapshots";
    let run = bench::play_with_verdicts(1, mock, config, |one| one.id == check)?;
    match &run.by_label().get(check).ok_or("it was not run")?.outcome {
        Outcome::Passed => Ok(()),
        other => Err(Failed::from(format!("{other:#?}"))),
    }
}

/// Checks that only one of the checks in the row of a defect reports it, and that the others refer to that one.
fn one_reports(defect: Defect, check: &str) -> Result<(), Failed> {
    let committed = matrix_file().row(defect.id())?;
    let tried = tried_on(defect.id(), &committed).unwrap_or_default();
    let mock = csi_mock_driver::Config { seed: Some(1), defects: vec![defect], ..everything_on() };
    let mut config = everything_set();
    config.time_limits.settle_ms = Some(100);
    let run = bench::play_with_verdicts(1, mock, config, |one| tried.contains(&*one.id))?;
    let deviates = |report: &&CheckReport| {
        matches!(report.outcome, Outcome::Failed(_) | Outcome::Warned(_) | Outcome::Flaky(_))
    };
    let failed: Vec<String> = run.reports.iter().filter(deviates).map(CheckReport::label).collect();
    let refer = run.summary.counts.checks.same_fault;
    match failed == [check] && refer + 1 == committed.lines().count() {
        true => Ok(()),
        false => Err(Failed::from(format!("{failed:?} failed, and {refer} refer to another check"))),
    }
}

/// Checks that the call which a report marks as the one that breaks the rule is one that was rejected.
fn the_rejected_name_is_marked() -> Result<(), Failed> {
    let defects = vec![Defect::CreateVolumeRefusesUnicodeNames];
    let mock = csi_mock_driver::Config { defects, ..everything_on() };
    let check = "controller/create-volume/any-name";
    let run = bench::play_those(1, mock, everything_set(), |one| one.id == check)?;
    for (label, report) in run.by_label() {
        let explaining = explaining_calls(report);
        let accused: Vec<&Answer<_>> = explaining
            .iter()
            .filter(|one| one.is_accused)
            .map(|one| &report.calls[one.place].outcome)
            .collect();
        if !matches!(accused[..], [Answer::Refused(_)]) {
            return Err(Failed::from(format!("{label}: {accused:?}")));
        }
    }
    Ok(())
}

fn is_found(file: &MatrixFile, defect: Defect) -> Result<(), Failed> {
    let id = defect.id();
    let committed = file.row(id)?;
    let tried = tried_on(id, &committed);
    let play = |without| {
        play(defect, without, |check| tried.as_ref().is_none_or(|tried| tried.contains(&*check.id)))
    };
    let played = play(Vec::new())?;
    let mut wrong = misattributed(&played)?;
    let mut lines = lines(&played);
    for check in &refuted_by(id).collect::<Vec<_>>() {
        let absent = lacks(check);
        let said = if absent.is_empty() {
            match not_found(&played, check) {
                // Objects that all other checks leave on such a driver may disturb it, such as a full node.
                Some(_) if tried.is_none() => {
                    let alone = self::play(defect, Vec::new(), |other| other.id == check.id)?;
                    lines.extend(lines_of(&alone, check));
                    not_found(&alone, check)
                }
                said => said,
            }
        } else {
            let without = play(absent)?;
            lines.extend(lines_of(&without, check));
            not_found(&without, check)
        };
        wrong.extend(said.map(|said| format!("{} does not find {id}: {said}", check.id)));
        for absent in lacks_for_rules(check) {
            let without = play(vec![absent])?;
            wrong.extend(misattributed(&without)?);
            lines.extend(lines_of(&without, check));
        }
    }

    let row = lines.into_iter().map(|(_, line)| line).collect::<String>();
    if std::env::var_os("UPDATE").is_some() {
        file.write(all_ids(), id, row)?;
    } else if committed != row {
        wrong.push(format!(
            "the row of {id} in {} is\n{committed}but now it is\n{row}run with UPDATE=1 if that is meant",
            file.path().display()
        ));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// Returns the checks to try on a defect: those in its committed row, and those that name it. `None` means all.
fn tried_on(defect: &'static str, committed: &str) -> Option<BTreeSet<String>> {
    if std::env::var_os("UPDATE").is_some() || matrix::part().is_some() {
        return None;
    }
    let accuse = committed.lines().filter_map(|line| line.trim_start().split([' ', '@']).next());
    Some(accuse.map(str::to_owned).chain(refuted_by(defect).map(|check| check.id.to_string())).collect())
}

fn lines_of(played: &Run, check: &Check) -> Lines {
    lines(played).into_iter().filter(|(label, _)| is_run_of(label, check)).collect()
}

/// Runs one check at a time, so that a row contains what each finds by itself.
fn play(defect: Defect, without: Vec<Capability>, wanted: impl Fn(&Check) -> bool) -> Result<Run, Failed> {
    let mut config = everything_set();
    // The mock driver does everything at once, so it needs no settling time.
    config.time_limits.settle_ms = Some(100);
    let hangs = match defect {
        Defect::ProbeHangs => Some("Probe"),
        Defect::NodeGetVolumeStatsHangs => Some("NodeGetVolumeStats"),
        _ => None,
    };
    if let Some(rpc) = hangs {
        // The limit is reached in any case, and sooner if it is short.
        config.time_limits.rpc_ms.insert(rpc.to_owned(), 100);
    }
    // The blocks of a mock volume depend on the seed.
    let mut mock =
        csi_mock_driver::Config { seed: Some(1), defects: vec![defect], without, ..everything_on() };
    if refuted_by(defect.id()).any(|check| is_of_preview(&check)) {
        bench::preview(&mut mock, &mut config);
    }
    bench::play_those(1, mock, config, wanted)
}

fn refuted_by(defect: &'static str) -> impl Iterator<Item = Check> {
    let checks: Vec<_> = registry().checks().map(|(_, check)| check.clone()).collect();
    checks.into_iter().filter(move |check| check.refuted_by.contains(&defect))
}

/// Returns the result of the check, unless it accuses the driver in one of its runs.
fn not_found(played: &Run, check: &Check) -> Option<String> {
    match by_its_rules(check, &played.outcomes_of(&check.id)) {
        Trial::Good => None,
        Trial::Skipped(why) | Trial::Bad(why) => Some(why),
    }
}

fn is_run_of(label: &str, check: &Check) -> bool {
    Check::id_of(label) == check.id
}

/// Returns accusations with rules that the check does not declare, or that do not apply to a driver with these
/// capabilities.
fn misattributed(played: &Run) -> Result<Vec<String>, Failed> {
    let mut wrong = Vec::new();
    for (label, report) in played.by_label() {
        let check = &report.planned.check;
        let Some(rule) = report.outcome.violation().and_then(|violation| violation.requirement) else {
            continue;
        };
        // The runner uses this rule for calls that crash the driver.
        if rule != &req::GEN_ERR_001 && !check.requirements.contains(&rule) {
            wrong.push(format!("{label} blames the driver for {}, which it does not name", rule.id));
        }
        let unmet = rule.requires.iter().find_map(|need| need.unmet(&played.target, AccessType::Mount));
        wrong.extend(unmet.map(|why| format!("{label} blames the driver for {}, but {why}", rule.id)));
    }
    Ok(wrong)
}

/// Returns one line for each check that accuses the driver, by label.
fn lines(played: &Run) -> Lines {
    let line = |(label, report)| Some((label, matrix::line(report)?));
    played.by_label().into_iter().filter_map(line).collect()
}

fn matrix_file() -> MatrixFile {
    MatrixFile::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proven/matrix.txt"), HEADER)
}

/// Returns the defects that this suite has to find.
fn defects() -> impl Iterator<Item = Defect> {
    let others = [Defect::IN_HISTORIES, Defect::OVER_TIME, Defect::UNDER_ATTACK, Defect::UNDER_LOAD].concat();
    Defect::ALL.iter().copied().filter(move |defect| !others.contains(defect))
}

fn all_ids() -> BTreeSet<&'static str> {
    defects().map(Defect::id).collect()
}

fn names_exist() -> Result<(), Failed> {
    let registry = registry();
    let mut named = registry.checks().flat_map(|(_, check)| check.refuted_by.iter());
    match named.find(|id| !all_ids().contains(*id)) {
        None => Ok(()),
        Some(unknown) => Err(Failed::from(format!("a check names {unknown}, which does not exist"))),
    }
}
