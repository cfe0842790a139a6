//! Checks that a connection to our server ends whatever the peer sends, and that the server then serves another
//! connection.

mod wire;

use std::time::Duration;

use csi_mock_driver::{Config, MockDriver};
use csi_proto::v1::ProbeRequest;
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::{Endpoint, Listener, dial};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::{CANARY, Target, file};

/// The first byte decides whether the preface and settings of HTTP/2 precede the other bytes.
pub const TARGET: Target = Target {
    name: "frames",
    run,
    seeds,
    tokens: &[
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\0\0\0\x04\0\0\0\0\0",
        "\0\0\x08\x06\0\0\0\0\0",
        "\0\0\x08\x07\0\0\0\0\0",
        "\0\0\x04\x03\0\0\0\0\x01",
        "\0\0\x04\x08\0\0\0\0\0",
        "/csi.v1.Controller/CreateVolume",
        "/csi.v1.Node/NodePublishVolume",
        "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
        ":path",
        ":method",
        "POST",
        ":scheme",
        "http",
        ":authority",
        "content-type",
        "application/grpc",
        "te",
        "trailers",
        "grpc-timeout",
        "grpc-encoding",
        "gzip",
        "1n",
        "99999999H",
    ],
};

/// Limits the end of a connection, and the call on the next one. Handlers of the mock driver take no time.
const LIMIT: Duration = Duration::from_secs(5);

fn run(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    if let Some((kind, bytes)) = bytes.split_first() {
        let begun = if kind % 2 == 1 { wire::begin() } else { Vec::new() };
        RUNTIME.with(|runtime| runtime.block_on(serve(&[&begun, bytes].concat())));
    }
}

/// Serves these bytes, and then a correct client.
async fn serve(bytes: &[u8]) {
    let path = file::directory_of_thread().join("csi.sock");
    let listener = Listener::bind(&Endpoint::Unix(path.clone())).await.expect("a socket of ours");
    let endpoint = listener.endpoint().clone();
    let driver = MockDriver::new(Config { seed: Some(1), ..Config::default() }).expect("a driver in memory");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(listener.stop_grace(LIMIT).serve(driver.routes(), async {
        let _ = stopped.await;
    }));
    let mut stop = Some(stop);
    let ended = timeout(LIMIT, send(&path, bytes)).await;
    assert!(ended.is_ok(), "the connection has no end");
    if CANARY && wire::has_goaway(bytes) {
        // The canary stops the server when one client says goodbye.
        stop = None;
        tokio::task::yield_now().await;
    }
    let channel = dial(&endpoint, LIMIT).await.expect("the server can still be reached");
    let probed = IdentityClient::new(channel).probe(ProbeRequest {}).await.expect("the server still answers");
    assert_eq!(probed.into_inner().ready, Some(true));
    drop(stop);
    let served = timeout(LIMIT, server).await.expect("the server stops");
    served.expect("the server does not panic").expect("the server serves until it is stopped");
}

/// Sends all bytes, then reads until the server closes the connection.
async fn send(path: &std::path::Path, bytes: &[u8]) {
    let mut stream = UnixStream::connect(path).await.expect("a server that listens");
    let (mut read, mut write) = stream.split();
    let send = async {
        // The server may close the connection before all is sent.
        let _ = write.write_all(bytes).await;
        let _ = write.shutdown().await;
    };
    let mut answer = Vec::new();
    let (_, _) = tokio::join!(send, read.read_to_end(&mut answer));
}

fn seeds() -> Vec<Vec<u8>> {
    let calls = [
        wire::call("/csi.v1.Identity/Probe", b""),
        wire::call("/csi.v1.Controller/CreateVolume", &wire::create_volume()),
        wire::call("/csi.v1.Controller/ListVolumes", b"\x08\x01"),
        wire::call("/csi.v1.Node/NodeGetInfo", b""),
        wire::call("/csi.v1.SnapshotMetadata/GetMetadataAllocated", b"\x12\x01s"),
        wire::call("/csi.v1.Nobody/Nothing", b"\xff"),
    ];
    let begun = |frames: Vec<u8>| [vec![1], frames].concat();
    let raw = [b"\0".to_vec(), wire::begin(), calls[0].clone()].concat();
    calls.clone().map(begun).into_iter().chain([raw, b"\0GET / HTTP/1.1\r\n\r\n".to_vec()]).collect()
}
