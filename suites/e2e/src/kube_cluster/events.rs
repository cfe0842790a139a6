//! Reads the events of an object, in the order of their last occurrence.

use kube::api::ListParams;
use serde_json::Value;

use super::api::{Server, text};
use super::kind::ApiKind;
use crate::cluster::{Done, Event};

/// The namespace of events about objects outside of namespaces.
const OF_CLUSTER: &str = "default";

/// Returns the events of an object. Events of objects outside of namespaces are in another namespace.
pub(crate) async fn of(server: &Server, namespace: Option<&str>, object: &str) -> Done<Vec<Event>> {
    let params = ListParams::default().fields(&format!("involvedObject.name={object}"));
    let mut found = server.list_by(ApiKind::Event, Some(namespace.unwrap_or(OF_CLUSTER)), &params).await?;
    // An answer may contain other events.
    found.retain(|event| text(event, "/involvedObject/name") == object);
    Ok(in_order(found).iter().map(read).collect())
}

/// Returns all events of a namespace, one line each.
pub(crate) async fn all(server: &Server, namespace: &str) -> Done<Vec<String>> {
    let line = |event: &Value| {
        let Event { reason, message, .. } = read(event);
        let object =
            format!("{} {}", text(event, "/involvedObject/kind"), text(event, "/involvedObject/name"));
        format!("{} {object}: {reason}: {message}", latest(event))
    };
    let found = server.list(ApiKind::Event, Some(namespace), "").await?;
    Ok(in_order(found).iter().map(line).collect())
}

fn in_order(mut events: Vec<Value>) -> Vec<Value> {
    events.sort_by_cached_key(|event| latest(event).to_owned());
    events
}

/// Returns the time of its last occurrence. Components set different fields; as text they sort by time.
fn latest(event: &Value) -> &str {
    let fields = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    fields.iter().map(|field| text(event, field)).find(|time| !time.is_empty()).unwrap_or_default()
}

fn read(event: &Value) -> Event {
    Event {
        reason: text(event, "/reason").to_owned(),
        message: text(event, "/message").to_owned(),
        is_warning: text(event, "/type") == "Warning",
    }
}
