//! Reports as a reader gets them: of one run that has every outcome, and of runs as users meet them.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

mod destination;
mod html;
mod plugin;
mod scenarios;
mod snapshots;
mod stored;
mod suite;
