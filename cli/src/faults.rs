//! `csi-sanity faults`: every fault that a driver can meet, as far as there is time.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_suite_faults::{Fault, SUITE};

use crate::args::{EffortArgs, FaultsArgs, RunArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run;

/// How long, where the user says nothing.
const BUDGET: Duration = Duration::from_secs(10 * 60);
/// Time that a run may take beside that.
const SPARE: Duration = Duration::from_secs(30 * 60);

/// Runs the checks that the terms choose, which share the time.
pub(crate) fn faults(args: FaultsArgs, repeat: Repeat) -> Result<Exit, Error> {
    let FaultsArgs { budget, fault, terms, target, volumes, paths, course, mut limits, output } = args;
    if let Some(problem) = fault.iter().find_map(|text| text.parse::<Fault>().err()) {
        return Err(Error::Flag { flag: "--fault", problem });
    }
    let budget = budget.unwrap_or(BUDGET);
    limits.timeout.get_or_insert(budget + SPARE);
    let effort = EffortArgs { budget: Some(budget), ..EffortArgs::default() };
    let selection = Default::default();
    let args = RunArgs { target, volumes, paths, selection, course, effort, limits, output };
    let mut config = run::reachable(&args)?;
    config.effort.only_faults = fault;
    run::run_suites(&args, config, [SUITE], &terms, &BTreeSet::new(), repeat)
}
