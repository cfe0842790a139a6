//! What the body of a check works with.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use csi_proto::{Call, Rpc, Service, StreamingCall, UnaryCall, reflect};
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::Channel;

use crate::call::{self, Exchange};
use crate::calling::{Calling, Pauses};
use crate::config::{AccessType, Config, Pairs, Secret};
use crate::effect;
use crate::ledger::{Exists, Ledger, Scope, WHOLE};
use crate::lifecycle::Thing;
use crate::names::CheckNames;
use crate::outcome::{LeftBehind, Removal};
use crate::paths::Paths;
use crate::patience::{Patience, Settles, Waiting};
use crate::plain_call::Probe;
use crate::record::{CallLog, Message};
use crate::removal::{Removals, Remove};
use crate::reply::{Answer, NoAnswer, Reply, Streamed};
use crate::spent::{Begun, Part};
use crate::stages::Stage;
use crate::target::Target;
use crate::verdict::{CheckResult, Stop, Violation};
use crate::volumes::Lease;

/// Messages read of a stream that is to be read to its end.
const STREAM_MESSAGES_MAX: usize = 100_000;
/// Pauses longer than this are told to whoever watches the run.
const WORTH_A_WORD: Duration = Duration::from_millis(100);

/// Sends calls for one check, records them, and keeps to its deadline.
#[derive(Clone, Debug)]
pub struct Session {
    target: Arc<Target>,
    log: Arc<CallLog>,
    check: Arc<str>,
    deadline: Instant,
    node: usize,
    worker: usize,
    cleanup: bool,
    /// In place of those that are configured.
    secrets: Option<Arc<Secret>>,
    /// Looks at the driver after each call.
    probe: Option<Arc<Probe>>,
}

impl Session {
    pub(crate) fn new(target: Arc<Target>, log: Arc<CallLog>, check: &str, limit: Duration) -> Session {
        let deadline = Instant::now() + limit;
        let (node, worker, cleanup, secrets, probe) = Default::default();
        Session { target, log, check: check.into(), deadline, node, worker, cleanup, secrets, probe }
    }

    /// The same, with a look at the driver after each call.
    pub(crate) fn probed_by(self, probe: Option<Arc<Probe>>) -> Session {
        Session { probe, ..self }
    }

    pub(crate) fn for_cleanup(&self) -> Session {
        let limit = Duration::from_millis(self.config().time_limits.undo_ms);
        Session { deadline: Instant::now() + limit, cleanup: true, probe: None, ..self.clone() }
    }

    /// The same, with another node behind the calls of the Node service.
    pub(crate) fn at_node(&self, node: usize) -> Session {
        Session { node, ..self.clone() }
    }

    /// The same, with these secrets instead of those that are configured.
    pub(crate) fn with_secrets(&self, secrets: Option<Arc<Secret>>) -> Session {
        Session { secrets, ..self.clone() }
    }

    pub(crate) fn secrets(&self) -> Option<Arc<Secret>> {
        self.secrets.clone()
    }

    /// The driver under test.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What the user has set.
    pub fn config(&self) -> &Config {
        self.target.config()
    }

    /// Size of the volumes made, in bytes.
    pub fn volume_size_bytes(&self) -> i64 {
        self.target.volume_size_bytes()
    }

    /// Size that volumes are expanded to, in bytes.
    pub fn expand_size_bytes(&self) -> i64 {
        self.target.expand_size_bytes()
    }

    /// The label of the check: its id, with `@block` behind it for block access.
    pub fn label(&self) -> &str {
        &self.check
    }

    /// Time left.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// How long the driver may take to settle, within the time left.
    pub fn settle_limit(&self) -> Duration {
        self.patience().settle_limit(self.config().time_limits.settle_ms).min(self.remaining())
    }

    /// The same for some things, by what other waits for them have shown.
    pub fn settle_limit_of(&self, what: &[Settles]) -> Duration {
        let configured_ms = self.config().time_limits.settle_ms;
        let limits = what.iter().map(|what| self.patience().settle_limit_of(*what, configured_ms));
        limits.max().unwrap_or_default().min(self.remaining())
    }

