//! The context of a check, with which its body works.

use std::any::Any;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use csi_proto::{UnaryCall, v1};
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use crate::client::answer::{Answer, Exists};
use crate::client::record::CallLog;
use crate::client::reply::Reply;
use crate::client::retry::PendingCall;
use crate::client::session::{CallObserver, Session};
use crate::client::spent::Part;
use crate::client::target::Target;
use crate::config::{AccessType, Pairs, Secret, StaticVolume};
use crate::lifecycle::ledger::{Ledger, Scope, WHOLE};
use crate::resources::cleanup::LeftBehind;
use crate::resources::cleanup::{Cleanup, Cleanups};
use crate::resources::mounts;
use crate::resources::names::CheckNames;
use crate::resources::resource::Resource;
use crate::resources::volumes::Lease;
use crate::spec::faults::FaultKey;
use crate::spec::requirements::req;
use crate::spec::verdict::{ReproductionStep, Stop, Violation};
use crate::text::encoding::fnv1a;
use crate::text::shorten::named;

/// No check of a plan has this number.
const NUMBER_OF_NO_CHECK: usize = usize::MAX;

/// The context of a check's body: a [`Session`] to send calls with, names and paths of its own, and a ledger that
/// undoes everything that is made through it.
///
/// Clones share all of that. [`scope`](Cx::scope), [`at_node`](Cx::at_node) and [`worker`](Cx::worker) make clones that
/// differ in one respect.
#[derive(Clone, Debug)]
pub struct Cx {
    session: Session,
    access: AccessType,
    scope: Scope,
    shared: Arc<Shared>,
}

/// State that all contexts of one check share.
#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    cleanups: Cleanups,
    names: CheckNames,
    seed: u64,
    generators: AtomicU64,
    /// Pre-provisioned volumes by the scope that uses them. They are given back when everything in it is undone.
    leases: tokio::sync::Mutex<Vec<(Scope, Lease)>>,
    /// True if the check gets a verdict although something that it made stays.
    tolerates_leftovers: AtomicBool,
    /// Room for attached volumes; given back with the leases.
    attach_permit: tokio::sync::Mutex<Option<OwnedSemaphorePermit>>,
}

impl Cx {
    /// The context of a planned check, with a number for its names.
    pub(crate) fn new(session: Session, access: AccessType, number: usize, seed: u64) -> Cx {
        let shared = Shared {
            ledger: Ledger::new(session.target().logbook().cloned()),
            cleanups: Cleanups::default(),
            names: session.target().names.of_check(number),
            seed: mixed(seed, session.label()),
            generators: AtomicU64::new(0),
            tolerates_leftovers: AtomicBool::new(false),
            leases: tokio::sync::Mutex::default(),
            attach_permit: tokio::sync::Mutex::default(),
        };
        Cx { session, access, scope: WHOLE, shared: Arc::new(shared) }
    }

    /// A context for a caller that is no check, for this time at most.
    pub fn of_no_check(
        target: &Arc<Target>,
        what: &str,
        access: AccessType,
        seed: u64,
        limit: Duration,
    ) -> Cx {
        let session = Session::new(target.clone(), CallLog::new(), what, limit);
        Cx::new(session, access, NUMBER_OF_NO_CHECK, seed)
    }

    /// The access type this run of the check is for.
    pub fn access(&self) -> AccessType {
        self.access
    }

    /// Size of the volumes made, in bytes.
    pub fn volume_size_bytes(&self) -> i64 {
        self.target().volume_size_bytes(self.access)
    }

    /// Size that volumes are expanded to, in bytes.
    pub fn expand_size_bytes(&self) -> i64 {
        self.target().expand_size_bytes(self.access)
    }

    /// A part of the check that can be undone by itself, with [`undo`](Cx::undo), before the next one begins. What is not
    /// is undone with the rest.
    pub fn scope(&self) -> Cx {
        Cx { scope: self.shared.ledger.scope_inside(self.scope), ..self.clone() }
    }

