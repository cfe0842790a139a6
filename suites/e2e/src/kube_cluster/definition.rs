//! Reads the classes that a definition names from the cluster.

use csi_driver_definitions::{Class, ClassError, Loaded, Source};

use super::api::Server;
use super::close::reason;
use super::kind::ApiKind;
use crate::definition::Definition;

/// Says why a class cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DefinedError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] ClassError),
    /// The cluster returned an error.
    #[error("{0}")]
    Cluster(String),
    /// The cluster does not have the class.
    #[error("the cluster has no {kind} {name:?}, which the definition names by FromExistingClassName")]
    Missing { kind: &'static str, name: String },
    /// The object is no valid class.
    #[error("the {kind} {name:?} of the cluster cannot be read")]
    Wrong { kind: &'static str, name: String, source: serde_json::Error },
}

/// Reads the classes of a definition: from the cluster those that it has, others from files. The label is that of
/// [`Definition::new`].
///
/// # Errors
/// Fails if a class that the definition names cannot be read.
pub async fn read(
    server: &Server,
    loaded: Loaded,
    label: Option<String>,
) -> Result<Definition, DefinedError> {
    let of = &loaded.definition;
    let storage = existing(server, ApiKind::StorageClass, of.storage_class.source()).await?;
    let snapshot = existing(server, ApiKind::SnapshotClass, of.snapshot_class.source()).await?;
    let group_snapshot =
        existing(server, ApiKind::GroupSnapshotClass, of.group_snapshot_class.source()).await?;
    let attributes = existing(server, ApiKind::AttributesClass, of.volume_attributes_class.source()).await?;
    Ok(Definition {
        label,
        storage: storage.map_or_else(|| loaded.storage_class(), |class| Ok(Some(class)))?,
        snapshot: snapshot.map_or_else(|| loaded.snapshot_class(), |class| Ok(Some(class)))?,
        group_snapshot: group_snapshot
            .map_or_else(|| loaded.group_snapshot_class(), |class| Ok(Some(class)))?,
        attributes: attributes.map_or_else(|| loaded.volume_attributes_class(), |class| Ok(Some(class)))?,
        driver: loaded.definition,
        path: loaded.path,
    })
}

/// Returns the cluster's class that a source names, if it names one.
async fn existing<C: Class>(
    server: &Server,
    kind: ApiKind,
    source: Option<Source<'_>>,
) -> Result<Option<C>, DefinedError> {
    let Some(Source::ExistingClass(name)) = source else { return Ok(None) };
    let found = server.get(kind, None, name).await.map_err(|why| DefinedError::Cluster(reason(why)))?;
    let (kind, name) = (kind.facts().kind, name.to_owned());
    let Some(object) = found else { return Err(DefinedError::Missing { kind, name }) };
    let class = serde_json::from_value(object);
    class.map(Some).map_err(|source| DefinedError::Wrong { kind, name, source })
}
