//! Texts: patterns, suggestions, errors and messages as people read them.

pub mod encoding;
pub mod error;
pub mod grpcurl;
pub mod pattern;
pub mod shorten;
pub mod size;
pub mod suggest;
pub mod wire;
