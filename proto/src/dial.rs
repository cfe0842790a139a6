//! Connects to a CSI plugin, and says precisely why that failed.

use std::future::{Future, pending};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::transport::Channel;

use crate::Endpoint;
use crate::connection::{Connection, Stream, Watcher};

/// The largest message that this project reads, in bytes; pass it to `max_decoding_message_size` of a client.
///
/// It is four times the default of the Go clients of Kubernetes, so that an answer too large for them can be reported
/// with its size, while a hostile answer stays bounded.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The largest headers of an answer, in bytes, equal to the limit of the Go clients of Kubernetes. A status whose
/// message quotes the request travels in the headers, and servers abort a call whose headers exceed the limit that
/// the client announces.
const HEADERS_BYTES_MAX: u32 = 16 << 20;

const RETRY_PAUSE_MIN: Duration = Duration::from_millis(10);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(250);

/// Limits one later connect, which the channel makes by itself after its connection broke.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to a plugin, which may still be starting.
///
/// It tries again until the deadline, with pauses of at most a quarter of a second; errors that waiting cannot cure
/// end it at once. A connection counts only after the peer has sent its HTTP/2 settings, because a program may hold
/// the socket open without answering, or speak another protocol. Only the first RPC shows whether the peer speaks
/// CSI.
///
/// Requests carry the `:authority` that kubelet sends, `localhost`. The channel sends no keepalive pings. When its
/// connection breaks, the RPCs under way fail and the next RPC connects again. The channel sets no deadline on RPCs
/// and no limit on messages: see [`MESSAGE_BYTES_MAX`].
///
/// # Errors
///
/// [`DialError`] names the endpoint, the attempts, the time spent and the reason of the last failure.
pub async fn dial(endpoint: &Endpoint, deadline: Duration) -> Result<Channel, DialError> {
    dial_breakable(endpoint, deadline).await.map(|(channel, _)| channel)
}

/// Connects as [`dial`] does, and also returns a [`Breaker`] for the connection under the channel.
///
/// # Errors
///
/// Fails as [`dial`] does.
pub async fn dial_breakable(
    endpoint: &Endpoint,
    deadline: Duration,
) -> Result<(Channel, Breaker), DialError> {
    let breaker = Breaker::default();
    let start = Instant::now();
    let mut attempts = 0;
    let mut pause = RETRY_PAUSE_MIN;
    loop {
        attempts += 1;
        let reason = match attempt(endpoint, start + deadline, &breaker).await {
            Ok(channel) => return Ok((channel, breaker)),
            Err(reason) => reason,
        };
        if reason.is_final() || start.elapsed() + pause >= deadline {
            return Err(DialError { endpoint: endpoint.clone(), attempts, elapsed: start.elapsed(), reason });
        }
        sleep(pause).await;
        pause = (pause * 2).min(RETRY_PAUSE_MAX);
    }
}

/// Breaks the connection under a channel, as the end of the caller's process would: the RPCs under way fail, and the
/// next RPC connects again.
#[derive(Clone, Debug, Default)]
pub struct Breaker(watch::Sender<()>);

impl Breaker {
    /// Breaks the current connection.
    pub fn break_connection(&self) {
        self.0.send_replace(());
    }

    /// Resolves when a connection that is made now must break.
    pub(crate) fn broken(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut broken = self.0.subscribe();
        Box::pin(async move {
            // Every breaker is gone, so nothing can break this connection any more.
            if broken.changed().await.is_err() {
                pending().await
            }
        })
    }
}

/// Says why a plugin could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("failed to connect to {endpoint} ({attempts} attempt{} in {elapsed:.1?}): {reason}", if *.attempts == 1 { "" } else { "s" })]
pub struct DialError {
    /// The address that was dialled.
    pub endpoint: Endpoint,
    /// The number of attempts.
    pub attempts: u32,
    /// The time from the first attempt to the last failure.
    pub elapsed: Duration,
    /// The reason of the last failure.
    pub reason: DialReason,
}

/// Says why one attempt to connect failed.
#[derive(Debug, thiserror::Error)]
pub enum DialReason {
    /// The path does not exist.
    #[error("there is no such file; is the driver running, and is this the socket it was given?")]
    NoSuchFile,
    /// The path exists and is not a socket.
    #[error("it is {0}, not a socket")]
    NotASocket(&'static str),
    /// This user may not use the socket or a directory on the path.
    #[error("permission denied for this user")]
    PermissionDenied,
    /// No process accepts connections on the address.
    #[error("connection refused, so nobody listens there; is the driver running?")]
    Refused,
    /// The address did not answer before the deadline.
    #[error("nothing answered at that address")]
    Unanswered,
    /// The connection was accepted, and no byte came before the deadline.
    #[error(
        "the connection was accepted, but no HTTP/2 answer came; does the driver hang, or is it no gRPC server?"
    )]
    Silent,
    /// The connection was accepted and closed without a byte.
    #[error("the connection was accepted and closed again without an HTTP/2 answer")]
    Closed,
    /// The peer answered in a protocol other than HTTP/2.
    #[error("what answers there does not speak HTTP/2, its first bytes are \"{0}\"")]
    NotHttp2(String),
    /// The operating system or the resolver reported another error.
    #[error("{0}")]
    Io(io::Error),
}

impl DialReason {
    /// Returns whether waiting cannot cure the failure.
    fn is_final(&self) -> bool {
        match self {
            Self::NotASocket(_) | Self::PermissionDenied | Self::NotHttp2(_) => true,
            Self::NoSuchFile | Self::Refused | Self::Unanswered | Self::Silent | Self::Closed => false,
            Self::Io(error) => error.kind() == io::ErrorKind::InvalidInput,
        }
    }

