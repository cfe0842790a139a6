//! Connects to a service in the cluster from outside: to the port of a ready pod behind it, with TLS.

use std::io;
use std::sync::Arc;

use csi_harness::prelude::Stop;
use csi_harness::text::message::error_chain;
use csi_proto::lock::Mutex;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::Value;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Channel, Endpoint};

use super::MetadataService;
use crate::cluster::Done;
use crate::kube_cluster::api::{Server, items, text};
use crate::kube_cluster::forward;
use crate::kube_cluster::kind::ApiKind;

/// The label with which endpoint slices name their service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The parts of an address in the cluster.
#[derive(Debug, PartialEq, Eq)]
struct Address<'a> {
    host: &'a str,
    service: &'a str,
    namespace: &'a str,
    port: u64,
}

/// A pod behind a service, and its port.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    pod: String,
    port: u16,
}

/// Opens one connection to the service.
pub(super) async fn open(server: &Server, service: &MetadataService) -> Done<Channel> {
    let broken =
        |why: String| Stop::broken(format!("the SnapshotMetadata service at {}: {why}", service.address));
    let address = parse(&service.address).ok_or_else(|| {
        broken(
            "only addresses as SERVICE.NAMESPACE:PORT can be reached from outside of the cluster".to_owned(),
        )
    })?;
    let place = place(server, &address).await?.map_err(broken)?;
    dial(server, service, &address, &place).await.map_err(broken)
}

/// Parses `SERVICE.NAMESPACE:PORT`, with or without `.svc` and the domain of the cluster.
fn parse(address: &str) -> Option<Address<'_>> {
    let (host, port) = address.rsplit_once(':')?;
    let mut labels = host.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    let is_in_cluster = labels.next().is_none_or(|label| label == "svc");
    let is_named = !service.is_empty() && !namespace.is_empty();
    (is_named && is_in_cluster).then_some(Address { host, service, namespace, port: port.parse().ok()? })
}

async fn place(server: &Server, address: &Address<'_>) -> Done<Result<Place, String>> {
    let namespace = Some(address.namespace);
    let Some(service) = server.get(ApiKind::Service, namespace, address.service).await? else {
        return Ok(Err(format!(
            "there is no Service {} in namespace {}",
            address.service, address.namespace
        )));
    };
    let selector = format!("{SERVICE_LABEL}={}", address.service);
    let slices = server.list(ApiKind::EndpointSlice, namespace, &selector).await?;
    Ok(ready(&service, &slices, address.port)
        .ok_or_else(|| format!("no pod behind it is ready at port {}", address.port)))
}

/// Returns a ready pod behind a port of a service. Slices have the names of the service's ports and the numbers of
/// the pods' ports.
fn ready(service: &Value, slices: &[Value], port: u64) -> Option<Place> {
    let of_service = items(service, "/spec/ports").iter().find(|one| one["port"].as_u64() == Some(port))?;
    let name = text(of_service, "/name");
    slices.iter().find_map(|slice| {
        let port = items(slice, "/ports").iter().find(|one| text(one, "/name") == name)?;
        let port = u16::try_from(port["port"].as_u64()?).ok()?;
        let is_ready =
            |one: &&Value| one["conditions"]["ready"] != false && text(one, "/targetRef/kind") == "Pod";
        let pod = items(slice, "/endpoints").iter().find(is_ready)?;
        Some(Place { pod: text(pod, "/targetRef/name").to_owned(), port })
    })
}

async fn dial(
    server: &Server,
    service: &MetadataService,
    address: &Address<'_>,
    place: &Place,
) -> Result<Channel, String> {
    let tls = TlsConnector::from(Arc::new(tls(&service.authority)?));
    let pods: Api<Pod> = Api::namespaced(server.connection.client.clone(), address.namespace);
    let forwarded = forward::open(&pods, &place.pod, place.port).await;
    let (_forwarder, stream) = forwarded.map_err(|why| format!("pod {}: {why}", place.pod))?;
    let name = ServerName::try_from(address.host.to_owned()).map_err(|error| error.to_string())?;
    let stream = tls.connect(name, stream).await.map_err(|error| error_chain(&error))?;
    // There is only this connection.
    let stream = Mutex::new(Some(TokioIo::new(stream)));
    let connector = tower::service_fn(move |_: tonic::codegen::http::Uri| {
        let stream = stream.lock().take();
        async move { stream.ok_or_else(|| io::Error::other("the connection has ended")) }
    });
    let endpoint =
        Endpoint::from_shared(format!("http://{}", service.address)).map_err(|error| error_chain(&error))?;
    endpoint.connect_with_connector(connector).await.map_err(|error| error_chain(&error))
}

/// Returns TLS that trusts one authority, with HTTP/2 inside.
fn tls(authority: &[u8]) -> Result<ClientConfig, String> {
    let wrong = |error: &(dyn std::error::Error + 'static)| {
        format!("caCert of the SnapshotMetadataService: {}", error_chain(error))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_in_the_cluster_names_a_service() {
        let found = |host, port| Some(Address { host, service: "meta", namespace: "driver", port });
        assert_eq!(parse("meta.driver:6443"), found("meta.driver", 6443));
        assert_eq!(parse("meta.driver.svc:1"), found("meta.driver.svc", 1));
        assert_eq!(parse("meta.driver.svc.cluster.local:1"), found("meta.driver.svc.cluster.local", 1));
        for elsewhere in
            ["meta:1", "10.1.2.3:1", "meta.driver.example.com:1", "meta.driver", "meta.driver:x", ".:1", ""]
        {
            assert_eq!(parse(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn a_ready_pod_behind_a_port_is_chosen() {
        let service = json!({ "spec": { "ports": [
            { "name": "other", "port": 80, "targetPort": 8080 },
            { "name": "cbt", "port": 6443, "targetPort": "cbt" },
        ] } });
        let endpoint = |pod: &str, ready: bool| json!({ "conditions": { "ready": ready }, "targetRef": { "kind": "Pod", "name": pod } });
        let ports = json!([{ "name": "other", "port": 8080 }, { "name": "cbt", "port": 50051 }]);
        let slices = [
            json!({ "ports": ports, "endpoints": [endpoint("a", false)] }),
            json!({ "ports": ports, "endpoints": [endpoint("b", false), endpoint("c", true)] }),
        ];
        assert_eq!(ready(&service, &slices, 6443), Some(Place { pod: "c".to_owned(), port: 50051 }));
        assert_eq!(ready(&service, &slices, 443), None);
        assert_eq!(ready(&service, &slices[..1], 6443), None);
        let unnamed = json!({ "spec": { "ports": [{ "port": 6443 }] } });
        let slice = json!({ "ports": [{ "name": "", "port": 1 }], "endpoints": [endpoint("d", true)] });
        assert_eq!(ready(&unnamed, &[slice], 6443), Some(Place { pod: "d".to_owned(), port: 1 }));
    }

    #[test]
    fn an_authority_that_is_none_is_told() {
        assert!(
            tls(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
                .unwrap_err()
                .contains("caCert")
        );
    }
}
