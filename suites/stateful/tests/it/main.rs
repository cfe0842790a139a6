//! Cases as files, and how much work a check does.

mod amount;
mod cases;
#[rustfmt::skip]
#[expect(unreachable_pub, clippy::unwrap_used, reason = "as it is printed for the tests of others")]
mod printed;
