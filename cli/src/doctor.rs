//! `csi-sanity doctor`: tries what checks need of this machine and of a driver, and says what each gap costs.

mod driver;
mod machine;

use std::io::{self, Write};

use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::text::message::error_chain;
use serde::Serialize;

use crate::args::{DoctorArgs, OutputFormat};
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;
use crate::stop::until_signal;

/// The result of one examination.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    is_there: bool,
    /// The observation, in a few words.
    seen: String,
    /// The checks that cannot judge without it.
    costs: Option<String>,
    /// Advice to the user.
    mend: Option<String>,
}

/// The time limit of the connection to a driver that this program does not start. Such a driver already listens, or it is not there.
const THERE_MS_MAX: u64 = 5_000;

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
    /// The reason why the driver could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable: Option<String>,
}

/// Prints the findings. A gap of this machine is no error, since tests may run elsewhere; a driver that does not answer is one.
pub(crate) fn doctor(args: DoctorArgs) -> Result<Exit, Error> {
    let format = args.format;
    let config = match args.driver.target.is_embedded() {
        true => None,
        false => {
            let has_limit = args.driver.limits.dial_timeout.is_some();
            let args = args.driver.alone();
            let mut config = connect::reachable(&args)?;
            connect::announce(&args, &config);
            let limits = &mut config.time_limits;
            if !has_limit && config.driver_command.is_none() && config.restart_command.is_none() {
                limits.dial_ms = limits.dial_ms.min(THERE_MS_MAX);
            }
            Some(config)
        }
    };
    let process = config.as_ref().and_then(|config| Driver::of(config, None));
    let runtime = tokio::runtime::Runtime::new().map_err(Error::Runtime)?;
    let report = runtime.block_on(until_signal(examine(config, process.clone())));
    runtime.shutdown_background();
    if let Some(process) = process {
        process.abandon();
    }
    let Some((report, unreachable)) = report? else { return Ok(Exit::Interrupted) };
    let out = anstream::stdout().lock();
    match format {
        OutputFormat::Text => text(out, &report)?,
        OutputFormat::Json => json(out, &report)?,
    }
    unreachable.map_or(Ok(Exit::Success), Err)
}

/// Examines the machine first and the driver afterwards, so that a problem of the driver does not hide the findings about the machine.
async fn examine(config: Option<Config>, process: Option<Driver>) -> Result<(Report, Option<Error>), Error> {
    let mut report = Report { machine: machine::examine().await?, driver: None, unreachable: None };
    let Some(config) = config else { return Ok((report, None)) };
    let examined = driver::examine(config, process.clone()).await;
    connect::leave(process).await;
    match examined {
        Ok(examined) => {
            report.driver = Some(examined);
            Ok((report, None))
        }
        Err(error) => {
            report.unreachable = Some(error_chain(&error));
            Ok((report, Some(error)))
        }
    }
}

fn text(mut out: impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "this machine")?;
    report.machine.iter().try_for_each(|finding| write_finding(&mut out, finding))?;
    match &report.driver {
        Some(driver) => driver.text(&mut out),
        None if report.unreachable.is_some() => Ok(()),
        None => writeln!(
            out,
            "\nWith --endpoint, --driver-command or --config, doctor also lists the checks that a driver and its settings leave out."
        ),
    }
}

fn write_finding(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    let verdict = if finding.is_there { "ok" } else { "lacks" };
    writeln!(out, "  {verdict:<5}  {}: {}", finding.what, finding.seen)?;
    for (word, text) in [("costs", &finding.costs), ("fix", &finding.mend)] {
        if let Some(text) = text {
            writeln!(out, "         {word:<5}  {text}")?;
        }
    }
    Ok(())
}
