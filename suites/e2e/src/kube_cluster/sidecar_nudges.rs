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

/// The time after which the sidecar of a content in deletion is reminded, and again.
const AFTER: Duration = Duration::from_secs(30);
/// The annotation that is changed.
const REMINDED: &str = "csi-sanity/reminded-times";
/// The marks of the controller, without which the sidecar keeps the counterpart of a content.
const SNAPSHOT_BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
const GROUP_BEING_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";

/// The contents in deletion, each with the time when this was noticed or its sidecar was last reminded, and the
/// number of reminders.
#[derive(Debug, Default)]
pub(crate) struct SidecarNudges(Mutex<BTreeMap<Object, (Instant, u32)>>);

impl SidecarNudges {
    /// Records an object, and reminds the sidecar of a content that has been in deletion for a while.
    pub(crate) async fn of(&self, server: &Server, kind: ApiKind, object: &Value) {
        let (owner, reference, mark) = match kind {
            ApiKind::SnapshotContent => {
                (ApiKind::Snapshot, "/spec/volumeSnapshotRef", SNAPSHOT_BEING_DELETED)
            }
            ApiKind::GroupSnapshotContent => {
                (ApiKind::GroupSnapshot, "/spec/volumeGroupSnapshotRef", GROUP_BEING_DELETED)
            }
            _ => return,
        };
        if text(object, "/metadata/deletionTimestamp").is_empty() {
            return;
        }
        let name = text(object, "/metadata/name");
        let Some(times) = self.due(kind, name) else { return };
        let mut annotations = json!({ REMINDED: times.to_string() });
        if is_alone(server, owner, object.pointer(reference)).await {
            annotations[mark] = "yes".into();
        }
        // The waiting test reports if it stays.
        let _ = server.patch(kind, None, name, json!({ "metadata": { "annotations": annotations } })).await;
    }

    /// Returns the number of reminders including this one, if one is due.
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

/// Returns whether the snapshot that a content refers to is known to be gone.
async fn is_alone(server: &Server, owner: ApiKind, reference: Option<&Value>) -> bool {
    let Some(reference) = reference else { return false };
    let (namespace, name) = (text(reference, "/namespace"), text(reference, "/name"));
    matches!(server.get(owner, Some(namespace), name).await, Ok(None))
}
