//! The client of the driver: who it is, how a call is sent, repeated, timed and recorded, and what its answer means.

pub mod answer;
pub(crate) mod call;
pub(crate) mod learnt;
pub mod patience;
pub mod record;
pub mod reply;
pub mod response_rules;
pub mod retry;
pub mod session;
pub mod spent;
pub mod stages;
pub mod tally;
pub mod target;
pub mod unmet;
