//! The end of a driver, and its next start.

use std::time::Duration;

use csi_harness::driver::{Away, Driver, DriverError};
use csi_harness::prelude::*;
use csi_harness::text::message::error_chain;

/// The driver, which a check may end.
pub fn driver(cx: &Cx) -> CheckResult<&Driver> {
    cx.target().driver().ok_or_else(|| Stop::skip("the run cannot stop and start the driver"))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what a Result maps its errors with")]
pub(crate) fn failed(error: DriverError) -> Stop {
    Stop::broken(error_chain(&error))
}

/// The message about a driver that does not start with what a kill has left.
pub const NO_START: &str = "the driver does not answer after it was killed and started again";

/// Kills the driver, or what is left of it, and starts it again. Does nothing if the run cannot do that.
///
/// # Errors
/// A violation if it does not come back, broken if it may only be too slow.
pub async fn kill_and_start(cx: &Cx) -> CheckResult {
    let Some(driver) = cx.target().driver() else { return Ok(()) };
    // The call that the kill leaves without an answer is no sign of a crash.
    cx.expect_no_answer();
    driver.kill().await.map_err(failed)?;
    bring_back(cx, "killed").await.map(drop)
}

/// Starts a driver that was ended, and returns how long it took until it answered.
pub(crate) async fn bring_back(cx: &Cx, participle: &str) -> CheckResult<Duration> {
    let away = match cx.target().bring_back().await {
        Ok(took) => return Ok(took),
        Err(away) => away,
    };
    let printed = driver(cx)?.last_lines();
    if !away.is_fault() {
        return Err(too_slow(participle, &away, &printed));
    }
    Err(Violation::new(format!("the driver does not answer after it was {participle} and started again"))
        .of(&req::GEN_ERR_001)
        .expected("a driver that starts from any state that a kill can leave")
        .actual(away)
        .damage(Damage::Crash)
        .printed(printed)
        .into())
}

/// A driver that may only need longer than it was given.
fn too_slow(participle: &str, away: &Away, printed: &[String]) -> Stop {
    let last = printed.last().map(|line| format!("; it printed last: {line}")).unwrap_or_default();
    Stop::broken(format!(
        "after the driver was {participle} and started again: {away}; --restart-timeout (time-limits: restart-ms) gives it \
         longer{last}"
    ))
}
