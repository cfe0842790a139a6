//! RPCs as types: each request message names its RPC and the type of its answer, so a caller cannot pair the wrong
//! ones.

use std::fmt;

include!("generated/calls.rs");

/// A gRPC service of the CSI protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Every endpoint has it: it names the plugin and its capabilities.
    Identity,
    /// It creates, publishes and lists volumes and snapshots.
    Controller,
    /// It takes snapshots of several volumes at one point in time.
    GroupController,
    /// It lists the blocks that a snapshot holds, or that changed since another snapshot.
    SnapshotMetadata,
    /// It stages and publishes volumes on one node.
    Node,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One RPC of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rpc {
    /// The service that has the RPC.
    pub service: Service,
    /// The method's name, such as `CreateVolume`.
    pub method: &'static str,
    /// The path in the HTTP/2 request, such as `/csi.v1.Controller/CreateVolume`.
    pub path: &'static str,
}

impl Rpc {
    /// The method's name as ids of checks have it, such as `create-volume`.
    pub fn kebab_case(self) -> String {
        let mut text = String::new();
        for c in self.method.chars() {
            if c.is_ascii_uppercase() && !text.is_empty() {
                text.push('-');
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method)
    }
}

/// A request message, which belongs to exactly one RPC.
pub trait Call: prost::Name + Clone + Default + 'static {
    /// The type of the answer, or of one message of a streamed answer.
    type Response: prost::Name + Clone + Default + 'static;
    /// The RPC that takes this request.
    const RPC: Rpc;

    /// Returns the field marked `csi_secret`, if the request has one.
    fn secrets_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
        None
    }
}

/// A request that is answered by one message.
pub trait UnaryCall: Call {}

/// A request that is answered by a stream of messages.
pub trait StreamingCall: Call {}
