//! JSON reports conform to their schema, and other commands read them.

use serde_json::{Value, json};

use crate::driver_command::quiet_driver_command;
use crate::program::{Folder, check, read_json};

/// Reads the schema that is committed.
fn schema() -> Value {
    read_json(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report.schema.json"))
}

/// Finds the parts of a value that contradict the schema, as far as our schema goes. A keyword that this function does not know is an
/// error, and so is a field that the schema does not have.
fn faults(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let Some(keywords) = schema.as_object() else { return Vec::new() };
    let mut found = Vec::new();
    for (keyword, wanted) in keywords {
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" => true,
            "$ref" => {
                let target = root.pointer(&wanted.as_str().unwrap()[1..]).unwrap();
                found.extend(faults(root, target, value, place));
                true
            }
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|one| has_type(value, one)),
                one => has_type(value, one),
            },
            "enum" => wanted.as_array().unwrap().contains(value),
            // This keyword only tells a reader which value to assume for a field that an older report does not have.
            "default" => true,
            "const" => wanted == value,
            "minimum" => value.as_f64().is_some_and(|number| number >= wanted.as_f64().unwrap()),
            "required" => {
                let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                wanted.as_array().unwrap().iter().all(has)
            }
            "properties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    match wanted.get(name) {
                        Some(schema) => found.extend(faults(root, schema, inner, &format!("{place}/{name}"))),
                        None => found.push(format!("{place}/{name} is not in the schema")),
                    }
                }
                true
            }
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(root, wanted, item, &format!("{place}/{at}")));
                }
                true
            }
            "oneOf" | "anyOf" => {
                let fits = |one: &Value| faults(root, one, value, place).is_empty();
                wanted.as_array().unwrap().iter().any(fits)
            }
            other => panic!("{place}: the keyword {other} is not known here"),
        };
        if !holds {
            found.push(format!("{place}: {keyword} {wanted}"));
        }
    }
    found
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    match wanted.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the type {other} is not known here"),
    }
}

/// Runs the program with these arguments, and returns the path of the report.
fn report(folder: &Folder, name: &str, code: i32, arguments: &[&str]) -> String {
    let path = folder.path(name);
    let flag = format!("json={path}");
    // A driver that dies leaves objects behind, and the run writes a note of them.
    let said = folder.run(&[&["run", "--seed", "7", "--report", &flag][..], arguments].concat());
    assert_eq!(said.code, Some(code), "{arguments:?}: {}\n{}", said.stdout, said.stderr);
    path
}

/// Makes the reports of a driver that is right, and of one that is wrong.
fn right_and_wrong(folder: &Folder) -> [String; 2] {
    let filter = ["--filter", "controller/create-volume/repeated*"];
    let defect = ["--mock-defect", CHANGES];
    let right = report(folder, "right.json", 0, &filter);
    [right, report(folder, "wrong.json", 1, &[filter, defect].concat())]
}

#[test]
fn reports_keep_their_schema() {
    let folder = Folder::new();
    let known = folder.write("known", "controller/create-volume/repeated*  # our issue 12\n");
    let endpoint = folder.path("csi.sock");
    let failing = ["--filter", "controller/create-volume/repeated*", "--mock-defect", CHANGES];
    // This driver dies of a long name.
    let driver = quiet_driver_command(&endpoint);
    let dying = ["--endpoint", &endpoint, "--driver-command", &driver];
    let runs: [(&str, i32, Vec<&str>); 4] = [
        ("passing", 0, vec!["--filter", "identity/"]),
        ("failing", 1, failing.to_vec()),
        ("known", 5, [&failing[..], &["--known-failing", &known]].concat()),
        ("crash", 1, [&dying[..], &["--filter", "controller/create-volume/too-long-name"]].concat()),
    ];
    let schema = schema();
    for (name, code, arguments) in runs {
        let report = read_json(report(&folder, name, code, &arguments));
        assert_eq!(faults(&schema, &schema, &report, name), Vec::<String>::new());
        let outcomes: Vec<&Value> =
            report["checks"].as_array().unwrap().iter().map(|check| &check["outcome"]).collect();
        match name {
            "passing" => assert!(outcomes.iter().all(|outcome| *outcome == "passed"), "{outcomes:?}"),
            "known" => assert!(outcomes.contains(&&json!("known_failure")), "{outcomes:?}"),
            _ => assert!(outcomes.contains(&&json!("failed")), "{name}: {outcomes:?}"),
        }
        assert_eq!(report["crashes"].as_array().unwrap().is_empty(), name != "crash", "{name}");
    }
}

const CHANGES: &str = "create-volume-repeat-changes-context";

#[test]
fn what_is_no_report_does_not_keep_the_schema() {
    let report = read_json(report(&Folder::new(), "r", 0, &["--filter", "identity/probe/"]));
    let schema = schema();
    let changes: [(&str, Option<Value>); 5] = [
        ("/verdict", Some(json!("splendid"))),
        ("/seed", Some(json!("7"))),
        ("/checks/0/outcome", Some(json!("great"))),
        ("/checks/0/id", None),
        ("/checks/0/surprise", Some(json!(1))),
    ];
    for (place, value) in changes {
        let mut changed = report.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = changed.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => drop(parent.insert(name.to_owned(), value)),
            None => drop(parent.remove(name)),
        }
        assert!(!faults(&schema, &schema, &changed, "").is_empty(), "{place}");
    }
}

