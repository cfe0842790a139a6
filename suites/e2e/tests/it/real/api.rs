//! An API server in this process creates, reads, lists, watches, changes and deletes objects in JSON as the real one does. `controllers`
//! emulates the effects of controllers on them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use csi_proto::lock::Mutex;
use http_body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tonic::codegen::{Bytes, Service, http};

use super::controllers;

/// A key has the kind, the namespace and the name of an object; the namespace is empty for kinds that have none.
pub(crate) type Key = (String, String, String);

/// Other tasks run this number of times before an answer arrives after an event.
const YIELDS: usize = 100;

/// A happening changes the objects.
pub(crate) type Happening = fn(&mut Store);

/// The store has the objects, and a record of the requests.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<Key, Value>,
    /// Contains `METHOD resource name` for each request, in order.
    pub(crate) asked: Vec<String>,
    /// Contains the manifests as they were sent.
    pub(crate) sent: Vec<Value>,
    /// The server refuses requests with such a `METHOD resource`.
    pub(crate) refused: BTreeSet<String>,
    /// These effects happen once each at the next answer to `METHOD resource`; watchers see them before the answer arrives.
    pub(crate) then: VecDeque<(&'static str, Happening)>,
    /// Access reviews deny such an `ACCOUNT verb resource`.
    pub(crate) denied: BTreeSet<String>,
    /// Contains the `ACCOUNT verb resource` of all access reviews.
    pub(crate) reviewed: BTreeSet<String>,
    /// Contains the groups and versions besides the core, with their resources.
    pub(crate) groups: BTreeMap<String, Vec<&'static str>>,
    /// Contains the handles of the snapshots that the driver has.
    pub(crate) taken: BTreeSet<String>,
    /// The provisioner publishes a capacity in this zone for each class, if there is one.
    pub(crate) capacity_of: Option<&'static str>,
    /// If true, the sidecar does not notice that contents are to be deleted until they change.
    pub(crate) misses_deletions: bool,
    watchers: Vec<(String, mpsc::UnboundedSender<Bytes>)>,
    version: u64,
}

/// The server shares its store with the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Api(pub(crate) Arc<Mutex<Store>>);

/// A request is split into these parts.
struct Asked {
    method: String,
    /// This is the plural name of the kind, with the subresource if there is one, or a path of discovery.
    resource: String,
    namespace: String,
    name: String,
    query: BTreeMap<String, String>,
    body: Value,
}

impl Api {
    pub(crate) fn store<T>(&self, look: impl FnOnce(&mut Store) -> T) -> T {
        look(&mut self.0.lock())
    }

    /// Adds objects as another client made them.
    pub(crate) fn has(&self, resource: &str, object: Value) {
        self.store(|store| store.put(resource, object));
    }

    pub(crate) fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.store(|store| store.objects.get(&key).cloned())
    }

    /// Returns the names of all objects of a kind.
    pub(crate) fn names(&self, resource: &str) -> Vec<String> {
        let of = |store: &mut Store| {
            let keys = store.objects.keys().filter(|(of, _, _)| of == resource);
            keys.map(|(_, _, name)| name.clone()).collect()
        };
        self.store(of)
    }

    fn answer(&self, asked: &Asked) -> http::Response<Answer> {
        self.store(|store| {
            let (code, body) = store.answer(asked);
            if asked.query.contains_key("watch") {
                let (sender, receiver) = mpsc::unbounded_channel();
                for object in store.listed(asked) {
                    let _ = sender.send(event("ADDED", &object));
                }
                store.watchers.push((asked.resource.clone(), sender));
                return respond(200, Answer(receiver));
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            let _ = sender.send(Bytes::from(body.to_string()));
            respond(code, Answer(receiver))
        })
    }
}

fn respond(code: u16, body: Answer) -> http::Response<Answer> {
    http::Response::builder().status(code).header("content-type", "application/json").body(body).unwrap()
}

fn event(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })))
}

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, status)
}

