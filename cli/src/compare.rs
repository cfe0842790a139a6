//! `csi-sanity compare`: what got better and what got worse between two runs, or from each of several to the next.

use std::io::{self, Write as _};

use csi_report::{Comparison, Destination, Format, Stored, compare_each, history_page};

use crate::args::{CompareArgs, CompareFormat, ReportArg};
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;

/// Prints what differs, and writes the page that is asked for.
pub(crate) fn compare(args: &CompareArgs) -> Result<Exit, Error> {
    let page = args.report.as_ref().map(page).transpose()?;
    let runs: Vec<Stored> = args.reports.iter().map(|path| Stored::load(path)).collect::<Result<_, _>>()?;
    let comparisons = compare_each(&runs, args.slower_than);
    print(args.format, &comparisons)?;
    if let Some(page) = page {
        let text = history_page(&runs, &comparisons, env!("CARGO_PKG_VERSION"));
        page.write(&text).map_err(|source| Error::Report { format: Format::Html.name(), source })?;
    }
    let is_worse = comparisons.last().is_some_and(|newest| newest.is_worse);
    Ok(if is_worse { Exit::Failed } else { Exit::Success })
}

/// The place of the page.
fn page(report: &ReportArg) -> Result<Destination, Error> {
    if report.format != Format::Html {
        let problem =
            format!("{} shows one run; a page that compares several is html=FILE", report.format.name());
        return Err(Error::Flag { flag: "--report", problem });
    }
    Destination::open(&report.path).map_err(|source| Error::Report { format: Format::Html.name(), source })
}

fn print(format: CompareFormat, comparisons: &[Comparison]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match (format, comparisons) {
        (CompareFormat::Json, [one]) => json(out, one)?,
        (CompareFormat::Json, several) => json(out, &several)?,
        (CompareFormat::Text, several) => {
            several.iter().try_for_each(|one| out.write_all(one.text().as_bytes()))?
        }
        (CompareFormat::Md, several) => {
            several.iter().try_for_each(|one| out.write_all(one.markdown().as_bytes()))?
        }
    }
    Ok(())
}
