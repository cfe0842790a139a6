//! The mock driver as a program.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use csi_mock_driver::options::Options;
use csi_mock_driver::{ConfigError, CrashMode, Defect, MockDriver, Quirk};
use csi_proto::{BindError, Endpoint, Listener, ServeError, stop_signal};
use tokio::task::JoinSet;

/// The reason why the driver cannot run.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("write to standard output: {0}")]
    Print(std::io::Error),
    #[error("start the runtime: {0}")]
    Runtime(std::io::Error),
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be closed.
            _ = writeln!(std::io::stderr(), "csi-mock-driver: {failure}");
            ExitCode::from(if matches!(failure, Failure::Config(_)) { 2 } else { 1 })
        }
    }
}

fn run(options: Options) -> Result<(), Failure> {
    if options.list_defects {
        return print(
            Defect::ALL.iter().map(|defect| format!("{:<56} {}", defect.id(), defect.description())),
        );
    }
    if options.list_quirks {
        let line =
            |quirk: &Quirk| format!("{:<40} {} ({})", quirk.id(), quirk.description(), quirk.permitted_by());
        return print(Quirk::ALL.iter().map(line));
    }
    let endpoints = options.endpoint.clone();
    let mut config = options.into_config()?;
    config.crash = CrashMode::Abort;
    abort_on_panic();
    let drivers = at_nodes(&MockDriver::new(config)?, endpoints.len())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(serve(endpoints.into_iter().zip(drivers)))
}

/// The driver as each of the first nodes serves it.
fn at_nodes(driver: &Arc<MockDriver>, number: usize) -> Result<Vec<Arc<MockDriver>>, ConfigError> {
    let too_few = || ConfigError::Value {
        option: "nodes",
        reason: format!("there are fewer than the {number} endpoints; --node-id adds some"),
    };
    (0..number).map(|node| driver.at_node(node).ok_or_else(too_few)).collect()
}

async fn serve(drivers: impl Iterator<Item = (Endpoint, Arc<MockDriver>)>) -> Result<(), Failure> {
    let mut serving = JoinSet::new();
    for (endpoint, driver) in drivers {
        let listener = Listener::bind(&endpoint).await?;
        print(std::iter::once(format!("listening on {}", listener.endpoint())))?;
        serving.spawn(async move { listener.serve(driver.routes(), stop_signal()).await });
    }
    while let Some(served) = serving.join_next().await {
        // A panic ends the process, so a task never fails to be joined.
        served.unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Ends the process when a handler panics, as with a real driver; the server would only close the connection.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

fn print(lines: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        match writeln!(out, "{line}") {
            // The reader may stop early, as in `--list-defects | head`.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(Failure::Print)?,
        }
    }
    Ok(())
}
