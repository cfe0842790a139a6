//! Dials peers that are missing, dead, silent, or no plugin, and checks the error.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use csi_proto::{DialError, DialReason, Endpoint, dial, v1};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};

use crate::plugin::{LONG, Running, any_port, bind, directory, socket_at, socket_in};

/// It is long enough for several attempts.
const SHORT: Duration = Duration::from_millis(300);

/// An empty SETTINGS frame, which opens HTTP/2.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

async fn failure(endpoint: &Endpoint, deadline: Duration) -> DialError {
    dial(endpoint, deadline).await.expect_err("nothing answers there")
}

/// Accepts connections without end, sends these bytes on each, and closes it or keeps it open.
fn answering(listener: UnixListener, bytes: &'static [u8], keep: bool) {
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(bytes).await;
            if keep {
                kept.push(stream);
            }
        }
    });
}

fn listen(endpoint: &Endpoint) -> UnixListener {
    let Endpoint::Unix(path) = endpoint else { unreachable!("a socket path") };
    UnixListener::bind(path).expect("the path is free")
}

#[tokio::test]
async fn a_missing_socket_is_tried_until_the_deadline() {
    let directory = directory();
    let error = failure(&socket_in(&directory), SHORT).await;
    assert!(matches!(error.reason, DialReason::NoSuchFile), "{error:?}");
    assert!(error.attempts > 1 && error.elapsed <= SHORT, "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("failed to connect to unix:///") && text.contains("is the driver running"),
        "{text}"
    );
    assert!(text.contains("attempts in "), "{text}");
}

#[tokio::test]
async fn a_regular_file_ends_it_at_once() {
    let directory = directory();
    let path = directory.path().join("csi.sock");
    std::fs::write(&path, "data").unwrap();
    let error = failure(&socket_at(&path), LONG).await;
    assert!(matches!(error.reason, DialReason::NotASocket("a regular file")), "{error:?}");
    assert_eq!(error.attempts, 1);

    let error = failure(&socket_at(directory.path()), LONG).await;
    assert!(error.to_string().ends_with("it is a directory, not a socket"), "{error}");
}

#[tokio::test]
async fn a_dead_socket_refuses() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    drop(listen(&endpoint));
    let error = failure(&endpoint, SHORT).await;
    assert!(matches!(error.reason, DialReason::Refused) && error.attempts > 1, "{error:?}");
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = failure(&Endpoint::Tcp { host: "127.0.0.1".into(), port }, SHORT).await;
    assert!(matches!(error.reason, DialReason::Refused), "{error:?}");
}

#[tokio::test]
async fn a_socket_of_somebody_else_is_denied() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may open every socket");
        return;
    }
    let directory = directory();
    let endpoint = socket_in(&directory);
    let _listener = listen(&endpoint);
    std::fs::set_permissions(directory.path().join("csi.sock"), std::fs::Permissions::from_mode(0o000))
        .unwrap();
    let error = failure(&endpoint, LONG).await;
    assert!(matches!(error.reason, DialReason::PermissionDenied), "{error:?}");
    assert_eq!(error.attempts, 1);
}

#[tokio::test]
async fn a_silent_peer_ends_with_the_deadline() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    answering(listen(&endpoint), b"", true);
    let error = failure(&endpoint, SHORT).await;
    assert!(matches!(error.reason, DialReason::Silent), "{error:?}");
    assert!(error.to_string().contains("no HTTP/2 answer came"), "{error}");
}

#[tokio::test]
async fn a_peer_that_never_accepts_ends_with_the_deadline() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    let _listener = listen(&endpoint);
    let error = failure(&endpoint, SHORT).await;
    assert!(matches!(error.reason, DialReason::Silent), "{error:?}");
}

#[tokio::test]
async fn garbage_ends_it_at_once_and_is_shown() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    answering(listen(&endpoint), b"HTTP/1.1 400 Bad Request\r\n\r\n", true);
    let error = failure(&endpoint, LONG).await;
    assert_eq!(error.attempts, 1);
    assert!(error.to_string().contains(r"HTTP/1.1 400 Bad Request\r\n"), "{error}");
}

#[tokio::test]
async fn garbage_too_short_for_a_frame_is_shown_too() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    answering(listen(&endpoint), b"no\n", true);
    let error = failure(&endpoint, SHORT).await;
    assert!(error.to_string().ends_with(r#"its first bytes are "no\n""#), "{error}");
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_tried_again() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    let listener = listen(&endpoint);
    let peer = tokio::spawn(async move {
        for _ in 0..2 {
            drop(listener.accept().await.unwrap());
        }
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&SETTINGS).await.unwrap();
        stream
    });
    dial(&endpoint, LONG).await.expect("the third connection is answered");
    peer.await.unwrap();

    let endpoint = socket_at(&directory.path().join("other"));
    answering(listen(&endpoint), b"", false);
    let error = failure(&endpoint, SHORT).await;
    assert!(matches!(error.reason, DialReason::Closed) && error.attempts > 1, "{error:?}");
}

#[tokio::test]
async fn settings_may_come_in_pieces() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    let listener = listen(&endpoint);
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for byte in SETTINGS {
            stream.write_all(&[byte]).await.unwrap();
            stream.flush().await.unwrap();
            tokio::task::yield_now().await;
        }
        stream
    });
    dial(&endpoint, LONG).await.expect("it speaks HTTP/2");
    peer.await.unwrap();
}

#[tokio::test]
async fn channel_reconnects_when_the_plugin_returns() {
    let directory = directory();
    let endpoint = socket_in(&directory);
    let first = Running::start(bind(&endpoint).await);
    let mut client = first.client().await;
    client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
    first.stop().await.unwrap().unwrap();

    let status = client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");

    let _second = Running::start(bind(&endpoint).await);
    client.get_plugin_info(v1::GetPluginInfoRequest {}).await.unwrap();
}

#[tokio::test]
async fn an_idle_channel_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let Endpoint::Tcp { host, .. } = any_port() else { unreachable!("an address") };
    let endpoint = Endpoint::Tcp { host, port: listener.local_addr().unwrap().port() };
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&SETTINGS).await.unwrap();
        let mut sent = Vec::new();
        let _ = stream.read_to_end(&mut sent).await;
        sent
    });
    drop(dial(&endpoint, LONG).await.unwrap());
    let sent = peer.await.unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut rest = sent.strip_prefix(preface.as_slice()).expect("the client preface");
    let mut types = Vec::new();
    while let Some((header, tail)) = rest.split_at_checked(9) {
        types.push(header[3]);
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        rest = &tail[length..];
    }
    const PING: u8 = 6;
    assert!(!types.contains(&PING), "frame types {types:?}");
}