    /// Notes that the caller has given up the calls that it had under way: it waits for their answers no more.
    pub fn let_go(&self) {
        self.log.let_go(self.worker);
    }

    /// Waits for a call as a caller does that gives it up after so long.
    pub async fn give_up_after<T>(&self, limit: Duration, call: impl IntoFuture<Output = T>) -> Option<T> {
        let answered = tokio::time::timeout(limit, call.into_future()).await.ok();
        if answered.is_none() {
            self.let_go();
        }
        answered
    }

    pub(crate) fn patience(&self) -> &Patience {
        &self.target.patience
    }

    /// Where the paths of this session's node are made.
    pub(crate) fn paths(&self) -> &Paths {
        self.target.node(self.node).paths()
    }

    pub(crate) fn node(&self) -> usize {
        self.node
    }

    /// Breaks all connections to the driver, as if the caller had died, and waits until others stand. Whatever is under way
    /// gets no answer, so that only checks that run alone may do this.
    pub async fn break_connections(&self) {
        self.target.break_connections(self.remaining()).await;
    }

    /// The same, where nobody may be there any more who answers: whether somebody does within the limit.
    pub async fn break_connections_within(&self, limit: Duration) -> bool {
        self.target.break_connections(limit.min(self.remaining())).await
    }

    /// A call, recorded when it is sent. Secrets configured for the RPC are filled in unless the request has some.
    pub fn call<Q>(&self, mut request: Q) -> Calling<'_, Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.fill_secrets(&mut request);
        self.call_as_it_is(request)
    }

    /// A call with a request as it is, so also without secrets.
    pub fn call_as_it_is<Q>(&self, request: Q) -> Calling<'_, Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.call_at(Q::RPC.service, request)
    }

    /// A call with a request as it is to the endpoint that has another service: Identity is on every endpoint.
    pub fn call_at<Q>(&self, service: Service, request: Q) -> Calling<'_, Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        Calling::new(self, Q::RPC, move || {
            self.recorded(service, request.clone(), Message::response, Exchange::unary)
        })
    }

    /// A call that is answered by a stream, all of which is read. One that is longer than any that can be judged gives no answer.
    pub fn stream<Q>(&self, mut request: Q) -> Calling<'_, Vec<Q::Response>>
    where
        Q: StreamingCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.fill_secrets(&mut request);
        Calling::new(self, Q::RPC, move || {
            let streamed = self.streamed(request.clone(), STREAM_MESSAGES_MAX);
            async move {
                streamed.await.and_then(|streamed| match streamed.is_whole {
                    true => Answer::Ok(streamed.messages),
                    false => Answer::Unknown(NoAnswer::TooLong(streamed.messages.len())),
                })
            }
        })
    }

    /// A call that is answered by a stream, of which so many messages are read at the most. Then it is cut off, as by a caller
    /// that goes away.
    pub fn stream_up_to<Q>(&self, mut request: Q, messages_max: usize) -> Calling<'_, Streamed<Q::Response>>
    where
        Q: StreamingCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.fill_secrets(&mut request);
        Calling::new(self, Q::RPC, move || self.streamed(request.clone(), messages_max))
    }

    fn streamed<Q>(
        &self,
        request: Q,
        messages_max: usize,
    ) -> impl Future<Output = Reply<Streamed<Q::Response>>> + Send + '_
    where
        Q: StreamingCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.recorded(Q::RPC.service, request, Message::stream, move |exchange| {
            exchange.streaming(messages_max)
        })
    }

    /// A call with a request that is sent byte for byte, whether or not it is one; the response is not read either. It is
    /// sent a single time. What it makes nobody undoes.
    pub async fn call_bytes(&self, rpc: Rpc, bytes: Vec<u8>) -> Reply<Vec<u8>> {
        let request = Message::raw(reflect::request_of(rpc), &bytes);
        self.noted(
            rpc,
            request,
            |bytes: &Vec<u8>| Message::raw(reflect::response_of(rpc), bytes),
            |limit| {
                let channel = self.target.channel(self.node, rpc.service);
                call::raw(channel, rpc, bytes, limit, self.patience())
            },
        )
        .await
    }

    /// Takes calls that went unanswered so far on the check's own account: it tells of them itself, whether or not the driver
    /// has died of one, and has it back before it ends.
    pub fn answers_for_silence(&self) {
        self.log.forget_silence();
    }

    /// Reports a broken rule, and goes on: what lies behind it can still be judged. In the end the gravest of all is what came
    /// of the check.
    pub fn blame(&self, violation: Violation) {
        self.log.blame(violation);
    }

    /// Goes on after a broken rule, where the rest can be judged without it. A refusal stops the check all the same, since it
    /// may prove nothing.
    ///
    /// # Errors
    /// Whatever else stops a check.
    pub fn beyond(&self, judged: CheckResult) -> CheckResult {
        match judged {
            Err(Stop::Violation(violation)) if violation.refused.is_none() => {
                self.blame(*violation);
                Ok(())
            }
            other => other,
        }
    }

    /// Reports something that does not stop the check: a recommendation not kept, an answer only tolerated.
    pub fn warn(&self, warning: Violation) {
        self.log.warn(warning);
    }

    /// Tells whoever watches the run something that is no verdict, such as how much was tried.
    pub fn note(&self, note: impl Into<String>) {
        self.log.note(note.into());
    }

    /// Says how far it is, for who waits: which of so many, if that is known, it does now.
    pub fn stage(&self, what: &'static str, number: u64, of: Option<u64>) {
        self.target().stages.set(self.label(), Stage { what, number, of });
    }

    /// Asks again until the driver has settled, and returns `None` if it has not within its time: `time-limits:
    /// settle-ms`, or less where other checks have waited for the same.
    ///
    /// # Errors
    /// Whatever the question fails with.
    pub async fn eventually<T, F>(&self, what: Settles, mut ask: impl FnMut() -> F) -> Result<Option<T>, Stop>
    where
        F: Future<Output = Result<Option<T>, Stop>>,
    {
        let patience = self.patience();
        let started = Instant::now();
        let first = Duration::from_millis(5);
        let mut pause = first;
        loop {
            let found = ask().await?;
            if found.is_some() {
                patience.settled(what, pause == first);
                return Ok(found);
            }
            let configured_ms = self.config().time_limits.settle_ms;
            let limit =
                patience.settle_limit_of(what, configured_ms).min(started.elapsed() + self.remaining());
            if started.elapsed() + pause > limit {
                if limit >= patience.settle_limit(configured_ms) {
                    patience.never_settled(what);
                }
                return Ok(None);
            }
            self.wait(what, pause, limit.saturating_sub(started.elapsed())).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Waits for so long, or until the time of the check is up: of all that is waited for this thing, at the most `longest`.
    pub async fn wait(&self, what: Settles, pause: Duration, longest: Duration) {
        let pause = pause.min(self.remaining());
        if pause > WORTH_A_WORD {
            self.patience().news.send_replace(Some(Waiting { what, longest }));
        }
        self.log.clock.waited(pause);
        tokio::time::sleep(pause).await;
    }

    /// Waits before a call is made again, which is done until then.
    pub(crate) async fn wait_to_repeat(&self, what: Settles, pauses: &mut Pauses, until: Instant) {
        let pause = pauses.take();
        self.wait(what, pause, until.saturating_duration_since(Instant::now()).max(pause)).await;
    }

    /// Tells something that happens between two calls and is none, such as that mounts are taken away.
    pub fn happened(&self, what: impl Into<String>) {
        self.log.happened(what.into());
    }

    /// Counts the time from here until the answer is dropped as spent on a part of the check.
    pub fn begin(&self, part: Part) -> Begun<'_> {
        self.log.clock.begin(part)
    }

    /// Sends a request once, and notes that before and after.
    async fn recorded<'a, Q, T, F>(
        &'a self,
        service: Service,
        request: Q,
        keep: impl FnOnce(&T) -> Message,
        send: impl FnOnce(Exchange<'a, Q>) -> F,
    ) -> Reply<T>
    where
        Q: Call + Send + Sync,
        F: Future<Output = Answer<T>>,
    {
        let message = Message::request(request.clone());
        self.noted(Q::RPC, message, keep, |limit| send(self.exchange(service, request, limit))).await
    }

    /// Sends something once, within the limits of time, and notes that before and after.
    async fn noted<T, F: Future<Output = Answer<T>>>(
        &self,
        rpc: Rpc,
        request: Message,
        keep: impl FnOnce(&T) -> Message,
        send: impl FnOnce(Duration) -> F,
    ) -> Reply<T> {
        if let Some(judge) = self.target.deadly(rpc) {
            let why = format!("the driver does not survive a plain {rpc}, as {judge} says");
            return Reply::new(rpc, Answer::Unknown(NoAnswer::Withheld(why)), self.log.clone());
        }
        if let Some(elsewhere) = &self.config().elsewhere {
            let why = format!("{} is called by others, {}", elsewhere.driver, elsewhere.place);
            return Reply::new(rpc, Answer::Unknown(NoAnswer::Withheld(why)), self.log.clone());
        }
        if let Some(probe) = &self.probe
            && let Some(found) = probe.found().await
        {
            let why = format!("a plain {} fails by now", found.lost.rpc);
            return Reply::new(rpc, Answer::Unknown(NoAnswer::Withheld(why)), self.log.clone());
        }
        let whole = self.config().time_limits.call(rpc.method);
        let limit = whole.min(self.remaining());
        let ticket = self.log.sent(rpc, self.node, self.worker, self.cleanup, request);
        let (sent, breaks) = (Instant::now(), self.target.breaks());
        let mut answer = if limit.is_zero() { Answer::Unknown(NoAnswer::CutOff) } else { send(limit).await };
        if matches!(answer, Answer::Unknown(NoAnswer::Broken(_))) && self.target.has_broken_since(breaks) {
            answer = Answer::Unknown(NoAnswer::Severed);
        }
        if matches!(answer, Answer::Unknown(NoAnswer::Timeout(_))) && limit == whole {
            self.patience().kept_silent(rpc);
        }
        // How long a driver reads out what it knows says nothing of how long it goes on with what it was asked to change.
        if matches!(answer, Answer::Ok(_)) && effect::changes(rpc) {
            self.patience().took(sent.elapsed());
        }
        self.target.tally.add(&self.check, rpc, &answer, sent.elapsed());
        self.log.ended(ticket, answer.as_ref().map(keep));
        if let Some(probe) = &self.probe {
            probe.after(&self.log, ticket).await;
        }
        Reply::new(rpc, answer, self.log.clone())
    }

    fn exchange<Q>(&self, service: Service, request: Q, limit: Duration) -> Exchange<'_, Q> {
        let target = &self.target;
        let channel: Channel = target.channel(self.node, service);
        let (patience, replies) = (&target.patience, &target.replies);
        Exchange { channel, request, limit, patience, replies, check: Some(&self.check) }
    }

    fn fill_secrets<Q: Call>(&self, request: &mut Q) {
        let own = self.secrets.as_ref().map(|secret| &secret.0);
        if let (Some(secrets), Some(wanted)) =
            (request.secrets_mut(), own.or_else(|| self.target.config().secrets_for(Q::RPC.method)))
            && secrets.is_empty()
        {
            secrets.clone_from(wanted);
        }
    }
}

