//! The script as a test in Go.

use std::fmt::Write as _;

use serde_json::Value;

use super::grpcurl::go_code;
use super::script::{Call, Given, Place, Script, Source, Step, Undo, Verdict, calls};
use super::{camel, one_line, secrets_by_hand};

const HEAD: &str = r#"//
// A test for a module that requires github.com/container-storage-interface/spec, google.golang.org/grpc and
// google.golang.org/protobuf. CSI_ENDPOINT names the driver, such as unix:///csi/csi.sock or
// tcp://localhost:9000, and CSI_CONTROLLER_ENDPOINT its controller services, if they are elsewhere. Where a step cannot be done by a
// test, the shell command CSI_BY_HAND does it, with the step as $1; without it, the test is skipped there.

package csisanity

import (
"#;

/// The beginning of the test.
const DIAL: &str = r#"	dial := func(variables ...string) *grpc.ClientConn {
		t.Helper()
		var endpoint string
		for _, variable := range variables {
			if endpoint = strings.TrimPrefix(os.Getenv(variable), "tcp://"); endpoint != "" {
				break
			}
		}
		conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	// Ids of the run that failed, and those of this one.
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

const DIAL_DRIVER: &str = "\tdriver := dial(\"CSI_ENDPOINT\")\n";
const DIAL_CONTROLLER: &str = "\tcontroller := dial(\"CSI_CONTROLLER_ENDPOINT\", \"CSI_ENDPOINT\")\n";

const UNDO: &str = r#"	// What was made is undone when the test ends, the last first.
	undo := func(what string, call func() error) {
		t.Cleanup(func() {
			if err := call(); err != nil {
				t.Logf("%s: %v", what, err)
			}
		})
	}
"#;

const BY_HAND: &str = r#"	byHand := func(step string) {
		t.Helper()
		command := os.Getenv("CSI_BY_HAND")
		if command == "" {
			t.Skipf("set CSI_BY_HAND to a shell command that does this: %s", step)
		}
		if printed, err := exec.CommandContext(ctx, "sh", "-c", command, "sh", step).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", step, err, printed)
		}
	}
"#;

/// Messages are compared as JSON in which all numbers are texts, as int64 is in the JSON of protobuf.
const PLAIN: &str = r#"	plain := func(text []byte) any {
		t.Helper()
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		var walk func(value any) any
		walk = func(value any) any {
			switch value := value.(type) {
			case map[string]any:
				for key, inner := range value {
					value[key] = walk(inner)
				}
			case []any:
				for at, inner := range value {
					value[at] = walk(inner)
				}
			case json.Number:
				return value.String()
			}
			return value
		}
		return walk(value)
	}
	plainMessage := func(message proto.Message) any {
		t.Helper()
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		return plain(text)
	}
"#;

const AT: &str = r#"	at := func(value any, path ...string) any {
		for _, part := range path {
			fields, _ := value.(map[string]any)
			value = fields[part]
		}
		return value
	}
"#;

/// Responses of two runs are the same but for times, and for ids that only one of them can have.
const WITHOUT_IDS: &str = r#"	var withoutIDs func(value any, known map[string]string) any
	withoutIDs = func(value any, known map[string]string) any {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				id, isText := inner.(string)
				if strings.HasSuffix(key, "_time") {
					delete(value, key)
				} else if isText && strings.HasSuffix(key, "_id") {
					value[key] = "a new id"
					if name, ok := known[id]; ok {
						value[key] = name
					}
				} else {
					value[key] = withoutIDs(inner, known)
				}
			}
		case []any:
			for at, inner := range value {
				value[at] = withoutIDs(inner, known)
			}
		}
		return value
	}
"#;

/// The whole file.
pub(super) fn text(script: &Script) -> String {
    let name: String =
        script.check.split(|c: char| !c.is_ascii_alphanumeric()).map(|part| camel(part, true)).collect();
    let by_hand = matches!(script.verdict, Verdict::ByEye(_))
        || script.steps.iter().any(|step| matches!(step, Step::ByHand(_)));
    let undoes = calls(&script.steps).any(|call| call.undo.is_some());
    let judges_code = matches!(script.verdict, Verdict::Code { .. });
    let compares = matches!(script.verdict, Verdict::Value { .. } | Verdict::OtherResponse(_));
    let own = [
        (true, "context"),
        (compares, "encoding/json"),
        (true, "os"),
        (by_hand, "os/exec"),
        (compares, "reflect"),
        (true, "strconv"),
        (true, "strings"),
        (true, "testing"),
        (true, "time"),
    ];
    let others = [
        (true, "github.com/container-storage-interface/spec/lib/go/csi"),
        (true, "google.golang.org/grpc"),
        (judges_code, "google.golang.org/grpc/codes"),
        (true, "google.golang.org/grpc/credentials/insecure"),
        (judges_code, "google.golang.org/grpc/status"),
        (true, "google.golang.org/protobuf/encoding/protojson"),
        (true, "google.golang.org/protobuf/proto"),
    ];
    // Closures, so that several such tests can be in one package.
    let helpers = [
        (true, DIAL),
        (calls(&script.steps).any(|call| !call.is_for_controller()), DIAL_DRIVER),
        (calls(&script.steps).any(Call::is_for_controller), DIAL_CONTROLLER),
        (undoes, UNDO),
        (by_hand, BY_HAND),
        (compares, PLAIN),
        (matches!(script.verdict, Verdict::Value { .. }), AT),
        (matches!(script.verdict, Verdict::OtherResponse(_)), WITHOUT_IDS),
    ];
    format!(
        "{}{HEAD}{}\n{})\n\nfunc Test{name}(t *testing.T) {{\n{}{}}}\n",
        script.head("//", &secrets_by_hand()),
        imports(&own),
        imports(&others),
        used(&helpers),
        body(script),
    )
}

