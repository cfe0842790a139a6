//! Sends input below gRPC: bytes that are no HTTP/2, wrong frames, streams without end, and nothing for a long time.
//! Meanwhile the driver has to answer others, and afterwards it must be as before.

use std::io;
use std::time::{Duration, Instant};

use csi_harness::prelude::*;
use csi_proto::Endpoint;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::process_stats::Vitals;
use crate::rules::HOSTILE_TIME_001;

/// The number of concurrent connections with an abuse; those that the driver does not close stay open for a while.
const CONNECTIONS: usize = 16;
/// Limits the time of one connection, because a server that does not read blocks it.
const CONNECTION_LIMIT: Duration = Duration::from_millis(300);
/// Limits the time in which others must get an answer meanwhile.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

// Frames of HTTP/2 (RFC 9113) and headers without compression (RFC 7541) are encoded by hand, so that they can be wrong.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// The content type of calls.
const GRPC: &str = "application/grpc";

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Bytes that no correct client sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abuse {
    /// The name in the id of its check.
    pub(super) name: &'static str,
    /// The description, as one clause.
    pub(super) title: &'static str,
    /// Makes the bytes of a connection; some are random.
    bytes: fn(&mut fastrand::Rng) -> Vec<u8>,
}

pub(super) const ABUSES: &[Abuse] = &[
    Abuse {
        name: "no-http2",
        title: "an HTTP/1.1 request",
        bytes: |_| b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
    },
    Abuse { name: "nothing", title: "connections without any data", bytes: |_| Vec::new() },
    Abuse {
        name: "half-a-preface",
        title: "only half of the HTTP/2 preface",
        bytes: |_| PREFACE[..10].to_vec(),
    },
    Abuse {
        name: "garbage",
        title: "random bytes after the preface",
        bytes: |rng| {
            let garbage: Vec<u8> = (0..64 << 10).map(|_| rng.u8(..)).collect();
            [PREFACE, &garbage].concat()
        },
    },
    Abuse {
        name: "garbled-frames",
        title: "frames of random types, flags and streams",
        bytes: |rng| {
            opened((0..2_000).map(|_| {
                let payload: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
                frame(rng.u8(..), rng.u8(..), rng.u32(..1 << 31), &payload)
            }))
        },
    },
    Abuse {
        name: "long-frame",
        title: "a frame with a stated length of 16 MiB",
        bytes: |_| opened([vec![0xff, 0xff, 0xff, HEADERS, END_HEADERS, 0, 0, 0, 1]]),
    },
    Abuse {
        name: "rapid-reset",
        title: "streams that are opened and reset at once",
        bytes: |_| opened((0..1_000).flat_map(|n| [call(n), frame(RST_STREAM, 0, stream(n), &[0, 0, 0, 8])])),
    },
    Abuse {
        name: "open-streams",
        title: "streams that are opened and never ended",
        bytes: |_| opened((0..1_000).map(call)),
    },
    Abuse {
        name: "pings",
        title: "pings whose replies are not read",
        bytes: |_| opened([frame(PING, 0, 0, &[0; 8]).repeat(20_000)]),
    },
    Abuse {
        name: "settings",
        title: "settings without end",
        bytes: |_| opened([frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]).repeat(20_000)]),
    },
    Abuse {
        name: "endless-headers",
        title: "headers without end",
        bytes: |_| {
            let mut bytes = frame(HEADERS, 0, 1, &header("a", "b"));
            bytes.extend(frame(CONTINUATION, 0, 1, &header("x", &"y".repeat(100)).repeat(100)).repeat(100));
            opened([bytes])
        },
    },
    Abuse {
        name: "large-metadata",
        title: "metadata of 64 KiB",
        bytes: |_| {
            let mut headers = request("/csi.v1.Identity/Probe", GRPC);
            headers.extend(header("x-large", &"y".repeat(100)).repeat(600));
            // A frame contains at most 16 KiB.
            let (first, rest) = headers.split_at(headers.len().min(16_000));
            let mut bytes = frame(HEADERS, END_STREAM, 1, first);
            for (at, part) in rest.chunks(16_000).enumerate() {
                let last = (at + 1) * 16_000 >= rest.len();
                bytes.extend(frame(CONTINUATION, if last { END_HEADERS } else { 0 }, 1, part));
            }
            opened([bytes])
        },
    },
    Abuse {
        name: "content-type",
        title: "a call whose content type is not gRPC",
        bytes: |_| opened([call_as("application/json", 0), frame(DATA, END_STREAM, 1, b"{}")]),
    },
    Abuse {
        name: "compressed",
        title: "a message that is marked as compressed but is not",
        bytes: |_| opened([call(0), frame(DATA, END_STREAM, 1, &[1, 0, 0, 0, 2, 8, 1])]),
    },
    Abuse {
        name: "truncated-message",
        title: "a message that is shorter than its stated length",
        bytes: |_| opened([call(0), frame(DATA, END_STREAM, 1, &[0, 0, 0, 0, 9, 8])]),
    },
    Abuse {
        name: "huge-message",
        title: "a message with a stated length of 4 GiB",
        bytes: |_| opened([call(0), frame(DATA, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff, 8])]),
    },
    Abuse {
        name: "empty-data",
        title: "empty data frames",
        bytes: |_| opened([call(0), frame(DATA, 0, 1, &[]).repeat(20_000)]),
    },
    Abuse {
        name: "windows",
        title: "flow control windows that overflow",
        bytes: |_| opened([frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(4)]),
    },
    Abuse {
        name: "closed-window",
        title: "calls whose replies exceed the window of the caller",
        bytes: |_| {
            let calls =
                (0..100).flat_map(|n| [call(n), frame(DATA, END_STREAM, stream(n), &[0; 5])].concat());
            [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]), &calls.collect::<Vec<u8>>()].concat()
        },
    },
];

