//! This plugin has only the Identity service, and is served while a test lasts.

use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::{Endpoint, Listener, v1};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, service::Routes};

struct Plugin;

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        let name = "report.example".to_owned();
        Ok(Response::new(v1::GetPluginInfoResponse {
            name,
            vendor_version: "v1|2".into(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<v1::GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(v1::GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeResponse>, Status> {
        // A hostile or careless driver might send such a text to a terminal, a page or an XML parser.
        Err(Status::internal("\u{1b}[31mred\u{1b}[0m <b>&amp;</b> ```"))
    }
}

/// The plugin is served until this value is dropped.
pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    _stop: oneshot::Sender<()>,
    _directory: TempDir,
}

pub(crate) async fn serve() -> Running {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
    let listener = Listener::bind(&endpoint).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let routes = Routes::new(IdentityServer::new(Plugin));
    tokio::spawn(listener.serve(routes, async {
        let _ = stopped.await;
    }));
    Running { endpoint, _stop: stop, _directory: directory }
}
