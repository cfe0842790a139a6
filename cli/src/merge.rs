//! `csi-sanity merge`: the reports of all shards of a run as one, or the results of all shards of a load.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use csi_report::{Part, Run, Whole};
use csi_suite_load::report::Report;
use csi_suite_load::summary;

use crate::args::MergeArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::load;
use crate::repeat::Repeat;
use crate::run::{self, open_reports, terminal};
use crate::suites;

/// Prints the run that the reports are parts of, and writes reports on it.
pub(crate) fn merge(args: &MergeArgs, repeat: &Repeat) -> Result<Exit, Error> {
    let files = files(&args.reports)?;
    let loads = files.iter().map(|path| Report::read(path)).collect::<Result<Vec<_>, _>>()?;
    if loads.iter().any(Option::is_some) {
        return merge_loads(args, &files, loads);
    }
    if !args.results.is_empty() {
        return Err(Error::flag("--results", "these are no results of a load"));
    }
    let mut parts = Vec::new();
    for path in files {
        parts.push((path.display().to_string(), Run::load(&path)?));
    }
    let run = together(parts, repeat)?;
    let reports = open_reports(&args.output)?;
    let mut terminal = terminal(&args.output, &reports);
    terminal.run(&run);
    let printed = terminal.finish().map_err(Error::Output);
    run::write_reports(reports, &run)?;
    printed?;
    Ok(run.verdict.into())
}

/// Shows the load that the results are of, and writes its results.
fn merge_loads(args: &MergeArgs, files: &[PathBuf], loads: Vec<Option<Report>>) -> Result<Exit, Error> {
    if !args.output.report.is_empty() {
        let problem =
            "the files are results of a load, not reports of a run; use --results json=FILE instead";
        return Err(Error::flag("--report", problem));
    }
    let loads: Option<Vec<Report>> = loads.into_iter().collect();
    let loads = loads.ok_or_else(|| {
        Error::Settings("results of a load cannot be merged with reports of other runs".to_owned())
    })?;
    let names = files.iter().map(|path| path.display().to_string());
    let parts: Vec<(String, Report)> = names.zip(loads).collect();
    let files = load::open(&args.results)?;
    let whole = csi_suite_load::merge::merge(&parts)?;
    write!(anstream::stdout(), "{}", summary(&whole))?;
    load::write_results(files, &whole)?;
    Ok(Exit::of_code(whole.exit_code))
}

fn together(parts: Vec<Part>, repeat: &Repeat) -> Result<Run, Error> {
    let whole = Whole {
        version: env!("CARGO_PKG_VERSION"),
        command: repeat.command_line(),
        is_whole: |selection| run::is_whole(&selection.suites, &selection.terms),
    };
    Ok(csi_report::merge(parts, &suites::all(), &whole)?)
}

/// The files that are named, and those in directories.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found =
                reports_in(path).map_err(|source| Error::ReportDirectory { path: path.clone(), source });
            files.extend(found?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn reports_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
