//! `csi-sanity self-test`: shows that every check can fail. Each check passes on the correct mock driver, and says
//! something of the same driver with each of the defects that the check names.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use csi_harness::check::Check;
use csi_harness::config::Config;
use csi_harness::events::{Event, Reporter};
use csi_harness::filter::Filter;
use csi_harness::known::KnownFailing;
use csi_harness::outcome::{Outcome, Planned};
use csi_harness::registry::Registry;
use csi_harness::runner::{RunOptions, Runner};
use csi_harness::target::Target;
use csi_mock_driver::Defect;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::SelfTestArgs;
use crate::embedded::{self, Embedded};
use crate::error::Error;
use crate::exit::Exit;

/// What came of one check, or of one check and one defect.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trial {
    /// As it should be.
    Good,
    /// The check does not run here.
    Skipped(String),
    /// Not as it should be.
    Bad(String),
}

/// One check with all its trials.
struct Row {
    check: &'static Check,
    healthy: Trial,
    defects: Vec<(&'static str, Trial)>,
}

/// Runs every trial and prints a table.
pub(crate) fn self_test(args: &SelfTestArgs) -> Result<Exit, Error> {
    let registry = args.selection.registry();
    let filter = args.selection.filter()?;
    let checks: Vec<&'static Check> =
        registry.checks().map(|(_, check)| check).filter(|check| filter.selects(check, check.id)).collect();
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
    let bad = |row: &Row| trials(row).any(|trial| matches!(trial, Trial::Bad(_)));
    Ok(if rows.iter().any(bad) { Exit::Failed } else { Exit::Success })
}

async fn try_all(registry: &Registry, checks: Vec<&'static Check>, jobs: usize) -> Result<Vec<Row>, Error> {
    let healthy = play(registry, None, None).await?;
    let mut rows: Vec<Row> = checks
        .into_iter()
        .map(|check| Row {
            check,
            healthy: judge_healthy(&outcomes_of(&healthy, check)),
            defects: Vec::new(),
        })
        .collect();
    let mut waiting: VecDeque<(usize, &'static str)> = VecDeque::new();
    for (at, row) in rows.iter().enumerate() {
        waiting.extend(row.check.refuted_by.iter().map(|defect| (at, *defect)));
    }
    let mut running = JoinSet::new();
    loop {
        while running.len() < jobs
            && let Some((at, defect)) = waiting.pop_front()
        {
            let (registry, check) = (registry.clone(), rows[at].check);
            running.spawn_local(async move { (at, defect, try_defect(&registry, check, defect).await) });
        }
        let Some(done) = running.join_next().await else { break };
        let Ok((at, defect, trial)) = done else { continue };
        rows[at].defects.push((defect, trial?));
    }
    rows.iter_mut().for_each(|row| row.defects.sort_by_key(|(defect, _)| *defect));
    Ok(rows)
}

/// One check against a driver with one defect.
async fn try_defect(registry: &Registry, check: &'static Check, id: &str) -> Result<Trial, Error> {
    let Ok(defect) = id.parse::<Defect>() else {
        return Ok(Trial::Bad("there is no such defect".to_owned()));
    };
    let outcomes = play(registry, Some(check), Some(defect)).await?;
    Ok(judge_defect(&outcomes_of(&outcomes, check)))
}

/// What came of each check.
type Outcomes = Vec<(&'static str, Outcome)>;

/// Runs one check, or all of them, against a mock driver of its own.
async fn play(
    registry: &Registry,
    only: Option<&'static Check>,
    defect: Option<Defect>,
) -> Result<Outcomes, Error> {
    let driver = Embedded::start(defect.into_iter().collect()).await?;
    let config = Config { endpoint: Some(driver.endpoint().to_string()), ..embedded::settings() };
    let mut plan = registry.select(&Filter::default(), &config.access_types);
    plan.retain(|planned: &Planned| only.is_none_or(|only| only.id == planned.check.id));
    let target = Target::connect(config).await?;
    let mut outcomes = Collector(Vec::new());
    let options = RunOptions {
        jobs: 8,
        seed: 0,
        strict: false,
        fail_fast: false,
        leak_check: false,
        keep_calls: false,
        known: KnownFailing::default(),
        repeat: Arc::new(str::to_owned),
    };
    // The sender may go: a signal that nobody can raise stays down.
    let (_, stop) = watch::channel(false);
    let mut runner = Runner::new(target, options, stop);
    runner.report_to(&mut outcomes);
    runner.run(plan).await;
    Ok(outcomes.0)
}

struct Collector(Outcomes);

impl Reporter for Collector {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::CheckFinished(report) = event {
            self.0.push((report.planned.check.id, report.outcome.clone()));
        }
    }
}

fn outcomes_of<'a>(outcomes: &'a Outcomes, check: &Check) -> Vec<&'a Outcome> {
    outcomes.iter().filter(|(id, _)| *id == check.id).map(|(_, outcome)| outcome).collect()
}

