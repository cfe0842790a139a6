//! The five gRPC services.
//!
//! Each call runs as a function on a thread that may block. It does not depend on the future that waits for it, so a
//! call continues to its end if its caller goes away, and nothing is left half done.

use std::path::Path;
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
use crate::metrics::Metrics;
use crate::{controller, group, identity, node, reconcile};

/// The largest number of concurrent calls; further ones wait.
const CALLS_MAX: usize = 256;
/// The largest number of concurrent streams; further ones wait. Each blocks a thread for as long as its reader takes,
/// so enough threads have to remain for calls.
const STREAMS_MAX: usize = 64;
/// The number of messages that a stream is ahead of its reader.
const MESSAGES_AHEAD: usize = 4;
/// The longest wait of a call for the driver to finish starting.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The driver on one node, which implements all services. Clones share everything.
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
    /// The directory with the driver's state and its volumes.
    pub fn state_dir(&self) -> &Path {
        &self.driver.config.state_dir
    }

    /// Opens the state and starts to repair the remains of a crash in the background; calls wait until that is done.
    /// Blocks.
    ///
    /// # Errors
    /// If a setting is wrong, or if the state cannot be used, which is then left untouched.
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
            metrics: Metrics::new(),
        };
        Ok(HostpathDriver { driver, shared: Arc::new(shared) })
    }

    /// Waits until the driver is ready to serve; returns false if it never will be.
    pub async fn ready(&self) -> bool {
        let mut ready = self.shared.ready.clone();
        ready.wait_for(|ready| *ready).await.is_ok()
    }

    /// The routes of all services.
    pub fn routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone()))
            .add_service(ControllerServer::new(self.clone()))
            .add_service(GroupControllerServer::new(self.clone()))
            .add_service(SnapshotMetadataServer::new(self.clone()))
            .add_service(NodeServer::new(self.clone()))
    }

    /// The routes of the services that a further node needs.
    pub fn node_routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone())).add_service(NodeServer::new(self.clone()))
    }

    /// The driver as one of the other configured nodes serves it.
    pub fn at_node(&self, node_id: &str) -> HostpathDriver {
        let driver = Arc::new(self.driver.at_node(node_id.to_owned()));
        HostpathDriver { driver, shared: Arc::clone(&self.shared) }
    }

    /// The metrics in the text format of Prometheus. If the state cannot be read, they have the last numbers of volumes and snapshots.
    pub async fn metrics_text(self) -> String {
        let text = tokio::task::spawn_blocking(move || {
            if let Err(error) = self.measure() {
                tracing::warn!(%error, "the state cannot be read for the metrics");
            }
            self.shared.metrics.text()
        });
        text.await.unwrap_or_default()
    }

    /// Enters the present values in the metrics.
    fn measure(&self) -> Result<(), DriverError> {
        let metrics = &self.shared.metrics;
        metrics.ready.set(u64::from(*self.shared.ready.borrow()));
        metrics.volumes_bytes.set(self.driver.ledger.volumes_bytes());
        let view = self.driver.store.view()?;
        metrics.volumes.set(view.volume_count()?);
        metrics.snapshots.set(view.snapshot_count()?);
        Ok(())
    }

    /// Runs a handler on a thread that may block, after the driver is ready.
    async fn call<Q: UnaryCall>(
        &self,
        request: Request<Q>,
        handler: fn(&Driver, &Q) -> Result<Q::Response, DriverError>,
    ) -> Result<Response<Q::Response>, Status> {
        let start = Instant::now();
        let result = self.wait_and_run(request, handler).await;
        let code = result.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.shared.metrics.count(Q::RPC.method, code, start.elapsed());
        result.map(Response::new)
    }

    async fn wait_and_run<Q: Call, R: Send + 'static>(
        &self,
        request: Request<Q>,
        handler: fn(&Driver, &Q) -> Result<R, DriverError>,
    ) -> Result<R, Status> {
        let ready = *self.shared.ready.borrow();
        if !ready && tokio::time::timeout(START_LIMIT, self.ready()).await != Ok(true) {
            return Err(Status::unavailable("the driver has not started yet"));
        }
        let slot = take_slot(&self.shared.slots).await?;
        let driver = Arc::clone(&self.driver);
        let span = tracing::Span::current();
        let message = request.into_inner();
        let task = tokio::task::spawn_blocking(move || {
            let _slot = slot; // The work holds the slot, because the future that waits for it may be dropped.
            span.in_scope(|| {
                let result = handler(&driver, &message);
                if let Err(error) = &result {
                    tracing::info!(%error, "failed");
                }
                result
            })
        });
        Ok(task_result(task).await??)
    }

    /// Runs a handler directly, for calls that do not use the state.
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

/// The result of a task. A task that was cancelled belongs to a driver that was killed while its process continues,
/// so it must not answer.
async fn task_result<T>(task: JoinHandle<T>) -> Result<T, Status> {
    match task.await {
        Err(ended) if ended.is_cancelled() => std::future::pending().await,
        ended => ended.map_err(|_| Status::internal("the call ended unexpectedly")),
    }
}

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

/// Runs the function named like the RPC: directly for RPCs that only read settings, and otherwise on a thread that
/// may block.
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
    // It is of a draft of CSI 1.14, which this driver does not implement.
    ($driver:ident $module:ident controller_get_node_info($request:expr)) => {{
        let _ = $request;
        Err(Status::unimplemented("ControllerGetNodeInfo is not offered"))
    }};
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
    /// Counts a streaming call, with the outcome of checking its request.
    fn count_stream<Q: Call>(&self, checked: &Result<impl Sized, Status>, start: Instant) {
        let code = checked.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.shared.metrics.count(Q::RPC.method, code, start.elapsed());
    }
}

/// Fills a stream from a thread that may block. An error while reading ends the stream with a status.
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

    /// Returns whether `task_result` returns immediately for a task that has ended.
    async fn is_answered(task: JoinHandle<()>) -> bool {
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
        let mut answer = pin!(task_result(task));
        poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn a_killed_driver_does_not_answer() {
        assert!(is_answered(tokio::spawn(ready(()))).await);
        let never_ran = tokio::spawn(std::future::pending());
        never_ran.abort();
        assert!(!is_answered(never_ran).await);
    }
}
