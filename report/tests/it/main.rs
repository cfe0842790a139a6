//! The reports of one run that has every outcome, as a reader gets them.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod destination;
mod plugin;
mod snapshots;
mod suite;
