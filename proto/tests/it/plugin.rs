//! A plugin that serves only the Identity service, on a socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::{Endpoint, Listener, ServeError, dial, v1};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// It is long enough for a busy machine; no test waits for its end.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Its GetPluginInfo answers at once; its Probe reports the call and waits for permission to answer.
pub(crate) struct Plugin {
    pub(crate) called: Arc<Semaphore>,
    pub(crate) leave: Arc<Semaphore>,
}

impl Plugin {
    pub(crate) fn new() -> Self {
        Self { called: Arc::new(Semaphore::new(0)), leave: Arc::new(Semaphore::new(0)) }
    }
}

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        Ok(Response::new(v1::GetPluginInfoResponse { name: "it.example".into(), ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<v1::GetPluginCapabilitiesResponse>, Status> {
        Err(Status::internal("never"))
    }

    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeResponse>, Status> {
        self.called.add_permits(1);
        let _leave = self.leave.acquire().await;
        Ok(Response::new(v1::ProbeResponse { ready: Some(true) }))
    }
}

/// A plugin that is served.
pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    pub(crate) called: Arc<Semaphore>,
    pub(crate) leave: Arc<Semaphore>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub(crate) fn start(listener: Listener) -> Self {
        let plugin = Plugin::new();
        let (called, leave) = (plugin.called.clone(), plugin.leave.clone());
        let endpoint = listener.endpoint().clone();
        let (stop, stopped) = oneshot::channel();
        let routes = Routes::new(IdentityServer::new(plugin));
        let served = tokio::spawn(listener.serve(routes, async {
            let _ = stopped.await;
        }));
        Self { endpoint, called, leave, stop, served }
    }

    pub(crate) async fn client(&self) -> IdentityClient<Channel> {
        IdentityClient::new(dial(&self.endpoint, LONG).await.expect("the plugin answers"))
    }

    /// Stops the plugin, and returns a handle that waits for its end.
    pub(crate) fn stop(self) -> JoinHandle<Result<(), ServeError>> {
        let _ = self.stop.send(());
        self.served
    }
}

pub(crate) async fn bind(endpoint: &Endpoint) -> Listener {
    Listener::bind(endpoint).await.expect("the endpoint is free")
}

pub(crate) fn socket_in(directory: &tempfile::TempDir) -> Endpoint {
    socket_at(&directory.path().join("csi.sock"))
}

pub(crate) fn socket_at(path: &Path) -> Endpoint {
    Endpoint::Unix(path.to_owned())
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub(crate) fn any_port() -> Endpoint {
    Endpoint::Tcp { host: "127.0.0.1".into(), port: 0 }
}
