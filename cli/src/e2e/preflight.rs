//! `csi-sanity e2e --preflight`: what is wrong with a deployment, before a test waits for it.

use std::io::{self, Write as _};

use csi_suite_e2e::definition::ClassErrors;
use csi_suite_e2e::preflight::{Finding, GatherError, Level, Plugin, gather, judge};
use tokio::runtime::Runtime;

use super::kube::source;
use super::{Files, load, run_args};
use crate::args::E2eArgs;
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::init::on_one_line;
use crate::stop::until_signal;

/// Prints the findings. An error is something without which tests could not judge the driver.
pub(super) fn preflight(args: E2eArgs) -> Result<Exit, Error> {
    let loaded = load(&args)?;
    let runtime = Runtime::new().map_err(Error::Runtime)?;
    let findings = runtime.block_on(until_signal(look(args, &loaded)));
    runtime.shutdown_background();
    let Some(findings) = findings? else { return Ok(Exit::Interrupted) };
    Ok(print(&findings)?)
}

/// Collects the findings. One that several definitions share appears once, with all of their labels.
async fn look(args: E2eArgs, loaded: &Files) -> Result<Vec<Finding>, Error> {
    let connection = source(&args).connect().await?;
    let plugin = match args.target.is_embedded() {
        true => None,
        false => Some(plugin(args).await?),
    };
    let mut found = Vec::<(Finding, Vec<&str>)>::new();
    for (loaded, label) in &loaded.all {
        let facts = gather(&connection, loaded, plugin.clone()).await.map_err(|error| match error {
            GatherError::Cluster { .. } => Error::Cluster(error.to_string()),
            GatherError::Class(error) => ClassErrors::new(loaded.path.clone(), vec![error]).into(),
        })?;
        let (earlier, label) = (found.len(), label.as_deref());
        for finding in judge(&loaded.definition, &facts) {
            match found[..earlier].iter_mut().find(|(other, _)| *other == finding) {
                Some((_, labels)) => labels.extend(label),
                None => found.push((finding, label.into_iter().collect())),
            }
        }
    }
    let labelled = |(finding, labels): (Finding, Vec<&str>)| match labels.is_empty() {
        true => finding,
        false => Finding { what: format!("{}: {}", labels.join(", "), finding.what), ..finding },
    };
    let mut findings: Vec<Finding> = found.into_iter().map(labelled).collect();
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}

/// The driver at `--endpoint`.
async fn plugin(args: E2eArgs) -> Result<Plugin, Error> {
    let target = connect::connect(connect::reachable(&run_args(args))?, None).await?;
    Ok(Plugin { name: target.info().name.clone(), capabilities: target.capabilities().iter().collect() })
}

/// Prints the findings and their number, and returns the exit code.
fn print(findings: &[Finding]) -> io::Result<Exit> {
    let mut out = anstream::stdout().lock();
    for finding in findings {
        writeln!(out, "{}", on_one_line(&finding.to_string()))?;
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    match errors + warnings {
        0 => writeln!(out, "nothing wrong was found")?,
        _ => writeln!(out, "errors: {errors}, warnings: {warnings}")?,
    }
    Ok(if errors > 0 { Exit::Broken } else { Exit::Success })
}
