//! The script as shell commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use csi_harness::text::grpcurl;

use super::script::{Call, Place, Script, Source, Step, Undo, Verdict, calls};
use super::{camel, one_line};

const HEAD: &str = r#"#
# Needs grpcurl, jq, and csi.proto of the specification. CSI is the endpoint of the driver, and CSI_CONTROLLER that of its controller
# services, if it is another one. It exits with 1 if the driver is still wrong, and with 2 if a person has to judge.
CSI=${CSI:-DRIVER}
CSI_CONTROLLER=${CSI_CONTROLLER:-CONTROLLER}
send() {
  case $1 in csi.v1.Identity/* | csi.v1.Node/*) at=$CSI ;; *) at=$CSI_CONTROLLER ;; esac
  at=${at#unix:} at=${at#//}
  case $at in tcp:*) AT_PORT -d "$2" "${at#tcp://}" "$1" ;; *) AT_SOCKET -d "$2" "$at" "$1" ;; esac
}
# Makes a call. The variable answer has the response, and code the name of the status code in Go.
call() {
  code=OK
  answer=$(send "$@" 2>&1) || { code=$(printf '%s\n' "$answer" | sed -n 's/^ *Code: //p'); code=${code:-Unavailable}; }
  printf '%s: %s\n%s\n' "$1" "$code" "$answer"
}
# Ends the script if a step before the fault fails, since nothing can be shown then.
must_succeed() {
  [ "$code" = OK ] || { echo 'NOT SHOWN: this step succeeded in the run that failed'; exit 2; }
}
# Waits for a person to do something.
by_hand() {
  printf 'BY HAND: %s\nThen press Enter. ' "$1"
  read -r _ || exit 2
}
# What was made is undone when the script ends, the last first.
undo=:
trap 'eval "$undo"' EXIT
"#;

/// The whole script.
pub(super) fn text(script: &Script) -> String {
    let secrets = format!("Set each variable {}… to the secret of that name.", grpcurl::SECRET_VARIABLE);
    let driver = quoted(script.driver.as_deref().unwrap_or("unix:///csi/csi.sock"));
    let controller = script.controller.as_deref().map_or_else(|| "$CSI".to_owned(), quoted);
    let limited = calls(&script.steps).any(|call| call.given_up_after_us.is_some());
    let command = |command: &str| match limited {
        true => command.replacen("grpcurl", "grpcurl ${max_time:+-max-time \"$max_time\"}", 1),
        false => command.to_owned(),
    };
    let head = HEAD.replace("AT_SOCKET", &command(grpcurl::AT_SOCKET));
    let head = head.replace("AT_PORT", &command(grpcurl::AT_PORT));
    let head = head.replace("{CSI:-DRIVER}", &format!("{{CSI:-{driver}}}"));
    let head = head.replace("{CSI_CONTROLLER:-CONTROLLER}", &format!("{{CSI_CONTROLLER:-{controller}}}"));
    let mut text = script.head("#", &secrets) + &head;
    let mut known = BTreeMap::<String, usize>::new();
    let mut number = 0;
    for (at, step) in script.steps.iter().enumerate() {
        match step {
            // Writing into a string cannot fail.
            Step::ByHand(what) => drop(writeln!(text, "\nby_hand {}", quoted(&one_line(what)))),
            Step::Call(call) => {
                number += 1;
                text.push_str(&made(call, number, &mut known));
                if script.accused() == Some(at) {
                    text.push_str(&judged(script));
                }
            }
        }
    }
    if script.accused().is_none() {
        text.push_str(&judged(script));
    }
    text.push_str("exit \"${result:-0}\"\n");
    text
}

fn made(call: &Call, number: usize, known: &mut BTreeMap<String, usize>) -> String {
    let id = |_: &str, text: &str| known.get(text).map(|number| format!("$id{number}"));
    let mut request = grpcurl::quoted(&call.request, &id);
    if let (Some(maker), Some(context)) = (call.context_of, call.request.get("publish_context")) {
        let old = grpcurl::quoted(context, &id);
        request = request.replace(
            &format!("\"publish_context\":{}", old.trim_matches('\'')),
            &format!("\"publish_context\":'\"$context{maker}\"'"),
        );
    }
    let path = call.rpc.path.trim_start_matches('/');
    let mut text = format!("\n# {number}. {}: {}\n", call.rpc, one_line(&call.answer));
    if let Some(directory) = call.directory() {
        let _ = writeln!(text, "mkdir -p {}", quoted(directory));
    }
    let call_line = match call.given_up_after_us {
        Some(us) => format!("max_time={:.6}\ncall {path} \"$request\"\nmax_time=", us as f64 / 1e6),
        None => format!("call {path} \"$request\""),
    };
    let _ = writeln!(text, "request={request}\n{call_line}");
    for given in &call.given {
        let number = known.len() + 1;
        let _ = writeln!(
            text,
            "id{number}=$(printf %s \"$answer\" | jq -r '{} // empty' 2>/dev/null)",
            match given.place {
                Place::Object(path) => jq(path.iter()),
                Place::Member(nth) => format!(".groupSnapshot.snapshots[{nth}].snapshotId"),
            }
        );
        known.insert(given.id.clone(), number);
    }
    if call.response.get("publish_context").is_some() {
        let _ = writeln!(
            text,
            "context{number}=$(printf %s \"$answer\" | jq -c '.publishContext // {{}}' 2>/dev/null)"
        );
    }
    if call.must_succeed {
        let _ = writeln!(text, "must_succeed");
    }
    if let Some(undo) = call.undo {
        let service = path.split('/').next().unwrap_or_default();
        let _ = writeln!(
            text,
            "if [ \"$code\" = OK ]; then\n  \
             undo_{number}=$(jq -nc --argjson request \"$request\" --argjson response \"$answer\" '{}')\n  \
             undo=\"call {service}/{} \\\"\\$undo_{number}\\\"; $undo\"\nfi",
            undo_request(undo),
            undo.by
        );
    }
    text
}

/// The request that undoes a call, as an expression over its request and its response.
fn undo_request(undo: &Undo) -> String {
    let fields = undo.fields.iter().map(|(field, from)| {
        let value = match from {
            Source::Response(path) => format!("$response{}", jq(path.iter())),
            Source::Request => format!("$request.{field}"),
            Source::Members => "[$response.groupSnapshot.snapshots[].snapshotId]".to_owned(),
        };
        format!("{field}: {value}")
    });
    let fields: Vec<String> = fields.collect();
    format!("{{{}}} | with_entries(select(.value != null))", fields.join(", "))
}

fn judged(script: &Script) -> String {
    let expected = quoted(&format!("expected {}", one_line(&script.expected)));
    let wrong = format!("{{ echo {expected}; result=1; }}");
    let one_of = |codes: &[&str]| codes.iter().map(|code| go_code(code)).collect::<Vec<_>>().join(" | ");
    match &script.verdict {
        Verdict::Code { right, wrong: codes } if right.is_empty() => {
            format!("case $code in {}) {wrong} ;; esac\n", one_of(codes))
        }
        Verdict::Code { right, .. } => format!("case $code in {}) ;; *) {wrong} ;; esac\n", one_of(right)),
        Verdict::Value { path, value } => format!(
            "printf %s \"$answer\" | jq -e --argjson expected {} '{} | . == $expected or tostring == ($expected | tostring)' >/dev/null 2>&1 || {wrong}\n",
            quoted(&value.to_string()),
            jq(path.iter())
        ),
        Verdict::OtherResponse(response) => by_eye(&format!(
            "look at the last answer: expected {}; in the run that failed, it was {response}",
            script.expected
        )),
        Verdict::ByEye(what) => by_eye(what),
    }
}

/// The script waits, since what there is to see goes when it ends.
fn by_eye(what: &str) -> String {
    format!("by_hand {}\nresult=2\n", quoted(&one_line(what)))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A path in an answer, whose names are those of JSON.
fn jq<T: AsRef<str>>(path: impl Iterator<Item = T>) -> String {
    path.map(|part| format!(".{}", camel(part.as_ref(), false))).collect()
}

/// The name of a code as grpcurl prints it.
pub(super) fn go_code(code: &str) -> String {
    match code {
        "OK" => "OK".to_owned(),
        "CANCELLED" => "Canceled".to_owned(),
        other => camel(&other.to_ascii_lowercase(), true),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde_json::json;

    use super::super::script::tests::{attached, check, entry, given_up, has_lines, other_value};
    use super::*;

    #[test]
    fn a_shell_makes_calls_with_the_ids_it_is_given() {
        let text = text(&Script::of(&check()));
        has_lines(
            &text,
            &[
                "# controller/delete-volume/it's@block (CTRL-DELETEVOL-002): rejected */ `x`",
                "request='{\"name\":\"it'\\''s\"}'",
                "call csi.v1.Controller/CreateVolume \"$request\"",
                "id1=$(printf %s \"$answer\" | jq -r '.volume.volumeId // empty' 2>/dev/null)",
                "# 3. DeleteVolume: NOT_FOUND no such",
                "request='{\"volume_id\":\"'\"$id1\"'\"}'",
                "case $code in OK) ;; *) { echo 'expected OK \"twice\"'; result=1; } ;; esac",
            ],
        );
        assert!(text.contains("\n# Set each variable SECRET_… to the secret of that name.\n"), "{text}");
        assert!(text.contains("{\"a\":\"'\"${SECRET_A:?}\"'\"}"), "{text}");
        is_a_shell_script(&text);
    }

    #[test]
    fn a_value_is_compared_and_a_step_by_hand_waits() {
        let text = text(&Script::of(&other_value()));
        assert!(
            text.contains(
                "jq -e --argjson expected '{\"tier\":\"gold\"}' '.volume.volumeContext | . == $expected or tostring == ($expected | tostring)'"
            ),
            "{text}"
        );
        assert!(text.contains("\nby_hand 'the driver is killed, and started again'\n"), "{text}");
        is_a_shell_script(&text);
    }

    #[test]
    fn contexts_are_answered_and_early_steps_succeed() {
        let text = text(&Script::of(&attached()));
        has_lines(
            &text,
            &[
                "context2=$(printf %s \"$answer\" | jq -c '.publishContext // {}' 2>/dev/null)",
                "request='{\"publish_context\":'\"$context2\"',\"staging_target_path\":\"/s\",\"volume_id\":\"'\"$id1\"'\"}'",
            ],
        );
        assert_eq!(text.matches("\nmust_succeed\n").count(), 2, "{text}");
        is_a_shell_script(&text);
    }

    #[test]
    fn services_are_called_at_their_endpoints() {
        let target = |endpoint: &str, controller: Option<&str>| {
            let target = json!({
                "endpoint": endpoint, "controller_endpoint": controller, "name": "", "vendor_version": "", "capabilities": [],
            });
            serde_json::from_value(target).unwrap()
        };
        let node = json!({"what": "", "rpc": "NodeGetInfo", "request": {}, "code": "OK", "response": {}});
        let create = json!({
            "what": "", "rpc": "CreateVolume", "request": {"name": "a"}, "code": "OK",
            "response": {"volume": {"volume_id": "old"}},
        });
        let delete = json!({
            "what": "", "rpc": "DeleteVolume", "request": {"volume_id": "old"}, "code": "INTERNAL", "response": null,
        });
        let more = json!({"reproduction": [node, create, delete]});
        let script = || Script::of(&entry("a/b/c", "OK", "INTERNAL", more.clone()));
        // The stub prints the address, the method and the request that it is given, as the last line of an answer.
        let stub = "grpcurl() { while [ \"$1\" != -d ]; do shift; done; echo \"{}\"; echo \"at $3 $4 $2\" >&2; }\njq() { echo new; }\n";
        let calls = |script: Script, variables: &[(&str, &str)]| {
            let mut shell = Command::new("sh");
            let code = text(&script).replace(" 2>&1) ||", ") ||");
            let output =
                shell.args(["-c", &format!("{stub}{code}")]).envs(variables.iter().copied()).output();
            let printed = String::from_utf8(output.unwrap().stderr).unwrap();
            let calls = printed.lines().filter_map(|line| line.strip_prefix("at "));
            calls.map(|line| line.replace("csi.v1.", "")).collect::<Vec<_>>()
        };
        assert_eq!(
            calls(script().on(&target("unix:///it's here", Some("tcp://localhost:9000"))), &[])[..3],
            [
                "/it's here Node/NodeGetInfo {}",
                "localhost:9000 Controller/CreateVolume {\"name\":\"a\"}",
                "localhost:9000 Controller/DeleteVolume {\"volume_id\":\"new\"}",
            ]
        );
        let here = calls(script().on(&target("the built-in mock driver", None)), &[("CSI", "unix:sock")]);
        assert_eq!(here[..2], ["sock Node/NodeGetInfo {}", "sock Controller/CreateVolume {\"name\":\"a\"}"]);
    }

    fn is_a_shell_script(text: &str) {
        let checked = Command::new("sh").args(["-n", "-c", text]).output().unwrap();
        assert!(checked.status.success(), "{}\n{text}", String::from_utf8_lossy(&checked.stderr));
    }

    #[test]
    fn a_call_is_given_up_after_its_time() {
        let text = text(&Script::of(&given_up()));
        let lines = ["max_time=0.200000", "call csi.v1.Controller/CreateVolume \"$request\"", "max_time="];
        has_lines(&text, &lines);
    }
}