fn imports(packages: &[(bool, &str)]) -> String {
    packages.iter().filter(|(is_used, _)| *is_used).map(|(_, name)| format!("\t\"{name}\"\n")).collect()
}

fn used(parts: &[(bool, &str)]) -> String {
    parts.iter().filter(|(is_used, _)| *is_used).map(|(_, part)| *part).collect()
}

fn body(script: &Script) -> String {
    let mut text = String::new();
    let mut number = 0;
    for (at, step) in script.steps.iter().enumerate() {
        match step {
            // Writing into a string cannot fail.
            Step::ByHand(what) => drop(writeln!(text, "\n\tbyHand({})", quoted(&one_line(what)))),
            Step::Call(call) => {
                number += 1;
                text.push_str(&made(call, number));
                if script.accused() == Some(at) {
                    text.push_str(&judged(script, number));
                }
                for given in &call.given {
                    text.push_str(&kept(given, number));
                }
            }
        }
    }
    if script.accused().is_none() {
        text.push_str(&judged(script, number));
    }
    text
}

/// Keeps an id of the response of this number.
fn kept(given: &Given, number: usize) -> String {
    let id = quoted(&given.id);
    match given.place {
        Place::Object(path) => {
            let getters: String = path.iter().map(|part| getter(part)).collect();
            format!("\tids[{id}] = response{number}{getters}\n")
        }
        Place::Member(nth) => format!(
            "\tif members := response{number}.GetGroupSnapshot().GetSnapshots(); len(members) > {nth} {{\n\
             \t\tids[{id}] = members[{nth}].GetSnapshotId()\n\t}}\n"
        ),
    }
}

fn made(call: &Call, number: usize) -> String {
    let (rpc, service) = (call.rpc, call.service());
    let request = quoted(&call.request.to_string());
    let mut text = format!("\n\t// {number}. {rpc}: {}\n", one_line(&call.answer));
    let _ = writeln!(text, "\trequest{number} := &csi.{rpc}Request{{}}\n\tread({request}, request{number})");
    if let Some(maker) = call.context_of {
        let _ = writeln!(text, "\trequest{number}.PublishContext = response{maker}.GetPublishContext()");
    }
    if let Some(directory) = call.directory() {
        let made = format!("os.MkdirAll({}, 0o750)", quoted(directory));
        let _ = writeln!(text, "\tif err := {made}; err != nil {{\n\t\tt.Fatal(err)\n\t}}");
    }
    let conn = if call.is_for_controller() { "controller" } else { "driver" };
    let client = format!("csi.New{service}Client({conn})");
    let ctx = match call.given_up_after_us {
        Some(us) => {
            let _ = writeln!(
                text,
                "\tctx{number}, giveUp{number} := context.WithTimeout(ctx, {us}*time.Microsecond)\n\tdefer giveUp{number}()"
            );
            format!("ctx{number}")
        }
        None => "ctx".to_owned(),
    };
    if service == "SnapshotMetadata" {
        let _ = writeln!(
            text,
            "\tstream{number}, err := {client}.{rpc}({ctx}, request{number})\n\tvar response{number} *csi.{rpc}Response\n\
             \tif err == nil {{\n\t\tresponse{number}, err = stream{number}.Recv()\n\t}}"
        );
    } else {
        let _ = writeln!(text, "\tresponse{number}, err := {client}.{rpc}({ctx}, request{number})");
    }
    let _ = writeln!(text, "\tt.Logf(\"{rpc}: %v %v\", response{number}, err)");
    if call.must_succeed {
        text.push_str("\tif err != nil {\n\t\tt.Fatalf(\"not shown: this step succeeded in the run that failed: %v\", err)\n\t}\n");
    }
    if let Some(undo) = call.undo {
        let by = undo.by;
        let _ = writeln!(
            text,
            "\tif err == nil {{\n\t\tundo(\"{by}\", func() error {{\n\t\t\t_, err := {client}.{by}(ctx, {})\n\t\t\treturn err\n\t\t}})\n\t}}",
            undo_request(undo, number)
        );
    }
    text
}