impl Store {
    fn answer(&mut self, asked: &Asked) -> (u16, Value) {
        let Asked { method, resource, namespace, name, body, .. } = asked;
        match resource.as_str() {
            "version" => {
                return (
                    200,
                    json!({
                        "major": "1", "minor": "33", "gitVersion": "v1.33.9", "gitCommit": "", "gitTreeState": "",
                        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
                    }),
                );
            }
            "apis" => return (200, self.group_list()),
            group if group.starts_with("group:") => return self.resources(group),
            "selfsubjectaccessreviews" | "subjectaccessreviews" => return (201, self.review(body)),
            _ => {}
        }
        if !asked.query.contains_key("watch") {
            self.asked.push(format!("{method} {resource} {name}").trim_end().to_owned());
        }
        if self.refused.contains(&format!("{method} {resource}")) {
            let message =
                format!("{resource} is forbidden: User \"tester\" cannot {method} resource \"{resource}\"");
            return status(403, "Forbidden", &message);
        }
        let key = (resource.clone(), namespace.clone(), name.clone());
        match (method.as_str(), name.is_empty()) {
            ("GET", true) => {
                let items: Vec<Value> = self.listed(asked);
                let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items });
                (200, list)
            }
            ("GET", false) => match self.objects.get(&key) {
                Some(object) => (200, object.clone()),
                None => status(404, "NotFound", &format!("{resource} \"{name}\" not found")),
            },
            ("POST", _) => {
                self.sent.push(body.clone());
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.objects.contains_key(&(resource.clone(), namespace.clone(), name.clone())) {
                    return status(409, "AlreadyExists", &format!("{resource} \"{name}\" already exists"));
                }
                self.put(resource, body.clone());
                let made = self.objects.get(&(resource.clone(), namespace.clone(), name)).cloned();
                controllers::work(self);
                // A token is not stored as an object.
                (201, made.unwrap_or_else(|| body.clone()))
            }
            ("PATCH", _) => {
                let Some(mut object) = self.objects.get(&key).cloned() else {
                    return status(404, "NotFound", &format!("{resource} \"{name}\" not found"));
                };
                merge(&mut object, body);
                self.put(resource, object.clone());
                let is_free = object["metadata"]["finalizers"].as_array().is_some_and(Vec::is_empty);
                if is_free && object["metadata"].get("deletionTimestamp").is_some() {
                    self.remove(&key);
                }
                controllers::work(self);
                (200, object)
            }
            ("DELETE", _) => {
                if !self.objects.contains_key(&key) {
                    return status(404, "NotFound", &format!("{resource} \"{name}\" not found"));
                }
                self.delete(&key);
                controllers::work(self);
                (200, json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
            }
            _ => status(405, "MethodNotAllowed", method),
        }
    }

    /// Carries out the next effect if it belongs to this answer, and returns true if it does.
    fn happens(&mut self, answered: &str) -> bool {
        match self.then.front() {
            Some((awaited, happens)) if *awaited == answered => {
                let happens = *happens;
                self.then.pop_front();
                happens(self);
                true
            }
            _ => false,
        }
    }

    /// Stores an object with the server's additions, and notifies watchers.
    pub(crate) fn put(&mut self, resource: &str, mut object: Value) {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        if metadata.get("uid").is_none() {
            metadata["uid"] = format!("uid-{}", self.version).into();
        }
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (resource.to_owned(), text("namespace"), text("name"));
        let kind = if self.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        self.notify(resource, kind, &object);
        self.objects.insert(key, object);
    }

    /// Deletes an object, or marks it for deletion if it has finalizers.
    pub(crate) fn delete(&mut self, key: &Key) {
        let Some(mut object) = self.objects.get(key).cloned() else { return };
        let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        if object["metadata"].get("deletionTimestamp").is_some() {
            return;
        }
        if is_held || key.0 == "namespaces" {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            self.put(&key.0, object);
        } else {
            self.remove(key);
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(object) = self.objects.remove(key) {
            controllers::forget(self, &object);
            self.notify(&key.0, "DELETED", &object);
        }
    }

    fn notify(&mut self, resource: &str, kind: &str, object: &Value) {
        self.watchers.retain(|(of, watcher)| of != resource || watcher.send(event(kind, object)).is_ok());
    }

    fn listed(&self, asked: &Asked) -> Vec<Value> {
        let of = |(resource, namespace, _): &Key| {
            *resource == asked.resource && (asked.namespace.is_empty() || *namespace == asked.namespace)
        };
        let selector = asked.query.get("labelSelector").map(String::as_str).unwrap_or_default();
        let terms: Vec<&str> = selector.split(',').filter(|term| !term.is_empty()).collect();
        let has = |object: &Value| {
            terms.iter().all(|term| {
                let labels = &object["metadata"]["labels"];
                match term.split_once('=') {
                    Some((label, value)) => labels[label] == value,
                    None => labels.get(term).is_some(),
                }
            })
        };
        self.objects
            .iter()
            .filter(|(key, object)| of(key) && has(object))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Answers an access review. A review without an account is about the account of the run.
    fn review(&mut self, review: &Value) -> Value {
        let asked = &review["spec"]["resourceAttributes"];
        let text = |field: &str| asked[field].as_str().unwrap_or_default();
        let user = review["spec"]["user"].as_str().unwrap_or("tester");
        let slash = if text("subresource").is_empty() { "" } else { "/" };
        let line = format!("{user} {} {}{slash}{}", text("verb"), text("resource"), text("subresource"));
        let mut answer = review.clone();
        answer["status"] = json!({ "allowed": !self.denied.contains(&line) });
        self.reviewed.insert(line);
        answer
    }

    fn group_list(&self) -> Value {
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (group, version) in self.groups.keys().filter_map(|one| one.split_once('/')) {
            versions.entry(group).or_default().push(version);
        }
        let group = |(name, versions): (&str, Vec<&str>)| {
            let version =
                |version: &str| json!({ "groupVersion": format!("{name}/{version}"), "version": version });
            json!({ "name": name, "versions": versions.into_iter().map(version).collect::<Value>() })
        };
        let groups: Value = versions.into_iter().map(group).collect();
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    }

    fn resources(&self, group: &str) -> (u16, Value) {
        let api = group.trim_start_matches("group:");
        let resource = |name: &&str| json!({ "name": name, "singularName": "", "namespaced": true, "kind": name, "verbs": ["get"] });
        match self.groups.get(api) {
            Some(names) => {
                let resources: Value = names.iter().map(resource).collect();
                (
                    200,
                    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api, "resources": resources }),
                )
            }
            None => status(404, "NotFound", "the server could not find the requested resource"),
        }
    }
}

