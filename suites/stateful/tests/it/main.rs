//! Cases as files, and how much work a check does.

mod amount;
mod cases;
