//! Checks the house rules that no compiler checks: the permitted dependencies between our crates and between the
//! folders of the harness, the manifests, and forbidden text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::root;

const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Our crates with the crates of ours that each may depend on outside of its tests. ARCHITECTURE.md gives the
/// reasons.
const EDGES: &[(&str, &[&str])] = &[
    ("csi-proto", &[]),
    ("csi-driver-definitions", &[]),
    ("csi-harness", &["csi-proto", "csi-driver-definitions"]),
    ("csi-go-flags", &["csi-proto", "csi-driver-definitions", "csi-harness"]),
    ("csi-ops", &["csi-harness", "csi-proto"]),
    ("csi-model", &["csi-harness", "csi-proto"]),
    ("csi-nemesis", &["csi-harness", "csi-ops", "csi-proto"]),
    ("csi-suite-sanity", &["csi-harness", "csi-ops", "csi-proto"]),
    ("csi-suite-stateful", &["csi-harness", "csi-model", "csi-nemesis", "csi-ops", "csi-proto"]),
    ("csi-suite-hostile", &["csi-harness", "csi-proto"]),
    ("csi-suite-faults", &["csi-harness", "csi-nemesis", "csi-ops", "csi-proto"]),
    ("csi-suite-data", &["csi-harness", "csi-model", "csi-ops", "csi-proto", "csi-suite-stateful"]),
    ("csi-workload", &["csi-harness", "csi-proto"]),
    (
        "csi-suite-in-use",
        &["csi-harness", "csi-nemesis", "csi-ops", "csi-proto", "csi-suite-stateful", "csi-workload"],
    ),
    (
        "csi-suite-upgrade",
        &[
            "csi-harness",
            "csi-nemesis",
            "csi-ops",
            "csi-proto",
            "csi-suite-in-use",
            "csi-suite-stateful",
            "csi-workload",
        ],
    ),
    ("csi-suite-e2e", &["csi-harness", "csi-nemesis", "csi-proto", "csi-driver-definitions", "csi-workload"]),
    ("csi-suite-load", &["csi-driver-definitions", "csi-harness", "csi-ops", "csi-proto"]),
    ("csi-report", &["csi-harness"]),
    ("csi-mock-driver", &["csi-proto"]),
    ("csi-hostpath-driver", &["csi-proto"]),
    ("csi-faulty-driver", &["csi-proto", "csi-hostpath-driver"]),
    (
        "csi-sanity",
        &[
            "csi-proto",
            "csi-driver-definitions",
            "csi-go-flags",
            "csi-harness",
            "csi-ops",
            "csi-suite-sanity",
            "csi-suite-stateful",
            "csi-suite-data",
            "csi-suite-e2e",
            "csi-suite-faults",
            "csi-suite-hostile",
            "csi-suite-in-use",
            "csi-suite-load",
            "csi-suite-upgrade",
            "csi-workload",
            "csi-report",
            "csi-mock-driver",
            "csi-hostpath-driver",
        ],
    ),
    (
        "csi-test-support",
        &[
            "csi-proto",
            "csi-harness",
            "csi-model",
            "csi-mock-driver",
            "csi-hostpath-driver",
            "csi-faulty-driver",
        ],
    ),
    (
        "csi-fuzz",
        &[
            "csi-proto",
            "csi-driver-definitions",
            "csi-go-flags",
            "csi-harness",
            "csi-model",
            "csi-suite-stateful",
            "csi-suite-hostile",
            "csi-mock-driver",
            "csi-hostpath-driver",
            "csi-test-support",
        ],
    ),
    ("xtask", &[]),
];

/// The parent of the folders in [`FOLDERS`].
const HARNESS: &str = "harness/src";

/// The folders of the harness, each with the folders that it may use. Those come earlier in the list, so that no two
/// folders use each other. A folder consists of its `.rs` file and all files below it.
const FOLDERS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("protocol", &["text"]),
    ("config", &["text", "protocol"]),
    ("spec", &["protocol", "config"]),
    ("driver", &["text", "config"]),
    ("resources", &["text", "config", "spec", "driver"]),
    ("client", &["text", "protocol", "config", "spec", "driver", "resources"]),
    ("lifecycle", &["text", "protocol", "config", "spec", "driver", "resources", "client"]),
    ("checks", &["text", "protocol", "config", "spec", "lifecycle"]),
    ("results", &["text", "protocol", "config", "spec", "resources", "client", "checks"]),
    (
        "verdict",
        &["text", "protocol", "config", "spec", "resources", "client", "lifecycle", "checks", "results"],
    ),
    (
        "run",
        &[
            "text",
            "protocol",
            "config",
            "spec",
            "driver",
            "resources",
            "client",
            "lifecycle",
            "checks",
            "results",
            "verdict",
        ],
    ),
];

