//! `csi-sanity export`: the calls of a failed check, to be made without csi-sanity.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use csi_harness::checks::check::Check;
use csi_harness::text::suggest::did_you_mean;
use csi_proto::RPCS;
use csi_proto::redact::STRIPPED;
use csi_report::{CallEntry, CheckEntry, Run};
use csi_suite_stateful::case::call_in_rust;
use serde_json::Value;

use crate::args::{ExportArgs, ExportForm};
use crate::error::Error;
use crate::exit::Exit;

/// Prints the calls.
pub(crate) fn export(args: &ExportArgs) -> Result<Exit, Error> {
    let run = Run::load(&args.report)?;
    let check = find(&run, &args.check)
        .map_err(|problem| Error::Settings(format!("{}: {problem}", args.report.display())))?;
    let text = match args.format {
        ExportForm::Grpcurl => grpcurl(check),
        ExportForm::Go => go(check),
        ExportForm::Rust => rust(check),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The check of this label, or the only one of this id, if its calls were kept.
fn find<'a>(run: &'a Run, id: &str) -> Result<&'a CheckEntry, String> {
    let has_calls = |check: &&CheckEntry| calls(check).next().is_some();
    let exact = run.checks.iter().find(|check| check.id == id);
    let of_id = || run.checks.iter().filter(has_calls).find(|check| Check::id_of(&check.id) == id);
    match exact.filter(has_calls).or_else(of_id) {
        Some(check) => Ok(check),
        None if exact.is_some() => Err(format!(
            "the calls of {id} are not in it; those of checks that failed are, and with --trace a run tells all"
        )),
        None => {
            let near = did_you_mean(id, run.checks.iter().filter(has_calls).map(|check| check.id.as_str()));
            Err(format!("it has no check {id}{near}"))
        }
    }
}

/// The calls that the check made itself, with the paths of their RPCs; what undid them is left out.
fn calls(check: &CheckEntry) -> impl Iterator<Item = (&CallEntry, &'static str)> {
    check.calls.iter().filter(|call| !call.cleanup).filter_map(|call| {
        let rpc = RPCS.iter().find(|rpc| rpc.method == call.rpc)?;
        Some((call, rpc.path.trim_start_matches('/')))
    })
}

/// What is wrong, as lines of comments.
fn heading(check: &CheckEntry, comment: &str) -> String {
    let rule = check.requirements.first().map(|rule| format!(" ({rule})")).unwrap_or_default();
    let mut lines = vec![format!("{}{rule}: {}", check.id, check.message)];
    for (what, text) in [("expected", &check.expected), ("actual", &check.actual)] {
        if !text.is_empty() {
            lines.push(format!("{what}: {text}"));
        }
    }
    if check.calls_left_out > 0 {
        lines.push(format!("{} calls from the middle were not kept", check.calls_left_out));
    }
    let texts = || calls(check).map(|(call, _)| call.request.to_string());
    if texts().any(|text| text.contains(STRIPPED)) {
        lines.push(format!("Put the secrets in where {STRIPPED} stands."));
    }
    if calls(check).any(|(call, _)| call.worker != 0) {
        lines.push("Several made these calls at the same time; here they come one after another.".to_owned());
    }
    if texts().any(|text| text.contains("_path\":\"/")) {
        lines.push("The folders above the paths have to be there.".to_owned());
    }
    lines.iter().map(|line| format!("{comment} {}\n", one_line(line))).collect()
}

/// A text that cannot leave its comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// How a call ended, in a few words.
fn came(call: &CallEntry) -> String {
    match (&call.status, &call.no_answer) {
        (Some(status), _) => format!("{} {}", status.code, status.message),
        (None, Some(why)) => why.clone(),
        (None, None) => "OK".to_owned(),
    }
}

/// Where answers have ids, which are others each time.
const GIVEN: [&[&str]; 3] =
    [&["volume", "volume_id"], &["snapshot", "snapshot_id"], &["group_snapshot", "group_snapshot_id"]];