    fn from_connect(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoSuchFile,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => Self::Io(error),
        }
    }
}

async fn attempt(endpoint: &Endpoint, until: Instant, breaker: &Breaker) -> Result<Channel, DialReason> {
    if let Endpoint::Unix(path) = endpoint {
        // The kernel answers ECONNREFUSED for a file of any other type, which would read as a driver that is not
        // running.
        if let Some(kind) = other_than_socket(path).await.map_err(DialReason::from_connect)? {
            return Err(DialReason::NotASocket(kind));
        }
    }
    let stream = match timeout_at(until, connect(endpoint)).await {
        Ok(connected) => connected.map_err(DialReason::from_connect)?,
        Err(_) => return Err(DialReason::Unanswered),
    };
    let (sender, first_bytes) = watch::channel(Vec::new());
    let first = Connection::new(stream, Client::new(FirstBytes(Some(sender)), breaker));
    let channel = match timeout_at(until, channel(endpoint, first, breaker)).await {
        // Tonic has only written its half of the handshake by now, so a failure means that the peer closed the
        // connection.
        Ok(channel) => channel.map_err(|_| DialReason::Closed)?,
        Err(_) => return Err(DialReason::Silent),
    };
    settings_arrive(first_bytes, until).await?;
    Ok(channel)
}

/// Names the type of the file, or returns `None` if it is a socket.
async fn other_than_socket(path: &Path) -> io::Result<Option<&'static str>> {
    let kind = tokio::fs::metadata(path).await?.file_type();
    Ok(if kind.is_socket() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_file() {
        Some("a regular file")
    } else {
        Some("a special file")
    })
}

async fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    match endpoint {
        Endpoint::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }
}

/// Makes a channel over an open connection; the channel makes later connections by itself.
async fn channel(
    endpoint: &Endpoint,
    first: Connection<Client>,
    breaker: &Breaker,
) -> Result<Channel, tonic::transport::Error> {
    let (endpoint, breaker) = (endpoint.clone(), breaker.clone());
    let mut first = Some(first);
    let connector = tower::service_fn(move |_: http::Uri| {
        let (first, endpoint, breaker) = (first.take(), endpoint.clone(), breaker.clone());
        async move {
            let stream = match first {
                Some(first) => first,
                None => {
                    let stream = timeout(RECONNECT_TIMEOUT, connect(&endpoint)).await??;
                    Connection::new(stream, Client::new(FirstBytes(None), &breaker))
                }
            };
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    });
    // The connector knows the address; this name only becomes the `:authority`.
    tonic::transport::Endpoint::from_static("http://localhost")
        .http2_max_header_list_size(HEADERS_BYTES_MAX)
        .connect_with_connector(connector)
        .await
}

/// Waits for the SETTINGS frame with which a server opens HTTP/2, because tonic's connect returns as soon as it has
/// sent its own half of the handshake.
async fn settings_arrive(
    mut first_bytes: watch::Receiver<Vec<u8>>,
    until: Instant,
) -> Result<(), DialReason> {
    loop {
        let bytes = first_bytes.borrow_and_update().clone();
        if let Some(settings) = opens_http2(&bytes) {
            return if settings { Ok(()) } else { Err(not_http2(&bytes)) };
        }
        let end = match timeout_at(until, first_bytes.changed()).await {
            Ok(Ok(())) => continue,
            Ok(Err(_)) => DialReason::Closed,
            Err(_) => DialReason::Silent,
        };
        return Err(if bytes.is_empty() { end } else { not_http2(&bytes) });
    }
}

fn not_http2(bytes: &[u8]) -> DialReason {
    DialReason::NotHttp2(bytes.escape_ascii().to_string())
}

const FRAME_HEADER_BYTES: usize = 9;

/// Returns whether the first bytes of a server are the header of a SETTINGS frame, or `None` while there are too few
/// to say.
fn opens_http2(bytes: &[u8]) -> Option<bool> {
    const SETTINGS: u8 = 4;
    let header = bytes.get(..FRAME_HEADER_BYTES)?;
    Some(header[3] == SETTINGS && header[5..] == [0; 4])
}

/// Watches a client's connection: it records the bytes that are read first, and ends the connection when the breaker
/// asks for that.
struct Client {
    first_bytes: FirstBytes,
    /// Resolves when reads must report the end of the connection; `None` afterwards.
    broken: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Client {
    fn new(first_bytes: FirstBytes, breaker: &Breaker) -> Self {
        Self { first_bytes, broken: Some(breaker.broken()) }
    }
}

impl Watcher for Client {
    fn on_read(&mut self, bytes: &[u8]) {
        self.first_bytes.on_read(bytes);
    }

    fn has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        if self.broken.as_mut().is_some_and(|broken| broken.as_mut().poll(cx).is_ready()) {
            self.broken = None;
        }
        self.broken.is_none()
    }
}

/// Sends the first bytes that are read to [`settings_arrive`], until they suffice to recognise HTTP/2.
struct FirstBytes(Option<watch::Sender<Vec<u8>>>);

impl FirstBytes {
    /// It is long enough to recognise an HTTP/1 answer or a banner.
    const BYTES_MAX: usize = 40;

    fn on_read(&mut self, bytes: &[u8]) {
        let Some(sender) = &self.0 else { return };
        sender.send_modify(|first| {
            let room = Self::BYTES_MAX.saturating_sub(first.len());
            first.extend(bytes.iter().take(room));
        });
        if opens_http2(&sender.borrow()).is_some() {
            self.0 = None;
        }
    }
}
