//! Checks that a text is either rejected as an endpoint with a message, or is shown as a text that parses to an equal
//! endpoint.

use csi_proto::{Endpoint, SOCKET_PATH_BYTES_MAX};

use crate::{CANARY, Target};

/// The bytes are the text.
pub const TARGET: Target = Target {
    name: "endpoint",
    run,
    seeds,
    tokens: &[
        "unix:", "unix://", "tcp://", "dns:///", "TCP://", "[::1]", "[", "]", ":", "/", "./", ":0", ":65535",
        ":65536", "é",
    ],
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let endpoint = match text.parse::<Endpoint>() {
        Ok(endpoint) => endpoint,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    match &endpoint {
        Endpoint::Unix(path) => {
            let path = path.to_str().expect("it was text");
            assert!(
                !path.is_empty() && path.len() <= SOCKET_PATH_BYTES_MAX && !path.contains('\0'),
                "{path:?}"
            );
        }
        Endpoint::Tcp { host, .. } => assert!(!host.is_empty() && !host.contains(['/', '@', '[', ']'])),
    }
    assert_eq!(shown(&endpoint).parse().as_ref(), Ok(&endpoint));
}

fn shown(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp { host, port } if CANARY && host.contains(':') => format!("tcp://{host}:{port}"),
        endpoint => endpoint.to_string(),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "unix:///csi/csi.sock",
        "unix:csi.sock",
        "./csi.sock",
        "csi.sock",
        "/csi/csi.sock",
        "tcp://csi.example:9000",
        "dns:///csi.example:9000",
        "127.0.0.1:0",
    ];
    texts.map(Into::into).into()
}
