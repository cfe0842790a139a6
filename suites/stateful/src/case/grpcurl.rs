//! A case as shell commands.

use csi_harness::text::grpcurl;
use csi_model::ids::Ids;

use super::wire::{Given, PathPart, given, named, needed, one_line, rpc_path, variable};
use super::{Case, CaseStep};

const HEAD: &str = "\
# Needs grpcurl, jq, and csi.proto of the specification. CSI is the socket of the driver.
CSI=${CSI:-/csi/csi.sock}
call() { GRPCURL -d \"$2\" \"$CSI\" \"$1\"; }
";

/// The calls as commands, one below the other; ids are taken from the answers.
pub(super) fn lines(case: &Case) -> String {
    let head = HEAD.replace("GRPCURL", grpcurl::AT_SOCKET);
    let mut text = format!("# {}: {}\n{head}", case.breach.requirement, one_line(&case.breach.message));
    if case.is_concurrent() {
        text.push_str("# The workers made their calls at the same time; here they come one after another.\n");
    }
    let mut ids = Ids::default();
    for (number, step) in (1..).zip(&case.steps) {
        text.push_str(&comment(case, number, step));
        let command = rpc_path(step).map(|path| {
            let expansion =
                |field: &str, text: &str| named(&ids, field, text).map(|id| format!("${{{}}}", variable(id)));
            let request = grpcurl::quoted(&step.request, &expansion);
            format!("call {} {request}", path.trim_start_matches('/'))
        });
        let given = needed(given(&mut ids, step), &case.steps[number..]);
        if let Some(command) = command {
            text.push_str(&with_variables(&command, &given));
        }
    }
    text
}

fn comment(case: &Case, number: usize, step: &CaseStep) -> String {
    let worker = if case.is_concurrent() { format!(" worker {}:", step.worker) } else { String::new() };
    let mut text = format!("\n# {number}.{worker} {}: {}\n", step.call, one_line(&step.recorded.to_string()));
    if !step.expected.is_empty() {
        text.push_str(&format!("#    expected {}\n", one_line(&step.expected.join("; "))));
    }
    text
}

/// Keeps the ids of the answer in variables.
fn with_variables(command: &str, given: &[Given]) -> String {
    if given.is_empty() {
        return format!("{command}\n");
    }
    let mut text = format!("answer=$({command})\n");
    for Given { id, path, .. } in given {
        let path: String = path.iter().map(jq).collect();
        text.push_str(&format!("{}=$(printf %s \"$answer\" | jq -r '{path}')\n", variable(*id)));
    }
    text
}

/// A step of a jq expression; answers have the names of JSON.
fn jq(part: &PathPart) -> String {
    match part {
        PathPart::Entry(entry) => format!("[{entry}]"),
        PathPart::Field(field) => {
            let mut words = field.split('_');
            let first = words.next().unwrap_or_default().to_owned();
            let rest = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
            format!(".{}", first + &rest.collect::<String>())
        }
    }
}
