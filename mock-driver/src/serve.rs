//! The steps that every call passes before its handler: offered services, pending operations, and injected failures.

use std::future::{Future, pending};
use std::sync::atomic::Ordering;
use std::time::Instant;

use csi_proto::v1;
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::group_controller_server::GroupController;
use csi_proto::v1::identity_server::Identity;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata;
use csi_proto::{ConnectionNumber, RPCS, StreamingCall, UnaryCall};
use tonic::{Request, Response, Status};

use crate::call::{Call, NODE_VOLUME, Stream};
use crate::defect::Defect;
use crate::defects::{
    End, StaleRead, corrupt_rejection, crash_on_second_connection, end_of_calls, has_saving_defect,
    leak_after, leak_for_connection, print_secrets, save_with_defect, send, stays_locked, wait_under_load,
};
use crate::driver::MockDriver;
use crate::hold::{HoldPoint, HoldStage};
use crate::option_value::RpcName;
use crate::quirk::Quirk;
use crate::state::State;
use crate::validate::{self, Demand, invalid};
use crate::{defects, inspect};

/// The largest number of different calls that are throttled.
const PUT_OFF_MAX: usize = 100_000;
/// The memory that a call leaves with the quirk of a collected heap, and that after which it is given back.
const GARBAGE_BYTES_OF_A_CALL: usize = 64 << 10;
const GARBAGE_BYTES_MAX: usize = 24 << 20;
/// An allocation of more than 32 MiB is a mapping of its own in every allocator that we know, so that the kernel gets it back at once. Only
/// what was written to takes up memory.
const GARBAGE_BYTES_RESERVED: usize = 48 << 20;

impl MockDriver {
    /// Serves a call with the steps that all calls share. The handler only runs if none of them rejects the call.
    pub(crate) async fn serve<R>(
        &self,
        connection: Option<ConnectionNumber>,
        request: &R,
        handler: impl Future<Output = Result<R::Response, Status>>,
    ) -> Result<R::Response, Status>
    where
        R: UnaryCall + Call,
    {
        let started = Instant::now();
        let answer = self.run(connection, request, handler).await;
        if let Some(log) = &self.call_log {
            let response = answer.as_ref().map(std::slice::from_ref);
            log.write(R::METHOD, request, response, started.elapsed())?;
        }
        answer
    }

    /// Like [`MockDriver::serve`], for a stream of messages about a snapshot.
    pub(crate) async fn serve_stream<R>(
        &self,
        connection: Option<ConnectionNumber>,
        request: &R,
        snapshot_id: &str,
        handler: impl Future<Output = Result<Vec<R::Response>, Status>>,
    ) -> Result<Stream<R::Response>, Status>
    where
        R: StreamingCall + Call,
    {
        let started = Instant::now();
        let answer = self.run(connection, request, handler).await;
        if let Some(log) = &self.call_log {
            log.write(R::METHOD, request, answer.as_deref(), started.elapsed())?;
        }
        Ok(send(self, snapshot_id, answer?))
    }

    async fn run<R: Call, T: Default>(
        &self,
        connection: Option<ConnectionNumber>,
        request: &R,
        handler: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        // If a caller abandons a call, the server drops it by the time it is polled twice. If it were handled before
        // that, it might undo what the caller has requested since.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        crash_on_second_connection(self, connection, R::METHOD);
        self.check_offered::<R>()?;
        print_secrets(self, request);
        self.leave_garbage();
        self.throttle(request)?;
        leak_for_connection(self, connection);
        let after = After::of(self, R::METHOD);
        let pending = self.lock(connection, request)?;
        self.wait_before_handler::<R>().await;
        wait_under_load(self, R::METHOD, request.locks().map(|(_, object)| object)).await;
        let refusal = self
            .injected_failure(R::METHOD)
            .or_else(|| self.check_secrets(request).err())
            .or_else(|| end_of_calls(self, R::METHOD).err());
        let answer = match refusal {
            Some(refusal) => Err(refusal),
            None => handler.await,
        };
        self.hold::<R>(HoldStage::BeforeAnswer).await;
        if let Some(pending) = pending {
            pending.end(answer.is_err() && stays_locked(self, R::METHOD));
        }
        after.end(answer.is_ok());
        if R::CHANGES {
            inspect::write(self)?;
        }
        answer.or_else(|status| corrupt_rejection(self, request, status))
    }

