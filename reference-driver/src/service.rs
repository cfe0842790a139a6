//! The five services as gRPC sees them.
//!
//! Each call runs as one function on a thread that may block. It is not bound to the future that waits for it: if the
//! caller goes away, the call still runs to its end, so nothing is left half done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_proto::v1::controller_server::{Controller, ControllerServer};
use csi_proto::v1::group_controller_server::{GroupController, GroupControllerServer};
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::v1::node_server::{Node, NodeServer};
use csi_proto::v1::snapshot_metadata_server::{SnapshotMetadata, SnapshotMetadataServer};
use csi_proto::v1::*;
use csi_proto::{Call, UnaryCall};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};

use crate::config::Config;
use crate::driver::{Driver, StartError};
use crate::error::DriverError;
use crate::metadata::{Allocated, Delta};
use crate::metrics::{self, Gauges, Metrics};
use crate::{controller, group, identity, node, reconcile};

/// How many calls work at the same time; others wait.
const CALLS_MAX: usize = 256;
/// How many streams are filled at the same time; others wait. Each takes a thread for as long as its reader likes, and
/// must leave enough for calls.
const STREAMS_MAX: usize = 64;
/// How many messages a stream is ahead of its reader.
const MESSAGES_AHEAD: usize = 4;
/// How long a call waits for the driver to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The driver on a node, with one implementation of each service. Clones share everything.
#[derive(Clone, Debug)]
pub struct HostpathDriver {
    driver: Arc<Driver>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    slots: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    ready: watch::Receiver<bool>,
    metrics: Metrics,
}

impl HostpathDriver {
    /// Opens the state and begins to put right what a crash has left. Blocks; calls wait until all is right.
    ///
    /// # Errors
    /// If a setting is wrong, or if the state cannot be used; then it has not been touched.
    pub fn new(config: Config) -> Result<HostpathDriver, StartError> {
        let driver = Arc::new(Driver::open(config)?);
        if !driver.privileged {
            tracing::warn!(
                "running without CAP_SYS_ADMIN: no mounts, images, block volumes or read-only targets"
            );
        }
        let (done, ready) = watch::channel(false);
        let reconciled = Arc::clone(&driver);
        std::thread::spawn(move || {
            if let Err(error) = reconcile::run(&reconciled) {
                tracing::error!(%error, "not everything could be put right at the start");
            }
            drop(reconciled);
            done.send_replace(true);
        });
        let shared = Shared {
            slots: Arc::new(Semaphore::new(CALLS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            ready,
            metrics: Metrics::default(),
        };
        Ok(HostpathDriver { driver, shared: Arc::new(shared) })
    }

    /// Waits until the driver is ready to serve; `false` if it will never be.
    pub async fn ready(&self) -> bool {
        let mut ready = self.shared.ready.clone();
        ready.wait_for(|ready| *ready).await.is_ok()
    }

    /// All services, to be served.
    pub fn routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone()))
            .add_service(ControllerServer::new(self.clone()))
            .add_service(GroupControllerServer::new(self.clone()))
            .add_service(SnapshotMetadataServer::new(self.clone()))
            .add_service(NodeServer::new(self.clone()))
    }

    /// The services of a node, to be served where the others are not needed.
    pub fn node_routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone())).add_service(NodeServer::new(self.clone()))
    }

    /// The driver on another node, one of those that the settings name.
    pub fn at_node(&self, node_id: &str) -> HostpathDriver {
        let driver = Arc::new(self.driver.at_node(node_id.to_owned()));
        HostpathDriver { driver, shared: Arc::clone(&self.shared) }
    }

    /// The metrics in the text format of Prometheus.
    pub async fn metrics_text(&self) -> String {
        let ready = *self.shared.ready.borrow();
        let driver = Arc::clone(&self.driver);
        let gauges = tokio::task::spawn_blocking(move || -> Result<Gauges, DriverError> {
            let view = driver.store.view()?;
            let (volumes, snapshots) = (view.volume_count()?, view.snapshot_count()?);
            Ok(Gauges { volumes, snapshots, volumes_bytes: driver.ledger.volumes_bytes(), ready })
        });
        let gauges = gauges.await.ok().and_then(Result::ok).unwrap_or_default();
        metrics::render(&self.shared.metrics, gauges)
    }

    /// Runs a handler on a thread that may block, once the driver is ready.
    async fn call<Q>(
        &self,
        request: Request<Q>,
        handler: fn(&Driver, &Q) -> Result<Q::Response, DriverError>,
    ) -> Result<Response<Q::Response>, Status>
    where
        Q: UnaryCall + Send,
        Q::Response: Send,
    {
        let start = Instant::now();
        let result = self.wait_and_run(request, handler).await;
        let code = result.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.shared.metrics.count(Q::RPC.method, code, start.elapsed());
        result.map(Response::new)
    }

    async fn wait_and_run<Q, R>(
        &self,
        request: Request<Q>,
        handler: fn(&Driver, &Q) -> Result<R, DriverError>,
    ) -> Result<R, Status>
    where
        Q: Call + Send,
        R: Send + 'static,
    {
        let ready = *self.shared.ready.borrow();
        if !ready && tokio::time::timeout(START_LIMIT, self.ready()).await != Ok(true) {
            return Err(Status::unavailable("the driver has not started yet"));
        }
        let slot = take_slot(&self.shared.slots).await?;
        let driver = Arc::clone(&self.driver);
        let span = tracing::Span::current();
        let message = request.into_inner();
        let task = tokio::task::spawn_blocking(move || {
            let _slot = slot; // Held by the work, not by the future that waits for it.
            span.in_scope(|| {
                let result = handler(&driver, &message);
                if let Err(error) = &result {
                    tracing::info!(%error, "failed");
                }
                result
            })
        });
        Ok(done(task).await??)
    }

    /// Answers at once, for calls that do not touch the state.
    fn at_once<Q: UnaryCall>(
        &self,
        request: Request<Q>,
        handler: fn(&Driver, &Q) -> Result<Q::Response, DriverError>,
    ) -> Result<Response<Q::Response>, Status> {
        let start = Instant::now();
        let result = handler(&self.driver, request.get_ref()).map_err(Status::from);
        let code = result.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.shared.metrics.count(Q::RPC.method, code, start.elapsed());
        result.map(Response::new)
    }
}

