//! `csi-sanity faults`: every fault that a driver can meet, as far as there is time.

use std::time::Duration;

use csi_suite_faults::SUITE;

use crate::args::{EffortArgs, FaultsArgs};
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run::{self, Defined};

/// The default of `--budget`.
const BUDGET: Duration = Duration::from_secs(10 * 60);
/// The time that a run may take in addition.
const SPARE: Duration = Duration::from_secs(30 * 60);

/// Runs the checks that the terms choose, which share the time.
pub(crate) fn faults(args: FaultsArgs, repeat: Repeat) -> Result<Exit, Error> {
    let FaultsArgs { budget, fault, regressions, terms, run } = args;
    let budget = budget.unwrap_or(BUDGET);
    let mut args = run.with(EffortArgs { budget: Some(budget), fault, regressions, ..EffortArgs::default() });
    args.limits.timeout.get_or_insert(budget + SPARE);
    let config = connect::reachable(&args)?;
    run::run_suites(&args, config, [SUITE], &terms, Defined::default(), repeat)
}
