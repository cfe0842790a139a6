//! A proxy between the clients of two endpoints, for a driver that runs where it cannot listen itself.

use std::io;

use csi_proto::Endpoint;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

/// The largest number of connected pairs.
const PAIRS_MAX: usize = 256;

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    async fn bind(endpoint: &Endpoint) -> io::Result<Listener> {
        match endpoint {
            Endpoint::Unix(path) => {
                use std::os::unix::fs::FileTypeExt;
                if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
                    std::fs::remove_file(path)?;
                }
                Ok(Listener::Unix(UnixListener::bind(path)?))
            }
            Endpoint::Tcp { host, port } => {
                Ok(Listener::Tcp(TcpListener::bind((host.as_str(), *port)).await?))
            }
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        match self {
            Listener::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Listener::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }
}

/// Connects each client of the first endpoint with the next client of the second, until the future is dropped.
pub async fn run(first: &Endpoint, second: &Endpoint) -> io::Result<()> {
    let (first, second) = (Listener::bind(first).await?, Listener::bind(second).await?);
    let mut pairs = JoinSet::new();
    loop {
        let mut one = first.accept().await?;
        let mut other = second.accept().await?;
        while pairs.len() >= PAIRS_MAX {
            pairs.join_next().await;
        }
        pairs.spawn(async move {
            if let Err(error) = copy_bidirectional(&mut one, &mut other).await {
                tracing::debug!(%error, "a pair of connections has ended");
            }
        });
    }
}
