//! Implements `csi-sanity fuzz`, which makes correct requests wrong or unusual at random through the descriptors of
//! the protocol, and checks that they do no harm.

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
