//! The files that others copy into their CI systems and clusters, and this repository's own workflows: they can be read,
//! and name only what there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Finds the files below these folders whose names have one of these ends.
fn files(folders: &[&str], ends: &[&str]) -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| Path::new(ROOT).join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if ends.iter().any(|end| path.to_string_lossy().ends_with(end)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Reads all documents of a YAML file. Its path is absolute, or relative to the root of the repository.
pub(crate) fn documents(path: impl AsRef<Path>) -> Vec<Value> {
    let path = Path::new(ROOT).join(path);
    let text = fs::read_to_string(&path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn yaml(path: &str) -> Value {
    let mut documents = documents(path);
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

fn all() -> Vec<PathBuf> {
    let mut all = files(&["ci", "templates", ".github"], &[".yml", ".yaml"]);
    all.push(Path::new(ROOT).join("action.yml"));
    all
}

/// Finds the words in a text that start with `begin`.
fn words<'a>(text: &'a str, begin: &str) -> BTreeSet<&'a str> {
    text.match_indices(begin)
        .map(|(start, _)| {
            let rest = &text[start..];
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
        })
        .collect()
}

/// Finds the settings that the comment at the beginning of the gate names.
fn settings(gate: &str) -> BTreeSet<&str> {
    let named = |line: &&str| line.starts_with("#   CSI_SANITY_") && !line.contains("ci/gate");
    gate.lines().filter(named).flat_map(|line| words(line, "CSI_SANITY_")).collect()
}

#[test]
fn every_file_is_yaml() {
    assert!(all().len() > 10, "{:?}", all());
    for path in all() {
        assert!(documents(&path).iter().all(Value::is_object), "{}", path.display());
    }
}

#[test]
fn no_file_sets_what_the_gate_does_not_read() {
    let gate = read("ci/gate");
    let mut known = settings(&gate);
    assert!(known.len() > 10, "{known:?}");
    let code: String = gate.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        words(&code, "CSI_SANITY_"),
        &known | &BTreeSet::from(["CSI_SANITY_VERDICT"]),
        "code and comment"
    );
    // The gate sets the first variable, and ci/install reads the other two.
    known.extend(["CSI_SANITY_VERDICT", "CSI_SANITY_VERSION", "CSI_SANITY_RELEASES"]);
    let mut others = all();
    others.push(Path::new(ROOT).join("ci/jenkins/Jenkinsfile"));
    others.push(Path::new(ROOT).join("docs/ci.md"));
    for path in others {
        let text = fs::read_to_string(&path).unwrap();
        let unknown: Vec<_> =
            words(&text, "CSI_SANITY_").into_iter().filter(|word| !known.contains(word)).collect();
        assert_eq!(unknown, Vec::<&str>::new(), "{}", path.display());
    }
}

#[test]
fn the_action_passes_inputs_and_outputs_on() {
    let action = yaml("action.yml");
    let steps = action["runs"]["steps"].to_string();
    for input in action["inputs"].as_object().unwrap().keys() {
        assert!(steps.contains(&format!("inputs.{input} ")), "{input} is used: {steps}");
    }
    let gate = read("ci/gate");
    for (output, value) in action["outputs"].as_object().unwrap() {
        assert!(
            gate.contains(&format!("output {output} ")) || gate.contains(&format!("output_file {output} ")),
            "{output}"
        );
        assert_eq!(value["value"], format!("${{{{ steps.gate.outputs.{output} }}}}"));
    }
    // Inputs come from users, so that a script must not contain their text.
    for step in action["runs"]["steps"].as_array().unwrap() {
        assert!(!step["run"].as_str().unwrap_or_default().contains("${{"), "{step}");
    }
    assert_eq!(action["inputs"]["version"]["default"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_component_of_gitlab_passes_every_input_on() {
    let [spec, jobs] = &documents("templates/csi-sanity.yml")[..] else { panic!("two documents") };
    let jobs = jobs.to_string();
    for input in spec["spec"]["inputs"].as_object().unwrap().keys() {
        assert!(jobs.contains(&format!("$[[ inputs.{input} ")), "{input} is used: {jobs}");
    }
}

/// Returns the arguments of a Job, and demands that it has no more rights than it needs.
fn arguments(job: &Value) -> Vec<&str> {
    let pod = &job["spec"]["template"]["spec"];
    // A pod has a token only if it has rights in the cluster.
    assert_eq!(pod["automountServiceAccountToken"] == false, pod["serviceAccountName"].is_null());
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["capabilities"]["drop"], serde_json::json!(["ALL"]));
    container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect()
}

#[test]
fn the_job_for_a_cluster_has_real_flags_and_no_rights() {
    let job = yaml("ci/kubernetes/job.yaml");
    let mut arguments = arguments(&job);
    // The socket and the directories that the Job names are not on this machine.
    arguments.retain(|argument| !argument.starts_with("--endpoint") && !argument.contains("-dir="));
    assert!(arguments.len() > 2, "{arguments:?}");
    arguments.push("--dry-run");
    crate::program::check(&arguments, 0, &[]);
}

#[test]
fn shard_jobs_run_all_shards_and_merge_reports() {
    let documents = documents("ci/kubernetes/shards.yaml");
    let [claim, job] = &documents[..] else { panic!("a claim and a Job") };
    let mut flags = arguments(job);
    let of = flags.iter().find_map(|flag| flag.strip_prefix("--shard=index/")).unwrap();
    assert_eq!(job["spec"]["completionMode"], "Indexed");
    assert_eq!(job["spec"]["completions"].to_string(), of);
    assert_eq!(job["spec"]["backoffLimitPerIndex"], 0);
    let report = flags.iter().find_map(|flag| flag.strip_prefix("--report=json=")).unwrap();
    assert_eq!(report, "/reports/shard-$(JOB_COMPLETION_INDEX).json");
    // The driver in the other container has to see the paths.
    let shared = &job["spec"]["template"]["spec"]["initContainers"][0]["volumeMounts"][0]["mountPath"];
    for flag in ["--mount-dir=", "--staging-dir="] {
        let directory = flags.iter().find_map(|given| given.strip_prefix(flag)).unwrap();
        assert!(Path::new(directory).starts_with(shared.as_str().unwrap()), "{directory}");
    }
    flags.retain(|flag| !flag.starts_with("--endpoint") && !flag.starts_with("--report"));
    flags.push("--dry-run");
    for index in 0..of.parse::<u32>().unwrap() {
        let run =
            crate::program::program().env("JOB_COMPLETION_INDEX", index.to_string()).args(&flags).output();
        assert!(run.unwrap().status.success(), "{index}: {flags:?}");
    }

    let merge = yaml("ci/kubernetes/merge.yaml");
    let flags = arguments(&merge);
    assert_eq!(flags[..2], ["merge", "/reports"]);
    // The next merge would read a report of its own as the report of a shard.
    assert!(!flags.iter().any(|flag| flag.contains("=/reports/") && flag.ends_with(".json")), "{flags:?}");
    for job in [job, &merge] {
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let claims =
            |volume: &Value| volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"];
        assert_eq!(volumes.iter().filter(|volume| claims(volume)).count(), 1);
    }
}

#[test]
fn the_load_job_has_a_share_for_each_part() {
    let documents = documents("ci/kubernetes/load.yaml");
    let [claim, job, merge] = &documents[..] else {
        panic!("a claim, a Job for the parts, and one that merges")
    };
    let flags = arguments(job);
    let of = flags.iter().find_map(|flag| flag.strip_prefix("--shard=index/")).unwrap();
    assert_eq!(job["spec"]["completionMode"], "Indexed");
    assert_eq!(job["spec"]["backoffLimitPerIndex"], 0);
    for key in ["completions", "parallelism"] {
        assert_eq!(job["spec"][key].to_string(), of, "the parts wait for each other");
    }
    let value = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name)).unwrap();
    assert_eq!(value("--results=json="), "/results/part-$(JOB_COMPLETION_INDEX).json");
    assert!(Path::new(value("--meeting-dir=")).starts_with("/results"), "all parts see it");
    // All other flags are right if the error is about this file, which does not exist.
    let mut flags: Vec<&str> = flags.iter().copied().filter(|flag| !flag.starts_with("--results")).collect();
    flags.push("--results=json=/nowhere/part.json");
    for index in 0..of.parse::<u32>().unwrap() {
        let run =
            crate::program::program().env("JOB_COMPLETION_INDEX", index.to_string()).args(&flags).output();
        let said = String::from_utf8(run.unwrap().stderr).unwrap();
        assert!(said.contains("/nowhere/part.json"), "{index}: {said}");
    }
    assert_eq!(arguments(merge)[..2], ["merge", "/results"]);
    for job in [job, merge] {
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let claims =
            |volume: &Value| volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"];
        assert_eq!(volumes.iter().filter(|volume| claims(volume)).count(), 1);
    }
}

#[test]
fn the_cluster_job_has_known_flags_and_its_account() {
    let job = yaml("ci/kubernetes/e2e-job.yaml");
    let mut flags = arguments(&job);
    let cluster = crate::cluster::Cluster::start(&[]);
    let definition = format!("{ROOT}/driver-definitions/mock.yaml");
    flags.retain(|flag| !flag.starts_with("--driver-definition"));
    flags.extend(["--dry-run", "--driver-definition", &definition, "--kubeconfig", cluster.kubeconfig()]);
    crate::program::check(&flags, 0, &[]);
    let rights = documents("ci/kubernetes/e2e-rbac.yaml");
    let account = rights.iter().find(|object| object["kind"] == "ServiceAccount").unwrap();
    assert_eq!(job["spec"]["template"]["spec"]["serviceAccountName"], account["metadata"]["name"]);
    assert_eq!(job["metadata"]["namespace"], account["metadata"]["namespace"]);
}

#[test]
fn the_guide_names_every_file_to_copy() {
    let guide = read("docs/ci.md");
    let copied = [
        "action.yml",
        "templates/csi-sanity.yml",
        "ci/gate",
        "ci/install",
        "ci/package",
        "ci/jenkins/Jenkinsfile",
    ];
    let folders = ["ci/github", "ci/gitlab", "ci/prow", "ci/tekton", "ci/kubernetes", "ci/containers"];
    let found = files(&folders, &["yml", "yaml", "Containerfile", ".sh"]);
    let root = Path::new(ROOT);
    let named = found.iter().map(|path| path.strip_prefix(root).unwrap().to_str().unwrap());
    for file in copied.into_iter().chain(named) {
        assert!(guide.contains(&format!("(../{file})")), "docs/ci.md does not name {file}");
    }
    for setting in settings(&read("ci/gate")) {
        assert!(guide.contains(&format!("`{setting}`")), "docs/ci.md does not name {setting}");
    }
}

#[test]
fn workflows_pin_actions_and_have_few_permissions() {
    for path in files(&[".github/workflows"], &[".yml"]) {
        let text = fs::read_to_string(&path).unwrap();
        let workflow = &documents(&path)[0];
        assert_eq!(workflow["permissions"], serde_json::json!({ "contents": "read" }), "{}", path.display());
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            assert!(job["timeout-minutes"].is_u64(), "{}: {name} has a limit", path.display());
        }
        for line in text.lines().filter_map(|line| line.split_once("uses: ")).filter(|line| line.1 != "./") {
            let version = line.1.split_once('@').map(|(_, version)| version).unwrap_or_default();
            assert!(version.starts_with('v') && version[1..].bytes().all(|b| b.is_ascii_digit()), "{line:?}");
        }
    }
}
