//! Reads the facts from a cluster. Errors of the cluster are facts as well.

use std::collections::BTreeMap;

use csi_driver_definitions::{ClassError, CsiDriver, Loaded, Source};
use futures_util::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1;
use kube::api::{Api, ListParams, PostParams};
use serde::Deserialize as _;
use serde_json::Value;

use super::facts::{Class, Nodes, Plugin, Right, Role};
use super::{Facts, Known, Lease, Refusal, Sidecar, pods};
use crate::cluster::Done;
use crate::kube_cluster::api::{Server, bounded, text};
use crate::kube_cluster::connect::Connection;
use crate::kube_cluster::discovery;
use crate::kube_cluster::kind::{ApiKind, MORE_ACCESS};
use crate::kube_cluster::reason;

/// The number of concurrent requests about rights.
const AT_ONCE: usize = 8;

/// The rights that every sidecar of a role needs, with any flags.
const SIDECAR_RIGHTS: [(Role, &str, &str, &str); 10] = [
    (Role::Provisioner, "", "persistentvolumeclaims", "watch"),
    (Role::Provisioner, "", "persistentvolumes", "create"),
    (Role::Provisioner, "", "persistentvolumes", "delete"),
    (Role::Provisioner, "storage.k8s.io", "storageclasses", "watch"),
    (Role::Attacher, "", "persistentvolumes", "patch"),
    (Role::Attacher, "storage.k8s.io", "volumeattachments", "watch"),
    (Role::Attacher, "storage.k8s.io", "volumeattachments/status", "patch"),
    (Role::Resizer, "", "persistentvolumes", "patch"),
    (Role::Resizer, "", "persistentvolumeclaims/status", "patch"),
    (Role::Snapshotter, "snapshot.storage.k8s.io", "volumesnapshotcontents", "watch"),
];

/// Says why there are no facts.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The cluster does not answer.
    #[error("the cluster at {server}: {why}")]
    Cluster {
        server: String,
        /// The reason.
        why: String,
    },
    /// A manifest that the definition names is invalid.
    #[error(transparent)]
    Class(#[from] ClassError),
}

/// Reads all facts.
///
/// # Errors
/// Fails if the cluster does not answer, or if the definition names a missing file.
pub async fn gather(
    connection: &Connection,
    loaded: &Loaded,
    plugin: Option<Plugin>,
) -> Result<Facts, GatherError> {
    let unreached = |why: String| GatherError::Cluster { server: connection.server.clone(), why };
    bounded(connection.client.apiserver_version()).await.map_err(|why| unreached(why.to_string()))?;
    let kinds = discovery::kinds(connection).await.map_err(|why| unreached(why.to_string()))?;
    let server = Server { connection: connection.clone(), kinds };
    let driver = &loaded.definition.driver_info.name;
    let sidecars = known(server.list(ApiKind::Pod, None, "").await).map(|all| pods::sidecars(&all, driver));
    Ok(Facts {
        csi_driver: known(server.get(ApiKind::CsiDriver, None, driver).await)
            .and_then(|found| found.as_ref().map(csi_driver).transpose()),
        csi_drivers: known(server.list(ApiKind::CsiDriver, None, "").await)
            .map(|all| all.iter().map(name).collect()),
        nodes: known(discovery::nodes(&server, driver).await).map(|(with, without)| Nodes { with, without }),
        kinds: Ok(server.kinds.keys().map(|kind| kind.facts().kind).collect()),
        classes: classes(&server, loaded).await?,
        metadata_service: metadata_service(&server, driver).await,
        leases: leases(connection).await,
        refused: refused(&server).await,
        sidecars_refused: sidecars_refused(connection, &sidecars).await,
        sidecars,
        plugin,
    })
}

async fn metadata_service(server: &Server, driver: &str) -> Known<bool> {
    match server.has(ApiKind::MetadataService) {
        true => known(server.get(ApiKind::MetadataService, None, driver).await).map(|found| found.is_some()),
        false => Ok(false),
    }
}

