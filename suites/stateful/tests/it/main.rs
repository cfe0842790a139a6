//! The model and the judgement of histories, without a driver.

mod amount;
mod behind;
mod cases;
mod doubt;
mod generation;
mod groups;
mod health;
mod histories;
mod nodes;
#[rustfmt::skip]
#[expect(unreachable_pub, clippy::unwrap_used, reason = "as it is printed for the tests of others")]
mod printed;
mod sequences;
mod snapshots;
mod volumes;
