//! An API server that has the given objects, over plain HTTP, and a kubeconfig file that names it.

mod streams;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Longest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The API server answers until this value is dropped.
pub(crate) struct Cluster {
    kubeconfig: NamedTempFile,
    _runtime: Runtime,
}

impl Cluster {
    /// Starts a cluster with these objects of each resource, in which every account may do everything.
    pub(crate) fn start(objects: &[(&'static str, Value)]) -> Cluster {
        Cluster::with_pods(objects, "/nowhere")
    }

    /// Starts a cluster in which the port of every pod leads to this socket, and the commands of pods run on this machine.
    pub(crate) fn with_pods(objects: &[(&'static str, Value)], socket: impl AsRef<Path>) -> Cluster {
        let mut resources: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        objects.iter().for_each(|(resource, object)| {
            resources.entry(resource).or_default().push(object.clone());
        });
        let resources = Arc::new(resources);
        let socket: Arc<PathBuf> = Arc::new(socket.as_ref().to_owned());
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (resources, socket) = (resources.clone(), socket.clone());
                tokio::spawn(async move {
                    let stream = streams::serve(stream, &socket).await?;
                    // A client that hangs up early needs no answer.
                    serve(stream, &resources).await.ok()
                });
            }
        });
        let kubeconfig = NamedTempFile::new().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "users": [{ "name": "u", "user": {} }],
        });
        std::fs::write(kubeconfig.path(), config.to_string()).unwrap();
        Cluster { kubeconfig, _runtime: runtime }
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        self.kubeconfig.path().to_str().unwrap()
    }
}

/// Reads one request and answers it.
async fn serve(stream: TcpStream, resources: &BTreeMap<&str, Vec<Value>>) -> std::io::Result<()> {
    let mut stream = BufStream::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        match header.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    assert!(length <= BODY_BYTES_MAX, "{request}");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let target = request.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let (code, answer) = answer(path, serde_json::from_slice(&body).unwrap_or_default(), resources);
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {code} .\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await
}

fn answer(path: &str, body: Value, resources: &BTreeMap<&str, Vec<Value>>) -> (u16, Value) {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (resource, name) = match words[..] {
        ["version"] => return (200, version()),
        ["apis"] => return (200, json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] })),
        ["apis", "authorization.k8s.io", ..] => {
            let mut review = body;
            review["status"] = json!({ "allowed": true });
            return (201, review);
        }
        ["api", _, resource] | ["apis", _, _, resource] => (resource, None),
        ["api", _, resource, name] | ["apis", _, _, resource, name] => (resource, Some(name)),
        _ => panic!("no path of an API: {path}"),
    };
    let there = resources.get(resource).map(Vec::as_slice).unwrap_or_default();
    let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": there });
    let Some(name) = name else { return (200, list) };
    match there.iter().find(|object| object["metadata"]["name"] == name) {
        Some(object) => (200, object.clone()),
        None => (
            404,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404, "reason": "NotFound",
                "message": format!("{resource} {name:?} not found"),
            }),
        ),
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.0-it", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    })
}
