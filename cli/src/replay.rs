//! `csi-sanity replay`: a stored case, run again or printed in another form.

use std::collections::BTreeSet;
use std::io::Write as _;

use csi_suite_hostile::fuzz;
use csi_suite_stateful::case::{Case, Format};

use crate::args::{CaseForm, CourseArgs, ReplayArgs, RunArgs, Terms};
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run;

/// Runs the case, or prints it.
pub(crate) fn replay(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    if fuzz::case::Case::is_one(&args.file) {
        return replay_fuzz(args, repeat);
    }
    let case = Case::load(&args.file)?;
    let format = match args.format {
        None => return run::run_case(args.file.clone(), &case, &run_args(args), repeat),
        Some(CaseForm::Grpcurl) => Format::Grpcurl,
        Some(CaseForm::Rust) => Format::Rust,
    };
    std::io::stdout().write_all(case.format(format).as_bytes())?;
    Ok(Exit::Success)
}

/// Sends a hostile request that was stored.
fn replay_fuzz(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    if args.format.is_some() {
        let problem =
            "hostile requests have no other form: what makes them so is often no message".to_owned();
        return Err(Error::Flag { flag: "--format", problem });
    }
    let path = args.file.clone();
    fuzz::case::Case::load(&path)?;
    let args = run_args(args);
    let mut config = run::reachable(&args)?;
    config.effort.replay = Some(path);
    run::run_suites(&args, config, [fuzz::replay::SUITE], &Terms::default(), &BTreeSet::new(), repeat)
}

/// The arguments of a run of one check.
fn run_args(args: ReplayArgs) -> RunArgs {
    let course = CourseArgs { jobs: 1, ..CourseArgs::default() };
    RunArgs { course, output: args.output, ..args.driver.alone() }
}
