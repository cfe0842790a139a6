//! Makes a port of a pod available as a local socket: each connection to the socket becomes one to the port, through
//! the API server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_proto::lock::Mutex;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::Portforwarder;
use tokio::io::{AsyncRead, AsyncWrite, copy};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::api::bounded;

/// Limits the concurrent connections; others wait.
const CONNECTIONS_MAX: usize = 64;

/// A port of a pod that is available at a socket while this value lives.
#[derive(Debug)]
pub struct Forward {
    socket: PathBuf,
    problem: Problem,
    task: JoinHandle<()>,
}

/// The failure of the last connection, if it failed.
type Problem = Arc<Mutex<Option<String>>>;

impl Forward {
    /// Listens on a new socket for a port on the loopback address of a pod.
    ///
    /// # Errors
    /// Fails if the socket cannot be made.
    pub fn begin(api: Api<Pod>, pod: &str, port: u16, socket: &Path) -> io::Result<Forward> {
        let listener = UnixListener::bind(socket)?;
        let problem = Problem::default();
        let task = tokio::spawn(serve(listener, api, pod.to_owned(), port, problem.clone()));
        Ok(Forward { socket: socket.to_owned(), problem, task })
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the failure of the last failed connection.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: UnixListener, api: Api<Pod>, pod: String, port: u16, problem: Problem) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    while let Ok(permit) = room.clone().acquire_owned().await {
        let Ok((here, _)) = listener.accept().await else { break };
        while connections.try_join_next().is_some() {}
        let (api, pod, problem) = (api.clone(), pod.clone(), problem.clone());
        connections.spawn(async move {
            if let Err(why) = join(here, &api, &pod, port).await {
                *problem.lock() = Some(why);
            }
            drop(permit);
        });
    }
}

/// Connects to the port, and passes bytes on until one side ends. gRPC does not use half-closed connections.
async fn join(here: UnixStream, api: &Api<Pod>, pod: &str, port: u16) -> Result<(), String> {
    let (mut forwarder, there) = open(api, pod, port).await?;
    let error = forwarder.take_error(port).ok_or_else(|| no_stream(port))?;
    let (mut from_here, mut to_here) = here.into_split();
    let (mut from_there, mut to_there) = tokio::io::split(there);
    tokio::select! {
        biased;
        Some(why) = error => {
            forwarder.abort();
            return Err(why);
        }
        _ = copy(&mut from_here, &mut to_there) => {}
        _ = copy(&mut from_there, &mut to_here) => {}
    }
    forwarder.abort();
    Ok(())
}

/// Opens one connection to a port of a pod. It ends with the stream, or when the forwarder is aborted.
pub(crate) async fn open(
    api: &Api<Pod>,
    pod: &str,
    port: u16,
) -> Result<(Portforwarder, impl AsyncRead + AsyncWrite + Unpin + Send + 'static), String> {
    let forwarder = bounded(api.portforward(pod, &[port])).await;
    let mut forwarder = forwarder.map_err(|why| why.to_string())?;
    let stream = forwarder.take_stream(port).ok_or_else(|| no_stream(port))?;
    Ok((forwarder, stream))
}

fn no_stream(port: u16) -> String {
    format!("no stream for port {port}")
}
