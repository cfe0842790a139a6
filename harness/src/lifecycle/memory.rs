//! Whether a driver knows after its end what it did before.

use crate::driver::Driver;
use crate::spec::verdict::{CheckResult, Stop};

/// What is said of a driver that keeps nothing.
pub const FORGETFUL: &str = "the driver loses everything when it stops, as restart/remembers says";

/// For what can be seen only of a driver that knows after its end what it did before.
///
/// # Errors
/// Skip if a check has already reported that the driver forgets everything: one report is enough.
pub fn needs_memory(driver: &Driver) -> CheckResult {
    if driver.is_forgetful() { Err(Stop::skip(FORGETFUL)) } else { Ok(()) }
}
