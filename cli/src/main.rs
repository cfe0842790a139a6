//! `csi-sanity`: arguments in, verdict out.

mod args;
mod badge;
mod baseline;
mod bundle;
mod cleanup;
mod compare;
mod connect;
mod coverage;
#[cfg(test)]
mod docs;
mod doctor;
mod driver_log;
mod e2e;
mod embedded;
mod error;
mod exit;
mod explain;
mod export;
mod faults;
mod fuzz;
mod init;
mod list;
mod load;
mod manual;
mod merge;
mod next;
mod provenance;
mod repeat;
mod replay;
mod run;
mod selection;
mod self_test;
mod settings;
mod standing;
mod stop;
mod suites;
mod tips;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use csi_suite_e2e::emulated_cluster::sandbox;
use mimalloc::MiMalloc;

use crate::args::{Cli, Command};
use crate::error::Error;
use crate::exit::Exit;

/// A load spent an eighth of its processor time on allocations with the allocator of glibc.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // This is not a command for users: workloads of volumes in use are this program once more.
    if csi_workload::run_if_asked() {
        return ExitCode::SUCCESS;
    }
    // This is no command for users either: e2e starts this program again in the namespaces of a pod.
    if std::env::args_os().nth(1).is_some_and(|first| first == sandbox::ARGUMENT) {
        return code(sandbox::serve().map(|()| Exit::Success).map_err(Error::Sandbox));
    }
    code(read_arguments().map_or_else(Ok, |(cli, repeat)| execute(cli, repeat)))
}

/// The exit code of a command; an error is printed.
fn code(ended: Result<Exit, Error>) -> ExitCode {
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            let exit = error.exit();
            if exit != Exit::Success {
                complain(&csi_harness::text::message::error_chain(&error));
            }
            exit.into()
        }
    }
}

fn read_arguments() -> Result<(Cli, repeat::Repeat), Exit> {
    let arguments = std::env::args_os().skip(1).collect();
    let has_endpoint = std::env::var_os("CSI_ENDPOINT").is_some() || settings::config_file_is_here();
    let translated = csi_go_flags::translate(arguments, has_endpoint).map_err(|problem| {
        complain(&problem);
        Exit::Usage
    })?;
    for note in &translated.notes {
        self::note(note);
    }
    let mut arguments = translated.arguments;
    let parsed = parse(&arguments).and_then(|(cli, repeat)| match cli.command.discovers_config() {
        // The flag is added, so that the commands in reports name the file.
        true => {
            arguments.splice(1..1, ["--config", settings::CONFIG_FILE].map(OsString::from));
            parse(&arguments)
        }
        false => Ok((cli, repeat)),
    });
    parsed.map_err(|error| {
        let error = tips::with_tip(error);
        // Help and version go to the standard output and are no errors.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Success }
    })
}

fn parse(arguments: &[OsString]) -> clap::error::Result<(Cli, repeat::Repeat)> {
    let program = OsString::from("csi-sanity");
    let arguments = std::iter::once(&program).chain(arguments);
    let matches = Cli::command().try_get_matches_from(arguments)?;
    Ok((Cli::from_arg_matches(&matches)?, repeat::Repeat::from_matches(&matches)))
}

fn execute(cli: Cli, repeat: repeat::Repeat) -> Result<Exit, Error> {
    match cli.command {
        Command::Run(args) => run::run(&args, repeat),
        Command::List(args) => list::list(&args),
        Command::Explain { id, csi_version } => explain::explain(&id, csi_version),
        Command::Coverage(args) => coverage::coverage(&args),
        Command::SelfTest(args) => self_test::self_test(&args),
        Command::Replay(args) => replay::replay(*args, repeat),
        Command::E2e(args) => e2e::e2e(*args, repeat),
        Command::Fuzz(args) => fuzz::fuzz(*args, repeat),
        Command::Faults(args) => faults::faults(*args, repeat),
        Command::Load(args) => load::load(*args, repeat),
        Command::Init(args) => init::init(*args),
        Command::Doctor(args) => doctor::doctor(*args),
        Command::Merge(args) => merge::merge(&args, &repeat),
        Command::Compare(args) => compare::compare(&args),
        Command::Badge(args) => badge::badge(&args),
        Command::Baseline(args) => baseline::baseline(&args),
        Command::Export(args) => export::export(&args),
        Command::Verify(args) => bundle::verify(&args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { command } => manual::man(command.as_deref()),
    }
}

/// Prints a remark that has no effect on the result.
fn note(text: impl std::fmt::Display) {
    // The run does not depend on the remark.
    let _ = writeln!(anstream::stderr(), "note: {text}");
}

/// Prints a warning about something that is probably a mistake.
fn warn(text: impl std::fmt::Display) {
    // The run does not depend on the warning.
    let _ = writeln!(anstream::stderr(), "warning: {text}");
}

fn complain(problem: &str) {
    // The exit code shows the failure as well.
    let _ = writeln!(anstream::stderr(), "error: {problem}");
}
