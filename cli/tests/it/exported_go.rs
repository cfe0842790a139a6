//! `export --format go` writes tests that compile. Packages without code, which are made from csi.proto, stand in for the modules that they
//! need, so that nothing is fetched. The test is skipped without a Go toolchain.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use csi_proto::reflect::prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use csi_proto::{RPCS, reflect};

use crate::program::check;

/// Each entry has the flags of a run on the built-in driver, the check, texts that the exported test must contain, and the largest number
/// of calls that it may make.
const CASES: [(&[&str], &str, &[&str], usize); 6] = [
    (
        &[
            "--mock-defect",
            "create-volume-repeat-changes-context",
            "--filter",
            "controller/create-volume/repeated-reply",
        ],
        "controller/create-volume/repeated-reply",
        &["\"volume\", \"volume_context\"", "reflect.DeepEqual", "undo(\"DeleteVolume\""],
        2,
    ),
    (
        &[
            "--mock-defect",
            "delete-volume-unknown-not-found",
            "--filter",
            "controller/delete-volume/repeated",
        ],
        "controller/delete-volume/repeated",
        &["if status.Code(err) != codes.OK {"],
        3,
    ),
    (
        &["--mock-defect", "create-volume-forgets-names", "--filter", "property/volumes", "--cases", "20"],
        "property/volumes",
        &["t.Errorf(", "undo(\"DeleteVolume\""],
        4,
    ),
    (
        &[
            "--mock-defect",
            "create-volume-answers-without-volume",
            "--suite",
            "sanity",
            "--filter",
            "every-reply/fields/required",
        ],
        "every-reply/fields/required",
        &["CreateVolume(ctx, request1)", "withoutIDs(plainMessage(response1), now)"],
        1,
    ),
    (
        &[
            "--mock-defect",
            "condition-message-empty",
            "--suite",
            "sanity",
            "--filter",
            "controller/controller-get-volume/* every-reply/fields/required",
        ],
        "every-reply/fields/required",
        &["CreateVolume(ctx, request1)", "ControllerGetVolume(ctx, request2)", "undo(\"DeleteVolume\""],
        2,
    ),
    (
        &[
            "--mock-defect",
            "restart-forgets-last-write",
            "--filter",
            "restart/under-load",
            "--kills",
            "200",
            "--budget",
            "1m",
        ],
        "restart/under-load",
        &["byHand(\"the driver is "],
        2_000,
    ),
];

#[test]
fn exported_tests_compile() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: go is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write_modules(directory.path());
    for (number, (run, id, texts, calls_max)) in CASES.into_iter().enumerate() {
        let report = at(&format!("{number}.json"));
        let json = format!("json={}", report.display());
        check(&[run, &["--seed", "7", "--report", &json]].concat(), 1, &[]);
        let text = check(&["export", report.to_str().unwrap(), id, "--format", "go"], 0, &[]).stdout;
        for part in texts {
            assert!(text.contains(part), "{id}: {part:?} is missing: {text}");
        }
        let calls = text.matches("\tresponse").count();
        assert!((1..=calls_max).contains(&calls), "{id}: {calls} calls: {text}");
        fs::create_dir(at(&format!("case{number}"))).unwrap();
        fs::write(at(&format!("case{number}/exported_test.go")), text).unwrap();
    }
    let mut vet = Command::new("go");
    vet.args(["vet", "./..."]).current_dir(directory.path());
    let vetted = vet.envs([("GOFLAGS", "-mod=mod"), ("GOPROXY", "off"), ("GOWORK", "off")]).output().unwrap();
    assert!(vetted.status.success(), "{}", String::from_utf8_lossy(&vetted.stderr));
    let unformatted = Command::new("gofmt").args(["-l", "."]).current_dir(directory.path()).output().unwrap();
    let unformatted = String::from_utf8(unformatted.stdout).unwrap();
    let exported: Vec<&str> = unformatted.lines().filter(|file| file.starts_with("case")).collect();
    assert_eq!(exported, Vec::<&str>::new(), "not as gofmt writes it");
}

