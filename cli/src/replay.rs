//! `csi-sanity replay`: a stored case, run again or printed in another form.

use csi_harness::results::stored;
use csi_suite_faults::case as fault_case;
use csi_suite_hostile::fuzz;
use csi_suite_hostile::fuzz::case as fuzz_case;
use csi_suite_in_use::case as in_use_case;
use csi_suite_stateful::case::Case;

use crate::args::{CourseArgs, ReplayArgs, RunArgs, Terms};
use crate::connect;
use crate::error::Error;
use crate::exit::Exit;
use crate::export;
use crate::note;
use crate::repeat::Repeat;
use crate::run::{self, Defined};

/// Runs the case, or prints it.
pub(crate) fn replay(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    match stored::key(&args.file).as_deref() {
        Some(fuzz_case::KEY) => replay_fuzz(args, repeat),
        Some(fault_case::KEY) => replay_fault(args, repeat),
        Some(in_use_case::KEY) => replay_in_use(args, repeat),
        _ => replay_calls(args, repeat),
    }
}

/// Makes the calls of a case again, or prints them.
fn replay_calls(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    let case = Case::load(&args.file)?;
    match args.format {
        None => run::run_case(args.file.clone(), &case, &run_args(args), repeat),
        Some(format) => export::export_case(&case, format),
    }
}

/// Sends a hostile request that was stored.
fn replay_fuzz(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    has_one_form(
        &args,
        "a hostile request cannot be printed: it is often not a message that other tools can send",
    )?;
    let path = args.file.clone();
    fuzz_case::Case::load(&path)?;
    let args = run_args(args);
    let mut config = connect::reachable(&args)?;
    config.effort.replay = Some(path);
    run::run_suites(&args, config, [fuzz::replay::SUITE], &Terms::default(), Defined::default(), repeat)
}

/// Injects a stored fault again, in the check that found it.
fn replay_fault(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    has_one_form(&args, "a fault cannot be printed as calls: no call injects it")?;
    let path = args.file.clone();
    let case = fault_case::Case::load(&path)?;
    let args = run_args(args);
    let mut config = connect::reachable(&args)?;
    config.access_types = vec![case.access()];
    config.effort.replay = Some(path);
    let terms = Terms { filter: vec![case.check_id().to_owned()], ..Terms::default() };
    run::run_suites(&args, config, [csi_suite_faults::SUITE], &terms, Defined::default(), repeat)
}

/// Runs a check of a volume in use, with the workload, the seed and the sizes with which it failed.
fn replay_in_use(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    has_one_form(&args, "a workload cannot be printed as calls: its writes are none")?;
    let path = args.file.clone();
    let case = in_use_case::Case::load(&path)?;
    let mut args = run_args(args);
    args.course.seed = Some(case.seed());
    let mut config = connect::reachable(&args)?;
    config.access_types = vec![case.access()];
    config.volume_size_bytes.get_or_insert(case.volume_bytes());
    config.effort.replay = Some(path);
    let terms = Terms { filter: vec![case.check_id().to_owned()], ..Terms::default() };
    let quiet = args.output.words.quiet;
    let suites = [csi_suite_in_use::SUITE, csi_suite_in_use::nodes::SUITE];
    let ended = run::run_suites(&args, config, suites, &terms, Defined::default(), repeat)?;
    if matches!(ended, Exit::Success) && !quiet {
        note("fixed, or not met this time: what a call does to a workload may depend on the moment");
    }
    Ok(ended)
}

fn has_one_form(args: &ReplayArgs, problem: &str) -> Result<(), Error> {
    args.format.map_or(Ok(()), |_| Err(Error::flag("--format", problem)))
}

/// The arguments of a run of one check.
fn run_args(args: ReplayArgs) -> RunArgs {
    let course = CourseArgs { jobs: 1, ..CourseArgs::default() };
    RunArgs { course, output: args.output, ..args.driver.alone() }
}