fn known<T>(done: Done<T>) -> Known<T> {
    done.map_err(reason)
}

fn name(object: &Value) -> String {
    text(object, "/metadata/name").to_owned()
}

fn csi_driver(object: &Value) -> Known<CsiDriver> {
    CsiDriver::deserialize(&object["spec"]).map_err(|error| error.to_string())
}

/// Returns the classes that the definition takes from the cluster or from files.
async fn classes(
    server: &Server,
    loaded: &Loaded,
) -> Result<BTreeMap<&'static str, Known<Option<Class>>>, GatherError> {
    let definition = &loaded.definition;
    let mut classes = BTreeMap::new();
    let sources = [
        (ApiKind::StorageClass, "/provisioner", definition.storage_class.source()),
        (ApiKind::SnapshotClass, "/driver", definition.snapshot_class.source()),
        (ApiKind::GroupSnapshotClass, "/driver", definition.group_snapshot_class.source()),
        (ApiKind::AttributesClass, "/driverName", definition.volume_attributes_class.source()),
    ];
    for (kind, driver_at, source) in sources {
        let class = match source {
            Some(Source::ExistingClass(name)) if server.has(kind) => {
                let found = known(server.get(kind, None, name).await);
                found.map(|found| found.map(|object| in_cluster(kind, name, &object, driver_at)))
            }
            Some(Source::File(_)) => Ok(in_file(kind, loaded)?),
            // A missing kind is reported as such.
            Some(Source::ExistingClass(_) | Source::Name) | None => continue,
        };
        classes.insert(kind.facts().kind, class);
    }
    Ok(classes)
}

fn in_cluster(kind: ApiKind, name: &str, object: &Value, driver_at: &str) -> Class {
    let expands = object.pointer("/allowVolumeExpansion").and_then(Value::as_bool).unwrap_or_default();
    Class {
        place: format!("the {} {name:?} of the cluster", kind.facts().kind),
        driver: text(object, driver_at).to_owned(),
        expands: (kind == ApiKind::StorageClass).then_some(expands),
    }
}

fn in_file(kind: ApiKind, loaded: &Loaded) -> Result<Option<Class>, ClassError> {
    fn driver_of<C: csi_driver_definitions::Class>(class: Option<C>) -> Option<(String, Option<bool>)> {
        class.map(|class| (class.driver().to_owned(), None))
    }
    let place = format!("the {} in the file of the definition", kind.facts().kind);
    let read = match kind {
        ApiKind::StorageClass => loaded
            .storage_class()
            .map(|class| class.map(|class| (class.provisioner, Some(class.allow_volume_expansion)))),
        ApiKind::SnapshotClass => loaded.snapshot_class().map(driver_of),
        ApiKind::GroupSnapshotClass => loaded.group_snapshot_class().map(driver_of),
        _ => loaded.volume_attributes_class().map(driver_of),
    };
    match read {
        Ok(class) => Ok(class.map(|(driver, expands)| Class { place, driver, expands })),
        Err(ClassError::OtherDriver { other, .. }) => Ok(Some(Class { place, driver: other, expands: None })),
        Err(error) => Err(error),
    }
}

/// Returns all leases. They are compared with each other, so that only clocks of the cluster matter.
async fn leases(connection: &Connection) -> Known<Vec<Lease>> {
    let api = Api::<v1::Lease>::all(connection.client.clone());
    let found = bounded(api.list(&ListParams::default())).await.map_err(|why| why.to_string())?;
    let renewed = found.items.into_iter().filter_map(|lease| {
        let spec = lease.spec?;
        let duration_s = i64::from(spec.lease_duration_seconds.unwrap_or_default());
        Some((lease.metadata.name?, spec.renew_time?.0.as_second(), duration_s))
    });
    let renewed: Vec<(String, i64, i64)> = renewed.collect();
    let last = renewed.iter().map(|(_, renewed, _)| *renewed).max().unwrap_or_default();
    let lease = |(name, renewed, duration_s)| Lease { name, behind_s: last - renewed, duration_s };
    Ok(renewed.into_iter().map(lease).collect())
}

