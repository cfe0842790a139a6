//! Contents of snapshots that should have gone. external-snapshotter can miss that one is to go, and looks again a quarter of an hour
//! later; and where its controller never saw both a snapshot and its end, the sidecar waits for a mark for ever. The driver has no part
//! in that, so the content is changed a little, and the sidecar looks at once.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::lock::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Object;
use super::api::{Server, text};
use super::kind::ApiKind;

/// How long a content is on its way before its sidecar is reminded, and again.
const AFTER: Duration = Duration::from_secs(30);
/// The annotation that is changed.
const REMINDED: &str = "csi-sanity/reminded-times";
/// The mark of the controller, without which the sidecar keeps what a content stands for.
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// Contents that are on their way, each with when it was seen so or its sidecar was reminded last, and how often that was.
#[derive(Debug, Default)]
pub(crate) struct SidecarNudges(Mutex<BTreeMap<Object, (Instant, u32)>>);

impl SidecarNudges {
    /// Takes note of an object, and reminds the sidecar of a content that has been on its way for a while.
    pub(crate) async fn of(&self, server: &Server, kind: ApiKind, object: &Value) {
        let is_content = matches!(kind, ApiKind::SnapshotContent | ApiKind::GroupSnapshotContent);
        if !is_content || text(object, "/metadata/deletionTimestamp").is_empty() {
            return;
        }
        let name = text(object, "/metadata/name");
        let Some(times) = self.due(kind, name) else { return };
        let mut annotations = json!({ REMINDED: times.to_string() });
        if kind == ApiKind::SnapshotContent && is_alone(server, object).await {
            annotations[BEING_DELETED] = "yes".into();
        }
        // Whoever waits for it says that it stays.
        let _ = server.patch(kind, None, name, json!({ "metadata": { "annotations": annotations } })).await;
    }

    /// How often the sidecar has been reminded with this time, if it is time.
    fn due(&self, kind: ApiKind, name: &str) -> Option<u32> {
        let mut seen = self.0.lock();
        let (last, times) = seen.entry((kind, name.to_owned())).or_insert_with(|| (Instant::now(), 0));
        if last.elapsed() < AFTER {
            return None;
        }
        (*last, *times) = (Instant::now(), times.saturating_add(1));
        Some(*times)
    }
}

/// Whether the snapshot of a content is known to be gone.
async fn is_alone(server: &Server, content: &Value) -> bool {
    let (namespace, name) =
        (text(content, "/spec/volumeSnapshotRef/namespace"), text(content, "/spec/volumeSnapshotRef/name"));
    matches!(server.get(ApiKind::Snapshot, Some(namespace), name).await, Ok(None))
}
