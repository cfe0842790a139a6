//! Implements the part of kustomize that the manifests use: resources, components, and JSON patches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::yaml::{documents, parse, text_at};

/// This is a `kustomization.yaml` of either kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    kind: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    components: Vec<String>,
    #[serde(default)]
    patches: Vec<Patch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    target: Target,
    patch: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "op", rename_all = "snake_case")]
enum Step {
    Test { path: String, value: Value },
    Add { path: String, value: Value },
}

/// Returns what `kubectl kustomize` prints for a folder.
pub(super) fn build(folder: &Path) -> Vec<Value> {
    let kustomization = read(folder);
    assert_eq!(kustomization.kind, "Kustomization", "{}", folder.display());
    let mut objects = Vec::new();
    apply(folder, &kustomization, &mut objects);
    objects
}

/// Returns all files from which a folder is built.
pub(super) fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let kustomization = read(folder);
    let mut found = BTreeSet::from([folder.join("kustomization.yaml").canonicalize().unwrap()]);
    for part in kustomization.resources.iter().chain(&kustomization.components) {
        let path = folder.join(part).canonicalize().unwrap();
        if path.is_dir() { found.extend(files(&path)) } else { found.extend([path]) }
    }
    found
}

fn read(folder: &Path) -> Kustomization {
    let file = folder.join("kustomization.yaml");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn apply(folder: &Path, kustomization: &Kustomization, objects: &mut Vec<Value>) {
    for resource in &kustomization.resources {
        let path = folder.join(resource);
        objects.extend(if path.is_dir() { build(&path) } else { documents(&path) });
    }
    for component in &kustomization.components {
        let path = folder.join(component);
        let component = read(&path);
        assert_eq!(component.kind, "Component", "{}", path.display());
        apply(&path, &component, objects);
    }
    for patch in &kustomization.patches {
        let Target { kind, name } = &patch.target;
        let is_target = |object: &&mut Value| {
            text_at(object, "/kind") == Some(kind) && text_at(object, "/metadata/name") == Some(name)
        };
        let target = objects.iter_mut().find(is_target);
        let target = target.unwrap_or_else(|| panic!("{}: there is no {kind} {name}", folder.display()));
        let steps: Vec<Step> =
            parse(&patch.patch).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for step in steps {
            step.apply(target);
        }
    }
}

impl Step {
    fn apply(self, object: &mut Value) {
        match self {
            Step::Test { path, value } => assert_eq!(object.pointer(&path), Some(&value), "at {path}"),
            Step::Add { path, value } => {
                let (list, end) = path.rsplit_once('/').unwrap_or_else(|| panic!("{path} is not a pointer"));
                assert_eq!(end, "-", "{path}: patches only append to lists");
                let list = object.pointer_mut(list).and_then(Value::as_array_mut);
                list.unwrap_or_else(|| panic!("{path} is not in a list")).push(value);
            }
        }
    }
}
