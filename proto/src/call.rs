//! RPCs as types: the request message alone says which RPC it is for and what answers it.

use std::fmt;

include!("generated/calls.rs");

/// A gRPC service of the CSI protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// What the plugin is and what it offers; on every endpoint.
    Identity,
    /// Volumes and snapshots.
    Controller,
    /// Snapshots of several volumes at one point in time.
    GroupController,
    /// Which blocks of a snapshot hold data or have changed.
    SnapshotMetadata,
    /// Volumes on one node.
    Node,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Names one RPC of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rpc {
    /// The service that has the RPC.
    pub service: Service,
    /// The name of the RPC, such as `CreateVolume`.
    pub method: &'static str,
    /// The path on the wire, such as `/csi.v1.Controller/CreateVolume`.
    pub path: &'static str,
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method)
    }
}

/// A request message, which belongs to exactly one RPC.
pub trait Call: prost::Name + Clone + Default + 'static {
    /// The answer, or one message of a streamed answer.
    type Response: prost::Name + Clone + Default + 'static;
    /// The RPC that takes this request.
    const RPC: Rpc;

    /// The field marked `csi_secret`, where the request has one.
    fn secrets_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
        None
    }
}

/// A request that is answered by one message.
pub trait UnaryCall: Call {}

/// A request that is answered by a stream of messages.
pub trait StreamingCall: Call {}
