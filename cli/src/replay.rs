//! `csi-sanity replay`: a stored case, run again or printed in another form.

use std::io::Write as _;

use csi_suite_stateful::case::{Case, Format};

use crate::args::{CaseForm, CourseArgs, ReplayArgs, RunArgs};
use crate::error::Error;
use crate::exit::Exit;
use crate::repeat::Repeat;
use crate::run;

/// Runs the case, or prints it.
pub(crate) fn replay(args: ReplayArgs, repeat: Repeat) -> Result<Exit, Error> {
    let case = Case::load(&args.file)?;
    let format = match args.format {
        None => return run::run_case(args.file.clone(), &case, &run_args(args), repeat),
        Some(CaseForm::Grpcurl) => Format::Grpcurl,
        Some(CaseForm::Rust) => Format::Rust,
    };
    std::io::stdout().write_all(case.format(format).as_bytes())?;
    Ok(Exit::Success)
}

/// The arguments of a run of one check.
fn run_args(args: ReplayArgs) -> RunArgs {
    let ReplayArgs { target, volumes, paths, limits, output, .. } = args;
    let course = CourseArgs { jobs: 1, ..CourseArgs::default() };
    let (selection, effort) = Default::default();
    RunArgs { target, volumes, paths, selection, course, effort, limits, output }
}