    /// Undoes what was made in this scope and in those inside it.
    ///
    /// # Errors
    /// Broken if something cannot be undone; it is tried once more at the end of the check.
    pub fn undo(&self) -> BoxFuture<'_, Result<(), Stop>> {
        Box::pin(async move {
            let _undoing = self.begin(Part::Undoing);
            let left = self.shared.ledger.undo(&self.session.for_cleanup(), self.scope).await;
            if !left.is_empty() {
                return Err(Stop::broken(format!("could not undo: {}", left.join("; "))));
            }
            let is_done = |scope: &Scope| self.shared.ledger.is_inside(*scope, self.scope);
            self.shared.leases.lock().await.retain(|(scope, _)| !is_done(scope));
            Ok(())
        })
    }

    /// Undoes what was made in this scope, as far as the driver lets it. Objects that stay are tried once more at the
    /// end of the check and reported as left behind; they do not change the verdict. Returns why something stays.
    pub fn undo_best_effort(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            match self.undo().await {
                Err(Stop::Broken(why)) => {
                    self.shared.tolerates_leftovers.store(true, Ordering::Relaxed);
                    Some(why)
                }
                _ => None,
            }
        })
    }

    /// Returns true if the check gets a verdict although something that it made stays.
    pub(crate) fn tolerates_leftovers(&self) -> bool {
        self.shared.tolerates_leftovers.load(Ordering::Relaxed)
    }

    /// Stops undoing what calls of this scope without an answer may have made: to learn the id, the call would have to
    /// be made again, and it may have been the call that the driver died of. Reported as what may have been left
    /// behind.
    pub fn give_up_unnamed(&self) {
        self.shared.ledger.give_up_unnamed(self.scope);
    }

    /// The last call of the check, as a step on the way to a violation; `None` before the first one.
    pub fn last_call(&self) -> Option<ReproductionStep> {
        self.session.log().last().map(|call| call.reproduction())
    }

    /// The number of calls that the check has sent.
    pub fn calls_sent(&self) -> u64 {
        self.session.log().sent_so_far()
    }

    /// The calls of the check about an object, by its id, as steps on the way to a violation. A call that was made again with an equal
    /// answer is there once. Only the first and the last calls of a check are kept.
    pub fn calls_about(&self, id: &str) -> Vec<ReproductionStep> {
        let mut steps: Vec<_> = self.session.log().about(id).iter().map(|call| call.reproduction()).collect();
        steps.dedup();
        steps
    }

    /// A context on another node: calls of the Node service and paths are that node's.
    pub fn at_node(&self, node: usize) -> Cx {
        Cx { session: self.session.at_node(node), ..self.clone() }
    }

    /// A context for calls that only clear away after a fault. Reports do not take them for the call that breaks a rule.
    pub fn for_cleanup(&self) -> Cx {
        Cx { session: self.session.for_cleanup(), ..self.clone() }
    }

    /// A context for one of several callers at the same time, whose calls are recorded under its number.
    pub fn worker(&self, worker: usize) -> Cx {
        Cx { session: self.session.of_worker(worker), ..self.clone() }
    }

    /// A context whose calls are reported to an observer when they end.
    pub fn observed_by(&self, observer: Arc<dyn CallObserver>) -> Cx {
        Cx { session: self.session.observed_by(observer), ..self.clone() }
    }

    /// A context with volumes of this access type, whatever access type the check runs for.
    pub fn with_access(&self, access: AccessType) -> Cx {
        Cx { access, ..self.clone() }
    }

    /// A context with these secrets in each call that takes some, instead of the configured ones. Objects that are made
    /// with them are undone with them.
    pub fn with_secrets(&self, secrets: Pairs) -> Cx {
        Cx { session: self.session.with_secrets(Some(Arc::new(Secret(secrets)))), ..self.clone() }
    }

    /// Finds out a fact about the driver once for all checks. Facts are distinguished by their type and the access type
    /// of this check.
    ///
    /// # Errors
    /// Any error of finding it out.
    pub async fn learn<T: Any + Send + Sync>(
        &self,
        find: impl Future<Output = Result<T, Stop>>,
    ) -> Result<Arc<T>, Stop> {
        self.target().learnt.get(self.access, find).await
    }

    /// A source of random choices. It depends on the seed of the run, on the check, and on how many were asked for before.
    pub fn rng(&self) -> fastrand::Rng {
        let number = self.shared.generators.fetch_add(1, Ordering::Relaxed);
        fastrand::Rng::with_seed(self.shared.seed.wrapping_add(number))
    }

    /// A name that no other check, run or user has.
    pub fn unique_name(&self) -> String {
        self.shared.names.unique()
    }

    /// A unique name of exactly `length` bytes, or of what the back end can take if that is less.
    pub fn unique_name_of_length(&self, length: usize) -> String {
        self.shared.names.unique_of_length(length)
    }

    /// The id of a volume that does not exist. It is made up, so a driver may also call it malformed.
    pub fn unknown_volume_id(&self) -> String {
        self.fill(&self.config().unknown_ids.volume)
    }

    /// The id of a snapshot that does not exist, made up.
    pub fn unknown_snapshot_id(&self) -> String {
        self.fill(&self.config().unknown_ids.snapshot)
    }

    /// The id of a group snapshot that does not exist, made up.
    pub fn unknown_group_snapshot_id(&self) -> String {
        self.fill(&self.config().unknown_ids.group_snapshot)
    }

    /// The id of a node that does not exist, made up.
    pub fn unknown_node_id(&self) -> String {
        self.fill(&self.config().unknown_ids.node)
    }

    fn fill(&self, template: &str) -> String {
        template.replace("{n}", &self.shared.names.number())
    }

    /// Takes a pre-provisioned volume that fits. Where there is none, the error is the number of volumes that the check has by then.
    pub(crate) async fn lease(&self, writable: bool) -> Result<StaticVolume, usize> {
        let mut held = self.shared.leases.lock().await;
        let beside = held.first().map(|(_, lease)| lease);
        let lease = self.target().volumes.lease(self.access, writable, beside).await.ok_or(held.len())?;
        let volume = lease.volume.clone();
        held.push((self.scope, lease));
        Ok(volume)
    }

    /// Waits until the node has room for the volumes of this check, too.
    pub(crate) async fn enter_node(&self) {
        let mut attach_permit = self.shared.attach_permit.lock().await;
        if attach_permit.is_none() {
            *attach_permit = self.target().attach_slots.enter(self.volumes_per_node()).await;
        }
    }

    /// The number of volumes that the node takes, if it has a limit.
    async fn volumes_per_node(&self) -> Option<usize> {
        match self.session.call(v1::NodeGetInfoRequest::default()).once().await.answer() {
            Answer::Ok(info) => usize::try_from(info.max_volumes_per_node).ok().filter(|limit| *limit > 0),
            Answer::Refused(_) | Answer::Unknown(_) => None,
        }
    }

    /// Gives the volumes of this check back, so that other checks that wait for them can continue. Afterwards this check calls the driver
    /// about them only to undo what it could not undo before.
    pub(crate) async fn release_leases(&self) {
        *self.shared.attach_permit.lock().await = None;
        self.shared.leases.lock().await.clear();
    }

    /// Everything that is not undone, undone; and what could not be.
    pub(crate) async fn finish(&self) -> Vec<String> {
        let _undoing = self.begin(Part::Undoing);
        let session = self.session.for_cleanup();
        let limit = session.remaining();
        let undone = async {
            let mut left = self.shared.cleanups.run().await;
            left.extend(self.shared.ledger.undo(&session, WHOLE).await);
            left
        };
        let undone = tokio::time::timeout(limit, undone).await;
        self.target().stages.end(self.label());
        match undone {
            Ok(left) => left,
            Err(_) => {
                let mut left = vec![format!("undoing took longer than {} ms", limit.as_millis())];
                left.extend(self.shared.cleanups.open());
                left.extend(self.shared.ledger.open());
                left
            }
        }
    }

    /// The broken rule where the driver answered OK to the calls that undo something, and its mount is still there. A mount table that is
    /// not the driver's own proves nothing.
    pub(crate) async fn still_mounted(&self) -> Option<Violation> {
        for (resource, node) in self.shared.ledger.still_mounted() {
            let (rpc, rule, path) = match &resource {
                Resource::Publication { path, .. } => ("NodeUnpublishVolume", &req::NODE_UNPUBLISH_002, path),
                Resource::Staging { path, .. } => ("NodeUnstageVolume", &req::NODE_UNSTAGE_002, path),
                _ => continue,
            };
            if !mounts::is_behind_link(Path::new(path)) && self.target().node(node).sees_files().await {
                let message = format!("{rpc} answers OK, but the volume stays mounted");
                let fault = FaultKey { rule: rule.id, what: message.clone() };
                let violation = Violation::new(message)
                    .of(rule)
                    .expected("no mount at the path from which the volume was removed")
                    .actual(format!("{} is still a mount point", named(path)));
                return Some(Violation { fault: Some(Box::new(fault)), ..violation });
            }
        }
        None
    }

    /// The objects that are not undone and may still exist.
    pub(crate) fn left_behind(&self) -> Vec<LeftBehind> {
        let mut left = self.shared.ledger.left_behind(self.label());
        left.extend(self.shared.cleanups.open().into_iter().map(|what| LeftBehind {
            what,
            why: "it could not be removed".to_owned(),
            check: Some(self.label().to_owned()),
            by_cleanup: true,
            ..LeftBehind::default()
        }));
        left
    }

    /// Removes something at the end of the check, whatever happens, that is no driver's.
    pub fn removes(&self, one: Arc<dyn Cleanup>) {
        self.shared.cleanups.add(one);
    }

    /// A call that makes a resource, which is undone after the check.
    pub(super) fn make<Q: UnaryCall>(&self, resource: Resource, request: Q) -> PendingCall<'_, Q::Response> {
        PendingCall::new(self, Q::RPC, move || {
            self.making(resource.clone(), self.call(request.clone()).once())
        })
    }

    /// A call that undoes a resource.
    pub(super) fn unmake<Q: UnaryCall>(
        &self,
        resource: Resource,
        request: Q,
    ) -> PendingCall<'_, Q::Response> {
        PendingCall::new(self, Q::RPC, move || {
            self.undoing(resource.clone(), self.call(request.clone()).once())
        })
    }

    /// Enters a resource in the ledger that is there.
    pub(crate) fn owns(&self, resource: Resource) {
        self.shared.ledger.write(resource, &self.session, self.scope);
    }

    /// Strikes a resource out that is gone.
    pub(super) fn disowns(&self, resource: &Resource) {
        self.shared.ledger.settle(resource, self.session.node());
    }

    /// Returns true if a resource is in the ledger, and known to be there.
    pub(super) fn has(&self, resource: &Resource) -> bool {
        self.shared.ledger.has(resource, self.session.node())
    }

    /// Enters a resource in the ledger that may be there.
    pub(crate) fn may_own(&self, resource: Resource) {
        drop(self.shared.ledger.claim(resource, &self.session, self.scope));
    }

    /// Makes a resource by a call: entered in the ledger first, and struck out if it cannot be there.
    pub(crate) async fn making<T>(
        &self,
        resource: Resource,
        call: impl Future<Output = Reply<T>>,
    ) -> Reply<T> {
        let claim = self.shared.ledger.claim(resource, &self.session, self.scope);
        let reply = call.await;
        claim.end(reply.makes());
        reply
    }

    /// Finds out what a call has made by its answer: until that is there, `pending` stands for it in the ledger.
    pub(crate) async fn learning<T>(
        &self,
        pending: Resource,
        call: impl Future<Output = Reply<T>>,
        made: impl FnOnce(&T) -> Option<Resource>,
    ) -> Reply<T> {
        let claim = self.shared.ledger.claim(pending.clone(), &self.session, self.scope);
        let reply = call.await;
        match reply.answer() {
            Answer::Ok(response) => {
                if let Some(resource) = made(response) {
                    self.owns(resource);
                }
                self.shared.ledger.settle(&pending, self.session.node());
                claim.end(Exists::No);
            }
            Answer::Refused(_) | Answer::Unknown(_) => claim.end(reply.makes()),
        }
        reply
    }

    /// Deletes a member of a group snapshot by a call, and notes it in the ledger unless it was not done.
    pub(crate) async fn delete_member<T>(
        &self,
        group: Resource,
        member: String,
        call: impl Future<Output = Reply<T>>,
    ) -> Reply<T> {
        let reply = call.await;
        if reply.makes() != Exists::No {
            self.shared.ledger.amend(&group, self.session.node(), |group| group.part_with(&member));
        }
        reply
    }

    /// Undoes a resource by a call, and strikes it out of the ledger if that is done.
    pub(crate) async fn undoing<T>(
        &self,
        resource: Resource,
        call: impl Future<Output = Reply<T>>,
    ) -> Reply<T> {
        let undoing = self.shared.ledger.undoing(&resource, self.session.node());
        let reply = call.await;
        if matches!(reply.answer(), Answer::Ok(_)) {
            self.shared.ledger.undone(undoing);
        }
        reply
    }
}

impl Deref for Cx {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// The seed of one check.
fn mixed(seed: u64, label: &str) -> u64 {
    fnv1a(seed.to_le_bytes().into_iter().chain(label.bytes()))
}
