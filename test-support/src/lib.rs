//! Code that the tests of several crates share. Only tests, benches and fuzz targets depend on it.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

pub mod histories {
    //! Histories of calls and their answers without a driver: written by hand, simulated, or searched by a plain
    //! algorithm.

    pub mod plain;
    pub mod simulation;
    pub mod story;
    pub mod toy;
}
pub mod hostpath;
pub mod judge;
pub mod machine;
pub mod matrix;
pub mod mock;
pub mod process;
pub mod proven;
pub mod quirks;
pub mod run;
pub mod wording;
