//! Lists what a check has made and not yet undone. An entry is written before the call that makes the resource is sent,
//! so that it is undone in any case: failure, timeout, panic, Ctrl-C.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use csi_proto::lock::Mutex;
use futures_util::future::{BoxFuture, join_all};

use crate::client::answer::Exists;
use crate::client::session::Session;
use crate::client::stages::Stage;
use crate::config::Secret;
use crate::driver::Driver;
use crate::resources::cleanup::LeftBehind;
use crate::resources::logbook::Logbook;
use crate::resources::resource::{Obstacle, Resource, Stays};

/// The entries of one check.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The file from which the entries can be read if the run is killed.
    logbook: Option<Arc<Logbook>>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By the order in which they were made.
    entries: BTreeMap<u64, Entry>,
    /// The place of each entry by its key: under load there are many.
    places: HashMap<String, u64>,
    /// The number of claims so far.
    claimed: u64,
    /// The scope around each scope. The first one is that of the whole check and has none.
    around: Vec<Scope>,
    /// Uses of volumes that calls without an answer may have made: such a call may reach the driver after what undoes it.
    late: VecDeque<(Resource, usize)>,
}

/// Number of uses of volumes that are remembered. There are never more calls than that under way.
const LATE_MAX: usize = 100;

/// A part of a check that is undone by itself.
pub(crate) type Scope = usize;

/// The scope of the whole check.
pub(crate) const WHOLE: Scope = 0;

#[derive(Clone, Debug)]
struct Entry {
    key: String,
    resource: Resource,
    node: usize,
    /// The secrets that it was made with.
    secrets: Option<Arc<Secret>>,
    scope: Scope,
    /// Calls under way that may make the resource.
    claims: usize,
    /// The number of the latest of them.
    latest: u64,
    exists: Exists,
    /// The reason why it could not be undone, after a failed attempt.
    stays: Option<Stays>,
    /// True if this run does not try to undo it any more.
    is_given_up: bool,
    /// Its number in the logbook.
    noted: Option<u64>,
}

/// The progress of a check that undoes all that is left.
pub(crate) const UNDOING: &str = "undoing what it made";
/// The reason that is reported for a resource that was never tried to be undone.
const NOT_TRIED: &str = "the run ended before it was undone";

/// Only a load leaves more resources than this. Then several are undone at the same time.
const MANY: u64 = 100;
/// Resources that are undone at the same time.
const AT_ONCE_MAX: usize = 16;

impl Entry {
    /// Returns true if the resource may not exist.
    fn is_in_doubt(&self) -> bool {
        self.stays.as_ref().is_some_and(|stays| stays.in_doubt)
    }

    /// Returns true if both are there, and belong to one volume.
    fn is_of_one_volume_with(&self, other: &Entry) -> bool {
        let are_there = self.exists == Exists::Yes && other.exists == Exists::Yes;
        let (one, another) = (self.resource.volume_id(), other.resource.volume_id());
        are_there && one.is_some() && one == another
    }
}

/// The result of trying to undo each resource once.
#[derive(Debug, Default)]
struct Round {
    /// The keys of the resources that could not be undone.
    left: HashSet<String>,
    /// The reasons, except for resources that may not exist.
    reasons: Vec<String>,
    /// True if something was undone after the first failure.
    is_progress: bool,
}

/// The reason why nothing is undone any more.
const GONE: &str = "the driver is not running";

/// Returns true if the driver is gone and is not started while resources are undone. If the run starts it later, it
/// undoes them then.
pub(super) fn driver_is_gone(session: &Session) -> BoxFuture<'_, bool> {
    Box::pin(async move {
        let target = session.target();
        match target.driver() {
            Some(driver) => driver.has_ended(),
            None => !target.is_alive().await,
        }
    })
}

impl Ledger {
    /// An empty one.
    pub(crate) fn new(logbook: Option<Arc<Logbook>>) -> Ledger {
        Ledger { logbook, inner: Mutex::new(Inner { around: vec![WHOLE], ..Inner::default() }) }
    }

