//! `csi-sanity load`: many life cycles at once, measured and judged.

mod against;
mod chart;
mod metrics;

use std::io::Write as _;
use std::time::Duration;

use csi_report::{Destination, DestinationError, Measurements};
use csi_suite_load::report::Report;
use csi_suite_load::workload::{Changes, Part, Workload};
use csi_suite_load::{Results, live, suite, summary};

use crate::args::{EffortArgs, FileArg, LoadArgs, ResultsFormat};
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run;
use crate::stop::say;

/// The default load.
const PRESET: &str = "smoke";
/// The time that a run may take in addition to its stages, to create, check and delete the volumes. It grows with their number.
const SPARE: Duration = Duration::from_secs(60 * 60);
const SPARE_FOR_VOLUME: Duration = Duration::from_secs(5);

/// Runs the load, and writes its measurements.
pub(crate) fn load(args: LoadArgs, repeat: Repeat) -> Result<Exit, Error> {
    let LoadArgs {
        preset,
        workload,
        print,
        rate,
        duration,
        volumes,
        callers,
        threshold,
        against,
        rounds,
        meeting_dir,
        metrics,
        results,
        run,
    } = args;
    let mut args = run.with(EffortArgs::default());
    let preset = preset.unwrap_or_else(|| PRESET.to_owned());
    let flag = |problem: String| Error::flag("--preset", problem);
    if print {
        write!(std::io::stdout().lock(), "{}", Workload::preset_text(&preset).map_err(flag)?)?;
        return Ok(Exit::Success);
    }
    let changes = Changes { rate, duration, volumes, callers, thresholds: threshold };
    let workload = match workload {
        Some(path) => Workload::load(&path, changes)?,
        None => Workload::preset(&preset, changes).map_err(flag)?,
    };
    let workload = match args.course.shard {
        Some(shard) => {
            workload.part(Part { shard, meeting_dir }).map_err(|problem| Error::flag("--shard", problem))?
        }
        None => workload,
    };
    if against.is_none()
        && let Some(threshold) = workload.thresholds.iter().find(|threshold| threshold.is_change())
    {
        let problem = format!("{threshold}: a change needs another driver, which --against starts");
        return Err(Error::flag("--threshold", problem));
    }
    let spare = SPARE + SPARE_FOR_VOLUME * workload.volumes;
    let limit = workload.duration() + spare;
    args.limits.timeout.get_or_insert(limit);
    args.limits.check_timeout.get_or_insert(limit);
    args.limits.undo_timeout.get_or_insert(spare);
    if args.course.cleanup {
        return run::clean_up(&args);
    }
    let config = connect::reachable(&args)?;
    let files = open(&results)?;
    if let Some(command) = against {
        let rounds = rounds.unwrap_or(against::ROUNDS);
        return against::load(args, config, (command, rounds), &workload, files, &repeat);
    }
    let measured = Results::default();
    let server = metrics.map(|address| metrics::Server::start(address, measured.clone())).transpose()?;
    if let Some(server) = &server {
        say(&format!("metrics at http://{}/metrics", server.address));
    }
    let (suite, name) = (suite(&workload, &measured), workload.name);
    let shown = |text: fn(&Report) -> String| {
        let (measured, name) = (measured.clone(), name.clone());
        Box::new(move || text(&measured.report(&name)))
    };
    let measurements = Measurements { live: shown(live), whole: shown(summary) };
    let ended = run::run_measured(&args, config, suite, Some(measurements), repeat);
    let mut report = measured.report(&name);
    report.exit_code = match &ended {
        Ok(exit) => exit.code(),
        Err(error) => error.exit().code(),
    };
    write_results(files, &report)?;
    ended
}

/// Writes the results of a load.
pub(crate) fn write_results(files: Files, report: &Report) -> Result<(), Error> {
    write(files, |format| match format {
        ResultsFormat::Json => report.json(),
        ResultsFormat::Csv => report.csv(),
        ResultsFormat::Html => chart::of_load(report),
    })
}

/// The open files for the results.
pub(crate) type Files = Vec<(ResultsFormat, Destination)>;

fn failed(format: ResultsFormat) -> impl FnOnce(DestinationError) -> Error {
    move |source| Error::Results { format: format.name(), source }
}

pub(crate) fn open(results: &[FileArg<ResultsFormat>]) -> Result<Files, Error> {
    let one = |FileArg { format, path }: &FileArg<ResultsFormat>| {
        Ok((*format, Destination::open(path).map_err(failed(*format))?))
    };
    results.iter().map(one).collect()
}

fn write(files: Files, text: impl Fn(ResultsFormat) -> String) -> Result<(), Error> {
    files.into_iter().try_for_each(|(format, file)| file.write(text(format)).map_err(failed(format)))
}
