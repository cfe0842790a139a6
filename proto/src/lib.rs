//! The Container Storage Interface v1.12 on the wire: messages, clients and servers generated from our own
//! `csi.proto`, and what every program that speaks it needs once: endpoints, dialling, serving, and the removal
//! of secrets from whatever is printed.
#![warn(missing_docs)]

mod call;
pub mod redact;

pub use call::{Call, RPCS, Rpc, Service, StreamingCall, UnaryCall};

/// Messages, clients and servers generated from `csi.proto`.
#[expect(missing_docs, clippy::all, clippy::allow_attributes, reason = "generated")]
pub mod v1 {
    include!("generated/csi.v1.rs");
}

mod debug {
    include!("generated/debug.rs");
}

/// The compiled `csi.proto` with its custom options, as an encoded `FileDescriptorSet`.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("generated/csi.v1.binpb");
