//! The tests carry out the action, the component and the Task as GitHub, GitLab and Tekton do: with values for their inputs, in the
//! environment that these systems set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::ci_files::{documents, yaml};
use crate::driver_command::named_driver_command;
use crate::install::{Releases, curl};
use crate::program::Said;

const DEFECT: &str = "get-plugin-info-name-empty";
const FEW: &str = "--filter identity/get-plugin-info/ --seed 1";

/// Returns the values of all inputs: those that a user gives, and otherwise the defaults that the file declares.
fn inputs(
    declared: impl Iterator<Item = (String, Value)>,
    given: &[(&str, &str)],
) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut inputs: BTreeMap<String, String> =
        declared.map(|(name, input)| (name, input.get("default").map(text).unwrap_or_default())).collect();
    for (name, value) in given {
        assert!(inputs.insert((*name).to_owned(), (*value).to_owned()).is_some(), "there is an input {name}");
    }
    inputs
}

/// Replaces every `OPENnameCLOSE` in the text by the value of that input.
fn filled_in(text: &str, open: &str, close: &str, inputs: &BTreeMap<String, String>) -> String {
    let fill = |text: String, (name, value): (&String, &String)| {
        text.replace(&format!("{open}{name}{close}"), value)
    };
    inputs.iter().fold(text.to_owned(), fill)
}

/// Makes a directory whose `bin` has csi-sanity and the gate, as our image has them on the PATH.
fn image() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, bin.join(name)).unwrap();
    link(env!("CARGO_BIN_EXE_csi-sanity").as_ref(), "csi-sanity");
    link(concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/gate").as_ref(), "csi-sanity-gate");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    (directory, path)
}

fn run(command: &mut Command) -> Said {
    command.output().unwrap().into()
}

#[test]
fn the_action_gets_a_release_and_judges_with_it() {
    if !curl() {
        return;
    }
    let program = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_csi-sanity"));
    let releases = Releases::new(&program);
    let (file, driver) = (releases.url(), named_driver_command(DEFECT, "name"));
    let action = yaml("action.yml");
    let declared = action["inputs"].as_object().unwrap().clone().into_iter();
    let inputs = inputs(declared, &[("releases", &file), ("driver-command", &driver), ("flags", FEW)]);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut codes = Vec::new();
    for step in action["runs"]["steps"].as_array().unwrap() {
        let script = path("script");
        fs::write(&script, step["run"].as_str().unwrap()).unwrap();
        let mut command = Command::new(step["shell"].as_str().unwrap());
        command.arg("-e").arg(&script).current_dir(directory.path()).env_clear();
        let added = fs::read_to_string(path("path")).unwrap_or_default();
        command.env("PATH", format!("{}:{}", added.trim(), std::env::var("PATH").unwrap()));
        command
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_PATH", path("path"))
            .env("RUNNER_TEMP", path("temp"));
        command.env("GITHUB_ACTION_PATH", concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        command.env("GITHUB_OUTPUT", path("output")).env("GITHUB_STEP_SUMMARY", path("summary"));
        for (name, value) in step["env"].as_object().unwrap() {
            // Only one of these expressions has a fallback behind `||`, which the test leaves out.
            let value = value.as_str().unwrap().split(" || ").next().unwrap();
            let value = if value.ends_with("}}") { value.to_owned() } else { format!("{value} }}}}") };
            command.env(name, filled_in(&value, "${{ inputs.", " }}", &inputs));
        }
        let said = run(&mut command);
        assert!(said.code == Some(0) || !codes.is_empty(), "{}", said.stderr);
        codes.push(said.code);
    }
    assert_eq!(codes, [Some(0), Some(1)]);
    let output = fs::read_to_string(path("output")).unwrap();
    assert!(output.starts_with("verdict=deviates\nexit-code=1\n"), "{output}");
    assert!(fs::read_to_string(path("summary")).unwrap().contains("does not conform"));
}

#[test]
fn the_component_of_gitlab_judges() {
    let [spec, jobs] = &documents("templates/csi-sanity.yml")[..] else { panic!("two documents") };
    let declared = spec["spec"]["inputs"].as_object().unwrap().clone().into_iter();
    let driver = named_driver_command(DEFECT, "name");
    let inputs = inputs(declared, &[("image", "tools"), ("driver-command", &driver), ("flags", FEW)]);
    let job = &jobs["$[[ inputs.job-name ]]"];
    let (directory, path) = image();
    let mut command = Command::new("sh");
    command.arg("-ec").arg(job["script"][0].as_str().unwrap()).current_dir(directory.path());
    command.env_clear().env("PATH", path).env("GITLAB_CI", "true");
    for (name, value) in job["variables"].as_object().unwrap() {
        let text = value["value"].as_str().or(value.as_str()).unwrap();
        let text = filled_in(text, "$[[ inputs.", " ]]", &inputs);
        assert!(!text.contains('$') || value["expand"] == false, "GitLab would expand {name}: {text}");
        command.env(name, text);
    }
    let said = run(&mut command);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    for (kind, file) in job["artifacts"]["reports"].as_object().unwrap() {
        let file = file.as_str().unwrap().replace("junit_*", "junit_csi-sanity");
        assert!(directory.path().join(&file).is_file(), "{kind}: {file}");
    }
}

#[test]
fn the_task_of_tekton_judges() {
    let task = yaml("ci/tekton/task.yaml");
    let spec = &task["spec"];
    let declared = spec["params"].as_array().unwrap().iter();
    let declared = declared.map(|param| (param["name"].as_str().unwrap().to_owned(), param.clone()));
    let driver = named_driver_command(DEFECT, "name");
    let inputs = inputs(declared, &[("driver-command", &driver), ("flags", FEW)]);
    let (directory, path) = image();
    let verdict = directory.path().join("verdict");
    let step = &spec["steps"][0];
    // The image has the gate on its PATH.
    let gate = directory.path().join("bin").join(step["command"][0].as_str().unwrap());
    let mut command = Command::new(gate);
    command.current_dir(directory.path()).env_clear().env("PATH", path);
    for variable in step["env"].as_array().unwrap() {
        let value =
            variable["value"].as_str().unwrap().replace("$(results.verdict.path)", verdict.to_str().unwrap());
        command.env(variable["name"].as_str().unwrap(), filled_in(&value, "$(params.", ")", &inputs));
    }
    let said = run(&mut command);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert_eq!(fs::read_to_string(verdict).unwrap(), "deviates");
    assert!(directory.path().join("csi-sanity-report/junit_csi-sanity.xml").is_file());
}
