//! The Container Storage Interface on the wire, v1.12 and v1.13: messages, clients and servers generated from our own
//! `csi.proto`, and the parts that every program needs to speak it: endpoints, dialling, serving, and the removal of
//! secrets from printed text.
#![warn(missing_docs)]

mod call;
mod code;
mod connection;
mod dial;
mod endpoint;
pub mod health;
pub mod hidden;
pub mod lock;
mod messages;
mod metrics;
pub mod redact;
pub mod reflect;
mod request_log;
mod serve;
mod transport;

pub use call::{Call, RPCS, Rpc, Service, StreamingCall, UnaryCall};
pub use code::{code_name, code_named};
pub use dial::{Breaker, DialError, DialReason, MESSAGE_BYTES_MAX, dial, dial_breakable};
pub use endpoint::{Endpoint, ParseEndpointError, SOCKET_PATH_BYTES_MAX};
pub use metrics::serve_metrics;
pub use request_log::{LoggedService, RequestLog};
pub use serve::{BindError, ConnectionNumber, Listener, STOP_GRACE, ServeError, stop_signal};
pub use transport::Transport;

/// Messages, clients and servers generated from `csi.proto`.
#[expect(clippy::all, clippy::allow_attributes, reason = "generated")]
pub mod v1 {
    include!("generated/csi.v1.rs");
}

mod rpcs {
    include!("generated/rpcs.rs");
}

mod debug {
    include!("generated/debug.rs");
}

/// The compiled `csi.proto` with its custom options, as an encoded `FileDescriptorSet`.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("generated/csi.v1.binpb");