    /// Changes the state in one step. All of the change happens or nothing, even if the caller abandons the call, and
    /// no other call sees it half done. A call can be held just before this step.
    pub(crate) async fn change<R: Call, T>(
        &self,
        request: &R,
        change: impl FnOnce(&mut State) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let stale = StaleRead::take(self, request);
        self.hold::<R>(HoldStage::BeforeCommit).await;
        let answer = {
            let mut state = self.state();
            stale.restore(&mut state);
            if self.has(Defect::RestartForgetsLastWrite) {
                self.save(&state)?;
            }
            let answer = change(&mut state);
            stale.repeat(&mut state);
            if has_saving_defect(self) { answer } else { self.save(&state).and(answer) }
        };
        save_with_defect(self).await.and(answer)
    }

    /// Waits for the delay that is configured for this step.
    pub(crate) async fn hold<R: Call>(&self, step: HoldStage) {
        if let Some(delay) = self.config.delay.get(&HoldPoint { rpc: RpcName(R::METHOD), step }) {
            tokio::time::sleep(delay.0).await;
        }
    }

    /// Returns UNIMPLEMENTED for services and RPCs that are not offered.
    fn check_offered<R: Call>(&self) -> Result<(), Status> {
        let service = RPCS.iter().find(|rpc| rpc.method == R::METHOD).map(|rpc| rpc.service);
        let offered = service.is_some_and(|service| self.offers(service));
        let advertised = R::NEEDS.is_empty() || R::NEEDS.iter().any(|needed| self.advertises(*needed));
        let broken = Defect::unimplemented(R::METHOD).is_some_and(|defect| self.has(defect));
        if offered && advertised && !broken {
            return Ok(());
        }
        if self.has(Defect::UnsupportedAsInternal) {
            return Err(Status::internal("todo"));
        }
        Err(Status::unimplemented(format!("{} is not supported", R::METHOD)))
    }

    /// Returns UNAVAILABLE now and then, with the quirk that does so; a repeated call is accepted.
    fn throttle<R: Call>(&self, request: &R) -> Result<(), Status> {
        if !self.is(Quirk::ThrottlesEveryFifthCall) {
            return Ok(());
        }
        let call = (R::METHOD, request.encode_to_vec());
        let mut put_off = self.put_off.lock();
        let again = put_off.contains(&call) || put_off.len() == PUT_OFF_MAX;
        if again || self.calls.fetch_add(1, Ordering::Relaxed) % 5 != 4 {
            return Ok(());
        }
        put_off.insert(call);
        Err(Status::unavailable("too many calls, try again"))
    }

    /// Takes memory with each call, and gives all of it back when it is much, with the quirk that does so.
    fn leave_garbage(&self) {
        if !self.is(Quirk::HeapCollectedInWaves) {
            return;
        }
        let mut garbage = self.garbage.lock();
        if garbage.len() >= GARBAGE_BYTES_MAX {
            *garbage = Vec::new();
        }
        if garbage.is_empty() {
            garbage.reserve_exact(GARBAGE_BYTES_RESERVED);
        }
        let bytes = garbage.len() + GARBAGE_BYTES_OF_A_CALL;
        garbage.resize(bytes, 1);
    }

