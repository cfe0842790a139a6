//! `csi-sanity export`: the calls of a failed check as a program that makes them without csi-sanity, fails where the driver is still
//! wrong, and undoes what it made.

mod go;
mod grpcurl;
mod rust;
mod rust_call;
mod script;

use std::io::{self, Write as _};

use csi_harness::checks::check::Check;
use csi_harness::text::message::did_you_mean;
use csi_proto::hidden::STRIPPED;
use csi_report::{CheckEntry, Run};
use csi_suite_stateful::case::Case;
use script::Script;

use crate::args::{ExportArgs, ExportForm};
use crate::error::Error;
use crate::exit::Exit;

/// Prints the program.
pub(crate) fn export(args: &ExportArgs) -> Result<Exit, Error> {
    let run = Run::load(&args.report)?;
    let check = find(&run, &args.check)
        .map_err(|problem| Error::Settings(format!("{}: {problem}", args.report.display())))?;
    print(&Script::of(check).on(&run.target), args.format)
}

/// Prints a stored case as a program.
pub(crate) fn export_case(case: &Case, form: ExportForm) -> Result<Exit, Error> {
    print(&Script::of_case(case), form)
}

fn print(script: &Script, form: ExportForm) -> Result<Exit, Error> {
    let text = match form {
        ExportForm::Grpcurl => grpcurl::text(script),
        ExportForm::Go => go::text(script),
        ExportForm::Rust => rust::text(script),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The check of this label, or the only one of this id, if its calls were kept.
fn find<'a>(run: &'a Run, id: &str) -> Result<&'a CheckEntry, String> {
    let has_calls = |check: &&CheckEntry| script::has_calls(check);
    let exact = run.checks.iter().find(|check| check.id == id);
    let of_id = || run.checks.iter().filter(has_calls).find(|check| Check::id_of(&check.id) == id);
    match exact.filter(has_calls).or_else(of_id) {
        Some(check) => Ok(check),
        None if let Some(reports) = exact.and_then(CheckEntry::reported_in) => {
            Err(format!("{id} shows the fault that {reports} reports; export that check"))
        }
        None if exact.is_some() => Err(format!(
            "the calls of {id} are not in it; a report has the calls of checks that failed, and with --trace those of all checks"
        )),
        None => {
            let near = did_you_mean(id, run.checks.iter().filter(has_calls).map(|check| check.id.as_str()));
            Err(format!("it has no check {id}{near}"))
        }
    }
}

/// A name of several words, without the underscores between them.
fn camel(text: &str, first_is_large: bool) -> String {
    let mut camel = String::new();
    for (at, word) in text.split('_').enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if at > 0 || first_is_large => camel.push(first.to_ascii_uppercase()),
            Some(first) => camel.push(first),
            None => {}
        }
        camel.extend(letters);
    }
    camel
}

/// A text that cannot leave its comment.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The instruction for a program that has a word in place of each secret.
fn secrets_by_hand() -> String {
    format!("Replace {STRIPPED} by your secrets.")
}