/// Applies a merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(key)),
            value => merge(&mut object[key], value),
        }
    }
}

/// Splits `/api/v1/namespaces/NS/pods/NAME`, `/apis/GROUP/VERSION/RESOURCE/NAME`, and the paths of discovery.
fn path(path: &str) -> (String, String, String) {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let rest = match words[..] {
        ["version"] => return ("version".to_owned(), String::new(), String::new()),
        ["apis"] => return ("apis".to_owned(), String::new(), String::new()),
        ["apis", group, version] => {
            return (format!("group:{group}/{version}"), String::new(), String::new());
        }
        ["api", _, ref rest @ ..] | ["apis", _, _, ref rest @ ..] => rest,
        _ => panic!("no path of an API: {path}"),
    };
    let own = |text: &str| text.to_owned();
    match rest {
        ["namespaces", namespace, resource] => (own(resource), own(namespace), String::new()),
        ["namespaces", namespace, resource, name] => (own(resource), own(namespace), own(name)),
        // Subresources, such as the commands of a pod, are kinds of their own here.
        ["namespaces", namespace, resource, name, of_it] => {
            (format!("{resource}/{of_it}"), own(namespace), own(name))
        }
        [resource] => (own(resource), String::new(), String::new()),
        [resource, name] => (own(resource), String::new(), own(name)),
        _ => panic!("no path of an object: {path}"),
    }
}

impl Service<http::Request<Body>> for Api {
    type Response = http::Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let (resource, namespace, name) = path(head.uri.path());
            let query = head.uri.query().unwrap_or_default().split('&').filter_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                let value = value.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
                Some((key.to_owned(), value))
            });
            let query: BTreeMap<String, String> = query.collect();
            let bytes = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            let method = head.method.to_string();
            let is_watch = query.contains_key("watch");
            let answered = format!("{method} {resource}");
            let answer = api.answer(&Asked { method, resource, namespace, name, query, body });
            if !is_watch && api.store(|store| store.happens(&answered)) {
                for _ in 0..YIELDS {
                    tokio::task::yield_now().await;
                }
            }
            Ok(answer)
        })
    }
}

/// The body arrives as a whole, or one event after another as long as there may be another one.
pub(crate) struct Answer(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
