//! `load --against`: two drivers get the load in turn, so that a busy moment of the machine affects the times of both.

use std::io::Write as _;

use csi_harness::config::Config;
use csi_suite_load::compare::Comparison;
use csi_suite_load::report::Report;
use csi_suite_load::workload::Workload;
use csi_suite_load::{Results, suite};

use super::{Files, chart, write};
use crate::args::{ResultsFormat, RunArgs, TargetArgs};
use crate::compare::exit_of;
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run;
use crate::settings;
use crate::stop::say;

/// The default number of loads of each driver.
pub(super) const ROUNDS: u32 = 5;

/// A driver, with the settings that reach it, and the results of its loads.
struct Side {
    args: RunArgs,
    config: Config,
    reports: Vec<Report>,
}

/// Runs the loads and compares them.
pub(super) fn load(
    mut args: RunArgs,
    config: Config,
    (command, rounds): (String, u32),
    workload: &Workload,
    files: Files,
    repeat: &Repeat,
) -> Result<Exit, Error> {
    let directory = tempfile::tempdir().map_err(Error::Scratch)?;
    let endpoint = format!("unix://{}", directory.path().join("csi.sock").display());
    let seed = args.course.seed.unwrap_or_else(run::fresh_seed);
    // The comparison is shown instead of the measurements of each load.
    let is_quiet = std::mem::replace(&mut args.output.words.quiet, true);
    args.output.words.verbose = 0;
    let mut limits = workload.clone();
    let changes = limits.take_changes();
    let other = other(&args, endpoint, command)?;
    let mut sides = [Side { args, config, reports: Vec::new() }, other];
    let mut gravest = Exit::Success;
    for round in 0..rounds {
        // The driver that was second is first in the next round: either may be an advantage.
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let side = &mut sides[at];
            if !is_quiet {
                say(&format!("round {} of {rounds}: {} driver", round + 1, ["the first", "the other"][at]));
            }
            side.args.course.seed = Some(seed.wrapping_add(round.into()));
            let measured = Results::default();
            let suite = suite(&limits, &measured);
            let ended = run::run_measured(&side.args, side.config.clone(), suite, None, repeat.clone())?;
            side.reports.push(measured.report(&limits.name));
            match ended {
                Exit::Success => {}
                Exit::Failed => gravest = Exit::Failed,
                other => return Ok(other),
            }
        }
    }
    let [before, after] = sides.map(|side| side.reports);
    let comparison = Comparison::new(&before, &after, &changes).map_err(Error::Settings)?;
    write!(std::io::stdout().lock(), "{}", comparison.text())?;
    write(files, |format| match format {
        ResultsFormat::Json => comparison.json(),
        ResultsFormat::Csv => comparison.csv(),
        ResultsFormat::Html => chart::of_comparison(&comparison, &before, &after),
    })?;
    Ok(if gravest == Exit::Success { exit_of(&comparison) } else { gravest })
}

/// The driver that the command starts. It has the settings of the first one, except for those that say where that one is and what it has.
fn other(args: &RunArgs, endpoint: String, command: String) -> Result<Side, Error> {
    let mut args = args.clone();
    // The file is for the output of one driver.
    args.output.driver_log = None;
    args.target = TargetArgs {
        endpoint: Some(endpoint),
        driver_command: Some(command),
        config: args.target.config.take(),
        secrets: args.target.secrets.take(),
        ..TargetArgs::default()
    };
    let config = Config {
        controller_endpoint: None,
        nodes: Vec::new(),
        restart_command: None,
        driver_pid: None,
        state_dir: None,
        backend_proxies: Vec::new(),
        volumes: Vec::new(),
        ..settings::config(&args)?
    };
    Ok(Side { args, config, reports: Vec::new() })
}
