//! Plain calls that the driver has done before. Made again between others, they show whether the driver still works, and after
//! which call it does not any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use csi_proto::{Rpc, Service};
use tokio::sync::Mutex;
use tonic::async_trait;

use crate::checks::check::Check;
use crate::checks::check::Planned;
use crate::client::answer::Answer;
use crate::client::record::{CallLog, Ticket};
use crate::client::session::{AfterCall, Session};
use crate::client::target::Target;
use crate::config::AccessType;
use crate::lifecycle::cx::Cx;
use crate::protocol::effect;
use crate::protocol::rpc::{Facts, Resource};
use crate::results::failure_report;
use crate::run::run_check::body;
use crate::verdict::harm::{Culprit, Lost};
use crate::verdict::precondition::Preconditions;

/// The kinds of objects that calls are about. Damage to objects of one kind may not show in those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Objects {
    Volumes,
    Snapshots,
    Groups,
    Nodes,
}

impl Objects {
    /// The kind of objects that an RPC is about, if it is about any.
    fn of(rpc: Rpc) -> Option<Objects> {
        match rpc.service {
            Service::Identity => None,
            Service::Controller if rpc.method.contains("Snapshot") => Some(Objects::Snapshots),
            Service::Controller => Some(Objects::Volumes),
            Service::SnapshotMetadata => Some(Objects::Snapshots),
            Service::GroupController => Some(Objects::Groups),
            Service::Node => Some(Objects::Nodes),
        }
    }
}

/// True if the plain call of an RPC shows that the driver as a whole works: it makes what others build on, or lists
/// everything there is. Other plain calls cost as much and show no more.
fn is_representative(method: &str) -> bool {
    use Resource::{GroupSnapshot, Publication, Snapshot, Volume};
    let Some(facts) = Facts::named(method) else { return false };
    let makes = facts.makes();
    makes.is_some_and(|made| [Volume, Snapshot, GroupSnapshot, Publication].contains(&made))
        || facts.is_about_all()
}

/// The names of a check contain its number. Plain calls use numbers from here on, which no check has.
const FIRST_NUMBER: usize = 0x10000;

/// A call in the form of the check that judges the plain form of the RPC. All its objects are undone afterwards.
#[derive(Debug)]
pub(crate) struct PlainCall {
    target: Arc<Target>,
    judge: Check,
    rpc: Rpc,
    objects: Objects,
    access: AccessType,
    seed: u64,
    /// The number of plain calls so far, of all RPCs. It makes their names unique.
    made: Arc<AtomicUsize>,
}

/// The result of making a plain call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The call was done.
    Done,
    /// The call could not be made, or was put off.
    Not,
}

impl PlainCall {
    /// The plain calls that this driver supports, of all that checks judge. Calls that others build on come first.
    pub(crate) fn all(preconditions: &Preconditions, target: &Arc<Target>, seed: u64) -> Vec<PlainCall> {
        let Some(&access) = target.config().access_types.first() else { return Vec::new() };
        let offered = |judge: &Check| judge.needs.iter().all(|need| need.unmet(target, access).is_none());
        let made = Arc::new(AtomicUsize::new(0));
        let plain =
            preconditions.plain().filter(|(method, judge)| is_representative(method) && offered(judge));
        let mut all: Vec<PlainCall> = plain
            .filter_map(|(method, judge)| {
                let rpc = Facts::named(method)?.rpc;
                let (objects, made, target, judge) =
                    (Objects::of(rpc)?, made.clone(), target.clone(), judge.clone());
                Some(PlainCall { target, judge, rpc, objects, access, seed, made })
            })
            .collect();
        all.sort_by_key(|plain| (plain.objects, Facts::of(plain.rpc).and_then(Facts::makes).is_none()));
        all
    }

    /// The check that judges it.
    pub(crate) fn judge(&self) -> &Check {
        &self.judge
    }

    /// The RPC of the call.
    pub(crate) fn rpc(&self) -> Rpc {
        self.rpc
    }

    /// Returns true if a call may harm the objects of this one. Everything is built on volumes, so any call that
    /// changes something may harm volumes, and their way to a node.
    pub(crate) fn may_be_harmed_by(&self, rpc: Rpc) -> bool {
        let is_of_volumes = matches!(self.objects, Objects::Volumes | Objects::Nodes);
        (is_of_volumes && effect::changes(rpc)) || Objects::of(rpc) == Some(self.objects)
    }

    /// Makes it.
    ///
    /// # Errors
    /// The driver does not do it. What else stands in the way says nothing.
    pub(crate) async fn make(&self) -> Result<Made, Lost> {
        let limit = Duration::from_millis(self.target.config().time_limits.check_ms);
        let number = FIRST_NUMBER + self.made.fetch_add(1, Ordering::Relaxed);
        let planned = Planned { check: self.judge.clone(), access: self.access, number };
        let log = CallLog::new();
        let session = Session::new(self.target.clone(), log.clone(), &planned.label(), limit);
        let cx = Cx::new(session, self.access, number, self.seed);
        let ended = body(&planned, &cx, limit).await;
        // Objects that cannot be undone are found by the comparison at the end of the run.
        let _ = cx.finish().await;
        cx.release_leases().await;
        if ended.is_ok() {
            return Ok(Made::Done);
        }
        let calls = log.take().calls;
        let mut own = calls.iter().rev().filter(|call| !call.cleanup && call.rpc == self.rpc);
        match own.next() {
            Some(call) if matches!(call.outcome, Answer::Ok(_)) => Ok(Made::Done),
            own => own.and_then(Lost::of).map_or(Ok(Made::Not), Err),
        }
    }
}

/// Makes a plain call after each call of a check, until it fails.
#[derive(Debug)]
pub(crate) struct Probe {
    plain: Arc<PlainCall>,
    /// The number of first calls of the check that are known to be harmless.
    harmless: u64,
    found: Mutex<Option<Culprit>>,
}

#[async_trait]
impl AfterCall for Probe {
    async fn after(&self, log: &CallLog, call: Ticket) {
        let mut found = self.found.lock().await;
        if found.is_some() || call.number() < self.harmless {
            return;
        }
        if let Err(lost) = self.plain.make().await {
            *found = log.look_at(call, |call| Culprit {
                line: failure_report::call_line(call),
                rpc: call.rpc,
                lost,
            });
        }
    }

    async fn lost(&self) -> Option<Rpc> {
        self.found().await.map(|found| found.lost.rpc)
    }
}

impl Probe {
    pub(crate) fn new(plain: Arc<PlainCall>, harmless: u64) -> Arc<Probe> {
        Arc::new(Probe { plain, harmless, found: Mutex::default() })
    }

    /// The call that was looked for. Once it is found, the check can stop.
    pub(crate) async fn found(&self) -> Option<Culprit> {
        self.found.lock().await.clone()
    }
}