/// Prefixes the frames with the preface and empty settings.
fn opened(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].into_iter().chain(frames).flatten().collect()
}

/// Returns the headers of the call with this number, which starts at 0.
fn call(number: u32) -> Vec<u8> {
    call_as(GRPC, number)
}

fn call_as(content_type: &str, number: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream(number), &request("/csi.v1.Identity/Probe", content_type))
}

/// Streams of clients have odd numbers.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

/// Runs the abuse, and checks that others get answers meanwhile, and that the driver is as before afterwards.
pub(super) async fn abuse(cx: &Cx, abuse: Abuse) -> CheckResult {
    let mut rng = cx.rng();
    // The resources of the first round may stay in use; only growth with each round is a leak.
    round(cx, abuse, &mut rng).await?;
    let process_stats = Vitals::take(cx).await;
    let open = round(cx, abuse, &mut rng).await?;
    let begun = Instant::now();
    let probe = cx.call(v1::ProbeRequest {}).once();
    let answered = tokio::time::timeout(PROBE_LIMIT, probe).await;
    let took = begun.elapsed();
    drop(open);
    if !cx.target().is_alive().await {
        cx.expect_no_answer();
        let printed = cx.target().last_lines();
        // The run reports a failure of this.
        let _ = cx.target().bring_back().await;
        return Err(Violation::new(format!("the driver crashes on {}", abuse.title))
            .of(&req::GEN_ERR_001)
            .expected("a driver that keeps serving others")
            .actual("no answer to GetPluginInfo on another connection")
            .printed(printed)
            .into());
    }
    let is_answered = answered.is_ok_and(|reply| !matches!(reply.answer(), Answer::Unknown(_)));
    if !is_answered {
        cx.expect_no_answer();
        cx.warn(
            Violation::new(format!("others are not answered while there are {}", abuse.title))
                .of(&HOSTILE_TIME_001)
                .expected("a Probe on another connection that is answered at once")
                .actual(format!("no answer within {} ms", took.as_millis())),
        );
    }
    match process_stats {
        Some(process_stats) => process_stats.compare(cx).await,
        None => Ok(()),
    }
}

/// Abuses several connections concurrently, and returns those that the driver did not close.
async fn round(cx: &Cx, abuse: Abuse, rng: &mut fastrand::Rng) -> CheckResult<Vec<Box<dyn Connection>>> {
    let bytes: Vec<Vec<u8>> = (0..CONNECTIONS).map(|_| (abuse.bytes)(rng)).collect();
    let attempts = futures_util::future::join_all(bytes.iter().map(|bytes| attempt(cx, bytes))).await;
    let open = attempts.into_iter().collect::<io::Result<Vec<_>>>();
    let unreachable = |error| Stop::broken(format!("failed to connect to the driver once more: {error}"));
    Ok(open.map_err(unreachable)?.into_iter().flatten().collect())
}

/// A Unix or TCP connection.
trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Sends the bytes on a new connection, which is returned if the driver did not close it.
async fn attempt(cx: &Cx, bytes: &[u8]) -> io::Result<Option<Box<dyn Connection>>> {
    let mut connection = connect(cx.target().endpoint()).await?;
    let sending = async {
        connection.write_all(bytes).await?;
        // The driver had time to answer, or to close the connection.
        let mut answer = [0; 4 << 10];
        while connection.read(&mut answer).await? > 0 {}
        io::Result::Ok(())
    };
    match tokio::time::timeout(CONNECTION_LIMIT, sending).await {
        // The driver may close the connection, in order or not.
        Ok(_) => Ok(None),
        Err(_) => Ok(Some(connection)),
    }
}

async fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Connection>> {
    Ok(match endpoint {
        Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Endpoint::Tcp { host, port } => Box::new(TcpStream::connect((host.as_str(), *port)).await?),
    })
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn request(path: &str, content_type: &str) -> Vec<u8> {
    [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", path),
        header(":authority", "localhost"),
        header("content-type", content_type),
        header("te", "trailers"),
    ]
    .concat()
}

/// Encodes a header as a literal without indexing and Huffman code. Names and values have to be shorter than 127
/// bytes.
fn header(name: &str, value: &str) -> Vec<u8> {
    debug_assert!(name.len() < 127 && value.len() < 127);
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}
