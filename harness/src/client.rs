//! The client of the driver: who it is, how a call is sent, repeated, timed and recorded, and what its answer means.

pub mod answer;
pub(crate) mod call;
pub mod calling;
pub(crate) mod learnt;
pub mod patience;
pub mod record;
pub mod replies;
pub mod reply;
pub mod session;
pub mod spent;
pub mod stages;
pub mod tally;
pub mod target;