/// The ids that an answer gives for the first time, and that later requests name.
fn given<'a>(
    call: &'a CallEntry,
    later: &str,
    known: &BTreeMap<String, usize>,
) -> Vec<(&'static [&'static str], &'a str)> {
    let Some(response) = &call.response else { return Vec::new() };
    let id =
        |path: &[&str]| path.iter().try_fold(response, |value, part| value.get(part)).and_then(Value::as_str);
    let found = GIVEN.into_iter().filter_map(|path| Some((path, id(path)?)));
    found
        .filter(|(_, id)| !known.contains_key(*id) && later.contains(&Value::from(*id).to_string()))
        .collect()
}

/// Which of the calls is wrong: where a status is, the last one that came to it; else the last one. Behind it there may be calls that
/// show whether the driver does them at all.
fn accused(check: &CheckEntry) -> usize {
    let is_named =
        |call: &CallEntry| call.status.as_ref().is_some_and(|status| check.actual.contains(&status.code));
    let named = calls(check).enumerate().filter(|(_, (call, _))| is_named(call)).last();
    named.map_or_else(|| calls(check).count(), |(at, _)| at + 1)
}

/// The requests behind the one at this place.
fn later(check: &CheckEntry, at: usize) -> String {
    calls(check).skip(at + 1).map(|(call, _)| call.request.to_string()).collect()
}

