//! `csi-sanity merge`: the reports of all shards of a run as one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use csi_report::{Part, Run, Whole};

use crate::args::MergeArgs;
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run::{self, open_reports, terminal};
use crate::suites;

/// Prints the run that the reports are parts of, and writes reports on it.
pub(crate) fn merge(args: &MergeArgs, repeat: &Repeat) -> Result<Exit, Error> {
    let mut parts = Vec::new();
    for path in files(&args.reports)? {
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
