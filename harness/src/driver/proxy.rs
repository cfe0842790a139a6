//! Proxies between a driver and its back end, over TCP: they hand on what both say, and break it on request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::BackendProxy;

/// Bytes that are handed on at once.
const PART_BYTES: usize = 64 << 10;
/// Pause between two parts where little gets through.
const THROTTLED_PAUSE: Duration = Duration::from_millis(100);

/// The fault of connections to a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// All bytes arrive late by this time.
    Delayed(Duration),
    /// Holds all bytes back without closing a connection, and delivers them afterwards.
    BlackHole,
    /// Connections are reset, and so is each new one.
    Reset,
    /// Requests get through and answers do not. A connection that has lost some stays silent for good.
    HalfOpen,
    /// Connections end after this many bytes of an answer.
    CutAfter(u64),
    /// So many bytes get through in each direction in a tenth of a second.
    Throttled(usize),
}

/// A proxy that is at work until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    accepts: JoinHandle<()>,
    description: String,
}

#[derive(Debug)]
struct Shared {
    fault: watch::Sender<Option<NetworkFault>>,
    /// True if the fault has had an effect since it began.
    is_met: AtomicBool,
    /// Bytes that have come through, and connections.
    passed: AtomicU64,
}

impl Proxy {
    /// Listens, and connects to the target for each who connects.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub(crate) async fn start(proxy: &BackendProxy) -> io::Result<Proxy> {
        let listener = TcpListener::bind(&proxy.listen).await?;
        let shared = Arc::new(Shared {
            fault: watch::Sender::new(None),
            is_met: AtomicBool::new(false),
            passed: AtomicU64::new(0),
        });
        let (of_all, target) = (shared.clone(), proxy.target.clone());
        let accepts = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, target.clone(), of_all.clone()));
            }
        });
        Ok(Proxy { shared, accepts, description: format!("{} to {}", proxy.listen, proxy.target) })
    }

    /// The addresses that it connects.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The number of bytes and connections since the proxy was started. Only its growth is meaningful.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// Breaks what comes through from now on.
    pub fn break_by(&self, fault: NetworkFault) {
        self.shared.is_met.store(false, Ordering::SeqCst);
        self.shared.fault.send_replace(Some(fault));
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.shared.fault.send_replace(None);
    }

    /// Returns true if the last fault has had an effect.
    pub fn is_met(&self) -> bool {
        self.shared.is_met.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl Shared {
    fn now(&self) -> Option<NetworkFault> {
        *self.fault.borrow()
    }

    fn meets(&self) {
        self.is_met.store(true, Ordering::SeqCst);
    }

    /// Waits until the fault is another one.
    async fn while_it_is(&self, fault: NetworkFault) {
        let mut changes = self.fault.subscribe();
        // The sender lives as long as this.
        let _ = changes.wait_for(|now| *now != Some(fault)).await;
    }
}

/// Both directions of a connection, until one of them ends it.
async fn serve(mut client: TcpStream, target: String, shared: Arc<Shared>) {
    shared.passed.fetch_add(1, Ordering::SeqCst);
    if shared.now() == Some(NetworkFault::BlackHole) {
        shared.meets();
        shared.while_it_is(NetworkFault::BlackHole).await;
    }
    let is_reset = shared.now() == Some(NetworkFault::Reset);
    let server =
        if is_reset { Err(io::ErrorKind::ConnectionReset.into()) } else { TcpStream::connect(&target).await };
    let Ok(mut server) = server else {
        if is_reset {
            shared.meets();
        }
        // A connection that cannot be made further on ends as one that breaks.
        let _ = client.set_zero_linger();
        return;
    };
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::try_join!(
            hand_on(from_client, to_server, false, &shared),
            hand_on(from_server, to_client, true, &shared)
        )
    };
    if ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
        for stream in [&client, &server] {
            let _ = stream.set_zero_linger();
        }
    }
}

