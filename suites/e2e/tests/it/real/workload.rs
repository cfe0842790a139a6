//! Workloads run in pods of a cluster. Their commands run on this machine, behind WebSockets.

use std::process::Stdio;
use std::time::Duration;

use csi_suite_e2e::cluster::Cluster as _;
use csi_suite_e2e::kube_cluster::KubeCluster;
use csi_workload::checker::Span;
use csi_workload::log::Log;
use futures_util::{SinkExt as _, StreamExt as _};
use kube::{Client, Config};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use super::{broken, cluster, found, namespace_with, settings};

/// Limits the wait for a workload.
const WAIT: Duration = Duration::from_secs(30);
const PROTOCOL: &str = "v4.channel.k8s.io";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;

/// Runs the command of a request for a stream. The channels of the WebSocket are its input and output, and its exit code.
async fn exec(stream: TcpStream) {
    let mut words = Vec::new();
    #[expect(clippy::result_large_err, reason = "the library has it so")]
    let accept = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let query = request.uri().query().unwrap_or_default();
        words = query.split('&').filter_map(|pair| pair.strip_prefix("command=")).map(decoded).collect();
        response.headers_mut().insert("sec-websocket-protocol", PROTOCOL.parse().unwrap());
        Ok(response)
    };
    let web = tokio_tungstenite::accept_hdr_async(stream, accept).await.unwrap();
    let (mut to_web, mut from_web) = web.split();
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let input = async {
        while let Some(Ok(message)) = from_web.next().await {
            if let Some((&STDIN, bytes)) = message.into_data().split_first() {
                // The command may have ended.
                let _ = stdin.write_all(bytes).await;
            }
        }
    };
    let output = async {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = stdout.read(&mut bytes).await {
            let piece = Message::binary([&[STDOUT], &bytes[..length]].concat());
            if to_web.send(piece).await.is_err() {
                return;
            }
        }
        let mut errors = Vec::new();
        child.stderr.take().unwrap().read_to_end(&mut errors).await.unwrap();
        let code = child.wait().await.unwrap().code().unwrap_or(-1);
        let status = match code {
            0 => json!({ "metadata": {}, "status": "Success" }),
            code => json!({ "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] } }),
        };
        for (channel, bytes) in [(STDERR, errors), (STATUS, status.to_string().into_bytes())] {
            // A client that has read enough may have hung up.
            let _ = to_web.send(Message::binary([&[channel], &bytes[..]].concat())).await;
        }
        let _ = to_web.close().await;
    };
    // When the connection or the command ends, the other one ends as well.
    tokio::select! { () = input => {}, () = output => {} }
}

/// Decodes the percent-encoding in a part of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Makes the namespace of a test in whose pods commands can run.
async fn with_commands() -> KubeCluster {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(exec(stream));
        }
    });
    let mut found = found(&cluster()).await;
    found.server.connection.client = Client::try_from(Config::new(server.parse().unwrap())).unwrap();
    namespace_with(found, settings())
}

#[tokio::test]
async fn a_pod_writes_until_its_input_has_a_line() {
    let real = with_commands().await;
    let volume = tempfile::tempdir().unwrap();
    let path = volume.path().to_str().unwrap();
    let workload = real.start_workload("pod-0", "write-pod", path).await.unwrap();
    assert!(workload.is_elsewhere());
    assert!(workload.until(WAIT, |log| log.acknowledged() >= 5).await, "{workload:?}");
    assert!(workload.end(WAIT).await && workload.log(Log::has_ended), "{workload:?}");
    let (writer, last) = (workload.writer(), workload.log(Log::acknowledged));
    let there = real.read_workload("pod-0", "write-pod", path, writer).await.unwrap();
    assert_eq!(writer.judge(Span { acknowledged: last, begun: last }, &there), []);
    assert_eq!(writer.moment(&there), last);
    let more = Span { acknowledged: last + 1, begun: last + 1 };
    assert_ne!(writer.judge(more, &there), [], "a record that is missing is found");
}

#[tokio::test]
async fn a_pod_without_the_volume_has_no_workload() {
    let why =
        broken(with_commands().await.start_workload("pod-0", "write-pod", "/nowhere").await.unwrap_err());
    assert!(why.contains("the device cannot be measured"), "{why}");
}
