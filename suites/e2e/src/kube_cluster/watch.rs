//! Waits for changes with a watch for each used kind, which starts with the first read and ends with the cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use csi_proto::lock::Mutex;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::api::{Server, text};
use super::kind::ApiKind;

/// Limits one wait for a change.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
/// The pause before a failed watch is restarted.
const PAUSE: Duration = Duration::from_secs(2);
/// The duration of one watch, which is below the limits of proxies.
const WATCH_SECONDS: u32 = 240;
/// With this version the server first sends the existing objects, and then every change.
const FROM_NOW: &str = "0";

/// The watches of one namespace.
#[derive(Debug)]
pub(crate) struct Watches {
    server: Server,
    namespace: String,
    changes: watch::Sender<u64>,
    begun: Mutex<(BTreeSet<ApiKind>, JoinSet<()>)>,
}

impl Watches {
    pub(crate) fn new(server: Server, namespace: &str) -> Watches {
        let (changes, begun) = Default::default();
        Watches { server, namespace: namespace.to_owned(), changes, begun }
    }

    /// Watches a kind from now on.
    pub(crate) fn begin(&self, kind: ApiKind) {
        let mut begun = self.begun.lock();
        let (kinds, tasks) = &mut *begun;
        if kinds.contains(&kind) {
            return;
        }
        // Capacities are published in the namespace of the provisioner.
        let namespace = Some(self.namespace.as_str()).filter(|_| kind != ApiKind::Capacity);
        if let Ok(api) = self.server.api(kind, namespace) {
            kinds.insert(kind);
            tasks.spawn(follow(api, kind, self.namespace.clone(), self.changes.clone()));
        }
    }

    /// Ends when something may have changed since this call, or after a few seconds of waiting. Every waiting task
    /// sees every change.
    pub(crate) fn changed(&self) -> BoxFuture<'static, ()> {
        let mut changes = self.changes.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
        })
    }
}

/// Reports every change of a kind. If watching is impossible, waiting tasks read again after a while.
async fn follow(api: Api<DynamicObject>, kind: ApiKind, namespace: String, changes: watch::Sender<u64>) {
    let params = WatchParams::default().timeout(WATCH_SECONDS);
    let notify = || changes.send_modify(|version| *version = version.wrapping_add(1));
    loop {
        if let Ok(events) = api.watch(&params, FROM_NOW).await {
            // Earlier deletions are in no event.
            notify();
            let mut events = std::pin::pin!(events);
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Added(object)
                    | WatchEvent::Modified(object)
                    | WatchEvent::Deleted(object)
                        if concerns(kind, &object, &namespace) =>
                    {
                        notify();
                    }
                    WatchEvent::Error(_) => break,
                    _ => {}
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns whether an object outside of namespaces belongs to this namespace.
fn concerns(kind: ApiKind, object: &DynamicObject, namespace: &str) -> bool {
    kind.owner_at().is_none_or(|owner| text(&object.data, owner) == namespace)
}
