//! The server side of a CSI plugin: a socket, and a stop that loses no call.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use futures_util::stream;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use crate::connection::{Connection, Stream, Watcher};
use crate::{Endpoint, RequestLog};

/// How long calls under way may go on after the stop; a third of what Kubernetes gives a pod by default.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

/// Bound on the RPCs under way on one connection.
const STREAMS_MAX: u32 = 1000;

/// Pause after a failed accept, which would otherwise repeat at once while the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound socket. Dropping it closes the socket and removes its file.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    socket: Socket,
    file: Option<SocketFile>,
    stop_grace: Duration,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Why a plugin cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The directory for the socket is missing; nobody but the one who set up the node knows its owner and mode.
    #[error("failed to listen on {endpoint}: the directory {} does not exist", directory.display())]
    NoDirectory {
        /// What was to be bound.
        endpoint: Endpoint,
        /// The missing directory.
        directory: PathBuf,
    },
    /// Something else than a socket has that path; it was left alone.
    #[error("failed to listen on {endpoint}: the path is taken by something that is not a socket")]
    NotASocket {
        /// What was to be bound.
        endpoint: Endpoint,
    },
    /// Another process answers there; its socket was left alone.
    #[error("failed to listen on {endpoint}: another process already listens there")]
    InUse {
        /// What was to be bound.
        endpoint: Endpoint,
    },
    /// The operating system refused.
    #[error("failed to listen on {endpoint}: {error}")]
    Io {
        /// What was to be bound.
        endpoint: Endpoint,
        /// What it said; part of the text, so not its source.
        error: io::Error,
    },
}

/// Why serving ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The gRPC server failed.
    #[error("failed to serve on {endpoint}")]
    Transport {
        /// Where it listened.
        endpoint: Endpoint,
        /// What it said.
        source: tonic::transport::Error,
    },
}

impl Listener {
    fn new(endpoint: Endpoint, socket: Socket, file: Option<SocketFile>) -> Self {
        Self { endpoint, socket, file, stop_grace: STOP_GRACE }
    }

    /// Binds the endpoint.
    ///
    /// A socket file that a dead process left behind is replaced. Anything that is not a socket, a symbolic link
    /// included, and a socket on which somebody answers stay as they are.
    ///
    /// # Errors
    ///
    /// [`BindError`] says why the endpoint cannot be had.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, BindError> {
        match endpoint {
            Endpoint::Unix(path) => bind_unix(endpoint, path).await,
            Endpoint::Tcp { host, port } => {
                bind_tcp(host, *port).await.map_err(|error| refused(endpoint, error))
            }
        }
    }

    /// Where it listens, with the true port if any free one was asked for.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sets how long calls under way may go on after the stop, [`STOP_GRACE`] if this is not called.
    pub fn stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace, ..self }
    }

    /// Serves the routes until `stop` resolves, logging each call as [`RequestLog`] does.
    ///
    /// Then it accepts no more connections, removes the socket file, lets the calls under way end, and returns. Calls
    /// still under way after the grace are cut off with a warning, and so are all calls when this future is dropped.
    ///
    /// Message sizes are limited by the services in `routes`, to 4 MiB unless they say otherwise.
    ///
    /// # Errors
    ///
    /// [`ServeError`] if the server ends before `stop`.
    pub async fn serve(
        self,
        routes: Routes,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self { endpoint, socket, file, stop_grace } = self;
        // Whichever way this function is left, the connections see the sender go.
        let (stopping, stopped) = watch::channel(());
        let mut grace = stopped.clone();
        let stop = {
            let stopping = &stopping;
            async move {
                stop.await;
                drop(file);
                let _ = stopping.send(());
            }
        };
        let grace_over = async {
            let _ = grace.changed().await;
            tokio::time::sleep(stop_grace).await;
        };
        let server = Server::builder()
            .max_concurrent_streams(STREAMS_MAX)
            .layer(RequestLog)
            .add_routes(routes)
            .serve_with_incoming_shutdown(accept(socket, stopped), stop);
        tracing::info!(%endpoint, "listening");
        tokio::select! {
            done = server => done.map_err(|source| ServeError::Transport { endpoint, source }),
            () = grace_over => {
                tracing::warn!(%endpoint, "cut off the calls still under way {stop_grace:?} after the stop");
                Ok(())
            }
        }
    }
}

