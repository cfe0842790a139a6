//! Removes the objects of runs that were killed before they could do so, which are found by their labels.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::api::{Server, text};
use super::close::{OUTSIDE, Removal, Say, reason};
use super::kind::ApiKind;
use super::sidecar_nudges::SidecarNudges;
use super::watch::Watches;
use super::{marks, shutdown};
use crate::cluster::Done;

/// Limits the removal of one namespace.
const NAMESPACE_LIMIT: Duration = Duration::from_secs(10 * 60);

/// The result of a cleanup, with a line for each object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Removed objects.
    pub removed: Vec<String>,
    /// Objects of runs that may still be active: their time is not over, and they are not a process of this machine
    /// that has ended.
    pub kept: Vec<String>,
    /// Objects that could not be removed, with the reasons.
    pub left: Vec<String>,
}

/// Removes the objects of finished runs. `say` gets a message about each.
///
/// # Errors
/// Broken if the cluster does not list its objects.
pub async fn clean_up(server: &Server, say: impl Fn(&str) + Sync) -> Done<Cleanup> {
    let mut done = Cleanup::default();
    let selector = marks::selector();
    for namespace in server.list(ApiKind::Namespace, None, &selector).await? {
        let described = described(ApiKind::Namespace, &namespace);
        if marks::may_be_wanted(&namespace) {
            done.kept.push(described);
            continue;
        }
        say(&format!("removing {described} and what is in it"));
        match remove(server, text(&namespace, "/metadata/name"), &say).await {
            None => done.removed.push(described),
            Some(why) => done.left.push(format!("{described}: {why}")),
        }
    }
    for kind in OUTSIDE.iter().filter(|kind| server.has(**kind)) {
        for object in server.list(*kind, None, &selector).await? {
            let described = described(*kind, &object);
            if marks::may_be_wanted(&object) {
                done.kept.push(described);
                continue;
            }
            say(&format!("removing {described}"));
            match server.delete(*kind, None, text(&object, "/metadata/name"), None).await {
                Ok(()) => done.removed.push(described),
                Err(why) => done.left.push(format!("{described}: {}", reason(why))),
            }
        }
    }
    // A taint does not name its run. Pods of a node that is down are only deleted as long as it is there.
    if done.kept.is_empty() {
        for node in shutdown::put_in_service(server).await? {
            say(&format!("node {node} was shut down by a test: start it if it is still down"));
            done.removed.push(format!("the taint of Node {node}, which is out of service"));
        }
    }
    Ok(done)
}

/// Removes one namespace, and describes what remains.
async fn remove(server: &Server, namespace: &str, say: Say<'_>) -> Option<String> {
    let watches = Watches::new(server.clone(), namespace);
    let (until, sidecar_nudges) = (Instant::now() + NAMESPACE_LIMIT, SidecarNudges::default());
    let removal =
        Removal { server, namespace, watches: &watches, sidecar_nudges: &sidecar_nudges, until, say };
    match removal.run().await {
        Ok(left) if left.is_empty() => None,
        Ok(left) => Some(super::close::sentence(&left)),
        Err(why) => Some(reason(why)),
    }
}

fn described(kind: ApiKind, object: &Value) -> String {
    format!("{} {} of run {}", kind.facts().kind, text(object, "/metadata/name"), marks::run_of(object))
}
