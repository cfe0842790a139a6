//! Tests of the whole driver with real mounts and loop devices. Tests that need root print so and pass without it.
#![expect(clippy::unwrap_used, reason = "a panic in a test is the failure itself")]

mod attach;
mod attacks;
mod capacity;
mod concurrency;
mod crash;
mod deploy;
mod expansion;
mod file_systems;
mod groups;
mod inline;
mod listing;
mod lost_writes;
mod metadata;
mod older_state;
mod process;
mod publishing;
mod quota;
mod sanity;
mod snapshots;
mod state;
mod support;
mod unmounted;