/// Forbidden words and paths, with the reason. They are written in pieces, so that this file passes too.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or describe it in an issue"),
    (concat!("FIX", "ME"), "fix it, or describe it in an issue"),
    (concat!("#[ign", "ore"), "a test runs, or skips at run time and prints the reason"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("#[pa", "th"), "what several crates' tests share is in test-support, all else in its crate"),
];

/// The extensions of the files that are searched.
const TEXTS: &[&str] = &["html", "json", "md", "proto", "rs", "sh", "toml", "yaml", "yml"];

/// Folders without files of ours.
const SKIPPED: &[&str] = &[".git", "target"];

/// Fails with a list of all broken rules.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    for manifest in MANIFESTS {
        for package in packages(manifest)? {
            faults.extend(manifest_faults(&package, &fs::read_to_string(&package.manifest)?));
        }
    }
    let harness = root().join(HARNESS);
    for path in texts(&root())? {
        let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        faults.extend(text_faults(&path, &text));
        if let Ok(inside) = path.strip_prefix(&harness) {
            faults.extend(folder_faults(inside, &text));
        }
    }
    ensure!(faults.is_empty(), "{} rules are broken:\n{}", faults.len(), faults.join("\n"));
    Ok(())
}

/// A member of a workspace, as `cargo metadata` describes it.
struct Package {
    name: String,
    manifest: PathBuf,
    description: Option<String>,
    /// The names of its dependencies, except those of its tests.
    dependencies: Vec<String>,
}

fn packages(manifest: &str) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1", "--manifest-path", manifest])
        .current_dir(root())
        .output()
        .context("failed to run cargo metadata")?;
    if !output.status.success() {
        bail!("failed to run cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    packages.iter().map(|package| self::package(package).context("cargo metadata has another form")).collect()
}

fn package(package: &Value) -> Option<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let dependencies = package["dependencies"].as_array()?.iter();
    Some(Package {
        name: text(&package["name"])?,
        manifest: text(&package["manifest_path"])?.into(),
        description: text(&package["description"]),
        dependencies: dependencies
            .filter(|dependency| dependency["kind"] != "dev")
            .filter_map(|dependency| text(&dependency["name"]))
            .collect(),
    })
}

fn manifest_faults(package: &Package, manifest: &str) -> Vec<String> {
    let Package { name, dependencies, description, .. } = package;
    let mut faults = Vec::new();
    match EDGES.iter().find(|(member, _)| member == name) {
        None => faults.push(format!("{name} is missing from the permitted edges in xtask/src/tidy.rs")),
        Some((_, permitted)) => {
            let ours = |dependency: &&String| EDGES.iter().any(|(member, _)| member == dependency);
            for dependency in dependencies.iter().filter(ours) {
                if !permitted.contains(&dependency.as_str()) {
                    faults.push(format!("{name} may not depend on {dependency}"));
                }
            }
        }
    }
    if description.is_none() {
        faults.push(format!("{name} has no description"));
    }
    if !manifest.contains("[lints]\nworkspace = true") {
        faults.push(format!("{name} does not take the lints of the workspace: [lints] workspace = true"));
    }
    faults
}

/// Returns our text files below a folder.
fn texts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            found.extend(texts(&path)?);
        } else if kind.is_file() && TEXTS.iter().any(|text| path.extension().is_some_and(|end| end == *text))
        {
            found.push(path);
        }
    }
    Ok(found)
}

fn text_faults(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (banned, why) in BANNED {
            if contains_word(line, banned) {
                faults.push(format!("{}:{number}: {banned:?}: {why}", path.display()));
            }
        }
    }
    faults
}

/// Returns the uses of forbidden folders in a file of the harness; the path is relative to [`HARNESS`].
fn folder_faults(path: &Path, text: &str) -> Vec<String> {
    let modules: Vec<_> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let [folder, ..] = &modules[..] else { return Vec::new() };
    let place = |number: usize| format!("{HARNESS}/{}:{number}", path.display());
    if modules == ["lib"] {
        return Vec::new();
    }
    let Some((_, permitted)) = FOLDERS.iter().find(|(known, _)| known == folder) else {
        return vec![format!(
            "{}: {folder} is missing from the folders of the harness in xtask/src/tidy.rs",
            place(1)
        )];
    };
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.contains("crate::{") {
            faults.push(format!(
                "{}: a use for each folder of the crate, so that its name is seen",
                place(number)
            ));
        }
        for used in folders_in(line, modules.len()) {
            if used != folder && !permitted.contains(&used) {
                faults.push(format!("{}: {folder} may not use {used}", place(number)));
            }
        }
    }
    faults
}

