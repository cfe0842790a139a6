//! The script as a test in Rust.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::rust_call::awaited;
use super::script::{Call, Place, Script, Source, Step, Verdict, calls};
use super::{camel, one_line, secrets_by_hand};

const HEAD: &str = r#"//
// A test for a crate that depends on csi-proto, tonic and tokio, with its features macros and rt. CSI_ENDPOINT names the driver, such as
// unix:///csi/csi.sock or tcp://localhost:9000, and CSI_CONTROLLER_ENDPOINT its controller services, if they are elsewhere; without
// them, nothing is tested.

#[tokio::test]
"#;

/// The beginning of the test.
const START: &str = "    use csi_proto::v1;\n";

/// The whole file.
pub(super) fn text(script: &Script) -> String {
    let words = script.check.split(|c: char| !c.is_ascii_alphanumeric());
    let name: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
    let mut text =
        format!("{}{HEAD}async fn {}() {{\n{START}", script.head("//", &secrets_by_hand()), name.join("_"));
    if calls(&script.steps).any(|call| !call.is_for_controller()) {
        text.push_str(&dialled("driver", "std::env::var(\"CSI_ENDPOINT\")"));
    }
    if calls(&script.steps).any(Call::is_for_controller) {
        let either =
            "std::env::var(\"CSI_CONTROLLER_ENDPOINT\").or_else(|_| std::env::var(\"CSI_ENDPOINT\"))";
        text.push_str(&dialled("controller", either));
    }
    let mut known = BTreeMap::<String, usize>::new();
    let mut undoing = Vec::new();
    let mut number = 0;
    for (at, step) in script.steps.iter().enumerate() {
        let call = match step {
            Step::ByHand(what) => {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "\n    // BY HAND: {}", one_line(what));
                continue;
            }
            Step::Call(call) => call,
        };
        number += 1;
        let answer = one_line(&call.answer);
        let made = in_rust(call.rpc.path, &call.request, &known).map(|made| with_context(made, call));
        let Some(made) = made else {
            let _ = writeln!(
                text,
                "\n    // {number}. {}: {answer}; its request cannot be written in Rust",
                call.rpc
            );
            continue;
        };
        let made = match call.given_up_after_us {
            Some(us) => format!(
                "tokio::time::timeout(std::time::Duration::from_micros({us}), async {{ {made} }})\n        .await\n        \
                 .unwrap_or_else(|_| Err(tonic::Status::cancelled(\"given up by the caller\")))"
            ),
            None => made,
        };
        let directory = call.directory().map_or_else(String::new, |directory| {
            format!("    std::fs::create_dir_all({directory:?}).expect(\"the directory is made\");\n")
        });
        let _ = write!(
            text,
            "\n    // {number}. {}: {answer}\n{directory}    let answer = {made};\n    println!(\"{}: {{answer:?}}\");\n",
            call.rpc, call.rpc
        );
        if call.response.get("publish_context").is_some() {
            let _ = writeln!(
                text,
                "    let context{number} = answer.as_ref().map(|answer| answer.get_ref().publish_context.clone()).unwrap_or_default();"
            );
        }
        let is_accused = script.accused() == Some(at);
        for given in &call.given {
            let id = known.len() + 1;
            let found = match given.place {
                Place::Object([object, field]) => format!("{object}.clone().unwrap_or_default().{field}"),
                Place::Member(nth) => format!(
                    "group_snapshot.clone().unwrap_or_default().snapshots.get({nth}).cloned().unwrap_or_default().snapshot_id"
                ),
            };
            let _ = writeln!(
                text,
                "    let id{id} = answer.as_ref().map(|answer| answer.get_ref().{found}).unwrap_or_default();"
            );
            known.insert(given.id.clone(), id);
        }
        if is_accused {
            text.push_str(&judged(script));
        }
        undoing.extend(undo(call, &known));
    }
    if script.accused().is_none() {
        text.push_str(&judged(script));
    }
    text.push_str("\n    // What was made is undone, the last first; where a call was rejected, there is nothing to undo.\n");
    for call in undoing.iter().rev() {
        let _ = writeln!(text, "    let _ = {call};");
    }
    text.push_str("    if let Some(wrong) = wrong {\n        panic!(\"{wrong}\");\n    }\n}\n");
    text
}