/// Returns the rights that the tests need and this account lacks.
async fn refused(server: &Server) -> Known<Vec<Right>> {
    let kinds = ApiKind::ALL.iter().filter(|kind| server.has(**kind)).map(|kind| kind.facts());
    let kinds = kinds.map(|facts| (facts.group, facts.resource, facts.verbs));
    let rights = kinds
        .chain(MORE_ACCESS.iter().copied())
        .flat_map(|(group, resource, verbs)| verbs.iter().map(move |verb| right(group, resource, verb)));
    let asked = rights.map(|right| async {
        let allowed = may(&server.connection, &right).await?;
        Ok::<_, String>((!allowed).then_some(right))
    });
    all(asked).await
}

/// Returns the rights that the accounts of the driver's sidecars lack.
async fn sidecars_refused(connection: &Connection, sidecars: &Known<Vec<Sidecar>>) -> Known<Vec<Refusal>> {
    // Another finding reports that they are unknown.
    let Ok(sidecars) = sidecars else { return Ok(Vec::new()) };
    let mut wanted = Vec::new();
    for sidecar in sidecars.iter().filter(|one| one.is_drivers) {
        let rights = SIDECAR_RIGHTS.iter().filter(|(role, ..)| *role == sidecar.role);
        wanted.extend(rights.map(|(role, group, resource, verb)| Refusal {
            account: sidecar.account.clone(),
            role: *role,
            right: right(group, resource, verb),
        }));
    }
    wanted.sort();
    wanted.dedup();
    let asked = wanted.into_iter().map(|refusal| async {
        let allowed = may_another(connection, &refusal).await?;
        Ok::<_, String>((!allowed).then_some(refusal))
    });
    all(asked).await
}

fn right(group: &str, resource: &str, verb: &str) -> Right {
    Right { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() }
}

/// Returns the results of several requests, some of which are concurrent.
async fn all<T>(asked: impl Iterator<Item = impl Future<Output = Known<Option<T>>>>) -> Known<Vec<T>> {
    let answers: Vec<Known<Option<T>>> = futures_util::stream::iter(asked).buffered(AT_ONCE).collect().await;
    answers.into_iter().filter_map(Result::transpose).collect()
}

async fn may(connection: &Connection, right: &Right) -> Known<bool> {
    let api = Api::<SelfSubjectAccessReview>::all(connection.client.clone());
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes(right)), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let answer = bounded(api.create(&PostParams::default(), &review)).await;
    Ok(answer.map_err(|why| why.to_string())?.status.is_some_and(|status| status.allowed))
}

async fn may_another(connection: &Connection, refusal: &Refusal) -> Known<bool> {
    let api = Api::<SubjectAccessReview>::all(connection.client.clone());
    let spec = SubjectAccessReviewSpec {
        resource_attributes: Some(attributes(&refusal.right)),
        user: Some(refusal.account.clone()),
        groups: Some(groups(&refusal.account)),
        ..Default::default()
    };
    let review = SubjectAccessReview { spec, ..Default::default() };
    let answer = bounded(api.create(&PostParams::default(), &review)).await;
    Ok(answer.map_err(|why| why.to_string())?.status.is_some_and(|status| status.allowed))
}

/// Returns the groups of a service account.
fn groups(account: &str) -> Vec<String> {
    let namespace = account.split(':').nth(2).unwrap_or_default();
    let names = ["system:authenticated".to_owned(), "system:serviceaccounts".to_owned()];
    names.into_iter().chain([format!("system:serviceaccounts:{namespace}")]).collect()
}

fn attributes(right: &Right) -> ResourceAttributes {
    let (resource, part) = right
        .resource
        .split_once('/')
        .map_or((&*right.resource, None), |(resource, part)| (resource, Some(part.to_owned())));
    ResourceAttributes {
        group: Some(right.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: part,
        verb: Some(right.verb.clone()),
        ..Default::default()
    }
}
