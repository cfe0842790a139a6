//! Tests calls to services in this process.

use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::{Breaker, Transport, v1};
use tonic::service::Routes;

use crate::plugin::Plugin;

#[tokio::test]
async fn in_process_calls_are_answered_or_broken() {
    let (plugin, breaker) = (Plugin::new(), Breaker::default());
    let called = plugin.called.clone();
    let transport = Transport::InProcess(Routes::new(IdentityServer::new(plugin)), breaker.clone());
    let mut client = IdentityClient::new(transport);
    let mut other = client.clone();
    let probe = tokio::spawn(async move { other.probe(v1::ProbeRequest {}).await });
    let _at_work = called.acquire().await.unwrap();
    breaker.break_connection();
    let broken = probe.await.unwrap().unwrap_err();
    assert!(std::error::Error::source(&broken).is_some(), "a status of ours, not the driver's: {broken:?}");
    let answer = client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
    assert_eq!(answer.into_inner().name, "it.example");
}
