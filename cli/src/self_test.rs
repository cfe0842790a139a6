//! `csi-sanity self-test`: shows that every check can fail. Each check passes on the correct mock driver, and says
//! something of the same driver with each of the defects that the check names.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};

use csi_harness::checks::check::Check;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::protocol::version::CsiVersion;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::Outcome;
use csi_harness::run::refutation::{Trial, absent_for, by_its_rules, is_of_preview, on_a_right_driver};
use csi_harness::run::runner::{RunOptions, Runner};
use csi_mock_driver::{Capability, Defect};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::SelfTestArgs;
use crate::embedded;
use crate::error::Error;
use crate::exit::Exit;
use crate::standing::Standing;

/// One check with all its trials.
struct Row {
    check: Check,
    healthy: Trial,
    defects: Vec<(&'static str, Trial)>,
    /// Defects that were missed in their first trial, with the reason.
    missed_once: Vec<(&'static str, String)>,
}

/// Runs every trial and prints a table.
pub(crate) fn self_test(args: &SelfTestArgs) -> Result<Exit, Error> {
    let registry = args.selection.registry();
    let filter = args.selection.filter()?;
    let checks: Vec<Check> = registry
        .checks()
        .map(|(_, check)| check.clone())
        .filter(|check| filter.selects(check, &check.id))
        .collect();
    if checks.is_empty() {
        return Err(Error::NothingSelected);
    }
    let jobs = usize::try_from(args.jobs).unwrap_or(usize::MAX);
    embedded::crash_quietly();
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    // Reporters stay on one thread, and so does each run.
    let rows = tokio::task::LocalSet::new().block_on(&runtime, try_all(&registry, checks, jobs));
    runtime.shutdown_background();
    let rows = rows?;
    write(io::stdout().lock(), &rows)?;
    Ok(if rows.iter().any(is_bad) { Exit::Failed } else { Exit::Success })
}

async fn try_all(registry: &Registry, checks: Vec<Check>, jobs: usize) -> Result<Vec<Row>, Error> {
    let mut standing = Standing::begin();
    let (previews, released): (Vec<_>, Vec<_>) = checks.iter().cloned().partition(is_of_preview);
    let mut healthy = Outcomes::new();
    for checks in [released, previews].iter().filter(|checks| !checks.is_empty()) {
        let playing = play(registry, checks, Vec::new(), None);
        healthy.extend(standing.during("the driver without defects", playing).await?);
    }
    let mut rows: Vec<Row> = checks
        .into_iter()
        .map(|check| Row {
            healthy: on_a_right_driver(&outcomes_of(&healthy, &check)),
            check,
            defects: Vec::new(),
            missed_once: Vec::new(),
        })
        .collect();
    let mut waiting: VecDeque<(usize, Against)> = VecDeque::new();
    for (at, row) in rows.iter().enumerate() {
        if !absent(&row.check).is_empty() {
            waiting.push_back((at, Against::Healthy));
        }
        waiting.extend(row.check.refuted_by.iter().map(|defect| (at, Against::Defect(defect))));
    }
    let trials = waiting.len();
    let mut running = JoinSet::new();
    loop {
        while running.len() < jobs
            && let Some((at, against)) = waiting.pop_front()
        {
            let (registry, check) = (registry.clone(), rows[at].check.clone());
            running.spawn_local(async move { (at, against, try_one(&registry, &check, against).await) });
        }
        let at = format!("{} of {trials} trials done", trials - waiting.len() - running.len());
        let Some(done) = standing.during(&at, running.join_next()).await else { break };
        let Ok((at, against, trial)) = done else { continue };
        match against {
            Against::Healthy => rows[at].healthy = trial?,
            // A defect that only shows at a certain moment may be missed on a busy machine.
            Against::Defect(defect) => match trial? {
                Trial::Bad(why) if rows[at].missed_once.iter().all(|(missed, _)| *missed != defect) => {
                    rows[at].missed_once.push((defect, why));
                    waiting.push_back((at, against));
                }
                trial => rows[at].defects.push((defect, trial)),
            },
        }
    }
    standing.clear();
    rows.iter_mut().for_each(|row| row.defects.sort_by_key(|(defect, _)| *defect));
    Ok(rows)
}

/// Some defects only affect volumes larger than this.
const GIB: i64 = 1 << 30;

/// The prefixes of defects that the mock driver cannot have, because it mounts nothing.
const OF_OTHER_DRIVERS: [&str; 2] = ["hostpath/", "plain/"];

/// The driver of one trial of one check.
#[derive(Clone, Copy)]
enum Against {
    Healthy,
    Defect(&'static str),
}

async fn try_one(registry: &Registry, check: &Check, against: Against) -> Result<Trial, Error> {
    let defect = match against {
        Against::Healthy => None,
        Against::Defect(id) if OF_OTHER_DRIVERS.iter().any(|prefix| id.starts_with(prefix)) => {
            return Ok(Trial::Skipped(
                "a defect of a driver that mounts, tried where mounts can be made".to_owned(),
            ));
        }
        Against::Defect(id) => match id.parse::<Defect>() {
            Ok(defect) => Some(defect),
            Err(_) => return Ok(Trial::Bad("there is no such defect".to_owned())),
        },
    };
    let outcomes = play(registry, std::slice::from_ref(check), absent(check), defect).await?;
    let outcomes = outcomes_of(&outcomes, check);
    Ok(if defect.is_some() { by_its_rules(check, &outcomes) } else { on_a_right_driver(&outcomes) })
}

/// Capabilities that have to be absent for the check to run, as the mock driver names them.
fn absent(check: &Check) -> Vec<Capability> {
    // If two services have a capability of that name, the mock driver needs the name of the service.
    let parse = |name: &str| name.parse().or_else(|_| format!("Controller.{name}").parse()).ok();
    absent_for(check).into_iter().filter_map(|capability| parse(capability.name())).collect()
}

/// The outcome of each check, by its id.
type Outcomes = Vec<(String, Outcome)>;

/// Runs checks against a mock driver of their own.
async fn play(
    registry: &Registry,
    checks: &[Check],
    without: Vec<Capability>,
    defect: Option<Defect>,
) -> Result<Outcomes, Error> {
    let mut config =
        Config { volume_size_bytes: Some(2 * GIB), expand_size_bytes: Some(4 * GIB), ..embedded::settings() };
    if checks.iter().any(is_of_preview) {
        config.csi_version = CsiVersion::V1_14Preview;
    }
    let driver = embedded::driver(defect.into_iter().collect(), without, &mut config)?;
    let mut plan = registry.select(&Filter::default(), &config.access_types);
    let wanted: BTreeSet<&str> = checks.iter().map(|check| &*check.id).collect();
    plan.retain(|planned| wanted.contains(&*planned.check.id));
    let target = Target::connect_to(driver, config).await?;
    let mut outcomes = Collector(Vec::new());
    // Without a sender, the signal is never raised.
    let (_, stop) = watch::channel(Default::default());
    let mut runner = Runner::new(target, run_options(registry), stop);
    runner.report_to(&mut outcomes);
    runner.run(plan).await;
    Ok(outcomes.0)
}

fn run_options(registry: &Registry) -> RunOptions {
    RunOptions { leak_check: false, report_each: true, registry: registry.clone(), ..RunOptions::default() }
}

struct Collector(Outcomes);

impl Reporter for Collector {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            self.0.push((report.planned.check.id.to_string(), report.outcome.clone()));
        }
    }
}

fn outcomes_of<'a>(outcomes: &'a Outcomes, check: &Check) -> Vec<&'a Outcome> {
    outcomes.iter().filter(|(id, _)| *id == check.id).map(|(_, outcome)| outcome).collect()
}