    /// Enters a resource before the call that makes it is sent. A resource that is in the ledger already keeps its first
    /// place, so that what was built on it is undone before it.
    pub(crate) fn claim(&self, resource: Resource, session: &Session, scope: Scope) -> Claim<'_> {
        let (node, secrets) = (session.node(), session.secrets());
        let key = key(&resource, node);
        let mut inner = self.inner.lock();
        inner.claimed += 1;
        let latest = inner.claimed;
        match inner.find(&key) {
            Some(entry) => (entry.claims, entry.latest) = (entry.claims + 1, latest),
            None => {
                let noted = self.logbook.as_ref().map(|logbook| logbook.begun(&resource, node));
                let exists = Exists::No;
                inner.places.insert(key.clone(), latest);
                let entry = Entry {
                    key: key.clone(),
                    resource,
                    node,
                    secrets,
                    scope,
                    claims: 1,
                    latest,
                    exists,
                    stays: None,
                    is_given_up: false,
                    noted,
                };
                inner.entries.insert(latest, entry);
            }
        }
        Claim { ledger: self, key, exists: Exists::Perhaps }
    }

    /// Enters a resource that is there.
    pub(crate) fn write(&self, resource: Resource, session: &Session, scope: Scope) {
        self.claim(resource, session, scope).end(Exists::Yes);
    }

    /// Changes what is known of a resource, if it is in the ledger.
    pub(crate) fn amend(&self, resource: &Resource, node: usize, amend: impl FnOnce(&mut Resource)) {
        let key = key(resource, node);
        if let Some(entry) = self.inner.lock().find(&key) {
            amend(&mut entry.resource);
            if let (Some(logbook), Some(noted)) = (&self.logbook, entry.noted) {
                logbook.amended(noted, &entry.resource, node);
            }
        }
    }

    /// Returns true if a resource is known to be there.
    pub(crate) fn has(&self, resource: &Resource, node: usize) -> bool {
        self.inner.lock().find(&key(resource, node)).is_some_and(|entry| entry.exists == Exists::Yes)
    }

    /// Marks a resource as gone. A call under way may make it again.
    pub(crate) fn settle(&self, resource: &Resource, node: usize) {
        let mut inner = self.inner.lock();
        let key = key(resource, node);
        if let Some(entry) = inner.find(&key) {
            entry.exists = Exists::No;
        }
        self.sweep(&mut inner, &key);
    }

    /// Notes that a call to undo a resource is about to be sent.
    pub(crate) fn undoing(&self, resource: &Resource, node: usize) -> Undoing {
        let key = key(resource, node);
        let latest = self.inner.lock().find(&key).filter(|entry| entry.claims == 0).map(|entry| entry.latest);
        Undoing { key, latest }
    }

    /// Marks a resource as gone after it was undone, unless a call to make it was under way at the same time: either of
    /// the two may have come first.
    pub(crate) fn undone(&self, Undoing { key, latest }: Undoing) {
        let mut inner = self.inner.lock();
        if let Some(entry) = inner.find(&key)
            && Some(entry.latest) == latest
        {
            entry.exists = Exists::No;
        }
        self.sweep(&mut inner, &key);
    }

    /// A new scope inside another one.
    pub(crate) fn scope_inside(&self, around: Scope) -> Scope {
        let mut inner = self.inner.lock();
        inner.around.push(around);
        inner.around.len() - 1
    }

    /// Returns true if a scope is another one or inside it.
    pub(crate) fn is_inside(&self, scope: Scope, outer: Scope) -> bool {
        is_within(&self.inner.lock().around, scope, outer)
    }

    /// Undoes everything in a scope, the youngest first, and says what could not be undone. That stays in the ledger, and so does
    /// what may be there and cannot be asked for.
    pub(crate) async fn undo(&self, session: &Session, scope: Scope) -> Vec<String> {
        loop {
            let round = self.undo_once(session, scope).await;
            // An older resource may have been in the way: a snapshot that was asked for again, after a volume was made
            // from it.
            if round.left.is_empty() || !round.is_progress {
                return round.reasons;
            }
        }
    }

    /// Tries to undo each resource in a scope once.
    fn undo_once<'a>(&'a self, session: &'a Session, scope: Scope) -> BoxFuture<'a, Round> {
        Box::pin(async move {
            let mut round = Round::default();
            let is_gone = AtomicBool::new(session.target().driver().is_some_and(Driver::has_ended));
            let at_once = if scope == WHOLE && self.count() > MANY { AT_ONCE_MAX } else { 1 };
            let mut done = 0;
            loop {
                let youngest = self.youngest(scope, &round.left, at_once);
                if youngest.is_empty() {
                    return round;
                }
                if scope == WHOLE {
                    let of = done + self.count();
                    done += youngest.len() as u64;
                    let stage = Stage { what: UNDOING, number: done, of: Some(of.max(done)) };
                    session.target().stages.set(session.label(), stage);
                }
                let tries = youngest.iter().map(|one| self.try_to_undo(session, one, &is_gone));
                let tried = join_all(tries).await;
                let (undone, stayed): (Vec<_>, Vec<_>) =
                    youngest.into_iter().zip(tried).partition(|(_, tried)| tried.is_ok());
                for (one, stays) in stayed.into_iter().filter_map(|(one, tried)| Some((one, tried.err()?))) {
                    // The driver has rejected the call to make it, and rejects the one to undo it: nothing says that it is there.
                    if stays.obstacle == Obstacle::Rejected && one.exists == Exists::Unlikely {
                        self.settle(&one.resource, one.node);
                        continue;
                    }
                    if !stays.in_doubt {
                        round.reasons.push(format!("{}: {}", one.resource, stays.why));
                    }
                    if let Some(entry) = self.inner.lock().find(&one.key) {
                        let before = entry.stays.take().filter(|before| before.outlasts(&stays));
                        entry.stays = Some(before.unwrap_or(stays));
                    }
                    round.left.insert(one.key);
                }
                for (one, _) in undone {
                    self.settle(&one.resource, one.node);
                    round.is_progress |= !round.left.is_empty();
                }
            }
        })
    }

    /// Tries to undo a resource, and notes if the driver is gone.
    ///
    /// # Errors
    /// The reason why it stays.
    async fn try_to_undo(&self, session: &Session, one: &Entry, is_gone: &AtomicBool) -> Result<(), Stays> {
        let Entry { resource, exists, .. } = one;
        let takes_a_call = resource.takes_a_call();
        if takes_a_call && is_gone.load(Ordering::Relaxed) {
            // Each call would be made again for as long as a driver may need to come back.
            return Err(Stays { in_doubt: *exists != Exists::Yes, ..Stays::from(GONE.to_owned()) });
        }
        let session_of_thing = session.at_node(one.node).with_secrets(one.secrets.clone());
        let undone = resource.undo(&session_of_thing, *exists).await;
        if undone.is_err() && takes_a_call && driver_is_gone(session).await {
            is_gone.store(true, Ordering::Relaxed);
        }
        if undone.is_err() && !is_gone.load(Ordering::Relaxed) && self.undo_late(session, resource).await {
            return resource.undo(&session_of_thing, *exists).await;
        }
        undone
    }

    /// Undoes once more what uses a resource that cannot be undone, if calls without an answer may have made it. Returns whether
    /// there was anything.
    async fn undo_late(&self, session: &Session, resource: &Resource) -> bool {
        let late: Vec<(Resource, usize)> =
            self.inner.lock().late.iter().filter(|(late, _)| late.uses(resource)).cloned().collect();
        for (late, node) in &late {
            // The resource may not exist, so a failure here proves nothing. If it does exist and stays, the resource
            // that it uses cannot be undone, and that is reported.
            let _ = late.undo(&session.at_node(*node), Exists::Perhaps).await;
        }
        !late.is_empty()
    }

    /// Stops asking for resources of unknown id that calls without an answer may have made.
    pub(crate) fn give_up_unnamed(&self, scope: Scope) {
        let mut inner = self.inner.lock();
        let Inner { entries, around, .. } = &mut *inner;
        for entry in entries.values_mut() {
            let is_within = is_within(around, entry.scope, scope);
            let is_in_doubt = matches!(entry.exists, Exists::Unlikely | Exists::Perhaps);
            if is_within && is_in_doubt && entry.resource.request().is_some() {
                entry.is_given_up = true;
                let why = "the call that may have created it got no answer, and was not repeated".to_owned();
                entry.stays = Some(Stays { in_doubt: true, ..Stays::from(why) });
            }
        }
    }

    /// The number of entries.
    fn count(&self) -> u64 {
        self.inner.lock().entries.len() as u64
    }

    /// The resources that could not be undone, or were not tried any more.
    pub(crate) fn open(&self) -> Vec<String> {
        let inner = self.inner.lock();
        inner
            .entries
            .values()
            .filter(|entry| !entry.is_in_doubt())
            .map(|entry| entry.resource.to_string())
            .collect()
    }

    /// Returns each resource that was undone with OK and is still mounted, with its node.
    pub(crate) fn still_mounted(&self) -> Vec<(Resource, usize)> {
        let inner = self.inner.lock();
        let is_still_mounted = |entry: &&Entry| {
            let stays = entry.stays.as_ref();
            entry.exists == Exists::Yes && stays.is_some_and(|stays| stays.obstacle == Obstacle::StillMounted)
        };
        inner.entries.values().filter(is_still_mounted).map(|one| (one.resource.clone(), one.node)).collect()
    }

    /// Everything that is still in the ledger.
    pub(crate) fn left_behind(&self, check: &str) -> Vec<LeftBehind> {
        let is_kept = self.logbook.as_ref().is_some_and(|logbook| logbook.outlives_the_run());
        let left_behind = |entry: &Entry| LeftBehind {
            what: entry.resource.to_string(),
            id: entry.resource.id(),
            why: entry.stays.as_ref().map_or_else(|| NOT_TRIED.to_owned(), |stays| stays.why.clone()),
            in_doubt: entry.is_in_doubt(),
            is_mount: entry.stays.as_ref().is_some_and(Stays::is_mount),
            directory: entry.resource.directory().map(|path| (path.to_owned(), entry.node)),
            check: Some(check.to_owned()),
            remove: None,
            by_cleanup: is_kept,
        };
        self.inner.lock().entries.values().map(left_behind).collect()
    }

    /// Returns the newest resource of a scope that may exist and is not in `left`, together with others of its kind that can be undone at the
    /// same time, at most `at_once` in all.
    fn youngest(&self, scope: Scope, left: &HashSet<String>, at_once: usize) -> Vec<Entry> {
        let inner = self.inner.lock();
        let of_scope = |entry: &&Entry| {
            entry.exists != Exists::No
                && !entry.is_given_up
                && is_within(&inner.around, entry.scope, scope)
                && !left.contains(&entry.key)
        };
        let user_of = |used: &Entry| {
            inner.entries.values().rev().find(|user| of_scope(user) && user.resource.uses(&used.resource))
        };
        let Some(mut youngest) = inner.entries.values().rev().find(of_scope) else { return Vec::new() };
        // A volume made anew under an old id may be younger than what it is attached to, or staged once more after it was
        // published.
        while let Some(user) = user_of(youngest) {
            youngest = user;
        }
        let mut found = vec![youngest];
        if at_once > 1 {
            let kind = discriminant(&youngest.resource);
            // An older resource of another kind may be in the way of those that are older still.
            let alike = inner
                .entries
                .values()
                .rev()
                .filter(|entry| of_scope(entry) && entry.key != youngest.key && user_of(entry).is_none())
                .take_while(|entry| discriminant(&entry.resource) == kind);
            for entry in alike.take(at_once - 1) {
                // A driver may reject a call on a volume while another one on it is under way.
                if !found.iter().any(|one| one.is_of_one_volume_with(entry)) {
                    found.push(entry);
                }
            }
        }
        found.into_iter().cloned().collect()
    }

    /// Removes the entry if the resource is gone and no call under way may make it.
    fn sweep(&self, inner: &mut Inner, key: &str) {
        let is_gone = |entry: &Entry| entry.claims == 0 && entry.exists == Exists::No;
        if !inner.find(key).is_some_and(|entry| is_gone(entry)) {
            return;
        }
        let gone = inner.places.remove(key).and_then(|place| inner.entries.remove(&place));
        if let (Some(logbook), Some(noted)) = (&self.logbook, gone.and_then(|gone| gone.noted)) {
            logbook.gone(noted);
        }
    }
}

