//! Facts of the protocol about each capability, each RPC, and each code that an RPC is refused with.

pub mod capability;
pub mod effect;
pub mod rpc;
pub mod version;