/// The correct driver is accused of nothing.
fn judge_healthy(outcomes: &[&Outcome]) -> Trial {
    for outcome in outcomes {
        match outcome {
            Outcome::Passed | Outcome::Skipped(_) => {}
            Outcome::Broken(why) => return Trial::Bad(format!("cannot judge the correct driver: {why}")),
            Outcome::Failed(violation)
            | Outcome::Warned(violation)
            | Outcome::KnownFailure { violation, .. } => {
                return Trial::Bad(format!("accuses the correct driver: {}", violation.message));
            }
            Outcome::UnexpectedPass { reason } => return Trial::Bad(reason.clone()),
        }
    }
    skipped(outcomes).unwrap_or(Trial::Good)
}

/// A driver with a defect is accused for at least one access type.
fn judge_defect(outcomes: &[&Outcome]) -> Trial {
    if outcomes.iter().any(|outcome| outcome.violation().is_some()) {
        return Trial::Good;
    }
    skipped(outcomes).unwrap_or_else(|| {
        let names: Vec<_> = outcomes.iter().map(|outcome| outcome.name()).collect();
        Trial::Bad(format!("does not find it ({})", names.join(", ")))
    })
}

/// The reason, if the check ran for no access type.
fn skipped(outcomes: &[&Outcome]) -> Option<Trial> {
    let reason = |outcome: &&Outcome| match outcome {
        Outcome::Skipped(why) => Some(why.clone()),
        _ => None,
    };
    let reasons: Vec<_> = outcomes.iter().map(reason).collect::<Option<_>>()?;
    reasons.into_iter().next().map(Trial::Skipped)
}

fn trials(row: &Row) -> impl Iterator<Item = &Trial> {
    std::iter::once(&row.healthy).chain(row.defects.iter().map(|(_, trial)| trial))
}

fn write(mut out: impl Write, rows: &[Row]) -> io::Result<()> {
    let width = rows.iter().map(|row| row.check.id.len()).max().unwrap_or(0);
    for row in rows {
        let found = row.defects.iter().filter(|(_, trial)| *trial == Trial::Good).count();
        let verdict = if trials(row).any(|trial| matches!(trial, Trial::Bad(_))) { "BAD" } else { "good" };
        writeln!(out, "{:width$}  {verdict:4}  finds {found} of {}", row.check.id, row.defects.len())?;
        let healthy = std::iter::once(("no defect", &row.healthy));
        for (name, trial) in healthy.chain(row.defects.iter().map(|(defect, trial)| (*defect, trial))) {
            match trial {
                Trial::Good => {}
                Trial::Skipped(why) => writeln!(out, "    {name}: skipped: {why}")?,
                Trial::Bad(why) => writeln!(out, "    {name}: {why}")?,
            }
        }
    }
    let count =
        |wanted: fn(&Trial) -> bool| rows.iter().flat_map(trials).filter(|trial| wanted(trial)).count();
    writeln!(
        out,
        "\n{} checks: {} trials good, {} bad, {} skipped",
        rows.len(),
        count(|trial| *trial == Trial::Good),
        count(|trial| matches!(trial, Trial::Bad(_))),
        count(|trial| matches!(trial, Trial::Skipped(_)))
    )
}

#[cfg(test)]
mod tests {
    use csi_harness::verdict::Violation;

    use super::*;

    #[test]
    fn only_a_violation_refutes() {
        let failed = Outcome::Failed(Violation::new("wrong"));
        let (passed, broken) = (Outcome::Passed, Outcome::Broken("no answer".to_owned()));
        let skipped = Outcome::Skipped("no root".to_owned());
        assert_eq!(judge_defect(&[&passed, &failed]), Trial::Good);
        assert_eq!(judge_defect(&[&skipped, &skipped]), Trial::Skipped("no root".to_owned()));
        for outcomes in [vec![&passed], vec![&broken], vec![&passed, &skipped], vec![]] {
            assert!(matches!(judge_defect(&outcomes), Trial::Bad(_)), "{outcomes:?}");
        }
        assert_eq!(judge_healthy(&[&passed, &skipped]), Trial::Good);
        for outcomes in [vec![&failed], vec![&passed, &broken]] {
            assert!(matches!(judge_healthy(&outcomes), Trial::Bad(_)), "{outcomes:?}");
        }
    }
}