/// The key of a resource. It includes the node, because resources of two nodes may otherwise look alike.
fn key(resource: &Resource, node: usize) -> String {
    match resource.request() {
        _ if resource.is_on_node() && node > 0 => format!("{resource} on node {node}"),
        // Two requests under one name cannot both match the existing object, so each has an entry.
        Some(request) => format!("{resource} {request:?}"),
        None => resource.to_string(),
    }
}

impl Inner {
    fn find(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.get_mut(self.places.get(key)?)
    }
}

/// Returns true if a scope is another one or inside it.
fn is_within(around: &[Scope], mut scope: Scope, outer: Scope) -> bool {
    while scope != outer {
        if scope == WHOLE {
            return false;
        }
        scope = around[scope];
    }
    true
}

/// An undoing call in progress, and the number of the last call that may have made the resource.
#[derive(Debug)]
pub(crate) struct Undoing {
    key: String,
    latest: Option<u64>,
}

/// A call under way that may make a resource. Dropped without an end, it may have made it.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    ledger: &'a Ledger,
    key: String,
    exists: Exists,
}

impl Claim<'_> {
    /// Notes what the call has done. What other calls have made stays.
    pub(crate) fn end(mut self, exists: Exists) {
        self.exists = exists;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut inner = self.ledger.inner.lock();
        if let Some(entry) = inner.find(&self.key) {
            entry.claims -= 1;
            if self.exists == Exists::Yes
                && entry.exists != Exists::Yes
                && let (Some(logbook), Some(noted)) = (&self.ledger.logbook, entry.noted)
            {
                logbook.made(noted);
            }
            entry.exists = entry.exists.max(self.exists);
            if self.exists == Exists::Perhaps && entry.resource.is_use() {
                let late = (entry.resource.clone(), entry.node);
                inner.late.truncate(LATE_MAX - 1);
                inner.late.push_front(late);
            }
        }
        self.ledger.sweep(&mut inner, &self.key);
    }
}
