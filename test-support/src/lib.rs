//! Code that the tests of several crates share. Only tests, benches and fuzz targets depend on it.
#![expect(clippy::unwrap_used, reason = "a panic in a helper of a test is the failure itself")]

pub mod histories;
pub mod hostpath;
pub mod judge;
pub mod machine;
pub mod matrix;
pub mod mock;
pub mod process;
pub mod proven;
pub mod quirks;
pub mod run;
