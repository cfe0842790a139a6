//! The object that says where a driver's SnapshotMetadata service is.

use csi_harness::prelude::Stop;
use k8s_openapi::ByteString;
use serde_json::Value;

use crate::cluster::Done;
use crate::kube_cluster::api::{Server, text};
use crate::kube_cluster::kind::ApiKind;

/// The contents of a SnapshotMetadataService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataService {
    /// The address `HOST:PORT` in the cluster.
    pub address: String,
    pub audience: String,
    /// The certificate authority, as PEM.
    pub authority: Vec<u8>,
}

impl MetadataService {
    /// Returns the service of a driver, if there is one.
    ///
    /// # Errors
    /// Broken if the server returns an error.
    pub(crate) async fn find(server: &Server, driver: &str) -> Done<Option<MetadataService>> {
        if driver.is_empty() || !server.has(ApiKind::MetadataService) {
            return Ok(None);
        }
        let found = server.get(ApiKind::MetadataService, None, driver).await?;
        found.as_ref().map(read).transpose()
    }
}

fn read(object: &Value) -> Done<MetadataService> {
    let authority = object.pointer("/spec/caCert").cloned().unwrap_or_default();
    let authority: ByteString = serde_json::from_value(authority)
        .map_err(|error| Stop::broken(format!("the caCert of the SnapshotMetadataService: {error}")))?;
    Ok(MetadataService {
        address: text(object, "/spec/address").to_owned(),
        audience: text(object, "/spec/audience").to_owned(),
        authority: authority.0,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_authority_is_read_as_the_object_has_it() {
        let object = json!({ "spec": { "address": "a.b:1", "audience": "who", "caCert": "UEVN" } });
        let expected = MetadataService {
            address: "a.b:1".to_owned(),
            audience: "who".to_owned(),
            authority: b"PEM".to_vec(),
        };
        assert_eq!(read(&object).unwrap(), expected);
        assert!(matches!(read(&json!({ "spec": { "caCert": "%" } })), Err(Stop::Broken(_))));
    }
}
