//! What a check is, and which of them a run has.

pub mod check;
pub mod expected;
pub mod filter;
pub mod known;
pub mod planned;
pub mod registry;
pub mod retired;
pub mod shard;
