//! Streams of pods as WebSockets: the port of every pod leads to one socket, and commands in pods run here.

use std::path::Path;
use std::process::Command;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// The server speaks only this version of the protocol.
const PROTOCOL: &str = "v4.channel.k8s.io";
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Serves a request for a stream; gives back the connection of any other request, of which nothing is read.
pub(super) async fn serve(stream: TcpStream, socket: &Path) -> Option<TcpStream> {
    let target = peeked(&stream).await?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    if path.ends_with("/portforward") {
        let port = query.split('&').find_map(|pair| pair.strip_prefix("ports=")).unwrap().parse().unwrap();
        forward(upgraded(stream).await, port, socket).await;
        return None;
    }
    if path.ends_with("/exec") {
        exec(upgraded(stream).await, query).await;
        return None;
    }
    Some(stream)
}

/// Returns the path of the request that has arrived, which stays in the stream for the next reader.
async fn peeked(stream: &TcpStream) -> Option<String> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    loop {
        let length = stream.peek(&mut head).await.ok().filter(|length| *length > 0)?;
        let text = String::from_utf8_lossy(&head[..length]);
        if text.contains("\r\n\r\n") {
            return text.split(' ').nth(1).map(str::to_owned);
        }
        tokio::task::yield_now().await;
    }
}

async fn upgraded(stream: TcpStream) -> WebSocketStream<TcpStream> {
    #[expect(clippy::result_large_err, reason = "the library has it so")]
    let choose = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        response.headers_mut().insert("sec-websocket-protocol", PROTOCOL.parse().unwrap());
        Ok(response)
    };
    tokio_tungstenite::accept_hdr_async(stream, choose).await.unwrap()
}

/// Channel 0 carries the bytes, and channel 1 would carry an error; both begin with the number of the port.
async fn forward(web: WebSocketStream<TcpStream>, port: u16, socket: &Path) {
    let (mut to_web, mut from_web) = web.split();
    let [low, high] = port.to_le_bytes();
    for channel in [0, 1] {
        to_web.send(Message::binary(vec![channel, low, high])).await.unwrap();
    }
    let Ok(driver) = UnixStream::connect(socket).await else {
        let _ = to_web.send(Message::binary([&[1][..], b"connection refused"].concat())).await;
        return;
    };
    let (mut from_driver, mut to_driver) = driver.into_split();
    let there = async {
        while let Some(Ok(message)) = from_web.next().await {
            let bytes = message.into_data();
            // Other channels and messages are not for the driver.
            let Some((0, sent)) = bytes.split_first() else { continue };
            if to_driver.write_all(sent).await.is_err() {
                break;
            }
        }
    };
    let back = async {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from_driver.read(&mut bytes).await {
            if to_web.send(Message::binary([&[0], &bytes[..length]].concat())).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { () = there => {}, () = back => {} }
}

/// Channel 1 carries the output of the command, and channel 3 its exit status.
async fn exec(mut web: WebSocketStream<TcpStream>, query: &str) {
    let words: Vec<String> =
        query.split('&').filter_map(|pair| pair.strip_prefix("command=")).map(decoded).collect();
    let ran = Command::new(&words[0]).args(&words[1..]).output().unwrap();
    // A client that was killed does not read this.
    let _ = web.send(Message::binary([&[1], &ran.stdout[..]].concat())).await;
    let status = match ran.status.code() {
        Some(0) => json!({ "metadata": {}, "status": "Success" }),
        code => json!({ "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "details": { "causes": [{ "reason": "ExitCode", "message": code.unwrap_or(-1).to_string() }] } }),
    };
    let _ = web.send(Message::binary([&[3], status.to_string().as_bytes()].concat())).await;
    let _ = web.close(None).await;
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
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
