//! Collects the evidence of a failed test: the events of its namespace, and its objects as YAML.

use serde_json::Value;

use super::api::{Server, text};
use super::events;
use super::kind::ApiKind;
use crate::cluster::Done;

/// Limits the lines of events, and those of objects.
const LINES_MAX: usize = 400;

/// The objects that show the history of a volume. No Secret is among them.
const SHOWN: &[ApiKind] = &[ApiKind::Pod, ApiKind::Claim, ApiKind::Snapshot, ApiKind::GroupSnapshot];
/// The objects outside of namespaces.
const SHOWN_OUTSIDE: &[ApiKind] = &[ApiKind::Volume, ApiKind::SnapshotContent, ApiKind::GroupSnapshotContent];

/// Returns the lines. Parts that cannot be read are left out, because the failure itself matters more.
pub(crate) async fn lines(server: &Server, namespace: &str) -> Vec<String> {
    let mut lines = vec![format!("events in namespace {namespace}")];
    let events = events::all(server, namespace).await.unwrap_or_default();
    lines.extend(bounded(events.iter().map(|line| format!("  {}", line.replace('\n', " "))).collect()));
    let mut objects = Vec::new();
    for object in involved(server, namespace).await {
        objects.push("---".to_owned());
        let yaml = serde_saphyr::to_string(&object).unwrap_or_default();
        objects.extend(yaml.lines().map(str::to_owned));
    }
    lines.push("objects".to_owned());
    lines.extend(bounded(objects).into_iter().map(|line| format!("  {line}")));
    lines
}

async fn involved(server: &Server, namespace: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for kind in SHOWN.iter().filter(|kind| server.has(**kind)) {
        let listed = server.list(*kind, Some(namespace), "").await.unwrap_or_default();
        found.extend(listed.into_iter().map(|object| named(*kind, object)));
    }
    for kind in SHOWN_OUTSIDE.iter().filter(|kind| server.has(**kind)) {
        let owner = kind.owner_at().unwrap_or_default();
        let listed: Done<Vec<Value>> = server.list(*kind, None, "").await;
        let ours = listed.unwrap_or_default().into_iter().filter(|one| text(one, owner) == namespace);
        found.extend(ours.map(|object| named(*kind, object)));
    }
    found.into_iter().map(without_bookkeeping).collect()
}

/// Adds the kind to an object, which lists leave out.
fn named(kind: ApiKind, mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("kind".to_owned(), kind.facts().kind.into());
    }
    object
}

/// Removes the parts of an object that only the API server needs.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn bounded(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES_MAX);
    if more > 0 {
        lines.truncate(LINES_MAX);
        lines.push(format!("… and {more} more lines"));
    }
    lines
}
