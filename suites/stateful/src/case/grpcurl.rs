//! A case as shell commands.

use serde_json::Value;

use crate::model::ids::Ids;

use super::wire::{Given, PathPart, given, named, needed, one_line, rpc_path, variable};
use super::{Case, CaseStep};

const HEAD: &str = "\
# Needs grpcurl, jq, and csi.proto of the specification. CSI is the socket of the driver.
CSI=${CSI:-/csi/csi.sock}
call() { grpcurl -plaintext -unix -authority localhost -proto csi.proto -d \"$2\" \"$CSI\" \"$1\"; }
";

/// The calls as commands, one below the other; ids are taken from the answers.
pub(super) fn lines(case: &Case) -> String {
    let mut text = format!("# {}: {}\n{HEAD}", case.breach.requirement, one_line(&case.breach.message));
    if case.is_concurrent() {
        text.push_str("# The workers made their calls at the same time; here they come one after another.\n");
    }
    let mut ids = Ids::default();
    for (number, step) in (1..).zip(&case.steps) {
        text.push_str(&comment(case, number, step));
        let command = rpc_path(step).map(|path| {
            let request = shell_quoted(&step.request, &ids);
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
    let mut text = format!("\n# {number}.{worker} {}: {}\n", step.call, one_line(&step.came.to_string()));
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

/// The request in single quotes, known ids as variables.
fn shell_quoted(request: &Value, ids: &Ids) -> String {
    let mut text = String::new();
    write_json("", request, ids, &mut text);
    format!("'{text}'")
}

fn write_json(field: &str, value: &Value, ids: &Ids, text: &mut String) {
    let quoted = |value: &str| Value::from(value).to_string().replace('\'', "'\\''");
    match value {
        Value::String(string) => match named(ids, field, string) {
            Some(id) => text.push_str(&format!("\"'\"${{{}}}\"'\"", variable(id))),
            None => text.push_str(&quoted(string)),
        },
        Value::Array(values) => {
            text.push('[');
            for (nth, value) in values.iter().enumerate() {
                text.push_str(if nth > 0 { "," } else { "" });
                write_json(field, value, ids, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (nth, (field, value)) in fields.iter().enumerate() {
                text.push_str(if nth > 0 { "," } else { "" });
                text.push_str(&format!("{}:", quoted(field)));
                write_json(field, value, ids, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}
