//! Sends requests to the API server for one object, or all of a kind, as JSON. Errors have the server's own text.

use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_harness::text::message::error_chain;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::core::ApiResource;
use serde_json::Value;

use super::connect::Connection;
use super::kind::ApiKind;
use crate::cluster::Done;

/// Limits one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

const HTTP_NOT_FOUND: u16 = 404;

/// The API server and its kinds.
#[derive(Clone, Debug)]
pub struct Server {
    pub connection: Connection,
    pub kinds: Kinds,
}

/// The kinds of a cluster, each in the used version.
pub type Kinds = std::collections::BTreeMap<ApiKind, ApiResource>;

impl Server {
    /// Returns whether the cluster has a kind.
    pub fn has(&self, kind: ApiKind) -> bool {
        self.kinds.contains_key(&kind)
    }

    /// Returns a client for a kind. `namespace` only counts for kinds in namespaces; without one, all namespaces are
    /// meant.
    ///
    /// # Errors
    /// Skips if the cluster does not have the kind.
    pub fn api(&self, kind: ApiKind, namespace: Option<&str>) -> Done<Api<DynamicObject>> {
        let facts = kind.facts();
        let resource = self.kinds.get(&kind).ok_or_else(|| Stop::skip(lacks(kind)))?;
        let client = self.connection.client.clone();
        Ok(match namespace {
            Some(namespace) if facts.namespaced => Api::namespaced_with(client, namespace, resource),
            _ => Api::all_with(client, resource),
        })
    }

    /// Creates an object from a manifest without kind and version.
    ///
    /// # Errors
    /// Broken if the server returns an error or no answer; skips if the cluster does not have the kind.
    pub async fn create(&self, kind: ApiKind, namespace: Option<&str>, manifest: Value) -> Done<Value> {
        let name = text(&manifest, "/metadata/name").to_owned();
        self.try_create(kind, namespace, manifest).await?.map_err(|why| why.to("create", kind, &name))
    }

