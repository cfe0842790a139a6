//! Serves a CSI plugin on a socket, and lets the calls under way finish when it stops.

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

/// The time that calls under way get after the stop; it is a third of what Kubernetes gives a pod by default.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

/// Limits the RPCs under way on one connection.
const STREAMS_MAX: u32 = 1000;

/// The pause after a failed accept, which would otherwise repeat at once while the process has no free file
/// descriptor.
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

/// Says why a plugin cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The directory for the socket is missing. It is not created, because its owner and mode are unknown.
    #[error("failed to listen on {endpoint}: the directory {} does not exist", directory.display())]
    NoDirectory {
        /// The address that was to be bound.
        endpoint: Endpoint,
        /// The missing directory.
        directory: PathBuf,
    },
    /// The path exists and is not a socket; it was left unchanged.
    #[error("failed to listen on {endpoint}: the path is taken by something that is not a socket")]
    NotASocket {
        /// The address that was to be bound.
        endpoint: Endpoint,
    },
    /// Another process listens on the address; its socket was left unchanged.
    #[error("failed to listen on {endpoint}: another process already listens there")]
    InUse {
        /// The address that was to be bound.
        endpoint: Endpoint,
    },
    /// The operating system reported another error.
    #[error("failed to listen on {endpoint}: {error}")]
    Io {
        /// The address that was to be bound.
        endpoint: Endpoint,
        /// The error, which is part of the text and therefore not its source.
        error: io::Error,
    },
}

/// Says why serving ended before the stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The gRPC server failed.
    #[error("failed to serve on {endpoint}")]
    Transport {
        /// The address of the server.
        endpoint: Endpoint,
        /// The error of the server.
        source: tonic::transport::Error,
    },
}

impl Listener {
    fn new(endpoint: Endpoint, socket: Socket, file: Option<SocketFile>) -> Self {
        Self { endpoint, socket, file, stop_grace: STOP_GRACE }
    }

    /// Binds the endpoint.
    ///
    /// A socket file that a dead process left behind is replaced. A file that is no socket, even a symbolic link,
    /// stays as it is, and so does a socket on which a process listens.
    ///
    /// # Errors
    ///
    /// [`BindError`] says why the address cannot be bound.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, BindError> {
        match endpoint {
            Endpoint::Unix(path) => bind_unix(endpoint, path).await,
            Endpoint::Tcp { host, port } => {
                bind_tcp(host, *port).await.map_err(|error| bind_error(endpoint, error))
            }
        }
    }

    /// Returns the address, with the actual port if any free one was requested.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sets the time that calls under way get after the stop; the default is [`STOP_GRACE`].
    pub fn stop_grace(self, stop_grace: Duration) -> Self {
        Self { stop_grace, ..self }
    }

    /// Serves the routes until `stop` resolves, logging each call as [`RequestLog`] does.
    ///
    /// Then it accepts no more connections, removes the socket file, lets the calls under way end, and returns. After
    /// the grace period it cancels the remaining calls with a warning; dropping this future cancels all calls.
    ///
    /// The services in `routes` limit the size of messages, by default to 4 MiB.
    ///
    /// # Errors
    ///
    /// [`ServeError`] says why the server ended before `stop`.
    pub async fn serve(
        self,
        routes: Routes,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Self { endpoint, socket, file, stop_grace } = self;
        // All connections see this sender being dropped, however this function returns.
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
            result = server => result.map_err(|source| ServeError::Transport { endpoint, source }),
            () = grace_over => {
                tracing::warn!(%endpoint, "cut off the calls still under way {stop_grace:?} after the stop");
                Ok(())
            }
        }
    }
}

/// Resolves on SIGTERM or SIGINT, which no longer end the process after the first poll.
pub async fn stop_signal() {
    async fn one(kind: SignalKind) {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler the signal ends the process, which stops the server as well.
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
    let listener = UnixListener::bind(path).map_err(|error| bind_error(endpoint, error))?;
    let file = SocketFile::of(path).map_err(|error| bind_error(endpoint, error))?;
    Ok(Listener::new(endpoint.clone(), Socket::Unix(listener), Some(file)))
}

async fn bind_tcp(host: &str, port: u16) -> io::Result<Listener> {
    let listener = TcpListener::bind((host, port)).await?;
    let port = listener.local_addr()?.port();
    Ok(Listener::new(Endpoint::Tcp { host: host.to_owned(), port }, Socket::Tcp(listener), None))
}

fn bind_error(endpoint: &Endpoint, error: io::Error) -> BindError {
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

/// Removes a socket on which no process listens.
async fn remove_stale(endpoint: &Endpoint, path: &Path) -> Result<(), BindError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(bind_error(endpoint, error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(BindError::NotASocket { endpoint: endpoint.clone() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        // A socket with a full backlog has a living owner, too.
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(bind_error(endpoint, error)),
        _ => return Err(BindError::InUse { endpoint: endpoint.clone() }),
    }
    tracing::info!(%endpoint, "removing the socket that a dead process left");
    std::fs::remove_file(path).map_err(|error| bind_error(endpoint, error))
}

/// The file of a bound socket, which is removed on drop unless another file has replaced it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        // The path is made absolute, because the working directory may change before the file is removed.
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

/// Numbers the connections of a listener; each request has the number of its connection in its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionNumber(u64);

/// Returns the connections as clients open them.
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

/// Makes a connection read as closed by the peer when serving is over, so that its calls are dropped. A connection on
/// which the peer has sent nothing reads as closed at the stop already, because HTTP/2 cannot close it in order.
struct UntilStop {
    number: ConnectionNumber,
    /// It changes at the stop, and its sender is dropped when serving is over.
    stopped: watch::Receiver<()>,
    has_read: bool,
    /// Resolves when reads must report the end of the connection; `None` afterwards.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl UntilStop {
    fn new(stopped: watch::Receiver<()>, number: ConnectionNumber) -> Self {
        let mut stop = stopped.clone();
        let end = async move {
            let _ = stop.changed().await;
        };
        Self { number, stopped, has_read: false, end: Some(Box::pin(end)) }
    }
}

impl Watcher for UntilStop {
    fn on_read(&mut self, _: &[u8]) {
        if !self.has_read {
            let mut stopped = self.stopped.clone();
            self.end = Some(Box::pin(async move { while stopped.changed().await.is_ok() {} }));
            self.has_read = true;
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
