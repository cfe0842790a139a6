//! Shell completions and the manual page, made of the same command line.

use std::io::Write as _;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::error::Error;
use crate::exit::Exit;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "csi-sanity", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Exit::Success)
}

/// Prints the manual page: the program, then `run`, which has the flags.
pub(crate) fn man() -> Result<Exit, Error> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    if let Some(run) = command.find_subcommand("run") {
        clap_mangen::Man::new(run.clone()).render_options_section(&mut page)?;
    }
    std::io::stdout().write_all(&page)?;
    Ok(Exit::Success)
}
