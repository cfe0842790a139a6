//! Removes a namespace: everything in it, pods first, and its objects outside of namespaces.

use std::time::Duration;

use csi_harness::prelude::Stop;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api::{Server, text};
use super::kind::ApiKind;
use super::sidecar_nudges::SidecarNudges;
use super::watch::Watches;
use crate::cluster::Done;

/// Limits the removal of each kind of object. The pauses of external-provisioner double up to 5 minutes, so it may be
/// in one when a driver works again.
const STEP_LIMIT: Duration = Duration::from_secs(6 * 60);
/// The interval at which the user learns what the removal waits for.
const REPORTED_AFTER: Duration = Duration::from_secs(10);
/// The time after which a deleted claim is released if nothing needs it any more.
const HELD_FOR: Duration = Duration::from_secs(15);
/// The finalizer of a claim of which a snapshot is being taken. The snapshot controller can forget to remove it.
const SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Limits the named objects among those that remain.
const NAMED_MAX: usize = 5;

/// The kinds outside of namespaces of which a test creates objects; their names begin with that of its namespace.
pub(super) const OUTSIDE: &[ApiKind] = &[
    ApiKind::GroupSnapshotContent,
    ApiKind::SnapshotContent,
    ApiKind::Volume,
    ApiKind::StorageClass,
    ApiKind::SnapshotClass,
    ApiKind::GroupSnapshotClass,
    ApiKind::AttributesClass,
];

/// The removal of one namespace.
pub(crate) struct Removal<'a> {
    pub(crate) server: &'a Server,
    pub(crate) namespace: &'a str,
    pub(crate) watches: &'a Watches,
    pub(crate) sidecar_nudges: &'a SidecarNudges,
    pub(crate) until: Instant,
    /// Gets messages about waits and unexpected steps.
    pub(crate) say: Say<'a>,
}

/// A receiver of messages about a removal.
pub(crate) type Say<'a> = &'a (dyn Fn(&str) + Sync);

