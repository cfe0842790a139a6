//! What the body of a check works with.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::{Call, Service, StreamingCall, UnaryCall, redact};

use crate::call;
use crate::config::{AccessType, Config};
use crate::ledger::Ledger;
use crate::record::{self, CallLog, CallRecord, Render};
use crate::reply::{Answer, NoAnswer, Reply};
use crate::target::Target;
use crate::verdict::{Stop, Violation};
use crate::volumes::Lease;

/// Sends calls for one check, records them, and keeps to its deadline.
#[derive(Debug)]
pub struct Session {
    target: Arc<Target>,
    log: Arc<CallLog>,
    deadline: Instant,
    cleanup: bool,
}

impl Session {
    pub(crate) fn new(target: Arc<Target>, log: Arc<CallLog>, limit: Duration) -> Session {
        Session { target, log, deadline: Instant::now() + limit, cleanup: false }
    }

    pub(crate) fn for_cleanup(&self, limit: Duration) -> Session {
        Session {
            target: self.target.clone(),
            log: self.log.clone(),
            deadline: Instant::now() + limit,
            cleanup: true,
        }
    }

    /// The driver under test.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What the user has set.
    pub fn config(&self) -> &Config {
        self.target.config()
    }

    /// Time left.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Sends a request and records it. Secrets configured for the RPC are filled in unless the request has some.
    pub async fn call<Q>(&self, mut request: Q) -> Reply<Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.fill_secrets(&mut request);
        self.call_as_it_is(request).await
    }

    /// Sends a request as it is, so also without secrets.
    pub async fn call_as_it_is<Q>(&self, request: Q) -> Reply<Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.call_at(Q::RPC.service, request).await
    }

    /// Sends a request as it is to the endpoint that has another service: Identity is on every endpoint.
    pub async fn call_at<Q>(&self, service: Service, request: Q) -> Reply<Q::Response>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        let rpc = Q::RPC;
        let limit = self.limit(rpc.method);
        let sent = (self.log.elapsed(), Instant::now());
        let copy = request.clone();
        let answer = if limit.is_zero() {
            Answer::Unknown(NoAnswer::Timeout(limit))
        } else {
            call::unary(self.target.channel(service), request, limit, &self.target.replies).await
        };
        let response = answer.as_ref().map(|response| record::keep(std::slice::from_ref(response)));
        self.record(rpc, sent, Box::new(move || redact::json(&copy)), response);
        Reply::new(rpc, answer, self.log.clone())
    }

    /// Sends a request that is answered by a stream, reads all of it, and records both.
    pub async fn stream<Q>(&self, mut request: Q) -> Reply<Vec<Q::Response>>
    where
        Q: StreamingCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        self.fill_secrets(&mut request);
        let rpc = Q::RPC;
        let limit = self.limit(rpc.method);
        let sent = (self.log.elapsed(), Instant::now());
        let copy = request.clone();
        let answer =
            call::streaming(self.target.channel(rpc.service), request, limit, &self.target.replies).await;
        let response = answer.as_ref().map(|messages| record::keep(messages));
        self.record(rpc, sent, Box::new(move || redact::json(&copy)), response);
        Reply::new(rpc, answer, self.log.clone())
    }

    /// Reports something that does not stop the check: a recommendation not kept, an answer only tolerated.
    pub fn warn(&self, warning: Violation) {
        self.log.warn(warning);
    }

    /// Asks again until the answer is there, and returns `None` once `time-limits: settle-ms` has passed.
    ///
    /// # Errors
    /// Whatever the question fails with.
    pub async fn eventually<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<Option<T>, Stop>
    where
        F: Future<Output = Result<Option<T>, Stop>>,
    {
        let limit = Duration::from_millis(self.config().time_limits.settle_ms).min(self.remaining());
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(5);
        loop {
            let found = ask().await?;
            if found.is_some() || Instant::now() + pause > end {
                return Ok(found);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    fn limit(&self, method: &str) -> Duration {
        self.config().time_limits.call(method).min(self.remaining())
    }

    fn fill_secrets<Q: Call>(&self, request: &mut Q) {
        if let (Some(secrets), Some(configured)) =
            (request.secrets_mut(), self.target.config().secrets_for(Q::RPC.method))
            && secrets.is_empty()
        {
            secrets.clone_from(configured);
        }
    }

    fn record(
        &self,
        rpc: csi_proto::Rpc,
        (sent_after, sent): (Duration, Instant),
        request: Render,
        outcome: Answer<Render>,
    ) {
        let duration = sent.elapsed();
        self.log.record(CallRecord { rpc, sent_after, duration, cleanup: self.cleanup, request, outcome });
    }
}

/// What the body of a check gets: a [`Session`] to send calls with, names and paths of its own, and a ledger that
/// undoes whatever is made through it.
#[derive(Debug)]
pub struct Cx {
    session: Session,
    access: AccessType,
    pub(crate) ledger: Ledger,
    /// Given back only after the ledger is worked off.
    pub(crate) leases: tokio::sync::Mutex<Vec<Lease>>,
}

impl Cx {
    pub(crate) fn new(session: Session, access: AccessType) -> Cx {
        Cx { session, access, ledger: Ledger::default(), leases: tokio::sync::Mutex::default() }
    }

    /// The access type this run of the check is for.
    pub fn access(&self) -> AccessType {
        self.access
    }

    /// A name that no other check, run or user has.
    pub fn unique_name(&self) -> String {
        self.target.names.unique()
    }

    /// A unique name of exactly `length` bytes, or of what the back end can take if that is less.
    pub fn unique_name_of_length(&self, length: usize) -> String {
        self.target.names.unique_of_length(length)
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
        template.replace("{n}", &self.target.names.number().to_string())
    }
}

impl Deref for Cx {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}