/// What the body of a check gets: a [`Session`] to send calls with, names and paths of its own, and a ledger that
/// undoes whatever is made through it.
///
/// Clones share all of that. [`scope`](Cx::scope), [`at_node`](Cx::at_node) and [`worker`](Cx::worker) make clones that
/// differ in one thing.
#[derive(Clone, Debug)]
pub struct Cx {
    session: Session,
    access: AccessType,
    scope: Scope,
    shared: Arc<Shared>,
}

/// What is the same for all parts of one check.
#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    removals: Removals,
    names: CheckNames,
    seed: u64,
    generators: AtomicU64,
    /// Given back only after the ledger is worked off, as far as that is possible.
    leases: tokio::sync::Mutex<Vec<Lease>>,
    /// Whether the check is judged although something that it made stays.
    may_leave: AtomicBool,
    /// Room for attached volumes; given back with the leases.
    room: tokio::sync::Mutex<Option<OwnedSemaphorePermit>>,
}

impl Cx {
    /// For a check that is planned; and for whoever else works as one, with a number for its names.
    pub(crate) fn new(session: Session, access: AccessType, number: usize, seed: u64) -> Cx {
        let shared = Shared {
            ledger: Ledger::new(session.target.logbook().cloned()),
            removals: Removals::default(),
            names: session.target.names.of_check(number),
            seed: mixed(seed, &session.check),
            generators: AtomicU64::new(0),
            may_leave: AtomicBool::new(false),
            leases: tokio::sync::Mutex::default(),
            room: tokio::sync::Mutex::default(),
        };
        Cx { session, access, scope: WHOLE, shared: Arc::new(shared) }
    }