const SHELL: &str = "\
# Needs grpcurl, jq, and csi.proto of the specification. CSI is the socket of the driver.
CSI=${CSI:-/csi/csi.sock}
call() { grpcurl -plaintext -unix -authority localhost -proto csi.proto -d \"$2\" \"$CSI\" \"$1\"; }
";

/// The calls as commands of a shell.
fn grpcurl(check: &CheckEntry) -> String {
    let mut text = heading(check, "#") + SHELL;
    let mut known = BTreeMap::<String, usize>::new();
    for (at, (call, path)) in calls(check).enumerate() {
        let mut request = call.request.to_string().replace('\'', "'\\''");
        for (id, number) in &known {
            let id = Value::from(id.as_str()).to_string().replace('\'', "'\\''");
            request = request.replace(&id, &format!("\"'\"$id{number}\"'\""));
        }
        // Writing into a string cannot fail.
        let _ = writeln!(text, "\n# {}. {}: {}", at + 1, call.rpc, one_line(&came(call)));
        let given = given(call, &later(check, at), &known);
        match given.is_empty() {
            true => drop(writeln!(text, "call {path} '{request}'")),
            false => drop(writeln!(text, "answer=$(call {path} '{request}'); printf '%s\\n' \"$answer\"")),
        }
        for (path, id) in given {
            let number = known.len() + 1;
            let path: String = path.iter().map(|part| format!(".{}", camel(part, false))).collect();
            let _ = writeln!(text, "id{number}=$(printf %s \"$answer\" | jq -r {path})");
            known.insert(id.to_owned(), number);
        }
    }
    text
}

const GO: &str = r#"//
// A test for a module that requires github.com/container-storage-interface/spec, google.golang.org/grpc and
// google.golang.org/protobuf. CSI_ENDPOINT names the driver, such as unix:///csi/csi.sock.
package csisanity

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

"#;

/// What the calls share: a request out of JSON, with the ids of this run in place of those of the run that failed.
const GO_READ: &str = r#"
	ids := map[string]string{}
	read := func(text string, request proto.Message) {
		t.Helper()
		for before, now := range ids {
			text = strings.ReplaceAll(text, strconv.Quote(before), strconv.Quote(now))
		}
		if err := protojson.Unmarshal([]byte(text), request); err != nil {
			t.Fatal(err)
		}
	}
"#;

/// The calls as a test in Go.
fn go(check: &CheckEntry) -> String {
    let mut text = heading(check, "//") + GO;
    let name: String =
        check.id.split(|c: char| !c.is_ascii_alphanumeric()).map(|part| camel(part, true)).collect();
    let _ = write!(
        text,
        "func Test{name}(t *testing.T) {{\n\
         \tconn, err := grpc.NewClient(os.Getenv(\"CSI_ENDPOINT\"), grpc.WithTransportCredentials(insecure.NewCredentials()))\n\
         \tif err != nil {{\n\t\tt.Fatal(err)\n\t}}\n\tdefer conn.Close()\n\
         \tctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)\n\tdefer cancel()\n{}",
        GO_READ.trim_start_matches('\n')
    );
    let accused = accused(check);
    let mut known = BTreeMap::<String, usize>::new();
    for (at, (call, path)) in calls(check).enumerate() {
        let service = path.split('/').next().and_then(|path| path.rsplit('.').next()).unwrap_or_default();
        let (number, rpc) = (at + 1, &call.rpc);
        let given = given(call, &later(check, at), &known);
        let request = Value::from(call.request.to_string()).to_string();
        let _ = write!(
            text,
            "\n\t// {number}. {rpc}: {}\n\trequest{number} := &csi.{rpc}Request{{}}\n\tread({request}, request{number})\n\
             \tresponse{number}, err := csi.New{service}Client(conn).{rpc}(ctx, request{number})\n\
             \tt.Logf(\"{rpc}: %v %v\", response{number}, err)\n",
            one_line(&came(call)),
        );
        for (path, id) in given {
            let getters: String = path.iter().map(|part| format!(".Get{}()", camel(part, true))).collect();
            let _ = writeln!(text, "\tids[{}] = response{number}{getters}", Value::from(id));
            known.insert(id.to_owned(), number);
        }
        if number == accused {
            text.push_str(&verdict(check, call));
        }
    }
    text.push_str("}\n");
    text
}

/// What the test says of the answer that is wrong: where a status was, that it still comes; else what there is to look at.
fn verdict(check: &CheckEntry, call: &CallEntry) -> String {
    let expected = Value::from(one_line(&check.expected));
    match &call.status {
        Some(refused) => {
            // Go has one of the codes with fewer letters.
            let code = camel(&refused.code.to_ascii_lowercase(), true).replace("Cancelled", "Canceled");
            let code = Value::from(code);
            format!(
                "\tif code := status.Code(err).String(); code == {code} {{\n\t\tt.Errorf(\"expected %s, and %s came\", {expected}, code)\n\t}}\n"
            )
        }
        None => format!(
            "\tif status.Code(err) != 0 {{\n\t\tt.Logf(\"the call is rejected by now\")\n\t}}\n\tt.Logf(\"expected: %s\", {expected})\n"
        ),
    }
}

const RUST: &str = r#"//
// A test for a crate that depends on csi-proto, tonic and tokio, with its features macros and rt. CSI_ENDPOINT names the driver, such as
// unix:///csi/csi.sock; without it, nothing is tested.

#[tokio::test]
"#;

/// What is done before the calls.
const RUST_DIAL: &str = r#"    use csi_proto::v1;
    let Ok(endpoint) = std::env::var("CSI_ENDPOINT") else { return };
    let endpoint = endpoint.parse().expect("CSI_ENDPOINT is an endpoint");
    let driver = csi_proto::dial(&endpoint, std::time::Duration::from_secs(30)).await.expect("the driver listens");
"#;

/// The calls as a test in Rust.
fn rust(check: &CheckEntry) -> String {
    let name: Vec<String> = check
        .id
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut text = format!("{}{RUST}async fn {}() {{\n{RUST_DIAL}", heading(check, "//"), name.join("_"));
    let accused = accused(check);
    let mut known = BTreeMap::<String, usize>::new();
    for (at, (call, path)) in calls(check).enumerate() {
        let (number, came) = (at + 1, one_line(&came(call)));
        let given = given(call, &later(check, at), &known);
        let variable = |_: &str, text: &str| known.get(text).map(|number| format!("id{number}"));
        let Some(made) = call_in_rust(path, &call.request, &variable) else {
            let _ = writeln!(
                text,
                "\n    // {number}. {}: {came}; its request cannot be written in Rust",
                call.rpc
            );
            continue;
        };
        let _ = write!(
            text,
            "\n    // {number}. {}: {came}\n    let answer = {made};\n    println!(\"{}: {{answer:?}}\");\n",
            call.rpc, call.rpc
        );
        if number == accused {
            text.push_str(&rust_verdict(check, call));
        } else if let [(path, id)] = given[..] {
            let number = known.len() + 1;
            let [object, field] = [path[0], path[1]];
            let _ = writeln!(
                text,
                "    let id{number} = answer.ok().and_then(|answer| answer.into_inner().{object}).unwrap_or_default().{field};"
            );
            known.insert(id.to_owned(), number);
        }
    }
    text.push_str("}\n");
    text
}

/// The same in Rust.
fn rust_verdict(check: &CheckEntry, call: &CallEntry) -> String {
    let expected = format!("expected {}", one_line(&check.expected));
    match &call.status {
        Some(refused) => {
            let code = camel(&refused.code.to_ascii_lowercase(), true);
            format!(
                "    let code = answer.err().map(|status| status.code());\n    \
                 assert_ne!(code, Some(tonic::Code::{code}), \"{{}}\", {expected:?});\n"
            )
        }
        None => format!("    println!(\"{{}}\", {expected:?});\n"),
    }
}

/// A name of several words without what is between them.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check() -> CheckEntry {
        let call = |rpc: &str, request: Value, answer: Value| {
            let mut call = json!({
                "rpc": rpc, "node": 0, "worker": 0, "sent_after_ms": 0, "duration_ms": 1, "cleanup": false, "request": request,
            });
            call.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
            call
        };
        serde_json::from_value(json!({
            "id": "controller/delete-volume/it's@block", "suite": "s", "outcome": "failed", "duration_ms": 1,
            "requirements": ["CTRL-DELETEVOL-002"], "message": "rejected\n*/ `x`", "expected": "OK \"twice\"", "actual": "NOT_FOUND",
            "repeat": "", "title": "",
            "calls": [
                call("CreateVolume", json!({"name": "it's"}), json!({"response": {"volume": {"volume_id": "vol-1"}}})),
                call("DeleteVolume", json!({"volume_id": "vol-1", "secrets": {"a": STRIPPED}}), json!({"response": {}})),
                call("DeleteVolume", json!({"volume_id": "vol-1"}), json!({"status": {"code": "NOT_FOUND", "message": "no\nsuch"}})),
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_shell_makes_the_calls_with_the_ids_that_it_is_given() {
        let text = grpcurl(&check());
        for line in [
            "# controller/delete-volume/it's@block (CTRL-DELETEVOL-002): rejected */ `x`",
            "answer=$(call csi.v1.Controller/CreateVolume '{\"name\":\"it'\\''s\"}'); printf '%s\\n' \"$answer\"",
            "id1=$(printf %s \"$answer\" | jq -r .volume.volumeId)",
            "# 3. DeleteVolume: NOT_FOUND no such",
            "call csi.v1.Controller/DeleteVolume '{\"volume_id\":\"'\"$id1\"'\"}'",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.contains("Put the secrets in"), "{text}");
        let said = std::process::Command::new("sh").args(["-n", "-c", &text]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    #[test]
    fn go_makes_them_with_the_client_of_the_specification() {
        let text = go(&check());
        for line in [
            "// expected: OK \"twice\"",
            "func TestControllerDeleteVolumeItSBlock(t *testing.T) {",
            "\trequest1 := &csi.CreateVolumeRequest{}",
            "\tread(\"{\\\"name\\\":\\\"it's\\\"}\", request1)",
            "\tresponse1, err := csi.NewControllerClient(conn).CreateVolume(ctx, request1)",
            "\tids[\"vol-1\"] = response1.GetVolume().GetVolumeId()",
            "\tif code := status.Code(err).String(); code == \"NotFound\" {",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }

    #[test]
    fn rust_makes_them_with_the_client_of_csi_proto() {
        let text = rust(&check());
        for line in [
            "// expected: OK \"twice\"",
            "async fn controller_delete_volume_it_s_block() {",
            "            name: \"it's\".to_owned(),",
            "    let id1 = answer.ok().and_then(|answer| answer.into_inner().volume).unwrap_or_default().volume_id;",
            "            volume_id: id1.clone(),",
            "    assert_ne!(code, Some(tonic::Code::NotFound), \"{}\", \"expected OK \\\"twice\\\"\");",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }
}