impl Removal<'_> {
    /// Removes everything within the time limit, and returns the rest by kind.
    ///
    /// # Errors
    /// Broken if the cluster rejects a request; the rest is still removed.
    pub(crate) async fn run(&self) -> Done<Vec<String>> {
        let mut left = Vec::new();
        let mut refused = None;
        let mut ended = |step: Done<Vec<String>>| match step {
            Ok(rest) => left.extend(rest),
            Err(why) => refused = refused.take().or(Some(why)),
        };
        for kind in [ApiKind::Pod, ApiKind::GroupSnapshot, ApiKind::Snapshot, ApiKind::Claim] {
            ended(self.remove(kind).await);
        }
        ended(self.remove_namespace().await);
        ended(self.remove_outside().await);
        refused.map_or(Ok(left), Err)
    }

    /// Deletes the objects of a kind with their counterparts in the driver, and waits until they are gone.
    async fn remove(&self, kind: ApiKind) -> Done<Vec<String>> {
        if !self.server.has(kind) {
            return Ok(Vec::new());
        }
        let content = kind.content().filter(|content| self.server.has(*content));
        let mut contents = Vec::new();
        if let Some(content) = content {
            contents = self.owned(content).await?;
            for object in &contents {
                self.let_go(content, object).await?;
            }
        }
        let objects = self.server.list(kind, Some(self.namespace), "").await?;
        for object in &objects {
            self.server.delete(kind, Some(self.namespace), name(object), None).await?;
        }
        if let Some(content) = content {
            // Contents whose snapshot is gone, and volumes made by hand, are not deleted by any controller.
            let alone = |object: &&Value| content != ApiKind::Volume || self.is_by_hand(object);
            for object in contents.iter().filter(alone) {
                self.server.delete(content, None, name(object), None).await?;
            }
        }
        match objects.is_empty() && contents.is_empty() {
            true => Ok(Vec::new()),
            false => self.gone(kind, content).await,
        }
    }

    /// Makes the driver's counterpart of a claim or snapshot be deleted with it, even if its class would retain it. A
    /// volume made by hand has another object, so it stays.
    async fn let_go(&self, kind: ApiKind, object: &Value) -> Done {
        let field = if kind == ApiKind::Volume { "persistentVolumeReclaimPolicy" } else { "deletionPolicy" };
        let keeps = text(object, &format!("/spec/{field}")) == "Retain";
        if keeps && !(kind == ApiKind::Volume && self.is_by_hand(object)) {
            let patch = json!({ "spec": { field: "Delete" } });
            self.server.patch(kind, None, name(object), patch).await?;
        }
        Ok(())
    }

    /// Returns whether the test of the namespace created an object itself.
    fn is_by_hand(&self, object: &Value) -> bool {
        name(object).strip_prefix(self.namespace).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Returns the objects outside of namespaces that belong to this one.
    async fn owned(&self, kind: ApiKind) -> Done<Vec<Value>> {
        let owner = kind.owner_at().unwrap_or_default();
        let mut objects = self.server.list(kind, None, "").await?;
        objects.retain(|object| text(object, owner) == self.namespace);
        Ok(objects)
    }

    /// Waits until no object of a kind, or of the kind of its content, is left.
    async fn gone(&self, kind: ApiKind, content: Option<ApiKind>) -> Done<Vec<String>> {
        self.watches.begin(kind);
        content.into_iter().for_each(|content| self.watches.begin(content));
        let began = Instant::now();
        let rest = || async {
            let objects = self.server.list(kind, Some(self.namespace), "").await?;
            if kind == ApiKind::Claim && began.elapsed() >= HELD_FOR {
                self.free_sources(&objects).await?;
            }
            let mut there = described(kind, &objects);
            if let Some(content) = content {
                let contents = self.owned(content).await?;
                for object in &contents {
                    self.sidecar_nudges.of(self.server, content, object).await;
                }
                there.extend(described(content, &contents));
            }
            Ok(there)
        };
        self.until_none(rest).await
    }

    /// Reads again and again until nothing is left or the time is over, and shows the user what it waits for.
    async fn until_none<F>(&self, rest: impl Fn() -> F) -> Done<Vec<String>>
    where
        F: Future<Output = Done<Vec<String>>>,
    {
        let mut reported = Instant::now();
        let until = self.until.min(reported + STEP_LIMIT);
        loop {
            let changed = self.watches.changed();
            let there = rest().await?;
            if there.is_empty() || Instant::now() >= until {
                return Ok(there);
            }
            if reported.elapsed() >= REPORTED_AFTER {
                reported = Instant::now();
                (self.say)(&format!("removing {}: waiting for {}", self.namespace, sentence(&there)));
            }
            let _ = tokio::time::timeout_at(until, changed).await;
        }
    }

    /// Removes the finalizer of claims of which a snapshot was to be taken, if no snapshot of the namespace refers to
    /// them any more: the controller forgot it, and the claims would stay forever.
    async fn free_sources(&self, claims: &[Value]) -> Done {
        let held: Vec<&Value> = claims.iter().filter(|claim| is_held_as_source(claim)).collect();
        if held.is_empty() || !self.server.has(ApiKind::Snapshot) {
            return Ok(());
        }
        let snapshots = self.server.list(ApiKind::Snapshot, Some(self.namespace), "").await?;
        let source = "/spec/source/persistentVolumeClaimName";
        for claim in held {
            if snapshots.iter().any(|snapshot| text(snapshot, source) == name(claim)) {
                continue;
            }
            let mut finalizers = super::api::strings(claim, "/metadata/finalizers");
            finalizers.retain(|one| one != SOURCE);
            // The patch only applies if nothing else changed meanwhile.
            let version = text(claim, "/metadata/resourceVersion");
            let patch = json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
            if self.server.patch(ApiKind::Claim, Some(self.namespace), name(claim), patch).await.is_err() {
                // It is read again, and reported with its finalizers if it stays.
                continue;
            }
            (self.say)(&format!(
                "removed the finalizer {SOURCE} of PersistentVolumeClaim {} in {}: no VolumeSnapshot refers to it, and the \
                 snapshot controller has left it there",
                name(claim),
                self.namespace
            ));
        }
        Ok(())
    }

    async fn remove_namespace(&self) -> Done<Vec<String>> {
        self.server.delete(ApiKind::Namespace, None, self.namespace, None).await?;
        // Namespaces are not watched, so only reading shows that one is gone.
        let rest = || async {
            let there = self.server.get(ApiKind::Namespace, None, self.namespace).await?;
            Ok(described(ApiKind::Namespace, there.as_slice()))
        };
        self.until_none(rest).await
    }

    /// Deletes the objects outside of namespaces that belong to this one.
    async fn remove_outside(&self) -> Done<Vec<String>> {
        for kind in OUTSIDE.iter().filter(|kind| self.server.has(**kind)) {
            let made = self.server.list(*kind, None, &super::marks::selector()).await?;
            for object in made.iter().filter(|object| self.is_by_hand(object)) {
                self.server.delete(*kind, None, name(object), None).await?;
            }
        }
        Ok(Vec::new())
    }
}

/// Returns whether a deleted claim has to stay for a snapshot that is being taken of it.
fn is_held_as_source(claim: &Value) -> bool {
    let is_deleted = !text(claim, "/metadata/deletionTimestamp").is_empty();
    is_deleted && super::api::strings(claim, "/metadata/finalizers").iter().any(|one| one == SOURCE)
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// Describes the remaining objects with the finalizers that hold them.
fn described(kind: ApiKind, objects: &[Value]) -> Vec<String> {
    let one = |object: &Value| {
        let holders = super::api::strings(object, "/metadata/finalizers").join(", ");
        let held = if holders.is_empty() { String::new() } else { format!(" (held by {holders})") };
        let phase = super::api::text_at(object, "/status/phase").map(|phase| format!(", {phase}"));
        format!("{} {}{}{held}", kind.facts().kind, name(object), phase.unwrap_or_default())
    };
    objects.iter().map(one).collect()
}

/// Describes the rest in a sentence.
pub(crate) fn sentence(left: &[String]) -> String {
    let mut text = left.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    if let Some(more @ 1..) = left.len().checked_sub(NAMED_MAX) {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

/// Returns the text of the reason why a removal did not finish.
pub fn reason(why: Stop) -> String {
    match why {
        Stop::Violation(violation) | Stop::MetAgain(violation) => {
            format!("{}: {}", violation.message, violation.actual)
        }
        Stop::Skip(why) | Stop::Declined(_, why) | Stop::Broken(why) | Stop::Unanswered(why) => why,
    }
}
