//! `csi-sanity doctor`: what this machine and a driver have of what checks need, and what each lack costs.

mod driver;
mod machine;

use std::io::{self, Write};

use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::text::error::error_chain;
use serde::Serialize;

use crate::args::{DoctorArgs, OutputFormat};
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;
use crate::run;
use crate::stop::{Stopper, say};

/// What was looked for.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    is_there: bool,
    /// What was seen, in a few words.
    seen: String,
    /// What cannot be told without it.
    costs: Option<String>,
    /// What to do about it.
    mend: Option<String>,
}

impl Finding {
    fn there(what: &'static str, seen: impl Into<String>) -> Finding {
        Finding { what, is_there: true, seen: seen.into(), costs: None, mend: None }
    }

    fn lacks(what: &'static str, seen: impl Into<String>) -> Finding {
        Finding { is_there: false, ..Finding::there(what, seen) }
    }

    fn costs(self, costs: impl Into<String>) -> Finding {
        Finding { costs: Some(costs.into()), ..self }
    }

    fn mend(self, mend: impl Into<String>) -> Finding {
        Finding { mend: Some(mend.into()), ..self }
    }
}

#[derive(Serialize)]
struct Report {
    machine: Vec<Finding>,
    driver: Option<driver::Examined>,
}

/// Looks, and says what was found. That something lacks is no error: where tests run, somebody else decides.
pub(crate) fn doctor(args: DoctorArgs) -> Result<Exit, Error> {
    let format = args.format;
    let config = match args.driver.target.is_embedded() {
        true => None,
        false => Some(run::reachable(&args.driver.alone())?),
    };
    let process = config.as_ref().and_then(|config| Driver::of(config, None));
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    let stopper = Stopper::new();
    let report = runtime.block_on(async {
        tokio::select! {
            report = examine(config, process.clone()) => report.map(Some),
            left = stopper.on_signals() => left.map(|()| None).map_err(Error::Runtime),
            _ = stopper.raised() => Ok(None),
        }
    });
    runtime.shutdown_background();
    if let Some(process) = process {
        process.abandon();
    }
    let Some(report) = report? else { return Ok(Exit::Interrupted) };
    let out = anstream::stdout().lock();
    match format {
        OutputFormat::Text => text(out, &report)?,
        OutputFormat::Json => json(out, &report)?,
    }
    Ok(Exit::Success)
}

async fn examine(config: Option<Config>, process: Option<Driver>) -> Result<Report, Error> {
    let machine = machine::examine().await?;
    let Some(config) = config else { return Ok(Report { machine, driver: None }) };
    let examined = driver::examine(config, process.clone()).await;
    if let Some(process) = process
        && let Err(error) = process.leave().await
    {
        say(&error_chain(&error));
    }
    Ok(Report { machine, driver: Some(examined?) })
}

fn text(mut out: impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "this machine")?;
    report.machine.iter().try_for_each(|finding| told(&mut out, finding))?;
    match &report.driver {
        Some(driver) => driver.text(&mut out),
        None => writeln!(
            out,
            "\nWith --endpoint, --driver-command or --config: also what a driver and its settings leave out."
        ),
    }
}

fn told(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let verdict = if finding.is_there { "ok" } else { "lacks" };
    writeln!(out, "  {verdict:<5}  {}: {}", finding.what, finding.seen)?;
    for (word, text) in [("costs", &finding.costs), ("mend", &finding.mend)] {
        if let Some(text) = text {
            writeln!(out, "         {word:<5}  {text}")?;
        }
    }
    Ok(())
}