fn undo_request(undo: &Undo, number: usize) -> String {
    let fields = undo.fields.iter().map(|(field, from)| {
        let value = match from {
            Source::Response(path) => {
                format!("response{number}{}", path.iter().map(|part| getter(part)).collect::<String>())
            }
            Source::Request => format!("request{number}{}", getter(field)),
            Source::Members => format!(
                "func() (members []string) {{\n\t\t\t\tfor _, snapshot := range response{number}.GetGroupSnapshot().GetSnapshots() {{\n\
                 \t\t\t\t\tmembers = append(members, snapshot.GetSnapshotId())\n\t\t\t\t}}\n\t\t\t\treturn members\n\t\t\t}}()"
            ),
        };
        format!("{}: {value}", camel(field, true))
    });
    let fields: Vec<String> = fields.collect();
    format!("&csi.{}Request{{{}}}", undo.by, fields.join(", "))
}

fn getter(field: &str) -> String {
    format!(".Get{}()", camel(field, true))
}

/// The answer to the call of this number is judged.
fn judged(script: &Script, number: usize) -> String {
    let expected = quoted(&one_line(&script.expected));
    let code = |code: &&str| format!("codes.{}", go_code(code));
    match &script.verdict {
        Verdict::Code { right, wrong } => {
            let (codes, is, joined) =
                if right.is_empty() { (wrong, "==", " || ") } else { (right, "!=", " && ") };
            let conditions: Vec<String> =
                codes.iter().map(|one| format!("status.Code(err) {is} {}", code(one))).collect();
            format!(
                "\tif {} {{\n\t\tt.Errorf(\"expected %s, got %v: %v\", {expected}, status.Code(err), err)\n\t}}\n",
                conditions.join(joined)
            )
        }
        Verdict::Value { path, value } => {
            let path: Vec<String> = path.iter().map(|part| quoted(part)).collect();
            format!(
                "\tif err != nil {{\n\t\tt.Error(err)\n\t}} else if found, expected := at(plainMessage(response{number}), {}), plain([]byte({})); \
                 !reflect.DeepEqual(found, expected) {{\n\t\tt.Errorf(\"expected %v, got %v\", expected, found)\n\t}}\n",
                path.join(", "),
                quoted(&value.to_string())
            )
        }
        Verdict::OtherResponse(response) => format!(
            "\t// The driver is wrong as long as it answers as before, but for ids and times.\n\
             \tif err != nil {{\n\t\tt.Fatalf(\"the last call shows nothing, since it was rejected: %v\", err)\n\t}}\n\
             \tbefore, now := map[string]string{{}}, map[string]string{{}}\n\
             \tfor old, id := range ids {{\n\t\tbefore[old], now[id] = old, old\n\t}}\n\
             \tif wrong := withoutIDs(plain([]byte({})), before); reflect.DeepEqual(wrong, withoutIDs(plainMessage(response{number}), now)) {{\n\
             \t\tt.Errorf(\"expected %s, got %v\", {expected}, response{number})\n\t}}\n",
            quoted(&response.to_string())
        ),
        Verdict::ByEye(what) => format!("\tbyHand({})\n", quoted(&one_line(what))),
    }
}

/// A text of Go in double quotes, which for printable texts are those of JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::script::tests::{attached, check, given_up, has_lines, other_value};
    use super::*;

    #[test]
    fn go_makes_calls_with_the_client_of_csi() {
        let text = text(&Script::of(&check()));
        has_lines(
            &text,
            &[
                "// expected: OK \"twice\"",
                "func TestControllerDeleteVolumeItSBlock(t *testing.T) {",
                "\trequest1 := &csi.CreateVolumeRequest{}",
                "\tread(\"{\\\"name\\\":\\\"it's\\\"}\", request1)",
                "\tresponse1, err := csi.NewControllerClient(controller).CreateVolume(ctx, request1)",
                "\tids[\"vol-1\"] = response1.GetVolume().GetVolumeId()",
                "\t\tundo(\"DeleteVolume\", func() error {",
                "\tif status.Code(err) != codes.OK {",
            ],
        );
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    }

    #[test]
    fn a_context_is_that_of_the_answer() {
        let text = text(&Script::of(&attached()));
        has_lines(&text, &["\trequest3.PublishContext = response2.GetPublishContext()"]);
        assert_eq!(text.matches("t.Fatalf(\"not shown: ").count(), 2, "{text}");
    }

    #[test]
    fn values_are_compared_and_manual_steps_have_commands() {
        let text = text(&Script::of(&other_value()));
        assert!(text.contains("at(plainMessage(response2), \"volume\", \"volume_context\")"), "{text}");
        assert!(text.contains("\tbyHand(\"the driver is killed, and started again\")\n"), "{text}");
    }

    #[test]
    fn a_call_is_given_up_after_its_time() {
        let text = text(&Script::of(&given_up()));
        let lines = [
            "\tctx1, giveUp1 := context.WithTimeout(ctx, 200000*time.Microsecond)",
            "\tresponse1, err := csi.NewControllerClient(controller).CreateVolume(ctx1, request1)",
            "\tresponse2, err := csi.NewControllerClient(controller).CreateVolume(ctx, request2)",
        ];
        has_lines(&text, &lines);
    }
}
