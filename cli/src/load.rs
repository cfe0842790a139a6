//! `csi-sanity load`: many life cycles at once, measured and judged.

use std::io::Write as _;
use std::time::Duration;

use csi_report::Destination;
use csi_suite_load::workload::{Changes, Workload};
use csi_suite_load::{Results, suite, summary};

use crate::args::{LoadArgs, RunArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run;

/// The load where the user names none.
const PRESET: &str = "smoke";
/// Time that a run may take beside its stages, to create, check and delete the volumes: this, and more for each volume.
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
        results,
        target,
        volume,
        paths,
        course,
        mut limits,
        output,
    } = args;
    let preset = preset.unwrap_or_else(|| PRESET.to_owned());
    let flag = |problem| Error::Flag { flag: "--preset", problem };
    if print {
        write!(std::io::stdout().lock(), "{}", Workload::preset_text(&preset).map_err(flag)?)?;
        return Ok(Exit::Success);
    }
    let changes = Changes { rate, duration, volumes, callers, thresholds: threshold };
    let workload = match workload {
        Some(path) => Workload::load(&path, changes)?,
        None => Workload::preset(&preset, changes).map_err(flag)?,
    };
    let spare = SPARE + SPARE_FOR_VOLUME * workload.volumes;
    let limit = workload.duration() + spare;
    limits.timeout.get_or_insert(limit);
    limits.check_timeout.get_or_insert(limit);
    limits.undo_timeout.get_or_insert(spare);
    let (selection, effort) = Default::default();
    let args = RunArgs { target, volumes: volume, paths, selection, course, effort, limits, output };
    if args.course.cleanup {
        return run::clean_up(&args);
    }
    let config = run::reachable(&args)?;
    let failed = |format| move |source| Error::Results { format, source };
    let kind = |is_csv| if is_csv { "csv" } else { "json" };
    let open = |one: &crate::args::ResultsArg| {
        Ok((one.is_csv, Destination::open(&one.path).map_err(failed(kind(one.is_csv)))?))
    };
    let destinations: Vec<(bool, Destination)> = results.iter().map(open).collect::<Result<_, Error>>()?;
    let measured = Results::default();
    let (suite, name) = (suite(&workload, &measured), workload.name);
    let shown = (measured.clone(), name.clone());
    let shown = move || summary(&shown.0.report(&shown.1));
    let ended = run::run_measured(&args, config, suite, Some(Box::new(shown)), repeat);
    let report = measured.report(&name);
    for (is_csv, destination) in destinations {
        let text = if is_csv { report.csv() } else { report.json() };
        destination.write(text).map_err(failed(kind(is_csv)))?;
    }
    ended
}
