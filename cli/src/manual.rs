//! Shell completions and the manual page, made of the same command line.

use std::io::Write as _;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use csi_harness::text::message::did_you_mean;

use crate::args::{Cli, ENVIRONMENT, MANUAL_EXAMPLES};
use crate::error::Error;
use crate::exit::Exit;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "csi-sanity", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Exit::Success)
}

/// Prints the manual page of the program, or of a command.
pub(crate) fn man(name: Option<&str>) -> Result<Exit, Error> {
    let mut program = Cli::command();
    program.build();
    let shown: Vec<&Command> = program.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let command = match name {
        None => &program,
        Some(name) => shown.iter().find(|command| command.get_name() == name).ok_or_else(|| {
            let names = shown.iter().map(|command| command.get_name());
            Error::flag("man", format!("there is no command {name:?}{}", did_you_mean(name, names)))
        })?,
    };
    std::io::stdout().write_all(&page(command, name.is_none())?)?;
    Ok(Exit::Success)
}

/// The page of a command. The page of the program also contains what applies to all commands.
fn page(command: &Command, is_program: bool) -> std::io::Result<Vec<u8>> {
    let title =
        if is_program { "csi-sanity".to_owned() } else { format!("csi-sanity-{}", command.get_name()) };
    // The text behind the help becomes sections of its own.
    let command = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let man = Man::new(command.clone()).title(title);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if is_program {
        man.render_subcommands_section(&mut page)?;
    }
    let codes = Exit::ALL.map(|(exit, meaning)| (exit.code().to_string(), meaning));
    section(&mut page, "EXIT STATUS", codes.iter().map(|(code, meaning)| (code.as_str(), *meaning)))?;
    if is_program {
        section(&mut page, "ENVIRONMENT", ENVIRONMENT.into_iter())?;
        section(&mut page, "EXAMPLES", MANUAL_EXAMPLES.into_iter())?;
    }
    Ok(page)
}

/// A section of terms and their meanings.
fn section<'a>(
    page: &mut Vec<u8>,
    title: &str,
    terms: impl Iterator<Item = (&'a str, &'a str)>,
) -> std::io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for (term, meaning) in terms {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(meaning)]);
    }
    roff.to_writer(page)
}
