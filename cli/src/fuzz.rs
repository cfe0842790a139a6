//! `csi-sanity fuzz`: hostile requests made up at random.

use std::time::Duration;

use csi_suite_hostile::fuzz::{Allowance, suite};

use crate::args::{EffortArgs, FuzzArgs};
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run::{self, Defined};

/// The default of `--duration`.
const DURATION: Duration = Duration::from_secs(60);
/// The time that a run may take in addition, to confirm findings and to make them smaller.
const SPARE: Duration = Duration::from_secs(30 * 60);

/// The time for a driver that died to come back by itself: a fraction of the duration, with a minimum and a maximum.
const BACK_PART: u32 = 4;
const BACK_MIN: Duration = Duration::from_millis(500);
const BACK_MAX: Duration = Duration::from_secs(30);

/// Runs the checks that the terms choose, which share time and inputs.
pub(crate) fn fuzz(args: FuzzArgs, repeat: Repeat) -> Result<Exit, Error> {
    let FuzzArgs { duration, inputs, regressions, terms, run } = args;
    let mut args = run.with(EffortArgs { regressions, ..EffortArgs::default() });
    let duration = duration.unwrap_or(DURATION);
    args.limits.timeout.get_or_insert(duration + SPARE);
    args.limits.check_timeout.get_or_insert(duration + SPARE);
    let target = &args.target;
    if target.driver_command.is_none() && target.restart_command.is_none() && target.config.is_none() {
        // It is unknown whether anything starts the driver again, so the wait must not be many times as long as the requests.
        args.limits.restart_timeout.get_or_insert((duration / BACK_PART).clamp(BACK_MIN, BACK_MAX));
    }
    let config = connect::reachable(&args)?;
    let allowance = Allowance::new(duration, inputs.unwrap_or(u64::MAX));
    let suite = suite(&allowance);
    allowance.among(run::count(&suite, &terms, args.course.shard)?);
    run::run_suites(&args, config, [suite], &terms, Defined::default(), repeat)
}
