//! Skips checks of drivers that lose everything when they end.

use crate::driver::Driver;
use crate::spec::verdict::{CheckResult, Stop};

/// The reason of the skip.
pub const FORGETFUL: &str = "the driver loses everything when it stops, as restart/remembers says";

/// Skips checks that need a driver which knows after its end what it did before.
///
/// # Errors
/// Skip if a check has already reported that the driver forgets everything: one report is enough.
pub fn needs_memory(driver: &Driver) -> CheckResult {
    if driver.is_forgetful() { Err(Stop::skip(FORGETFUL)) } else { Ok(()) }
}
