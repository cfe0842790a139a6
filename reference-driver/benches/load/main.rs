//! Puts load on the driver over its socket, also on another driver if one is named, and prints how they compare.
//!
//! ```text
//! cargo bench -p csi-hostpath-driver --bench load -- --peer PATH_TO_OTHER_BINARY
//! ```
//!
//! Both drivers start on fresh state directories and take turns, so that other load on the machine affects both
//! alike. Nothing is asserted; the numbers are for people. Each driver keeps its default durability.

mod churn;
mod client;
mod cycles;
mod disk;
mod error;
mod peers;
mod process;
mod snapshots;
mod table;
mod workspace;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use csi_proto::stop_signal;

use crate::error::{BenchError, Result};
use crate::peers::Peers;
use crate::table::Table;
use crate::workspace::Workspace;

/// Puts load on the driver over its socket and compares it with another driver.
#[derive(Debug, Parser)]
struct Args {
    /// The binary of a driver with the flags --endpoint, --nodeid and --statedir to compare with.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// The scenarios to measure; all if not given.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// The length of one measurement of a rate, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    round_seconds: u64,
    /// The number of rounds of each driver.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The numbers of existing volumes while others are created and deleted.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1_000, 10_000])]
    volumes: Vec<usize>,
    /// The directory for state directories and for images of file systems.
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    directory: PathBuf,
    /// Passed by `cargo bench`, and missing when `cargo test` runs all targets.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Creating and deleting directory volumes.
    Churn,
    /// Snapshots of volumes with data, on several file systems. Needs root.
    Snapshots,
    /// Staging, publishing and back. Needs root.
    Cycles,
}

/// The amount of measurements.
#[derive(Clone, Copy, Debug)]
struct Plan {
    round: Duration,
    rounds: u32,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if !args.bench {
        return say("the load is put on by `cargo bench` only");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    let mut table = Table::new(args.peer.is_some());
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = run(&args, &mut table) => outcome,
            () = stop_signal() => Err(BenchError::Interrupted),
        }
    });
    let said = say(&table.to_string());
    match outcome {
        Ok(()) => said,
        Err(error) => fail(&error.to_string()),
    }
}

/// Measures the chosen scenarios. After an error, the table contains the results so far.
async fn run(args: &Args, table: &mut Table) -> Result<()> {
    let plan = Plan { round: Duration::from_secs(args.round_seconds), rounds: args.rounds };
    let workspace = Workspace::make(&args.directory)?;
    if args.measures(Scenario::Churn) {
        let peers = Peers::start(args.peer.as_deref(), workspace.path()).await?;
        churn::measure(&peers, plan, &args.volumes, table).await?;
        peers.stop().await?;
    }
    for scenario in [Scenario::Cycles, Scenario::Snapshots] {
        if !args.measures(scenario) {
            continue;
        }
        if !rustix::process::geteuid().is_root() {
            table.note(format!("{scenario:?} is left out: mounting takes root"));
        } else if scenario == Scenario::Cycles {
            let peers = Peers::start(args.peer.as_deref(), workspace.path()).await?;
            cycles::measure(&peers, plan, workspace.path(), table).await?;
            peers.stop().await?;
        } else {
            snapshots::measure(args.peer.as_deref(), plan, workspace.path(), table).await?;
        }
    }
    Ok(())
}

impl Args {
    fn measures(&self, scenario: Scenario) -> bool {
        self.only.is_empty() || self.only.contains(&scenario)
    }
}

/// Prints progress to standard error, apart from the table.
fn progress(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn say(text: &str) -> ExitCode {
    let written = writeln!(std::io::stdout(), "{text}");
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fail(reason: &str) -> ExitCode {
    progress(&format!("error: {reason}"));
    ExitCode::FAILURE
}