/// Writes a module with the exported tests, and the modules that they require.
fn write_modules(directory: &Path) {
    let write = |file: &str, text: &str| {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let required = [
        "github.com/container-storage-interface/spec",
        "google.golang.org/grpc",
        "google.golang.org/protobuf",
    ];
    let mut module = "module exported\n\ngo 1.19\n".to_owned();
    for (number, name) in required.iter().enumerate() {
        let _ = write!(module, "\nrequire {name} v0.0.0\nreplace {name} => ./required{number}\n");
        write(&format!("required{number}/go.mod"), &format!("module {name}\n\ngo 1.19\n"));
    }
    write("go.mod", &module);
    write("required0/lib/go/csi/csi.go", &csi());
    write(
        "required1/grpc.go",
        "package grpc\n\ntype ClientConn struct{}\n\nfunc (*ClientConn) Close() error { return nil }\n\ntype DialOption any\n\n\
         func NewClient(string, ...DialOption) (*ClientConn, error) { return nil, nil }\n\
         func WithTransportCredentials(any) DialOption { return nil }\nfunc WithAuthority(string) DialOption { return nil }\n",
    );
    let codes = ["OK", "NotFound", "AlreadyExists", "OutOfRange"];
    let codes: Vec<String> =
        codes.iter().enumerate().map(|(number, name)| format!("\t{name} Code = {number}\n")).collect();
    write(
        "required1/codes/codes.go",
        &format!("package codes\n\ntype Code uint32\n\nconst (\n{})\n", codes.concat()),
    );
    write(
        "required1/status/status.go",
        "package status\n\nimport \"google.golang.org/grpc/codes\"\n\nfunc Code(error) codes.Code { return 0 }\n",
    );
    write(
        "required1/credentials/insecure/insecure.go",
        "package insecure\n\nfunc NewCredentials() any { return nil }\n",
    );
    write("required2/proto/proto.go", "package proto\n\ntype Message interface{ Reset() }\n");
    write(
        "required2/encoding/protojson/protojson.go",
        "package protojson\n\nimport \"google.golang.org/protobuf/proto\"\n\ntype MarshalOptions struct{ UseProtoNames bool }\n\n\
         func (MarshalOptions) Marshal(proto.Message) ([]byte, error) { return nil, nil }\n\
         func Unmarshal([]byte, proto.Message) error { return nil }\n",
    );
}

/// Returns the source of the package of the specification: messages with their fields and getters, and clients.
fn csi() -> String {
    let mut text = "package csi\n\nimport (\n\t\"context\"\n\n\t\"google.golang.org/grpc\"\n)\n".to_owned();
    let mut services: Vec<&str> = Vec::new();
    let mut messages: Vec<MessageDescriptor> = Vec::new();
    for rpc in RPCS {
        let service = rpc.path.split('/').nth(1).and_then(|path| path.rsplit('.').next()).unwrap();
        if !services.contains(&service) {
            services.push(service);
            let _ = write!(
                text,
                "\ntype {service}Client struct{{}}\n\nfunc New{service}Client(*grpc.ClientConn) {service}Client {{ return {service}Client{{}} }}\n"
            );
        }
        let request = reflect::request_of(rpc).unwrap();
        let response = request.parent_pool().get_message_by_name(&format!("csi.v1.{rpc}Response")).unwrap();
        let answer = if service == "SnapshotMetadata" { "Stream" } else { "Response" };
        let _ = write!(
            text,
            "\nfunc ({service}Client) {rpc}(context.Context, *{rpc}Request) (*{rpc}{answer}, error) {{ return nil, nil }}\n"
        );
        if answer == "Stream" {
            let _ = write!(
                text,
                "\ntype {rpc}Stream struct{{}}\n\nfunc (*{rpc}Stream) Recv() (*{rpc}Response, error) {{ return nil, nil }}\n"
            );
        }
        messages.extend([request, response]);
    }
    let mut known: Vec<String> = Vec::new();
    while let Some(message) = messages.pop() {
        let name = go_name(&message);
        if known.contains(&name) || message.is_map_entry() {
            continue;
        }
        known.push(name.clone());
        let _ = write!(text, "\ntype {name} struct {{\n");
        for field in message.fields().filter(|field| field.containing_oneof().is_none()) {
            let _ = writeln!(text, "\t{} {}", camel(field.name()), go_type(&field));
        }
        let _ = write!(text, "}}\n\nfunc (*{name}) Reset() {{}}\n");
        for field in message.fields() {
            let _ = writeln!(
                text,
                "func (*{name}) Get{}() (value {}) {{ return }}",
                camel(field.name()),
                go_type(&field)
            );
            if let Kind::Message(inner) = field.kind() {
                messages.push(inner);
            }
        }
    }
    text
}

fn go_name(message: &MessageDescriptor) -> String {
    match message.full_name().strip_prefix("csi.v1.") {
        Some(name) => name.replace('.', "_"),
        None => "Outside".to_owned(),
    }
}

fn go_type(field: &FieldDescriptor) -> String {
    let one = |field: &FieldDescriptor| match field.kind() {
        Kind::Bool => "bool".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Bytes => "[]byte".to_owned(),
        Kind::Int64 => "int64".to_owned(),
        Kind::Message(message) => format!("*{}", go_name(&message)),
        _ => "int32".to_owned(),
    };
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            format!("map[string]{}", one(&entry.map_entry_value_field()))
        }
        _ if field.is_list() => format!("[]{}", one(field)),
        _ => one(field),
    }
}

fn camel(field: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    field.split('_').filter(|word| !word.is_empty()).map(capital).collect()
}
