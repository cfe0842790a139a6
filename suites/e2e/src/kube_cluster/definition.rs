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
    let (kind, source) = (ApiKind::StorageClass, of.storage_class.source());
    let storage = class(server, kind, source, || loaded.storage_class()).await?;
    let (kind, source) = (ApiKind::SnapshotClass, of.snapshot_class.source());
    let snapshot = class(server, kind, source, || loaded.snapshot_class()).await?;
    let (kind, source) = (ApiKind::GroupSnapshotClass, of.group_snapshot_class.source());
    let group_snapshot = class(server, kind, source, || loaded.group_snapshot_class()).await?;
    let (kind, source) = (ApiKind::AttributesClass, of.volume_attributes_class.source());
    let attributes = class(server, kind, source, || loaded.volume_attributes_class()).await?;
    let (driver, path) = (loaded.definition, loaded.path);
    Ok(Definition { path, label, driver, storage, snapshot, group_snapshot, attributes })
}

/// Returns the class of the cluster if the source names one there, and otherwise that of the files.
async fn class<C: Class>(
    server: &Server,
    kind: ApiKind,
    source: Option<Source<'_>>,
    in_files: impl FnOnce() -> Result<Option<C>, ClassError>,
) -> Result<Option<C>, DefinedError> {
    let Some(Source::ExistingClass(name)) = source else { return Ok(in_files()?) };
    let found = server.get(kind, None, name).await.map_err(|why| DefinedError::Cluster(reason(why)))?;
    let (kind, name) = (kind.facts().kind, name.to_owned());
    let Some(object) = found else { return Err(DefinedError::Missing { kind, name }) };
    let class = serde_json::from_value(object);
    class.map(Some).map_err(|source| DefinedError::Wrong { kind, name, source })
}
