//! Encodes as much of HTTP/2 and gRPC as a client needs for one call.

use std::collections::BTreeMap;

use csi_proto::v1;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use prost::Message as _;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Returns the opening of a client's connection.
pub(super) fn begin() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a call on the first stream.
pub(super) fn call(path: &str, message: &[u8]) -> Vec<u8> {
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let headers: Vec<u8> = headers.into_iter().flat_map(|(name, value)| header(name, value)).collect();
    let length = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
    let message = [&[0], &length[..], message].concat();
    [frame(HEADERS, END_HEADERS, 1, &headers), frame(DATA, END_STREAM, 1, &message)].concat()
}

/// Encodes a header in full and without indexing (RFC 7541, 6.2.2).
fn header(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap_or_default()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

pub(super) fn create_volume() -> Vec<u8> {
    let capability = v1::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
    };
    let request = v1::CreateVolumeRequest {
        name: "a".to_owned(),
        volume_capabilities: vec![capability],
        secrets: BTreeMap::from([("key".to_owned(), "value".to_owned())]),
        ..Default::default()
    };
    request.encode_to_vec()
}

/// Returns whether the bytes of a client contain a GOAWAY frame.
pub(super) fn has_goaway(bytes: &[u8]) -> bool {
    let mut rest = bytes.strip_prefix(PREFACE).unwrap_or_default();
    while let Some((head, payload)) = rest.split_at_checked(HEAD_BYTES) {
        if head[3] == GOAWAY {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        rest = payload.get(length..).unwrap_or_default();
    }
    false
}