/// Takes the `publish_context` of a request from the answer that gives it.
fn with_context(made: String, call: &Call) -> String {
    let Some(maker) = call.context_of else { return made };
    let line = |line: &str| match line.trim_start().strip_prefix("publish_context: ") {
        Some(_) => format!(
            "{}publish_context: context{maker}.clone(),",
            " ".repeat(line.len() - line.trim_start().len())
        ),
        None => line.to_owned(),
    };
    made.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn dialled(name: &str, endpoint: &str) -> String {
    format!(
        "    let Ok(endpoint) = {endpoint} else {{ return }};\n    \
         let endpoint = endpoint.parse().expect(\"the variable has an endpoint\");\n    \
         let {name} = csi_proto::dial(&endpoint, std::time::Duration::from_secs(30)).await.expect(\"the driver listens\");\n"
    )
}

fn in_rust(path: &str, request: &Value, known: &BTreeMap<String, usize>) -> Option<String> {
    awaited(path, request, &|_, text| known.get(text).map(|number| format!("id{number}")))
}

/// The call that undoes this one.
fn undo(call: &Call, known: &BTreeMap<String, usize>) -> Option<String> {
    let undo = call.undo?;
    let response =
        |path: &[&str]| path.iter().try_fold(&call.response, |value, part| value.get(part)).cloned();
    let mut request = json!({});
    for (field, from) in undo.fields {
        let value = match from {
            Source::Response(path) => Some(response(path)?),
            Source::Request => call.request.get(field).cloned(),
            Source::Members => None,
        };
        if let Some(value) = value {
            request[*field] = value;
        }
    }
    let path = call.rpc.path.rsplit_once('/')?.0;
    in_rust(&format!("{path}/{}", undo.by), &request, known)
}

/// The answer is judged; the test fails at its end, when everything is undone.
fn judged(script: &Script) -> String {
    let expected = format!("expected {}", one_line(&script.expected));
    let wrong = format!("let wrong = is_wrong.then(|| format!(\"{{}}, got {{answer:?}}\", {expected:?}));");
    let condition = match &script.verdict {
        Verdict::Code { right, wrong } => {
            let (codes, not) = if right.is_empty() { (wrong, "") } else { (right, "!") };
            let codes: Vec<String> = codes
                .iter()
                .map(|code| format!("tonic::Code::{}", camel(&code.to_ascii_lowercase(), true)))
                .collect();
            format!(
                "let code = answer.as_ref().map_or_else(tonic::Status::code, |_| tonic::Code::Ok);\n    \
                 let is_wrong = {not}matches!(code, {});",
                codes.join(" | ")
            )
        }
        Verdict::Value { path, value } => format!(
            "let found = answer.as_ref().ok().and_then(|answer| csi_proto::reflect::message(answer.get_ref()));\n    \
             let found = found.map(csi_proto::redact::dynamic).and_then(|found| found.pointer({:?}).map(ToString::to_string));\n    \
             let is_wrong = found.as_deref() != Some({:?});",
            format!("/{}", path.join("/")),
            value.to_string()
        ),
        Verdict::OtherResponse(response) => {
            return by_eye(&format!(
                "look at the last answer: {expected}; in the run that failed, it was {response}"
            ));
        }
        Verdict::ByEye(what) => return by_eye(what),
    };
    format!("    {condition}\n    {wrong}\n")
}

/// Marks something that only a person can look at. The test fails there until the line is replaced.
fn by_eye(what: &str) -> String {
    format!("    let wrong = Some({:?});\n", format!("BY EYE: {}", one_line(what)))
}

#[cfg(test)]
mod tests {
    use super::super::script::tests::{attached, check, given_up, has_lines, other_value};
    use super::*;

    #[test]
    fn rust_makes_the_calls_with_the_client_of_csi_proto() {
        let text = text(&Script::of(&check()));
        has_lines(
            &text,
            &[
                "// expected: OK \"twice\"",
                "async fn controller_delete_volume_it_s_block() {",
                "            name: \"it's\".to_owned(),",
                "    let id1 = answer.as_ref().map(|answer| answer.get_ref().volume.clone().unwrap_or_default().volume_id).unwrap_or_default();",
                "            volume_id: id1.clone(),",
                "    let is_wrong = !matches!(code, tonic::Code::Ok);",
            ],
        );
        assert_eq!(text.matches("delete_volume(v1::DeleteVolumeRequest").count(), 3, "it is undone: {text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }

    #[test]
    fn a_context_is_that_of_the_answer() {
        let text = text(&Script::of(&attached()));
        has_lines(&text, &["            publish_context: context2.clone(),"]);
        assert!(text.contains("let context2 = answer.as_ref()"), "{text}");
    }

    #[test]
    fn a_value_is_compared_and_a_step_by_hand_is_named() {
        let text = text(&Script::of(&other_value()));
        assert!(text.contains("found.pointer(\"/volume/volume_context\")"), "{text}");
        assert!(text.contains("Some(\"{\\\"tier\\\":\\\"gold\\\"}\")"), "{text}");
        assert!(text.contains("// BY HAND: the driver is killed, and started again"), "{text}");
    }

    #[test]
    fn a_call_is_given_up_after_its_time() {
        let text = text(&Script::of(&given_up()));
        let lines =
            ["        .unwrap_or_else(|_| Err(tonic::Status::cancelled(\"given up by the caller\")));"];
        has_lines(&text, &lines);
    }
}
