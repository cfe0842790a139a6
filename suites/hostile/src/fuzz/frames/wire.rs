//! Encodes frames of HTTP/2 (RFC 9113) and headers without compression (RFC 7541) by hand, so that they can be wrong.

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn request(path: &str, content_type: &str) -> Vec<u8> {
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
pub(super) fn header(name: &str, value: &str) -> Vec<u8> {
    debug_assert!(name.len() < 127 && value.len() < 127);
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}