/// Hands on one direction to its end; an error is a connection that is to be reset.
async fn hand_on(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    is_answer: bool,
    shared: &Shared,
) -> io::Result<()> {
    let (mut part, mut changes, mut cut) = (vec![0; PART_BYTES], shared.fault.subscribe(), 0);
    loop {
        let read = tokio::select! {
            read = from.read(&mut part) => read?,
            _ = changes.wait_for(|now| *now == Some(NetworkFault::Reset)) => {
                shared.meets();
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        };
        if read == 0 {
            return to.shutdown().await;
        }
        shared.passed.fetch_add(read as u64, Ordering::SeqCst);
        let Some(through) = befalls(&part[..read], &mut to, is_answer, &mut cut, shared).await? else {
            // The other side hears nothing of this connection any more. It ends when the other direction does.
            while from.read(&mut part).await? > 0 {}
            return std::future::pending().await;
        };
        to.write_all(through).await?;
    }
}

/// Applies the fault to bytes that arrived. Returns the bytes to pass on, and `None` if the connection is silent from
/// now on.
async fn befalls<'a>(
    mut part: &'a [u8],
    to: &mut WriteHalf<'_>,
    is_answer: bool,
    cut: &mut u64,
    shared: &Shared,
) -> io::Result<Option<&'a [u8]>> {
    while let Some(fault) = shared.now() {
        match fault {
            NetworkFault::HalfOpen | NetworkFault::CutAfter(_) if !is_answer => return Ok(Some(part)),
            _ => shared.meets(),
        }
        match fault {
            NetworkFault::Delayed(by) => {
                tokio::time::sleep(by).await;
                return Ok(Some(part));
            }
            NetworkFault::BlackHole => shared.while_it_is(fault).await,
            NetworkFault::Reset => return Err(io::ErrorKind::ConnectionReset.into()),
            NetworkFault::HalfOpen => return Ok(None),
            NetworkFault::CutAfter(bytes) => {
                let left = usize::try_from(bytes - *cut).unwrap_or(usize::MAX);
                if part.len() >= left {
                    to.write_all(&part[..left]).await?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                *cut += part.len() as u64;
                return Ok(Some(part));
            }
            NetworkFault::Throttled(bytes) => {
                let (now, later) = part.split_at(bytes.min(part.len()));
                to.write_all(now).await?;
                part = later;
                if part.is_empty() {
                    return Ok(Some(part));
                }
                tokio::time::sleep(THROTTLED_PAUSE).await;
            }
        }
    }
    Ok(Some(part))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use super::*;

    /// A server that says back what it hears, and a proxy before it.
    async fn proxied() -> (Proxy, String) {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = server.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        // No other test uses this address: a forked child would hold the listener for a moment longer.
        static NEXT: AtomicU8 = AtomicU8::new(2);
        let [.., high, low] = std::process::id().to_be_bytes();
        let free = format!("127.{high}.{low}.{}:24302", NEXT.fetch_add(1, Ordering::SeqCst));
        let proxy = Proxy::start(&BackendProxy { listen: free.clone(), target }).await.unwrap();
        (proxy, free)
    }

    async fn says_back(stream: &mut TcpStream) -> io::Result<String> {
        let mut back = [0; 5];
        stream.write_all(b"hello").await?;
        stream.read_exact(&mut back).await?;
        Ok(String::from_utf8_lossy(&back).into_owned())
    }

    #[tokio::test]
    async fn it_breaks_and_heals() {
        let (proxy, address) = proxied().await;
        let mut kept = TcpStream::connect(&address).await.unwrap();
        assert_eq!(says_back(&mut kept).await.unwrap(), "hello");

        proxy.break_by(NetworkFault::CutAfter(2));
        assert!(says_back(&mut kept).await.is_err() && proxy.is_met());
        proxy.break_by(NetworkFault::Reset);
        let mut new = TcpStream::connect(&address).await.unwrap();
        assert!(says_back(&mut new).await.is_err() && proxy.is_met());

        proxy.heal();
        let mut healed = TcpStream::connect(&address).await.unwrap();
        assert_eq!(says_back(&mut healed).await.unwrap(), "hello");
        proxy.break_by(NetworkFault::Throttled(1));
        assert_eq!(says_back(&mut healed).await.unwrap(), "hello");
        proxy.break_by(NetworkFault::BlackHole);
        let limit = Duration::from_millis(50);
        let (said, broken) = tokio::join!(says_back(&mut healed), async {
            tokio::time::sleep(limit).await;
            let met = proxy.is_met();
            proxy.heal();
            met
        });
        assert_eq!((said.unwrap().as_str(), broken), ("hello", true));

        proxy.break_by(NetworkFault::HalfOpen);
        assert!(tokio::time::timeout(limit, says_back(&mut healed)).await.is_err());
        proxy.heal();
        assert!(tokio::time::timeout(limit, says_back(&mut healed)).await.is_err());
    }
}
