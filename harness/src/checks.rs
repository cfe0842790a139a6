//! Checks: how one is declared, how they are collected, and how a run chooses among them.

pub mod check;
pub mod expected;
pub mod filter;
pub mod known;
pub mod registry;
pub mod retired;
pub mod shard;
