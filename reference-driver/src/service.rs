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
        Ok(task.await.map_err(|_| Status::internal("the call ended unexpectedly"))??)
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

#[tonic::async_trait]
impl Controller for HostpathDriver {
    async fn create_volume(&self, request: Request<CreateVolumeRequest>) -> Reply<CreateVolumeResponse> {
        self.call(request, controller::create_volume).await
    }

    async fn delete_volume(&self, request: Request<DeleteVolumeRequest>) -> Reply<DeleteVolumeResponse> {
        self.call(request, controller::delete_volume).await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Reply<ControllerPublishVolumeResponse> {
        self.call(request, controller::controller_publish_volume).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Reply<ControllerUnpublishVolumeResponse> {
        self.call(request, controller::controller_unpublish_volume).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Reply<ValidateVolumeCapabilitiesResponse> {
        self.call(request, controller::validate_volume_capabilities).await
    }

    async fn list_volumes(&self, request: Request<ListVolumesRequest>) -> Reply<ListVolumesResponse> {
        self.call(request, controller::list_volumes).await
    }

    async fn get_capacity(&self, request: Request<GetCapacityRequest>) -> Reply<GetCapacityResponse> {
        self.call(request, controller::get_capacity).await
    }

    async fn controller_get_capabilities(
        &self,
        request: Request<ControllerGetCapabilitiesRequest>,
    ) -> Reply<ControllerGetCapabilitiesResponse> {
        self.at_once(request, controller::controller_get_capabilities)
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Reply<CreateSnapshotResponse> {
        self.call(request, controller::create_snapshot).await
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Reply<DeleteSnapshotResponse> {
        self.call(request, controller::delete_snapshot).await
    }

    async fn list_snapshots(&self, request: Request<ListSnapshotsRequest>) -> Reply<ListSnapshotsResponse> {
        self.call(request, controller::list_snapshots).await
    }

    async fn get_snapshot(&self, request: Request<GetSnapshotRequest>) -> Reply<GetSnapshotResponse> {
        self.call(request, controller::get_snapshot).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Reply<ControllerExpandVolumeResponse> {
        self.call(request, controller::controller_expand_volume).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Reply<ControllerGetVolumeResponse> {
        self.call(request, controller::controller_get_volume).await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Reply<ControllerModifyVolumeResponse> {
        self.call(request, controller::controller_modify_volume).await
    }

    async fn controller_list_volume_health(
        &self,
        request: Request<ControllerListVolumeHealthRequest>,
    ) -> Reply<ControllerListVolumeHealthResponse> {
        self.call(request, controller::controller_list_volume_health).await
    }

    async fn controller_get_volume_health(
        &self,
        request: Request<ControllerGetVolumeHealthRequest>,
    ) -> Reply<ControllerGetVolumeHealthResponse> {
        self.call(request, controller::controller_get_volume_health).await
    }
}

#[tonic::async_trait]
impl GroupController for HostpathDriver {
    async fn group_controller_get_capabilities(
        &self,
        request: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Reply<GroupControllerGetCapabilitiesResponse> {
        self.at_once(request, group::group_controller_get_capabilities)
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Reply<CreateVolumeGroupSnapshotResponse> {
        self.call(request, group::create_volume_group_snapshot).await
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Reply<DeleteVolumeGroupSnapshotResponse> {
        self.call(request, group::delete_volume_group_snapshot).await
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Reply<GetVolumeGroupSnapshotResponse> {
        self.call(request, group::get_volume_group_snapshot).await
    }
}

#[tonic::async_trait]
impl Node for HostpathDriver {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Reply<NodeStageVolumeResponse> {
        self.call(request, node::node_stage_volume).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Reply<NodeUnstageVolumeResponse> {
        self.call(request, node::node_unstage_volume).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Reply<NodePublishVolumeResponse> {
        self.call(request, node::node_publish_volume).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        self.call(request, node::node_unpublish_volume).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Reply<NodeGetVolumeStatsResponse> {
        self.call(request, node::node_get_volume_stats).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Reply<NodeExpandVolumeResponse> {
        self.call(request, node::node_expand_volume).await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Reply<NodeGetCapabilitiesResponse> {
        self.at_once(request, node::node_get_capabilities)
    }

    async fn node_get_info(&self, request: Request<NodeGetInfoRequest>) -> Reply<NodeGetInfoResponse> {
        self.at_once(request, node::node_get_info)
    }

    async fn node_get_volume_health(
        &self,
        request: Request<NodeGetVolumeHealthRequest>,
    ) -> Reply<NodeGetVolumeHealthResponse> {
        self.call(request, node::node_get_volume_health).await
    }

    async fn node_get_storage_health(
        &self,
        request: Request<NodeGetStorageHealthRequest>,
    ) -> Reply<NodeGetStorageHealthResponse> {
        self.call(request, node::node_get_storage_health).await
    }
}

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
