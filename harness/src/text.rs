//! Texts: patterns, sizes and messages as people read them.

pub mod encoding;
pub mod grpcurl;
pub mod message;
pub mod pattern;
pub mod shorten;
pub mod size;
pub mod wire;