/// What a task came to. One that never ran belongs to a driver that has been killed in a process that lives on: it answers nobody.
async fn done<T>(task: JoinHandle<T>) -> Result<T, Status> {
    match task.await {
        Err(ended) if ended.is_cancelled() => std::future::pending().await,
        done => done.map_err(|_| Status::internal("the call ended unexpectedly")),
    }
}

/// Waits for a slot.
async fn take_slot(slots: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Status> {
    let taken = Arc::clone(slots).acquire_owned().await;
    taken.map_err(|_| Status::unavailable("the driver is stopping"))
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Identity for HostpathDriver {
    async fn get_plugin_info(&self, request: Request<GetPluginInfoRequest>) -> Reply<GetPluginInfoResponse> {
        self.at_once(request, identity::get_plugin_info)
    }

    async fn get_plugin_capabilities(
        &self,
        request: Request<GetPluginCapabilitiesRequest>,
    ) -> Reply<GetPluginCapabilitiesResponse> {
        self.at_once(request, identity::get_plugin_capabilities)
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Reply<ProbeResponse> {
        let ready = *self.shared.ready.borrow();
        self.shared.metrics.count(ProbeRequest::RPC.method, Code::Ok, Duration::ZERO);
        Ok(Response::new(ProbeResponse { ready: Some(ready) }))
    }
}

/// Answers a call by the function of its name: at once where that only tells what is known, else on a thread that may block.
macro_rules! answer {
    ($driver:ident $module:ident controller_get_capabilities($request:expr)) => {
        $driver.at_once($request, $module::controller_get_capabilities)
    };
    ($driver:ident $module:ident group_controller_get_capabilities($request:expr)) => {
        $driver.at_once($request, $module::group_controller_get_capabilities)
    };
    ($driver:ident $module:ident node_get_capabilities($request:expr)) => {
        $driver.at_once($request, $module::node_get_capabilities)
    };
    ($driver:ident $module:ident node_get_info($request:expr)) => {
        $driver.at_once($request, $module::node_get_info)
    };
    ($driver:ident $module:ident $rpc:ident($request:expr)) => {
        $driver.call($request, $module::$rpc).await
    };
}

macro_rules! serve {
    ($service:ident in $module:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for HostpathDriver {
            $(async fn $rpc(&self, request: Request<$request>) -> Reply<$response> {
                answer!(self $module $rpc(request))
            })*
        }
    };
}

csi_proto::rpcs!(Controller serve in controller);
csi_proto::rpcs!(GroupController serve in group);
csi_proto::rpcs!(Node serve in node);

#[tonic::async_trait]
impl SnapshotMetadata for HostpathDriver {
    type GetMetadataAllocatedStream = ReceiverStream<Result<GetMetadataAllocatedResponse, Status>>;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Reply<Self::GetMetadataAllocatedStream> {
        let start = Instant::now();
        let slot = take_slot(&self.shared.streams).await?;
        let checked = self.wait_and_run(request, Allocated::read).await;
        self.count_stream::<GetMetadataAllocatedRequest>(&checked, start);
        let checked = checked?;
        Ok(stream(slot, move |to| checked.run(to)))
    }

    type GetMetadataDeltaStream = ReceiverStream<Result<GetMetadataDeltaResponse, Status>>;

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Reply<Self::GetMetadataDeltaStream> {
        let start = Instant::now();
        let slot = take_slot(&self.shared.streams).await?;
        let checked = self.wait_and_run(request, Delta::read).await;
        self.count_stream::<GetMetadataDeltaRequest>(&checked, start);
        let checked = checked?;
        Ok(stream(slot, move |to| checked.run(to)))
    }
}

impl HostpathDriver {
    /// Counts a streaming call by the outcome of its check.
    fn count_stream<Q: Call>(&self, checked: &Result<impl Sized, Status>, start: Instant) {
        let code = checked.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.shared.metrics.count(Q::RPC.method, code, start.elapsed());
    }
}

/// Fills a stream from a thread that may block; an error while reading ends the stream with a status.
fn stream<T: Send + 'static>(
    slot: OwnedSemaphorePermit,
    fill: impl FnOnce(mpsc::Sender<Result<T, Status>>) -> std::io::Result<()> + Send + 'static,
) -> Response<ReceiverStream<Result<T, Status>>> {
    let (to, from) = mpsc::channel(MESSAGES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let _slot = slot;
        if let Err(error) = fill(to.clone()) {
            let _ = to.blocking_send(Err(Status::internal(format!("failed to read the snapshot: {error}"))));
        }
    });
    Response::new(ReceiverStream::new(from))
}

#[cfg(test)]
mod tests {
    use std::future::{Future as _, poll_fn, ready};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Whether a task that has ended is answered at the first look.
    async fn is_answered(task: JoinHandle<()>) -> bool {
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
        let mut answer = pin!(done(task));
        poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_driver_that_was_killed_answers_nobody() {
        assert!(is_answered(tokio::spawn(ready(()))).await);
        let never_ran = tokio::spawn(std::future::pending());
        never_ran.abort();
        assert!(!is_answered(never_ran).await);
    }
}
