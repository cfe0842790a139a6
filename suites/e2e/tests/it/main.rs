//! Checks the tests without running them.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod plan;
mod real;
