//! `csi-sanity fuzz`: right requests, made wrong or strange at random through the descriptors of the protocol, and what must not
//! come of them.

mod allowance;
mod campaign;
pub mod case;
mod finding;
mod frames;
mod input;
mod mutate;
pub mod replay;
mod shrink;
mod stage;
mod suite;

pub use allowance::Allowance;
pub use suite::suite;
