//! The mock driver as a program.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use csi_mock_driver::options::Options;
use csi_mock_driver::{ConfigError, CrashMode, Defect, MockDriver, Quirk};
use csi_proto::{BindError, Endpoint, Listener, ServeError, stop_signal};

/// Why the driver cannot run.
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
            // Nobody is left to tell if this fails too.
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
    let Some(endpoint) = options.endpoint.clone() else { return Ok(()) };
    let mut config = options.into_config()?;
    config.crash = CrashMode::Abort;
    abort_on_panic();
    let driver = MockDriver::new(config)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    runtime.block_on(serve(&endpoint, driver))
}

async fn serve(endpoint: &Endpoint, driver: Arc<MockDriver>) -> Result<(), Failure> {
    let listener = Listener::bind(endpoint).await?;
    print(std::iter::once(format!("listening on {}", listener.endpoint())))?;
    Ok(listener.serve(driver.routes(), stop_signal()).await?)
}

/// A handler that panics is a driver that dies; the server would only break the connection.
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
            // Such as `--list-defects | head`.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(Failure::Print)?,
        }
    }
    Ok(())
}
