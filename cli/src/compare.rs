//! `csi-sanity compare`: what got better and what got worse between two runs or two loads, or from each of several to the next.

use std::io::{self, Write as _};

use csi_report::{Comparison, Destination, Format, Run, compare_each, history_page};
use csi_suite_load::compare::Comparison as LoadComparison;
use csi_suite_load::report::Report as LoadReport;
use serde::Serialize;

use crate::args::{CompareArgs, CompareFormat, FileArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;

/// Prints what differs, and writes the page that is asked for.
pub(crate) fn compare(args: &CompareArgs) -> Result<Exit, Error> {
    let loads = args.reports.iter().map(|path| LoadReport::read(path)).collect::<Result<Vec<_>, _>>()?;
    if loads.iter().any(Option::is_some) {
        return compare_loads(args, loads);
    }
    if let Some(threshold) = args.threshold.first() {
        let problem = format!("{threshold}: only results of loads have times to which it applies");
        return Err(Error::flag("--threshold", problem));
    }
    let page = args.report.as_ref().map(page).transpose()?;
    let runs: Vec<Run> = args.reports.iter().map(|path| Run::load(path)).collect::<Result<_, _>>()?;
    let comparisons = compare_each(&runs, args.slower_than);
    print(args.format, &comparisons, Comparison::text, Comparison::markdown)?;
    if let Some(page) = page {
        let text = history_page(&runs, &comparisons, env!("CARGO_PKG_VERSION"));
        page.write(&text).map_err(|source| Error::Report { format: Format::Html.name(), source })?;
    }
    let is_worse = comparisons.last().is_some_and(|newest| newest.is_worse);
    Ok(if is_worse { Exit::Failed } else { Exit::Success })
}

/// Prints how the times of each load differ from those of the one before.
fn compare_loads(args: &CompareArgs, loads: Vec<Option<LoadReport>>) -> Result<Exit, Error> {
    if args.report.is_some() {
        return Err(Error::flag("--report", "there is no page that compares loads"));
    }
    if let Some(threshold) = args.threshold.iter().find(|threshold| !threshold.is_change()) {
        let problem = format!("{threshold}: write a change, such as 'CreateVolume p99 < +10%'");
        return Err(Error::flag("--threshold", problem));
    }
    let loads: Option<Vec<LoadReport>> = loads.into_iter().collect();
    let loads = loads.ok_or_else(|| {
        Error::Settings("results of loads cannot be compared with reports of other runs".to_owned())
    })?;
    let mut comparisons = Vec::new();
    for pair in loads.windows(2) {
        let (before, after) = pair.split_at(1);
        let mut comparison = LoadComparison::new(before, after, &args.threshold).map_err(Error::Settings)?;
        if let Some(factor) = args.slower_than {
            comparison.limit_medians(factor);
        }
        comparisons.push(comparison);
    }
    print(args.format, &comparisons, LoadComparison::text, LoadComparison::markdown)?;
    Ok(comparisons.last().map_or(Exit::Success, exit_of))
}

/// The exit code of a comparison of loads.
pub(crate) fn exit_of(comparison: &LoadComparison) -> Exit {
    let limits = || comparison.thresholds.iter().map(|limit| limit.is_met);
    match (limits().any(|is_met| is_met == Some(false)), limits().any(|is_met| is_met.is_none())) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Broken,
        (false, false) => Exit::Success,
    }
}

/// The place of the page.
fn page(report: &FileArg<Format>) -> Result<Destination, Error> {
    if report.format != Format::Html {
        let problem =
            format!("{} shows one run; a page that compares several is html=FILE", report.format.name());
        return Err(Error::flag("--report", problem));
    }
    Destination::open(&report.path).map_err(|source| Error::Report { format: Format::Html.name(), source })
}

fn print<C: Serialize>(
    format: CompareFormat,
    comparisons: &[C],
    text: impl Fn(&C) -> String,
    markdown: impl Fn(&C) -> String,
) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match (format, comparisons) {
        (CompareFormat::Json, [one]) => json(out, one)?,
        (CompareFormat::Json, several) => json(out, &several)?,
        (CompareFormat::Text, several) => {
            several.iter().try_for_each(|one| out.write_all(text(one).as_bytes()))?
        }
        (CompareFormat::Md, several) => {
            several.iter().try_for_each(|one| out.write_all(markdown(one).as_bytes()))?
        }
    }
    Ok(())
}