/// Returns the folders of the harness that a line names, in a module at this depth below the root of the crate.
fn folders_in(line: &str, depth: usize) -> Vec<&'static str> {
    let code = line.split_once("//").map_or(line, |(code, _)| code);
    let starts = ["crate::".to_owned(), "super::".repeat(depth)];
    let after = starts
        .iter()
        .flat_map(|start| code.match_indices(start.as_str()).map(|(at, start)| &code[at + start.len()..]));
    let names =
        after.map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default());
    names
        .filter_map(|name| FOLDERS.iter().map(|(folder, _)| *folder).find(|folder| *folder == name))
        .collect()
}

/// Returns whether the line contains the text, not as part of a longer word.
fn contains_word(line: &str, text: &str) -> bool {
    let in_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    line.match_indices(text).any(|(start, _)| {
        let end = start + text.len();
        let glued = |inner: &str, outer: Option<&u8>| {
            inner.bytes().all(|byte| byte.is_ascii_alphanumeric()) && in_word(outer)
        };
        let before = start.checked_sub(1).and_then(|before| line.as_bytes().get(before));
        !glued(&text[..1], before) && !glued(&text[text.len() - 1..], line.as_bytes().get(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        check().unwrap();
    }

    fn package(name: &str, dependencies: &[&str], description: Option<&str>) -> Package {
        Package {
            name: name.into(),
            manifest: PathBuf::new(),
            description: description.map(Into::into),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn forbidden_edges_and_poor_manifests_are_found() {
        let manifest = "[lints]\nworkspace = true\n";
        let good = package("csi-harness", &["csi-proto", "tokio"], Some("runs checks"));
        assert_eq!(manifest_faults(&good, manifest), Vec::<String>::new());

        let bad = package("csi-harness", &["csi-mock-driver"], None);
        assert_eq!(
            manifest_faults(&bad, ""),
            [
                "csi-harness may not depend on csi-mock-driver",
                "csi-harness has no description",
                "csi-harness does not take the lints of the workspace: [lints] workspace = true",
            ]
        );

        let stranger = package("csi-stranger", &[], Some("new"));
        assert!(manifest_faults(&stranger, manifest)[0].contains("missing from the permitted edges"));
    }

    #[test]
    fn edges_name_other_known_crates() {
        for (member, permitted) in EDGES {
            for dependency in *permitted {
                assert_ne!(member, dependency);
                assert!(EDGES.iter().any(|(known, _)| known == dependency), "{dependency}");
            }
        }
    }

    #[test]
    fn folders_of_the_harness_use_only_those_above_them() {
        for (at, (folder, permitted)) in FOLDERS.iter().enumerate() {
            for used in *permitted {
                assert!(
                    FOLDERS[..at].iter().any(|(above, _)| above == used),
                    "{folder} uses {used}, which is not above it"
                );
            }
        }
    }

    #[test]
    fn forbidden_edge_between_folders_is_found() {
        let faults = |path: &str, text: &str| folder_faults(Path::new(path), text);
        let fine = "use crate::config::Config;\nuse super::answer;\n// crate::run\nuse crate::client::reply::Reply;\n";
        assert_eq!(faults("client/call.rs", fine), Vec::<String>::new());
        assert_eq!(
            faults("client/call.rs", "use tonic::Code;\nuse crate::run::runner::Runner;\n"),
            ["harness/src/client/call.rs:2: client may not use run"]
        );
        assert_eq!(
            faults("client/target/interview.rs", "fn f(cx: &super::super::super::lifecycle::cx::Cx) {}"),
            ["harness/src/client/target/interview.rs:1: client may not use lifecycle"]
        );
        assert_eq!(
            faults("spec.rs", "use super::checks::check::Check;"),
            ["harness/src/spec.rs:1: spec may not use checks"]
        );
        assert!(faults("spec/need.rs", "use crate::{config, run};")[0].contains("a use for each folder"));
        assert!(faults("cellar/wine.rs", "")[0].contains("cellar is missing from the folders"));
    }

    #[test]
    fn banned_text_is_found_with_its_place() {
        for (banned, _) in BANNED {
            let faults = text_faults(Path::new("a.rs"), &format!("fine\nnot {banned}: fine"));
            assert_eq!(faults.len(), 1, "{banned}");
            assert!(faults[0].starts_with("a.rs:2: "), "{}", faults[0]);
        }
        for fine in [concat!("AUTO", "DOC"), concat!("MASTO", "DON"), "network/path"] {
            assert!(text_faults(Path::new("a.rs"), fine).is_empty(), "{fine}");
        }
    }
}
