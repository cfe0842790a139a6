//! What the protocol says of each capability, of each RPC, and of each code that an RPC is refused with.

pub mod capability;
pub mod effect;
pub mod rpc;
pub mod version;
