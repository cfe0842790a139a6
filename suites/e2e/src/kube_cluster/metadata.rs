//! Calls the SnapshotMetadata service of a driver's sidecar as a backup program does: with a token of its service
//! account, over TLS, through the API server to a pod behind the service.

mod api;
mod connection;
pub(super) mod service;

use std::time::Duration;

use csi_harness::prelude::{Stop, Violation};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tonic::Code;

use super::KubeCluster;
use super::api::bounded;
use super::discovery::Discovered;
use super::kind::ApiKind;
use crate::cluster::{Block, Cluster as _, Done};
use api::Request;
use service::MetadataService;

/// The calling account, which every namespace has.
const ACCOUNT: &str = "default";
/// The role that permits the calls.
const ROLE: &str = "reads-snapshots";
/// The validity of its token, which is the shortest possible one.
const TOKEN_SECONDS: i64 = 600;
/// Limits one call.
const CALL_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Limits the attempts of a call without permission, because the cluster needs time to notice the role.
const TRIES_MAX: u32 = 10;
/// The pause between the attempts.
const PAUSE: Duration = Duration::from_secs(1);

impl Discovered {
    /// Explains why there is no metadata service.
    pub(super) fn no_metadata(&self, driver: &str) -> String {
        match self.server.has(ApiKind::MetadataService) {
            true => format!("there is no SnapshotMetadataService {driver}"),
            false => super::api::lacks(ApiKind::MetadataService),
        }
    }
}

impl KubeCluster {
    /// Returns the blocks of a snapshot that hold data, or that differ from an earlier one.
    pub(super) async fn blocks(&self, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>> {
        let Some(service) = &self.found.metadata_service else {
            return Err(Stop::skip(self.found.no_metadata(&self.settings.driver)));
        };
        self.grant().await?;
        let token = self.token(&service.audience).await?;
        let namespace = self.names.namespace.clone();
        let base = match earlier {
            Some(earlier) => Some(self.handle(earlier).await?),
            None => None,
        };
        let request = Request { token, namespace, base, snapshot: snapshot.to_owned() };
        match tokio::time::timeout(CALL_LIMIT, self.ask(service, &request)).await {
            Ok(blocks) => blocks,
            Err(_) => Err(Stop::broken(format!(
                "the SnapshotMetadata service at {} has not ended a call in {} s",
                service.address,
                CALL_LIMIT.as_secs()
            ))),
        }
    }

    async fn ask(&self, service: &MetadataService, request: &Request) -> Done<Vec<Block>> {
        let channel = connection::open(self.server(), service).await?;
        let mut tries = 1;
        let blocks = loop {
            match api::call(channel.clone(), request).await {
                Err(status) if status.code() == Code::PermissionDenied && tries < TRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                answer => break answer.map_err(|status| failed(service, &status))?,
            }
        };
        blocks.iter().map(|block| Block::reported(block.byte_offset, block.size_bytes)).collect()
    }

    /// Permits the account to read snapshots, which the sidecar requires.
    async fn grant(&self) -> Done {
        let grant = async || {
            let metadata = json!({ "name": ROLE, "namespace": self.names.namespace });
            let rules = json!([{ "apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": ["get"] }]);
            self.create(ApiKind::Role, json!({ "metadata": metadata, "rules": rules })).await?;
            let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ROLE });
            let subjects =
                json!([{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.names.namespace }]);
            let binding = json!({ "metadata": metadata, "roleRef": role, "subjects": subjects });
            self.create(ApiKind::RoleBinding, binding).await
        };
        self.granted.get_or_try_init(grant).await.copied()
    }

    async fn token(&self, audience: &str) -> Done<String> {
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.server().connection.client.clone(), &self.names.namespace);
        let spec = TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let made = bounded(accounts.create_token_request(ACCOUNT, &PostParams::default(), &request)).await;
        let made = made.map_err(|why| {
            Stop::broken(format!("the cluster: create a token of ServiceAccount {ACCOUNT}: {why}"))
        })?;
        Ok(made.status.map(|status| status.token).unwrap_or_default())
    }

    async fn handle(&self, snapshot: &str) -> Done<String> {
        let handle = self.snapshot(snapshot).await?.and_then(|found| found.handle);
        handle.ok_or_else(|| Stop::broken(format!("there is no snapshot behind VolumeSnapshot {snapshot}")))
    }
}

/// Judges a failed call. A call that was not permitted, or did not get through, is not the driver's fault.
fn failed(service: &MetadataService, status: &tonic::Status) -> Stop {
    let text = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::PermissionDenied
        | Code::Unauthenticated
        | Code::Unavailable
        | Code::Unknown
        | Code::Cancelled => {
            Stop::broken(format!("the SnapshotMetadata service at {}: {text}", service.address))
        }
        _ => Violation::new("the blocks of a snapshot cannot be listed").expected("OK").actual(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_token_blames_no_driver() {
        let service =
            MetadataService { address: "a.b:1".to_owned(), audience: String::new(), authority: Vec::new() };
        let stop = |code| failed(&service, &tonic::Status::new(code, "why"));
        assert!(matches!(stop(Code::Unauthenticated), Stop::Broken(why) if why.contains("a.b:1")));
        assert!(matches!(stop(Code::Internal), Stop::Violation(_)));
    }
}