    /// The access type this run of the check is for.
    pub fn access(&self) -> AccessType {
        self.access
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
    pub async fn undo(&self) -> Result<(), Stop> {
        let _undoing = self.begin(Part::Undoing);
        let left = self.shared.ledger.undo(&self.session.for_cleanup(), self.scope).await;
        if left.is_empty() {
            Ok(())
        } else {
            Err(Stop::broken(format!("could not undo: {}", left.join("; "))))
        }
    }

    /// Undoes what was made in this scope, as far as the driver lets it: what stays is tried once more at the end of the check, is told
    /// as left behind, and keeps the check from no verdict. Says why it stays.
    pub async fn undo_or_leave(&self) -> Option<String> {
        match self.undo().await {
            Err(Stop::Broken(why)) => {
                self.shared.may_leave.store(true, Ordering::Relaxed);
                Some(why)
            }
            _ => None,
        }
    }

    /// Whether the check is judged although something that it made stays.
    pub(crate) fn may_leave(&self) -> bool {
        self.shared.may_leave.load(Ordering::Relaxed)
    }

    /// Does not undo what calls of this scope that got no answer may have made: to learn its id, the same call would be made again,
    /// which may have been what the driver died of. It is reported as what may have been left behind.
    pub fn give_up_unnamed(&self) {
        self.shared.ledger.give_up_unnamed(self.scope);
    }

    /// The same check on another node: calls of the Node service and paths are that node's.
    pub fn at_node(&self, node: usize) -> Cx {
        Cx { session: self.session.at_node(node), ..self.clone() }
    }

    /// The same check as one of several callers at the same time, told apart in the record of its calls.
    pub fn worker(&self, worker: usize) -> Cx {
        Cx { session: Session { worker, ..self.session.clone() }, ..self.clone() }
    }

    /// The same check with volumes of this access type, whatever it runs for.
    pub fn with_access(&self, access: AccessType) -> Cx {
        Cx { access, ..self.clone() }
    }

    /// The same check with these secrets in each call that takes some, instead of those that are configured. What is made
    /// with them is undone with them.
    pub fn with_secrets(&self, secrets: Pairs) -> Cx {
        Cx { session: self.session.with_secrets(Some(Arc::new(Secret(secrets)))), ..self.clone() }
    }

    /// What is found out about the driver once for all checks, by what it is and for the access type of this one.
    ///
    /// # Errors
    /// Whatever finding it out fails with.
    pub async fn learn<T: Any + Send + Sync>(
        &self,
        find: impl Future<Output = Result<T, Stop>>,
    ) -> Result<Arc<T>, Stop> {
        self.target.learnt.get(self.access, find).await
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

    pub(crate) fn leases(&self) -> &tokio::sync::Mutex<Vec<Lease>> {
        &self.shared.leases
    }

    /// Waits until the node has room for the volumes of this check, too.
    pub(crate) async fn enter_node(&self) {
        let mut room = self.shared.room.lock().await;
        if room.is_none() {
            *room = self.target.room.enter(&self.session).await;
        }
    }

    /// Lets other checks go on that wait for what this one holds: it has ended, and what is left of it is undone only when
    /// they have ended, too.
    pub(crate) async fn make_way(&self) {
        *self.shared.room.lock().await = None;
        self.shared.leases.lock().await.clear();
    }

    /// Everything that is not undone, undone; and what could not be.
    pub(crate) async fn finish(&self) -> Vec<String> {
        let _undoing = self.begin(Part::Undoing);
        let session = self.session.for_cleanup();
        let limit = session.remaining();
        let undone = async {
            let mut left = self.shared.removals.run().await;
            left.extend(self.shared.ledger.undo(&session, WHOLE).await);
            left
        };
        match tokio::time::timeout(limit, undone).await {
            Ok(left) => left,
            Err(_) => {
                let mut left = vec![format!("undoing took longer than {} ms", limit.as_millis())];
                left.extend(self.shared.removals.open());
                left.extend(self.shared.ledger.open());
                left
            }
        }
    }

    /// What is not undone, and may be there.
    pub(crate) fn left_behind(&self) -> Vec<LeftBehind> {
        let mut left = self.shared.ledger.left_behind(&self.session.check);
        left.extend(self.shared.removals.open().into_iter().map(|what| LeftBehind {
            what,
            id: None,
            why: "it could not be removed".to_owned(),
            in_doubt: false,
            check: Some(self.session.check.to_string()),
            remove: Some(Removal::Cleanup),
        }));
        left
    }

    /// Removes something at the end of the check, whatever happens, that is no driver's.
    pub fn removes(&self, one: Arc<dyn Remove>) {
        self.shared.removals.add(one);
    }

    /// Enters a thing in the ledger that is there.
    pub(crate) fn owns(&self, thing: Thing) {
        self.shared.ledger.write(thing, &self.session, self.scope);
    }

    /// Enters a thing in the ledger that may be there.
    pub(crate) fn may_own(&self, thing: Thing) {
        drop(self.shared.ledger.claim(thing, &self.session, self.scope));
    }

    /// Makes a thing by a call: entered in the ledger first, and struck out if it cannot be there.
    pub(crate) async fn making<T>(&self, thing: Thing, call: impl Future<Output = Reply<T>>) -> Reply<T> {
        let claim = self.shared.ledger.claim(thing, &self.session, self.scope);
        let reply = call.await;
        claim.end(reply.makes());
        reply
    }

    /// Finds out what a call has made by its answer: until that is there, `pending` stands for it in the ledger.
    pub(crate) async fn learning<T>(
        &self,
        pending: Thing,
        call: impl Future<Output = Reply<T>>,
        made: impl FnOnce(&T) -> Option<Thing>,
    ) -> Reply<T> {
        let claim = self.shared.ledger.claim(pending.clone(), &self.session, self.scope);
        let reply = call.await;
        match reply.answer() {
            Answer::Ok(response) => {
                if let Some(thing) = made(response) {
                    self.owns(thing);
                }
                self.shared.ledger.settle(&pending, self.session.node());
                claim.end(Exists::No);
            }
            Answer::Refused(_) | Answer::Unknown(_) => claim.end(reply.makes()),
        }
        reply
    }

    /// Deletes a member of a group snapshot by a call, and notes it in the ledger unless it was not done.
    pub(crate) async fn parting<T>(
        &self,
        group: Thing,
        member: String,
        call: impl Future<Output = Reply<T>>,
    ) -> Reply<T> {
        let reply = call.await;
        if reply.makes() != Exists::No {
            self.shared.ledger.amend(&group, self.session.node(), |group| group.part_with(&member));
        }
        reply
    }

    /// Undoes a thing by a call, and strikes it out of the ledger if that is done.
    pub(crate) async fn undoing<T>(&self, thing: Thing, call: impl Future<Output = Reply<T>>) -> Reply<T> {
        let undoing = self.shared.ledger.undoing(&thing, self.session.node());
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

/// The seed of one check (FNV-1a).
fn mixed(seed: u64, label: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    seed.to_le_bytes().iter().chain(label.as_bytes()).fold(0xcbf2_9ce4_8422_2325, step)
}
