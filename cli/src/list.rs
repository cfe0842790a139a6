//! `csi-sanity list`: the checks there are.

use std::io::{self, Write};

use csi_harness::checks::check::{Check, Runs};
use csi_harness::config::AccessType;
use csi_harness::spec::need::Need;
use csi_mock_driver::Defect;
use serde::Serialize;

use crate::args::{ListArgs, OutputFormat};
use crate::error::Error;
use crate::exit::Exit;

/// One check, in the shape programs read.
#[derive(Serialize)]
struct Entry {
    id: String,
    suite: &'static str,
    since: &'static str,
    title: String,
    requirements: Vec<&'static str>,
    needs: Vec<String>,
    refuted_by: &'static [&'static str],
    alone: bool,
    root: bool,
}

/// Prints the checks that the selection chooses.
pub(crate) fn list(args: &ListArgs) -> Result<Exit, Error> {
    if args.defects {
        return defects(args.format);
    }
    let filter = args.selection.filter()?;
    let registry = args.selection.registry();
    let selected = |check: &Check| {
        [AccessType::Mount, AccessType::Block]
            .iter()
            .any(|access| filter.selects(check, &check.label(*access)))
    };
    let entries: Vec<Entry> = registry
        .checks()
        .filter(|(_, check)| selected(check))
        .map(|(suite, check)| entry(suite, check))
        .collect();
    if entries.is_empty() {
        return Err(Error::NothingSelected);
    }
    let out = io::stdout().lock();
    match args.format {
        OutputFormat::Text => text(out, entries.iter().map(|entry| (&*entry.id, &*entry.title)))?,
        OutputFormat::Json => json(out, &entries)?,
    }
    Ok(Exit::Success)
}

/// A defect of the driver that is built in.
#[derive(Serialize)]
struct DefectEntry {
    id: &'static str,
    description: &'static str,
}

fn defects(format: OutputFormat) -> Result<Exit, Error> {
    let out = io::stdout().lock();
    let entries: Vec<DefectEntry> = Defect::ALL
        .iter()
        .map(|defect| DefectEntry { id: defect.id(), description: defect.description() })
        .collect();
    match format {
        OutputFormat::Text => text(out, entries.iter().map(|entry| (entry.id, entry.description)))?,
        OutputFormat::Json => json(out, &entries)?,
    }
    Ok(Exit::Success)
}

/// Prints a value as indented JSON with a line end behind it.
pub(crate) fn json(mut out: impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}

fn entry(suite: &'static str, check: &Check) -> Entry {
    Entry {
        id: check.id.to_string(),
        suite,
        since: check.since,
        title: check.title.to_string(),
        requirements: check.requirements.iter().map(|rule| rule.id).collect(),
        needs: check.needs.iter().map(Need::describe).collect(),
        refuted_by: check.refuted_by,
        alone: check.course() != Runs::Parallel,
        root: check.needs.iter().any(|need| matches!(need, Need::Root)),
    }
}

/// Prints ids, each with a sentence about it.
fn text<'a>(
    mut out: impl Write,
    mut lines: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> io::Result<()> {
    let width = lines.clone().map(|(id, _)| id.len()).max().unwrap_or(0);
    lines.try_for_each(|(id, about)| writeln!(out, "{id:width$}  {about}"))
}