/// Returns the trials of a check, each with the name of the defect.
fn trials(row: &Row) -> impl Iterator<Item = (&'static str, &Trial)> {
    std::iter::once(("no defect", &row.healthy))
        .chain(row.defects.iter().map(|(defect, trial)| (*defect, trial)))
}

fn is_bad(row: &Row) -> bool {
    trials(row).any(|(_, trial)| matches!(trial, Trial::Bad(_)))
}

/// Summarises the trials of a check. A check that has found no defect has proven nothing.
fn verdict(row: &Row) -> &'static str {
    if is_bad(row) {
        "BAD"
    } else if row.defects.iter().any(|(_, trial)| *trial == Trial::Good) {
        "good"
    } else {
        "skipped"
    }
}

fn write(mut out: impl Write, rows: &[Row]) -> io::Result<()> {
    let width = rows.iter().map(|row| row.check.id.len()).max().unwrap_or(0);
    for row in rows {
        let found = row.defects.iter().filter(|(_, trial)| *trial == Trial::Good).count();
        let verdict = verdict(row);
        writeln!(out, "{:width$}  {verdict:7}  finds {found} of {}", row.check.id, row.defects.len())?;
        for (name, trial) in trials(row) {
            match trial {
                Trial::Good => {}
                Trial::Skipped(why) => writeln!(out, "    {name}: skipped: {why}")?,
                Trial::Bad(why) => writeln!(out, "    {name}: {why}")?,
            }
        }
    }
    let count =
        |wanted: fn(&Trial) -> bool| rows.iter().flat_map(trials).filter(|(_, trial)| wanted(trial)).count();
    writeln!(out)?;
    // The table is long, and a log is often cut at its beginning.
    for row in rows {
        for (name, trial) in trials(row) {
            let missed = row.missed_once.iter().find(|(defect, _)| *defect == name);
            match (trial, missed) {
                (Trial::Bad(why), _) => writeln!(out, "BAD: {} with {name}: {why}", row.check.id)?,
                (_, Some((_, why))) => {
                    writeln!(out, "found in the second trial: {} with {name}: {why}", row.check.id)?;
                }
                (_, None) => {}
            }
        }
    }
    writeln!(
        out,
        "{} {}: {} trials good, {} bad, {} skipped",
        rows.len(),
        if rows.len() == 1 { "check" } else { "checks" },
        count(|trial| *trial == Trial::Good),
        count(|trial| matches!(trial, Trial::Bad(_))),
        count(|trial| matches!(trial, Trial::Skipped(_)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_check() -> Check {
        let registry = Registry::new([csi_suite_sanity::SUITE]);
        registry.checks().next().map(|(_, check)| check.clone()).unwrap()
    }

    #[test]
    fn a_check_that_was_tried_on_no_defect_is_not_good() {
        let check = any_check();
        let of = |healthy, trials: &[Trial]| {
            let defects = trials.iter().map(|trial| ("defect", trial.clone())).collect();
            verdict(&Row { check: check.clone(), healthy, defects, missed_once: Vec::new() })
        };
        let skipped = || Trial::Skipped("no process".to_owned());
        assert_eq!(of(Trial::Good, &[skipped(), skipped()]), "skipped");
        assert_eq!(of(skipped(), &[skipped()]), "skipped");
        assert_eq!(of(skipped(), &[skipped(), Trial::Good]), "good");
        assert_eq!(of(Trial::Good, &[Trial::Bad("late".to_owned()), skipped()]), "BAD");
    }

    #[test]
    fn a_bad_trial_is_named_again_at_the_end() {
        let check = any_check();
        let missed = || "does not find it".to_owned();
        let defects = vec![("drops-it", Trial::Bad(missed())), ("late", Trial::Good)];
        let missed_once = vec![("drops-it", missed()), ("late", missed())];
        let rows = [Row { check: check.clone(), healthy: Trial::Good, defects, missed_once }];
        let mut out = Vec::new();
        write(&mut out, &rows).unwrap();
        let text = String::from_utf8(out).unwrap();
        let end = format!(
            "\n\nBAD: {0} with drops-it: does not find it\nfound in the second trial: {0} with late: does not find it\n\
             1 check: 2 trials good, 1 bad, 0 skipped\n",
            check.id
        );
        assert!(text.ends_with(&end), "{text}");
    }
}
