//! The driver as a program: arguments, logs, signals, and exit codes.

use std::process::ExitCode;

use clap::error::ErrorKind;
use csi_hostpath_driver::args::{Args, LogFormat};
use csi_hostpath_driver::{Config, HostpathDriver, proxy};
use csi_proto::{Endpoint, Listener, stop_signal};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tracing::Level;
use tracing_subscriber::fmt;

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args = match Args::read(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.kind() == ErrorKind::DisplayHelp {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(EXIT_USAGE)
            };
        }
    };
    if args.version {
        let _ = writeln(format_args!("csi-hostpath-driver {}", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    start_logs(args.log_format, args.v);
    // Calls run on threads that may block. The protocol itself is fastest on a single thread, without switching
    // between threads.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "failed to start the runtime");
            return ExitCode::from(EXIT_FAILED);
        }
    };
    runtime.block_on(run(args))
}

fn writeln(text: std::fmt::Arguments<'_>) -> std::io::Result<()> {
    use std::io::Write;
    std::io::stdout().write_fmt(format_args!("{text}\n"))
}

fn start_logs(format: LogFormat, verbosity: i32) {
    let level = if verbosity >= 5 { Level::DEBUG } else { Level::INFO };
    let logs = fmt().with_max_level(level).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().init(),
    }
}

async fn run(args: Args) -> ExitCode {
    if let Some(second) = &args.proxy_endpoint {
        return proxy_between(&args.endpoint, second).await;
    }
    let (endpoint, metrics_address) = (args.endpoint.clone(), args.metrics_address);
    let others = args.node_endpoint.clone();
    let config = match args.into_config() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(%error, "the arguments are wrong");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let driver = match open(config).await {
        Ok(driver) => driver,
        Err(reason) => {
            tracing::error!(reason, "failed to start");
            return ExitCode::from(EXIT_FAILED);
        }
    };
    if let Some(address) = metrics_address {
        let driver = driver.clone();
        tokio::spawn(async move {
            match TcpListener::bind(address).await {
                Ok(listener) => {
                    tracing::info!(%address, "serving metrics");
                    csi_proto::serve_metrics(listener, move || driver.clone().metrics_text()).await;
                }
                Err(error) => tracing::error!(%error, "metrics are not served"),
            }
        });
    }
    let routes = driver.routes();
    let others = others.into_iter().map(|node| (node.endpoint, driver.at_node(&node.node_id).node_routes()));
    serve(std::iter::once((endpoint, routes)).chain(others)).await
}

async fn open(config: Config) -> Result<HostpathDriver, String> {
    let opened = tokio::task::spawn_blocking(move || HostpathDriver::new(config)).await;
    opened.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

async fn serve(nodes: impl Iterator<Item = (Endpoint, Routes)>) -> ExitCode {
    let mut serving = JoinSet::new();
    for (endpoint, routes) in nodes {
        let listener = match Listener::bind(&endpoint).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "failed to listen");
                return ExitCode::from(EXIT_FAILED);
            }
        };
        serving.spawn(listener.serve(routes, stop_signal()));
    }
    while let Some(served) = serving.join_next().await {
        let failure = match served {
            Ok(served) => served.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failure {
            tracing::error!(error, "stopped serving");
            return ExitCode::from(EXIT_FAILED);
        }
    }
    ExitCode::SUCCESS
}

async fn proxy_between(first: &Endpoint, second: &Endpoint) -> ExitCode {
    tokio::select! {
        () = stop_signal() => ExitCode::SUCCESS,
        ended = proxy::run(first, second) => {
            if let Err(error) = ended {
                tracing::error!(%error, "the proxy has ended");
            }
            ExitCode::from(EXIT_FAILED)
        }
    }
}