/// Resolves on SIGTERM or SIGINT, which from its first poll on no longer end the process.
pub async fn stop_signal() {
    async fn one(kind: SignalKind) {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler the signal ends the process, which is a stop as well.
            Err(error) => {
                tracing::warn!(%error, "failed to handle signal {}", kind.as_raw_value());
                std::future::pending().await
            }
        }
    }
    tokio::select! {
        () = one(SignalKind::terminate()) => {}
        () = one(SignalKind::interrupt()) => {}
    }
}

async fn bind_unix(endpoint: &Endpoint, path: &Path) -> Result<Listener, BindError> {
    remove_stale(endpoint, path).await?;
    let listener = UnixListener::bind(path).map_err(|error| refused(endpoint, error))?;
    let file = SocketFile::of(path).map_err(|error| refused(endpoint, error))?;
    Ok(Listener::new(endpoint.clone(), Socket::Unix(listener), Some(file)))
}

async fn bind_tcp(host: &str, port: u16) -> io::Result<Listener> {
    let listener = TcpListener::bind((host, port)).await?;
    let port = listener.local_addr()?.port();
    Ok(Listener::new(Endpoint::Tcp { host: host.to_owned(), port }, Socket::Tcp(listener), None))
}

fn refused(endpoint: &Endpoint, error: io::Error) -> BindError {
    let endpoint = endpoint.clone();
    match (error.kind(), &endpoint) {
        (io::ErrorKind::AddrInUse, _) => BindError::InUse { endpoint },
        (io::ErrorKind::NotFound, Endpoint::Unix(path)) => {
            let directory = path.parent().unwrap_or(path).to_owned();
            BindError::NoDirectory { endpoint, directory }
        }
        _ => BindError::Io { endpoint, error },
    }
}

/// Removes a socket on which nobody answers.
async fn remove_stale(endpoint: &Endpoint, path: &Path) -> Result<(), BindError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(endpoint, error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(BindError::NotASocket { endpoint: endpoint.clone() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        // A full backlog has a living owner too.
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(refused(endpoint, error)),
        _ => return Err(BindError::InUse { endpoint: endpoint.clone() }),
    }
    tracing::info!(%endpoint, "removing the socket that a dead process left");
    std::fs::remove_file(path).map_err(|error| refused(endpoint, error))
}

/// The file of a bound socket, removed when dropped unless somebody has put another in its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        // The working directory may change before the file is removed.
        let path = std::path::absolute(path)?;
        let identity = Self::identity(&path)?;
        Ok(Self { path, identity })
    }

    fn identity(path: &Path) -> io::Result<(u64, u64)> {
        let file = std::fs::symlink_metadata(path)?;
        Ok((file.dev(), file.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if Self::identity(&self.path).ok() == Some(self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Tells one connection from the others of a listener; it is in the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionNumber(u64);

/// Connections as they come.
fn accept(
    socket: Socket,
    stopped: watch::Receiver<()>,
) -> impl futures_util::Stream<Item = io::Result<Connection<UntilStop>>> {
    stream::unfold((socket, stopped, 0), |(socket, stopped, number)| async move {
        let accepted = match socket.accept().await {
            Ok(stream) => {
                Ok(Connection::new(stream, UntilStop::new(stopped.clone(), ConnectionNumber(number))))
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                Err(error)
            }
        };
        Some((accepted, (socket, stopped, number + 1)))
    })
}

impl Socket {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Makes a connection read as closed by the peer once serving is over, whereupon its calls are dropped. One on which
/// the peer has not said a word, and which HTTP/2 therefore cannot wind up, does so at the stop already.
struct UntilStop {
    number: ConnectionNumber,
    /// Changes at the stop, ends when serving is over.
    stopped: watch::Receiver<()>,
    heard: bool,
    /// When to read as closed; none once it has come.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl UntilStop {
    fn new(stopped: watch::Receiver<()>, number: ConnectionNumber) -> Self {
        let mut stop = stopped.clone();
        let end = async move {
            let _ = stop.changed().await;
        };
        Self { number, stopped, heard: false, end: Some(Box::pin(end)) }
    }
}

impl Watcher for UntilStop {
    fn heard(&mut self, _: &[u8]) {
        if !self.heard {
            let mut stopped = self.stopped.clone();
            self.end = Some(Box::pin(async move { while stopped.changed().await.is_ok() {} }));
            self.heard = true;
        }
    }

    fn has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            self.end = None;
        }
        self.end.is_none()
    }
}

impl Connected for Connection<UntilStop> {
    type ConnectInfo = ConnectionNumber;

    fn connect_info(&self) -> ConnectionNumber {
        self.watcher().number
    }
}
