//! The tests read reports as users do: those of one run that has every outcome, and those of ordinary runs.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod destination;
mod html;
mod plugin;
mod scenarios;
mod snapshots;
mod stored;
mod suite;