    /// Creates an object, and returns the precise error.
    pub(crate) async fn try_create(
        &self,
        kind: ApiKind,
        namespace: Option<&str>,
        mut manifest: Value,
    ) -> Done<Result<Value, Failed>> {
        let api = self.api(kind, namespace)?;
        if let (Some(resource), Some(fields)) = (self.kinds.get(&kind), manifest.as_object_mut()) {
            fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
            fields.insert("kind".to_owned(), resource.kind.clone().into());
        }
        let object: DynamicObject = serde_json::from_value(manifest)
            .map_err(|error| Stop::broken(format!("no {}: {error}", kind.facts().kind)))?;
        let params = PostParams { field_manager: Some(super::MANAGER.to_owned()), ..PostParams::default() };
        match bounded(api.create(&params, &object)).await {
            Ok(made) => json(made).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Reads an object.
    ///
    /// # Errors
    /// Broken if the server returns an error or no answer; skips if the cluster does not have the kind.
    pub async fn get(&self, kind: ApiKind, namespace: Option<&str>, name: &str) -> Done<Option<Value>> {
        let api = self.api(kind, namespace)?;
        match bounded(api.get(name)).await {
            Ok(object) => Ok(Some(json(object)?)),
            Err(why) if why.is_not_found() => Ok(None),
            Err(why) => Err(why.to("get", kind, name)),
        }
    }

    /// Lists the objects of a kind with a label, in one namespace or everywhere; an empty selector selects all.
    ///
    /// # Errors
    /// Broken if the server returns an error or no answer; skips if the cluster does not have the kind.
    pub async fn list(&self, kind: ApiKind, namespace: Option<&str>, selector: &str) -> Done<Vec<Value>> {
        let params = ListParams { label_selector: some(selector), ..ListParams::default() };
        self.list_by(kind, namespace, &params).await
    }

    /// Lists the objects of a kind by other criteria.
    ///
    /// # Errors
    /// Broken if the server returns an error or no answer; skips if the cluster does not have the kind.
    pub async fn list_by(
        &self,
        kind: ApiKind,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Done<Vec<Value>> {
        let api = self.api(kind, namespace)?;
        let listed = bounded(api.list(params)).await;
        let listed = listed.map_err(|why| why.to("list", kind, ""))?;
        listed.items.into_iter().map(json).collect()
    }

    /// Merges a patch into an object.
    ///
    /// # Errors
    /// Broken if the server returns an error or no answer; skips if the cluster does not have the kind.
    pub async fn patch(&self, kind: ApiKind, namespace: Option<&str>, name: &str, patch: Value) -> Done {
        let api = self.api(kind, namespace)?;
        let params = PatchParams { field_manager: Some(super::MANAGER.to_owned()), ..PatchParams::default() };
        let patched = bounded(api.patch(name, &params, &Patch::Merge(patch))).await;
        patched.map(drop).map_err(|why| why.to("patch", kind, name))
    }

    /// Requests the deletion of an object, with a grace period if one is given. A missing object is no error.
    ///
    /// # Errors
    /// Broken if the server returns an error or no answer; skips if the cluster does not have the kind.
    pub async fn delete(
        &self,
        kind: ApiKind,
        namespace: Option<&str>,
        name: &str,
        grace_seconds: Option<u32>,
    ) -> Done {
        let api = self.api(kind, namespace)?;
        let params = DeleteParams {
            grace_period_seconds: grace_seconds,
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match bounded(api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            Err(why) if why.is_not_found() => Ok(()),
            Err(why) => Err(why.to("delete", kind, name)),
        }
    }
}

/// Explains that a cluster lacks a kind.
pub fn lacks(kind: ApiKind) -> String {
    let facts = kind.facts();
    let api = if facts.group.is_empty() { "its core API" } else { facts.group };
    format!("the cluster has no {}: {api} does not exist in {}", facts.kind, facts.versions.join(", "))
}

#[derive(Debug)]
pub enum Failed {
    /// The server returned an error, or was not reached.
    Request(Box<kube::Error>),
    /// The server did not answer in time.
    Late,
}

impl Failed {
    /// Returns whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Failed::Request(error) if matches!(&**error, kube::Error::Api(status) if status.code == HTTP_NOT_FOUND))
    }

    /// Returns whether the server rejected the request.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Failed::Request(error) if matches!(&**error, kube::Error::Api(status) if status.code < 500))
    }

    /// Returns the error for a test: it is never the driver's fault.
    pub fn to(&self, verb: &str, kind: ApiKind, name: &str) -> Stop {
        let gap = if name.is_empty() { "" } else { " " };
        Stop::broken(format!("the cluster: {verb} {}{gap}{name}: {self}", kind.facts().kind))
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Request(error) => match &**error {
                kube::Error::Api(status) => {
                    write!(f, "{} {}: {}", status.code, status.reason, status.message)
                }
                error => f.write_str(&error_chain(error)),
            },
            Failed::Late => write!(f, "no answer in {} s", REQUEST_LIMIT.as_secs()),
        }
    }
}

/// Limits the time of a request.
pub async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failed> {
    match tokio::time::timeout(REQUEST_LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| Failed::Request(Box::new(error))),
        Err(_) => Err(Failed::Late),
    }
}

fn json(object: DynamicObject) -> Done<Value> {
    serde_json::to_value(object).map_err(|error| Stop::broken(format!("the cluster: an object: {error}")))
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the text at a JSON pointer in an object, or an empty one.
pub fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the text at a JSON pointer in an object, if it is not empty.
pub fn text_at(object: &Value, at: &str) -> Option<String> {
    some(text(object, at))
}

/// Returns the items at a JSON pointer in an object, or none.
pub fn items<'a>(object: &'a Value, at: &str) -> &'a [Value] {
    object.pointer(at).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the string pairs at a JSON pointer in an object.
pub fn pairs(object: &Value, at: &str) -> crate::cluster::Pairs {
    let fields = object.pointer(at).and_then(Value::as_object);
    let pair = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    fields.into_iter().flatten().filter_map(pair).collect()
}

/// Returns the strings at a JSON pointer in an object.
pub fn strings(object: &Value, at: &str) -> Vec<String> {
    items(object, at).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Returns the bytes of a quantity at a JSON pointer in an object, or 0.
pub fn bytes(object: &Value, at: &str) -> i64 {
    let quantity = match object.pointer(at) {
        Some(Value::String(text)) => {
            text.parse::<csi_driver_definitions::Quantity>().ok().map(|it| it.bytes())
        }
        Some(number) => number.as_u64(),
        None => None,
    };
    quantity.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or_default()
}