#[test]
fn two_runs_are_compared() {
    let folder = Folder::new();
    let [right, wrong] = &right_and_wrong(&folder);

    let said = check(&["compare", right, wrong], 1, &[]);
    let failed = "new failure         controller/create-volume/repeated-reply: the volume_context of the repeated answer differs";
    assert!(said.stdout.contains(failed), "{}", said.stdout);
    assert!(said.stdout.contains("something got worse: "), "{}", said.stdout);

    let said = check(&["compare", wrong, right, "--format", "json"], 0, &[]);
    let printed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(printed["is_worse"], false);
    assert!(printed["fixed"].as_array().unwrap().iter().any(|entry| entry["was"] == "failed"), "{printed}");

    let said = check(&["compare", right, wrong, "--format", "md"], 1, &[]);
    assert!(
        said.stdout.contains("- `controller/create-volume/repeated-reply` the volume"),
        "{}",
        said.stdout
    );
}

/// If several runs are compared, each is compared with the one before it, and the last step decides.
#[test]
fn several_runs_are_a_history() {
    let folder = Folder::new();
    let [right, wrong] = &right_and_wrong(&folder);
    let flag = format!("html={}", folder.path("history.html"));

    let said = check(&["compare", right, wrong, right, "--report", &flag], 0, &[]);
    assert_eq!(said.stdout.matches("something got worse: ").count(), 1, "{}", said.stdout);
    assert_eq!(said.stdout.matches("nothing got worse: ").count(), 1, "{}", said.stdout);
    let page = folder.read("history.html");
    assert!(page.contains("newly failing: 1") && page.contains("fixed: 1"), "{page}");
    let said = check(&["compare", right, right, wrong, "--format", "json"], 1, &[]);
    let printed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(printed.as_array().unwrap().len(), 2, "{printed}");

    check(&["compare", right], 2, &["2 values required"]);
    check(&["compare", right, wrong, "--report", "junit=x"], 2, &["--report", "html=FILE"]);
}

#[test]
fn runs_of_other_suites_are_joined_to_one_statement() {
    let folder = Folder::new();
    let sanity = ["--suite", "sanity", "--filter", "identity/"];
    let sanity = report(&folder, "sanity.json", 0, &sanity);
    let repeated = ["--suite", "idempotency", "--filter", "idempotency/after-an-error"];
    let repeated = report(&folder, "repeated.json", 0, &repeated);
    let joined = folder.path("joined.json");
    let flag = format!("json={joined}");

    check(&["merge", &sanity, &repeated, "--report", &flag], 0, &[]);
    let printed = read_json(&joined);
    assert_eq!(printed["selection"]["suites"], json!(["sanity", "idempotency"]));
    assert_eq!(printed["joined"].as_array().unwrap().len(), 2);
    let area = |name: &str| {
        printed["statement"].as_array().unwrap().iter().find(|line| line["area"] == name).unwrap().clone()
    };
    assert_eq!(
        (&area("identity")["says"], &area("retries")["says"]),
        (&json!("conforms"), &json!("conforms"))
    );
    let probe = printed["rpcs"].as_array().unwrap().iter().find(|calls| calls["rpc"] == "Probe").unwrap();
    assert!(probe["percentile_99_us"].as_u64().unwrap() > 0, "{probe}");
    assert!(faults(&schema(), &schema(), &printed, "").is_empty());

    check(&["merge", &sanity, &sanity], 2, &["both contain the suite sanity"]);
    // `merge` also accepts a single report, from which it writes reports of other kinds.
    check(&["merge", &sanity, "--report", &format!("html={}", folder.path("page.html"))], 0, &[]);
    let page = folder.read("page.html");
    assert!(
        page.contains("csi-sanity run --suite sanity --filter identity/"),
        "the command is that of the run: {page}"
    );
}

#[test]
fn a_file_of_another_version_is_refused() {
    let folder = Folder::new();
    let newer = folder.write("newer.json", r#"{"schema": "csi-sanity/report/v9"}"#);
    let other = folder.write("other.json", "[]");
    check(&["compare", &newer, &other], 2, &["newer.json", "csi-sanity/report/v9", "csi-sanity/report/v3"]);
    check(&["badge", &other], 2, &["other.json", "--report json=FILE"]);
    check(&["badge", "/nowhere/r.json"], 2, &["/nowhere/r.json"]);
    check(&["compare", &newer, &other, "--slower-than", "NaN"], 2, &["--slower-than"]);
}

#[test]
fn a_badge_of_a_part_says_so() {
    let folder = Folder::new();
    let part = report(&folder, "part.json", 0, &["--filter", "identity/probe/"]);
    let svg = check(&["badge", &part], 0, &[]).stdout;
    assert!(svg.starts_with("<svg ") && svg.contains("a part: "), "{svg}");
    let endpoint: Value =
        serde_json::from_str(&check(&["badge", &part, "--format", "json"], 0, &[]).stdout).unwrap();
    assert_eq!((&endpoint["schemaVersion"], &endpoint["label"]), (&json!(1), &json!("CSI 1.12 and 1.13")));
    assert!(endpoint["message"].as_str().unwrap().starts_with("a part: "), "{endpoint}");
}