    /// Rejects a second operation on an object with ABORTED while the first is pending, as CSI recommends.
    fn lock<R: Call>(
        &self,
        connection: Option<ConnectionNumber>,
        request: &R,
    ) -> Result<Option<Pending<'_>>, Status> {
        let Some((kind, name)) = request.locks() else { return Ok(None) };
        // A request without a name is malformed, regardless of pending operations.
        let races = match R::METHOD {
            "CreateVolume" => self.has(Defect::CreateVolumeRacesOnName),
            "CreateSnapshot" => self.has(Defect::CreateSnapshotRacesOnName),
            _ => false,
        };
        if name.is_empty() || races {
            return Ok(None);
        }
        let mut object = format!("{kind} {name}");
        if kind == NODE_VOLUME {
            object = format!("{object} on {}", self.this_node().id);
        }
        if self.has(Defect::LockCoversAllObjects) {
            object = "everything".to_owned();
        }
        let mut busy = self.busy.lock();
        let is_free = match busy.get(&object) {
            None => true,
            Some(owner) => owner.is_some() && *owner == connection,
        };
        if !is_free {
            return Err(Status::aborted(format!("an operation on {object} is pending")));
        }
        busy.insert(object.clone(), None);
        let owner = connection.filter(|_| self.has(Defect::LockOwnedByConnection));
        let stuck = owner.is_some() || self.has(Defect::LockKeptAfterCancel);
        Ok(Some(Pending { driver: self, object, stuck, owner }))
    }

    async fn wait_before_handler<R: Call>(&self) {
        let hangs = match R::METHOD {
            "Probe" => self.has(Defect::ProbeHangs),
            "NodeGetVolumeStats" => self.has(Defect::NodeGetVolumeStatsHangs),
            _ => false,
        };
        if hangs {
            pending::<()>().await;
        }
        self.hold::<R>(HoldStage::Start).await;
        if self.is(Quirk::SlowStart) {
            tokio::time::sleep_until((self.started + self.config.start_delay.0).into()).await;
        }
        if self.is(Quirk::SlowCalls) {
            tokio::time::sleep(self.config.call_delay.0).await;
        }
    }

    fn injected_failure(&self, method: &'static str) -> Option<Status> {
        let mut failures = self.failures.lock();
        let failure = failures.get_mut(method).filter(|failure| failure.times > 0)?;
        failure.times -= 1;
        Some(Status::new(failure.code, format!("{method} fails, as configured")))
    }

    fn check_secrets<R: Call>(&self, request: &R) -> Result<(), Status> {
        let Some(secrets) = request.secrets() else { return Ok(()) };
        validate::map("secrets", secrets)?;
        match validate::demanded(secrets, &self.config.required_secrets.0) {
            Ok(()) => Ok(()),
            Err(Demand::Missing(key)) => Err(invalid(format!("secret `{key}` is missing"))),
            Err(Demand::Wrong(key)) => Err(Status::unauthenticated(format!("secret `{key}` is not valid"))),
        }
    }
}

/// A call in progress, for defects that leak resources. If it is dropped without an end, its caller has abandoned it.
struct After<'a> {
    driver: &'a MockDriver,
    method: &'static str,
    end: End,
}

impl After<'_> {
    fn of<'a>(driver: &'a MockDriver, method: &'static str) -> After<'a> {
        After { driver, method, end: End::Abandoned }
    }

    fn end(mut self, is_done: bool) {
        self.end = if is_done { End::Done } else { End::Rejected };
    }
}

impl Drop for After<'_> {
    fn drop(&mut self) {
        leak_after(self.driver, self.method, self.end);
    }
}

/// A pending operation. Dropping it unlocks the object, even if the caller abandons the call.
struct Pending<'a> {
    driver: &'a MockDriver,
    object: String,
    /// True if the object stays locked, with a defect.
    stuck: bool,
    /// The connection that may still use the object if it stays locked.
    owner: Option<ConnectionNumber>,
}

impl Pending<'_> {
    fn end(mut self, stuck: bool) {
        self.stuck = stuck;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut busy = self.driver.busy.lock();
        if self.stuck {
            busy.insert(self.object.clone(), self.owner);
        } else {
            busy.remove(&self.object);
        }
    }
}

/// Implements a service whose RPCs all return a single message. Each calls the function of its name.
macro_rules! serve {
    ($service:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for MockDriver {
            $(async fn $rpc(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                let connection = request.extensions().get().copied();
                let request = request.into_inner();
                self.serve(connection, &request, defects::$rpc(self, &request)).await.map(Response::new)
            })*
        }
    };
}

csi_proto::rpcs!(Identity serve);
csi_proto::rpcs!(Controller serve);
csi_proto::rpcs!(GroupController serve);
csi_proto::rpcs!(Node serve);

#[tonic::async_trait]
impl SnapshotMetadata for MockDriver {
    type GetMetadataAllocatedStream = Stream<v1::GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Stream<v1::GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<v1::GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let connection = request.extensions().get().copied();
        let request = request.into_inner();
        let handler = defects::get_metadata_allocated(self, &request);
        self.serve_stream(connection, &request, &request.snapshot_id, handler).await.map(Response::new)
    }

    async fn get_metadata_delta(
        &self,
        request: Request<v1::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let connection = request.extensions().get().copied();
        let request = request.into_inner();
        let handler = defects::get_metadata_delta(self, &request);
        self.serve_stream(connection, &request, &request.target_snapshot_id, handler).await.map(Response::new)
    }
}
